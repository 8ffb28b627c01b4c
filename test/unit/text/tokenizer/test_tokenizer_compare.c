// SPDX-License-Identifier: Apache-2.0
/* Comparison of two token tables: every token of the shared beginning counts, merges and padding do not, and the error
 * names the first difference. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "test/unit/text/tokenizer/tokenizer_golden.h"

enum {
    TOKENS_MAX = 300,
};

/* A table that may be changed. */
typedef struct Table {
    TokenizerSpec spec;
    const char *tokens[TOKENS_MAX];
    int32_t types[TOKENS_MAX];
} Table;

static void table_init(Table *table, const TokenizerSpec *spec) {
    assert_true(spec->n_tokens <= TOKENS_MAX);
    memcpy(table->tokens, spec->tokens, spec->n_tokens * sizeof(*spec->tokens));
    memcpy(table->types, spec->types, spec->n_types * sizeof(*spec->types));
    table->spec = *spec;
    table->spec.tokens = table->tokens;
    table->spec.types = table->types;
}

static void table_add(Table *table, const char *text, int32_t type) {
    table->tokens[table->spec.n_tokens++] = text;
    table->types[table->spec.n_types++] = type;
}

static Tokenizer *tokenizer_of(const TokenizerSpec *spec) {
    TokenizerFixture fixture;
    Tokenizer *tokenizer = NULL;

    if (fixture_init(&fixture, spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    fixture_deinit(&fixture);
    return tokenizer;
}

/* Compares both ways round. expected: a part of the error; NULL: the tables are the same. */
static void check(const TokenizerSpec *a, const TokenizerSpec *b, const char *expected, uint32_t n_tokens) {
    _cleanup_(tokenizer_freep) Tokenizer *of_a = tokenizer_of(a), *of_b = tokenizer_of(b);
    uint32_t n[2] = { 7, 7 };
    ErrText err[2] = { 0 };

    assert_int_equal(tokenizer_compare(of_a, "A", of_b, "B", &n[0], &err[0]), expected ? TOKENIZER_E_DIFFERENT : 0);
    assert_int_equal(tokenizer_compare(of_b, "B", of_a, "A", &n[1], &err[1]), expected ? TOKENIZER_E_DIFFERENT : 0);
    if (!expected) {
        assert_int_equal(n[0], n_tokens);
        assert_int_equal(n[1], n_tokens);
        return;
    }
    assert_int_equal(n[0], 7); /* untouched */
    assert_string_equal(err[0].text, expected);
}

static void test_tokenizer_compare_same(void **state) {
    const TokenizerSpec bpe = fixture_bpe_spec("smollm"), other_pattern = fixture_bpe_spec("qwen2");
    const TokenizerSpec spm = fixture_spm_spec();
    TokenizerSpec fewer_merges = bpe, other_scores = spm;
    float scores[FIXTURE_SPM_N];

    for (int i = 0; i < FIXTURE_SPM_N; i++)
        scores[i] = (float)-2 * (float)i;
    other_scores.scores = scores;
    fewer_merges.n_merges = 2;
    check(&bpe, &bpe, NULL, FIXTURE_BPE_N);
    check(&bpe, &other_pattern, NULL, FIXTURE_BPE_N);
    check(&bpe, &fewer_merges, NULL, FIXTURE_BPE_N);
    check(&spm, &other_scores, NULL, FIXTURE_SPM_N);
}

/* The beginning is shared if one table has more unused tokens behind all others, or tokens of its own. */
static void test_tokenizer_compare_padding(void **state) {
    const TokenizerSpec bpe = fixture_bpe_spec("smollm");
    Table padded, other, used, differs;

    table_init(&padded, &bpe);
    table_init(&other, &bpe);
    table_add(&padded, "[PAD1]", 5);
    table_add(&padded, "[PAD2]", 5);
    table_add(&other, "[OTHER]", 5);
    check(&bpe, &padded.spec, NULL, FIXTURE_BPE_N);
    check(&other.spec, &padded.spec, NULL, FIXTURE_BPE_N);
    table_init(&used, &bpe);
    table_add(&used, "more", 1);
    check(&bpe, &used.spec, NULL, FIXTURE_BPE_N);
    check(&padded.spec, &used.spec, NULL, FIXTURE_BPE_N);
    table_add(&padded, "last", 1);
    check(&bpe, &padded.spec, NULL, FIXTURE_BPE_N);
    table_init(&differs, &bpe);
    table_add(&differs, "less", 1);
    check(&used.spec, &differs.spec, "token 269 is 'more' (text) in A, and 'less' (text) in B", 0);
    table_add(&differs, "least", 1);
    check(&used.spec, &differs.spec, "token 269 is 'more' (text) in A, and 'less' (text) in B", 0);
}

/* A table with more tokens is no longer form of the other if chats need one of these tokens. */
static void test_tokenizer_compare_chats(void **state) {
    TokenizerSpec bpe = fixture_bpe_spec("smollm");
    Table longer;

    table_init(&longer, &bpe);
    table_add(&longer, "<|user|>", 3);
    check(&bpe, &longer.spec, NULL, FIXTURE_BPE_N);
    longer.spec.chat_template = "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}";
    check(&bpe, &longer.spec, "token 269 is '<|user|>' in B, and A has 269 tokens", 0);
    longer.spec.chat_template = NULL;
    longer.spec.eos = FIXTURE_BPE_N;
    check(&bpe, &longer.spec, "token 269 is '<|user|>' in B, and A has 269 tokens", 0);
    bpe.has_eos = false;
    table_init(&longer, &bpe);
    table_add(&longer, "[unused]", 5);
    longer.spec.has_bos = true;
    longer.spec.bos = FIXTURE_BPE_N;
    check(&bpe, &longer.spec, "token 269 is '[unused]' in B, and A has 269 tokens", 0);
}

/* Changes each token alone, by its text and by its kind. */
static void test_tokenizer_compare_every_token(void **state) {
    const TokenizerSpec bpe = fixture_bpe_spec("smollm");
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = tokenizer_of(&bpe);

    for (uint32_t id = 0; id < FIXTURE_BPE_N; id++)
        for (int by_kind = 0; by_kind < (id < FIXTURE_MARKS_FIRST ? 2 : 1);
             by_kind++) { /* the kind of a mark follows from its text */
            _cleanup_(tokenizer_freep) Tokenizer *changed = NULL;
            ErrText err = { 0 };
            char which[32];
            uint32_t n;
            Table table;

            table_init(&table, &bpe);
            table.spec.n_merges = 0; /* merges name texts of tokens */
            if (by_kind)
                table.types[id] = table.types[id] == 3 ? 1 : 3;
            else
                table.tokens[id] = "zz";
            changed = tokenizer_of(&table.spec);
            assert_int_equal(tokenizer_compare(tokenizer, "A", changed, "B", &n, &err), TOKENIZER_E_DIFFERENT);
            snprintf(which, sizeof(which), "token %u is '", id);
            assert_memory_equal(err.text, which, strlen(which));
        }
}

static void test_tokenizer_compare_text(void **state) {
    const TokenizerSpec bpe = fixture_bpe_spec("smollm");
    static char longest[1001];
    Table table, control;

    table_init(&table, &bpe);
    table.tokens[FIXTURE_IM_END] = "<|im_stop|>";
    check(&bpe, &table.spec,
          "token 266 is '<|im_end|>' (control, ends an answer) in A, and '<|im_stop|>' (control, ends an answer) in B",
          0);
    table_init(&control, &bpe);
    control.types[FIXTURE_TOOL] = 3;
    check(&bpe, &control.spec, "token 268 is '<tool>' (text) in A, and '<tool>' (control) in B", 0);
    table_init(&table, &bpe); /* the byte 0x01, and a byte that is no character */
    table.spec.n_merges = 0;
    table.tokens[1] = table.tokens[0xff];
    table.tokens[0xff] = "xx";
    check(&bpe, &table.spec, "token 1 is '\\x01' (text) in A, and '\\xff' (text) in B", 0);
    memset(longest, 'y', sizeof(longest) - 1);
    table_init(&table, &bpe);
    table.spec.n_merges = 0;
    table.tokens[FIXTURE_BYTES] = longest;
    {
        _cleanup_(tokenizer_freep) Tokenizer *a = tokenizer_of(&bpe), *b = tokenizer_of(&table.spec);
        ErrText err = { 0 };
        uint32_t n;

        assert_int_equal(tokenizer_compare(a, "A", b, "B", &n, &err), TOKENIZER_E_DIFFERENT);
        assert_non_null(strstr(err.text, "yyy...' (text) in B"));
        assert_true(strlen(err.text) < 200);
    }
}

/* Compares real models: two of a family, and two that have nothing in common. */
static void test_tokenizer_compare_models(void **state) {
    GoldenModel small, large, gemma;
    uint32_t n;
    ErrText err = { 0 };

    if (!golden_model_open(&small, GOLDEN_DEFAULT_MODEL))
        return;
    if (golden_model_open(&gemma, "gemma3-270m")) {
        assert_int_equal(tokenizer_compare(small.tokenizer, "the draft", gemma.tokenizer, "the target", &n, &err),
                         TOKENIZER_E_DIFFERENT);
        assert_string_equal(err.text, "token 0 is '<|endoftext|>' (control, ends an answer) in the draft, and '<pad>' "
                                      "(control) in the target");
        golden_model_deinit(&gemma);
    }
    golden_model_deinit(&small);
    if (!golden_model_open(&small, "qwen2.5-coder-0.5b"))
        return;
    if (golden_model_open(&large, "qwen2.5-coder-1.5b")) {
        if (tokenizer_compare(small.tokenizer, "the draft", large.tokenizer, "the target", &n, &err))
            fail_msg("%s", err.text);
        assert_true(n > 151000 && n <= tokenizer_n_tokens(small.tokenizer));
        golden_model_deinit(&large);
    }
    golden_model_deinit(&small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_compare_same),        cmocka_unit_test(test_tokenizer_compare_padding),
        cmocka_unit_test(test_tokenizer_compare_every_token), cmocka_unit_test(test_tokenizer_compare_text),
        cmocka_unit_test(test_tokenizer_compare_models),      cmocka_unit_test(test_tokenizer_compare_chats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
