// SPDX-License-Identifier: Apache-2.0
/* Every kind of tokenizer on a tiny vocabulary: the ids that llama.cpp gives, and the text back from them. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/text/tokenizer/golden_vocab.h"
#include "text/tokenizer/pretokenizer_table.h"
#include "text/tokenizer/spm.h"

static Tokenizer *new_tokenizer(const GoldenVocab *vocab) {
    TokenizerSpec spec = golden_vocab_spec(vocab);
    Tokenizer *tokenizer = NULL;
    TokenizerFixture fixture;

    if (fixture_init(&fixture, &spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s: %s", vocab->name, fixture.err.text);
    fixture_deinit(&fixture);
    return tokenizer;
}

/* Compares tokens with n ids. Returns the place behind these ids. */
static const uint16_t *check_ids(const GoldenVocab *vocab, const char *text, const TokenList *list, const uint16_t *ids,
                                 size_t n) {
    for (size_t i = 0; i < n || i < list->n; i++)
        if (i >= n || i >= list->n || list->ids[i] != ids[i])
            fail_msg("%s: token %zu is %d, not %d, in \"%s\"", vocab->name, i, i < list->n ? (int)list->ids[i] : -1,
                     i < n ? ids[i] : -1, text);
    return ids + n;
}

static void encode(const Tokenizer *tokenizer, const char *text, unsigned int flags, TokenList *list) {
    ErrText err = { 0 };

    list->n = 0;
    if (tokenizer_encode(tokenizer, text, strlen(text), flags, list, &err))
        fail_msg("%s", err.text);
}

static void test_golden_vocab_ids(void **state) {
    for (size_t v = 0; v < golden_vocab_n(); v++) {
        const GoldenVocab *vocab = golden_vocab_at(v);
        const uint16_t *at = vocab->ids, *end = vocab->ids + vocab->n_ids;
        Tokenizer *tokenizer = new_tokenizer(vocab);
        _cleanup_(token_list_deinit) TokenList list = { 0 };

        for (size_t i = 0; golden_text(i); i++) {
            const uint16_t *plain = at;
            uint16_t n;

            assert_true(at < end);
            encode(tokenizer, golden_text(i), 0, &list);
            at = check_ids(vocab, golden_text(i), &list, plain + 1, *plain);
            n = *at++;
            encode(tokenizer, golden_text(i), TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, &list);
            if (n == GOLDEN_VOCAB_SAME)
                check_ids(vocab, golden_text(i), &list, plain + 1, *plain);
            else
                at = check_ids(vocab, golden_text(i), &list, at, n);
        }
        assert_ptr_equal(at, end);
        tokenizer_free(tokenizer);
    }
}

/* In tables that write spaces as U+2581, U+2581 in a text comes back as a space. The space before each fragment is no
 * part of the text, and one is dropped. */
static bool comes_back(const GoldenVocab *vocab, const char *text) {
    static const char *const marks[] = { "<tool>", "<tool_call>", "<think>", "   ", "\t\t", "\n\n" };

    if (vocab->pre)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (strstr(text, marks[i]) && vocab->add_space_prefix >= 0)
            return false;
    return !strstr(text, SPM_SPACE);
}

/* A space before the text is dropped once. Spaces that Phi-3 leaves out behind its tokens do not come back. */
static void test_golden_vocab_texts_come_back(void **state) {
    for (size_t v = 0; v < golden_vocab_n(); v++) {
        const GoldenVocab *vocab = golden_vocab_at(v);
        Tokenizer *tokenizer = new_tokenizer(vocab);
        _cleanup_(token_list_deinit) TokenList list = { 0 };

        for (size_t i = 0; golden_text(i) && !vocab->model_name; i++) {
            const char *text = golden_text(i);
            _cleanup_(str_buf_deinit) StrBuf back = STR_BUF_NULL;
            Detokenizer detokenizer;

            if (!comes_back(vocab, text))
                continue;
            encode(tokenizer, text, 0, &list);
            detokenizer_init(&detokenizer, tokenizer, true, false);
            for (size_t k = 0; k < list.n; k++)
                assert_int_equal(detokenizer_push(&detokenizer, list.ids[k], &back), 0);
            assert_int_equal(detokenizer_finish(&detokenizer, &back), 0);
            assert_string_equal(back.data ? back.data : "", text);
        }
        tokenizer_free(tokenizer);
    }
}

/* Each family of pre-tokenizers has a vocabulary here. */
static void test_golden_vocab_has_every_family(void **state) {
    for (size_t i = 0; pretokenizer_family_at(i); i++) {
        bool has = false;

        for (size_t v = 0; v < golden_vocab_n(); v++) {
            const char *pre = golden_vocab_at(v)->pre;

            has = has || (pre && pretokenizer_family(pre, strlen(pre)) == pretokenizer_family_at(i));
        }
        if (!has)
            fail_msg("no vocabulary with pre-tokenizer %s", pretokenizer_family_at(i)->name);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_vocab_ids),
        cmocka_unit_test(test_golden_vocab_texts_come_back),
        cmocka_unit_test(test_golden_vocab_has_every_family),
    };

    if (argc == 3 && !strcmp(argv[1], "--write")) {
        golden_vocab_write(argv[2]);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
