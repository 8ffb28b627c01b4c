// SPDX-License-Identifier: Apache-2.0
/* Byte pair encoding with tables of merges that were chosen to harm. test_tokenizer checks the tokens. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "text/tokenizer/bpe.h"

#define N_SLOTS 8192u
#define N_MERGES (N_SLOTS / 3 * 2) /* the table gets no fuller */
#define N_TOKENS (FIXTURE_BYTES + N_MERGES)
#define N_LETTERS 20000

static char byte_texts[FIXTURE_BYTES][3];
static char merged[N_MERGES][8], merges[N_MERGES][8];
static const char *token_texts[N_TOKENS], *merge_texts[N_MERGES];

/* The place of a pair in a table without a secret. */
static uint32_t public_slot(uint32_t left, uint32_t right) {
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(hash >> 32 ^ hash >> 11) & (N_SLOTS - 1);
}

static bool is_letter(unsigned int byte) {
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

/* Makes merges of two bytes, not both of them letters. chosen: one for each of the first slots, so that all are one
 * run. */
static void make_merges(bool chosen) {
    static bool taken[N_MERGES];
    uint32_t n = 0;

    memset(taken, 0, sizeof(taken));
    for (unsigned int i = 0; i < FIXTURE_BYTES; i++)
        token_texts[i] = fixture_byte_text(i, byte_texts[i]);
    for (unsigned int pair = 0; pair < FIXTURE_BYTES * FIXTURE_BYTES && n < N_MERGES; pair++) {
        unsigned int left = pair & 0xff, right = pair >> 8;
        uint32_t slot = chosen ? public_slot(left, right) : n;

        if ((is_letter(left) && is_letter(right)) || slot >= N_MERGES || taken[slot])
            continue;
        taken[slot] = true;
        snprintf(merged[n], sizeof(merged[n]), "%s%s", byte_texts[left], byte_texts[right]);
        snprintf(merges[n], sizeof(merges[n]), "%s %s", byte_texts[left], byte_texts[right]);
        token_texts[FIXTURE_BYTES + n] = merged[n];
        merge_texts[n] = merges[n];
        n++;
    }
    assert_in_range(n, N_MERGES - 16, N_MERGES);
    for (; n < N_MERGES; n++) { /* no pair lies in a few of the slots */
        snprintf(merged[n], sizeof(merged[n]), "%s", merged[0]);
        snprintf(merges[n], sizeof(merges[n]), "%s", merges[0]);
        token_texts[FIXTURE_BYTES + n] = merged[n];
        merge_texts[n] = merges[n];
    }
}

static TokenizerSpec spec_of_merges(bool chosen) {
    make_merges(chosen);
    return (TokenizerSpec){ .model = "gpt2",
                            .pre = "gpt-2",
                            .tokens = token_texts,
                            .n_tokens = N_TOKENS,
                            .merges = merge_texts,
                            .n_merges = N_MERGES };
}

static Tokenizer *new_tokenizer(bool chosen) {
    TokenizerSpec spec = spec_of_merges(chosen);
    Tokenizer *tokenizer = NULL;
    TokenizerFixture fixture;

    if (fixture_init(&fixture, &spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    fixture_deinit(&fixture);
    return tokenizer;
}

/* In a table without a secret no chosen pair is displaced, and the search for an absent one walks through all. With a
 * secret the pairs lie anywhere, and a search ends at the longest distance of any pair. The run here has no end. */
static void test_bpe_slots_of_merges_cannot_be_chosen(void **state) {
    TokenizerSpec spec = spec_of_merges(true);
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(symbol_merge_deinit) SymbolMerge scratch = { 0 };
    static char text[N_LETTERS];
    TokenizerFixture fixture;
    Vocab vocab;
    Bpe bpe;

    if (fixture_init(&fixture, &spec) || vocab_init(&vocab, fixture.file, true, &(ChatMarks){ 0 }, &fixture.err) ||
        bpe_init(&bpe, &vocab, fixture.file, false, &fixture.err))
        fail_msg("%s", fixture.err.text);
    assert_int_equal(bpe.table.mask, N_SLOTS - 1);
    assert_in_range(bpe.table.n_probes_max, 1, 1000);
    for (uint32_t i = 0; i < N_SLOTS; i++)
        if (bpe.merges[i].left == UINT32_MAX)
            bpe.merges[i].left = bpe.merges[i].right = UINT32_MAX - 1;
    for (size_t i = 0; i < N_LETTERS; i++)
        text[i] = (char)((i * i + i / 7) % 2 ? 'A' + i * 7 % 26 : 'a' + i * 11 % 26);
    alarm(60);
    assert_int_equal(bpe_encode_word(&bpe, &scratch, text, N_LETTERS, &list), 0);
    alarm(0);
    assert_int_equal(list.n, N_LETTERS);
    bpe_deinit(&bpe);
    vocab_deinit(&vocab);
    fixture_deinit(&fixture);
}

/* Every load draws another key, and the tokens do not change. */
static void test_bpe_tokens_do_not_depend_on_the_key(void **state) {
    char text[4 * FIXTURE_BYTES];
    _cleanup_(token_list_deinit) TokenList first = { 0 };

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * i / 5 + i);
    for (int round = 0; round < 4; round++) {
        _cleanup_(token_list_deinit) TokenList list = { 0 };
        Tokenizer *tokenizer = new_tokenizer(true);

        assert_int_equal(tokenizer_encode(tokenizer, text, sizeof(text), 0, round ? &list : &first, NULL), 0);
        assert_in_range(first.n, 1, sizeof(text) - 50); /* some bytes have merged */
        if (round) {
            assert_int_equal(list.n, first.n);
            assert_memory_equal(list.ids, first.ids, first.n * sizeof(*first.ids));
        }
        tokenizer_free(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_slots_of_merges_cannot_be_chosen),
        cmocka_unit_test(test_bpe_tokens_do_not_depend_on_the_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
