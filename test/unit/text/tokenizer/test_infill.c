// SPDX-License-Identifier: Apache-2.0
/* Prompts for a text with a gap: the order of marks and texts, on small tables whose marks are known by text or key. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"

static Tokenizer *new_tokenizer(const TokenizerSpec *spec) {
    TokenizerFixture fixture;
    Tokenizer *tokenizer = NULL;

    if (fixture_init(&fixture, spec))
        fail_msg("fixture: %s", fixture.err.text);
    if (tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    fixture_deinit(&fixture);
    return tokenizer;
}

static void check(const Tokenizer *tokenizer, const char *before, const char *behind, const uint32_t *ids, size_t n) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ErrText err = { 0 };

    assert_int_equal(tokenizer_encode_infill(tokenizer, before, strlen(before), behind, strlen(behind), &list, &err),
                     0);
    assert_int_equal(list.n, n);
    assert_memory_equal(list.ids, ids, n * sizeof(*ids));
}
#define CHECK(tokenizer, before, behind, ...)                                                                          \
    check(tokenizer, before, behind, (const uint32_t[]){ __VA_ARGS__ },                                                \
          sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

enum {
    PRE = FIXTURE_BPE_N, /* behind the fixture's tokens */
    MID,
    SUF,
    PAD,
    N,
};

/* The fixture's byte-level table with four more tokens, of the type that converters give added tokens. */
static TokenizerSpec spec_with(const char *const more[4]) {
    static const char *tokens[N];
    static int32_t types[N];
    TokenizerSpec spec = fixture_bpe_spec("gpt-2");

    memcpy(tokens, spec.tokens, FIXTURE_BPE_N * sizeof(*tokens));
    memcpy(types, spec.types, FIXTURE_BPE_N * sizeof(*types));
    for (size_t i = 0; i < 4; i++) {
        tokens[FIXTURE_BPE_N + i] = more[i];
        types[FIXTURE_BPE_N + i] = 4;
    }
    spec.tokens = tokens;
    spec.types = types;
    spec.n_tokens = spec.n_types = N;
    return spec;
}

static const char *const known[] = { "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>" };
static const char *const unknown[] = { "<q1>", "<q2>", "<q3>", "<q4>" };

static void test_infill_marks_by_text(void **state) {
    TokenizerSpec spec = spec_with(known);
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = new_tokenizer(&spec);

    CHECK(tokenizer, "hello", "he", PRE, FIXTURE_BYTES + 3, SUF, FIXTURE_BYTES, MID);
    CHECK(tokenizer, "", "", PRE, SUF, MID);
    for (uint32_t id = 0; id < N; id++)
        assert_int_equal(tokenizer_is_infill_mark(tokenizer, id), id >= PRE);
    assert_false(tokenizer_is_infill_mark(tokenizer, UINT32_MAX));
    assert_true(tokenizer_is_end(tokenizer, PAD));
    assert_false(tokenizer_is_end(tokenizer, MID));
}

/* Texts that read like marks stay text, in front of the gap and behind it. */
static void test_infill_text_is_no_mark(void **state) {
    TokenizerSpec spec = spec_with(known);
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = new_tokenizer(&spec);
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    static const char mark[] = "<|fim_suffix|><|im_end|>";
    size_t n_marks = 0;
    ErrText err;

    assert_int_equal(tokenizer_encode_infill(tokenizer, mark, strlen(mark), mark, strlen(mark), &list, &err), 0);
    for (size_t i = 0; i < list.n; i++)
        n_marks += tokenizer_is_control(tokenizer, list.ids[i]);
    assert_int_equal(n_marks, 3);
}

/* Keys go before texts, make control tokens of any token, and may have older names. Ids of no token are ignored. */
static void test_infill_marks_by_key(void **state) {
    TokenizerSpec spec = spec_with(unknown);

    spec.ids[0].key = "tokenizer.ggml.fim_pre_token_id";
    spec.ids[0].id = PRE;
    spec.ids[1].key = "tokenizer.ggml.suffix_token_id";
    spec.ids[1].id = SUF;
    spec.ids[2].key = "tokenizer.ggml.fim_mid_token_id";
    spec.ids[2].id = MID;
    spec.ids[3].key = "tokenizer.ggml.fim_pad_token_id";
    spec.ids[3].id = N;
    {
        _cleanup_(tokenizer_freep) Tokenizer *tokenizer = new_tokenizer(&spec);

        CHECK(tokenizer, "he", "ll", PRE, FIXTURE_BYTES, SUF, FIXTURE_BYTES + 1, MID);
        CHECK(tokenizer, "<q1>", "", PRE, '<', 'q', '1', '>', SUF, MID);
        assert_true(tokenizer_is_control(tokenizer, SUF));
        assert_false(tokenizer_is_infill_mark(tokenizer, PAD));
    }
    spec = spec_with(known);
    spec.ids[0].key = "tokenizer.ggml.fim_pre_token_id";
    spec.ids[0].id = FIXTURE_TOOL;
    {
        _cleanup_(tokenizer_freep) Tokenizer *tokenizer = new_tokenizer(&spec);

        CHECK(tokenizer, "he", "", FIXTURE_TOOL, FIXTURE_BYTES, SUF, MID);
    }
}

/* A table that lacks a mark is refused by the mark's name, and the list stays as it was. */
static void test_infill_needs_marks(void **state) {
    static const char *const lacking[] = { "<|fim_prefix|>", "<q2>", "<|fim_suffix|>", "<q4>" };
    TokenizerSpec spec = spec_with(lacking);
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = new_tokenizer(&spec);
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ErrText err;

    assert_int_equal(token_list_add(&list, 7), 0);
    assert_int_equal(tokenizer_encode_infill(tokenizer, "a", 1, "b", 1, &list, &err), TOKENIZER_E_NO_INFILL);
    assert_non_null(strstr(err.text, "no token for a middle"));
    assert_int_equal(list.n, 1);
}

/* SentencePiece-style: BOS first, a space before the text in front of the gap, none before the text behind. */
static void test_infill_sentencepiece(void **state) {
    TokenizerSpec spec = fixture_spm_spec();

    spec.ids[0].key = "tokenizer.ggml.prefix_token_id";
    spec.ids[0].id = FIXTURE_SPM_TURN;
    spec.ids[1].key = "tokenizer.ggml.fim_suf_token_id";
    spec.ids[1].id = FIXTURE_SPM_NEWLINES;
    spec.ids[2].key = "tokenizer.ggml.middle_token_id";
    spec.ids[2].id = FIXTURE_SPM_END;
    {
        _cleanup_(tokenizer_freep) Tokenizer *tokenizer = new_tokenizer(&spec);

        CHECK(tokenizer, "ab", "ab", FIXTURE_SPM_BOS, FIXTURE_SPM_TURN, FIXTURE_SPM_SPACE_AB, FIXTURE_SPM_NEWLINES,
              FIXTURE_SPM_AB, FIXTURE_SPM_END);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infill_marks_by_text), cmocka_unit_test(test_infill_text_is_no_mark),
        cmocka_unit_test(test_infill_marks_by_key),  cmocka_unit_test(test_infill_needs_marks),
        cmocka_unit_test(test_infill_sentencepiece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
