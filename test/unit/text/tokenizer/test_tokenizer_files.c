// SPDX-License-Identifier: Apache-2.0
/* Tokenizers of files that are wrong, which are refused by name, and of odd files, which are taken with a warning. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"

static void check_refused(const TokenizerSpec *spec, int code, const char *words) {
    TokenizerFixture fixture;
    Tokenizer *tokenizer = NULL;
    ErrText err = { 0 };

    if (fixture_init(&fixture, spec))
        fail_msg("fixture: %s", fixture.err.text);
    assert_int_equal(tokenizer_new(&tokenizer, fixture.file, &err), code);
    assert_null(tokenizer);
    if (!strstr(err.text, words) || !strstr(err.text, "fixture.gguf"))
        fail_msg("\"%s\" is not in \"%s\"", words, err.text);
    fixture_deinit(&fixture);
}

static void test_tokenizer_unknown_names(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("kimi-k2");

    check_refused(&spec, TOKENIZER_E_UNSUPPORTED, "pre-tokenizer \"kimi-k2\"");
    spec.pre = "qwen2\xff";
    check_refused(&spec, TOKENIZER_E_UNSUPPORTED, "pre-tokenizer \"qwen2\\xff\"");
    spec.model = "bert";
    check_refused(&spec, TOKENIZER_E_UNSUPPORTED, "tokenizer \"bert\" (WordPiece) is not supported");
    spec.model = "t5";
    check_refused(&spec, TOKENIZER_E_UNSUPPORTED, "tokenizer \"t5\" (Unigram) is not supported");
    spec.model = "gemma4";
    check_refused(&spec, TOKENIZER_E_UNSUPPORTED, "tokenizer \"gemma4\" (BPE");
    spec.model = "rwkv6";
    check_refused(&spec, TOKENIZER_E_UNSUPPORTED, "tokenizer \"rwkv6\" is not supported; supported are \"gpt2\"");
    spec.model = NULL;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "tokenizer.ggml.model");
}

static void test_tokenizer_bad_arrays(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");

    spec.n_types--;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "\"tokenizer.ggml.token_type\" has 268 elements for 269 tokens");
    spec = fixture_bpe_spec("qwen2");
    spec.tokens = NULL;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "tokenizer.ggml.tokens");
    spec = fixture_bpe_spec("qwen2");
    spec.n_tokens = spec.n_types = 0;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "has 0 tokens");
    spec = fixture_spm_spec();
    spec.scores = (const float[]){ 1 };
    spec.n_scores = 1;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "\"tokenizer.ggml.scores\" has 1 elements");
}

static void test_tokenizer_bad_scores(void **state) {
    TokenizerSpec spec = fixture_spm_spec();
    float scores[FIXTURE_SPM_N];

    memcpy(scores, spec.scores, sizeof(scores));
    spec.scores = scores;
    scores[3] = 0.0f / 0.0f;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "the score of token 3 is not a finite number");
}

static void test_tokenizer_bad_byte_tokens(void **state) {
    static const char *const bad[] = { "<0x-1>", "<0x+1>", "<0x 1>", "<0xG0>", "<0x100>", "<0x1>", "abc", "" };
    TokenizerSpec spec = fixture_spm_spec();
    const char *tokens[FIXTURE_SPM_N];

    memcpy(tokens, spec.tokens, sizeof(tokens));
    spec.tokens = tokens;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        tokens[FIXTURE_SPM_BYTES + 5] = bad[i];
        check_refused(&spec, TOKENIZER_E_CORRUPT, "token 8 is a byte token");
    }
}

static void test_tokenizer_bad_merges(void **state) {
    static const char *const bad[] = { "",      " ",    "a",           "ab",     "a ",    "a  ",
                                       "zz zz", "a zz", "hello world", "\xff a", "a \xc4" };
    static const char *const whys[] = { "not two texts", "not two texts", "not two texts", "not two texts",
                                        "not two texts", "alphabet",      "no token",      "no token",
                                        "no token",      "alphabet",      "alphabet" };
    TokenizerSpec spec = fixture_bpe_spec("qwen2");

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *merges[] = { "h e", bad[i] };

        spec.merges = merges;
        spec.n_merges = 2;
        check_refused(&spec, TOKENIZER_E_CORRUPT, whys[i]);
        check_refused(&spec, TOKENIZER_E_CORRUPT, "merge 1 ");
    }
    spec.merges = NULL;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "tokenizer.ggml.merges");
}

/* A file that lacks a special token is refused where the token is needed. */
static void test_tokenizer_bad_ids(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");

    spec.add_bos = 1;
    spec.bos = FIXTURE_BPE_N;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "\"tokenizer.ggml.add_bos_token\" is true, but no token is named by");
    spec.add_bos = 0;
    spec.add_eos = 1;
    spec.eos = UINT32_MAX;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "\"tokenizer.ggml.add_eos_token\" is true, but no token is named by");
    spec.has_eos = false;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "\"tokenizer.ggml.add_eos_token\" is true");
    spec.add_eos = 0;
    spec.has_bos = false;
    spec.add_bos = 1;
    check_refused(&spec, TOKENIZER_E_CORRUPT, "\"tokenizer.ggml.add_bos_token\" is true");
}

static char logged[1024];
static size_t n_logged;

static void keep_line(LogLevel level, const char *topic, const char *line) {
    (void)topic;
    snprintf(logged, sizeof(logged), "%s", line);
    n_logged += level == LOG_LEVEL_WARN;
}

/* Makes the tokenizer of an odd file. words: the only warning that is logged. */
static Tokenizer *take_odd(const TokenizerSpec *spec, const char *words) {
    TokenizerFixture fixture;
    Tokenizer *tokenizer = NULL;
    ErrText err = { 0 };

    if (fixture_init(&fixture, spec))
        fail_msg("fixture: %s", fixture.err.text);
    n_logged = 0;
    log_set_sink(keep_line);
    if (tokenizer_new(&tokenizer, fixture.file, &err))
        fail_msg("%s", err.text);
    log_set_sink(NULL);
    if (n_logged != 1 || !strstr(logged, words) || !strstr(logged, "fixture.gguf"))
        fail_msg("%zu warnings; \"%s\" is not in \"%s\"", n_logged, words, logged);
    fixture_deinit(&fixture);
    return tokenizer;
}

/* Files of many converters have such oddities, and llama.cpp takes them. */
static void test_tokenizer_takes_odd_files(void **state) {
    TokenizerSpec bpe = fixture_bpe_spec("qwen2"), spm = fixture_spm_spec();
    int32_t types[FIXTURE_BPE_N];
    Tokenizer *tokenizer;

    memcpy(types, bpe.types, sizeof(types));
    types[7] = 7;
    types[9] = -1;
    bpe.types = types;
    tokenizer = take_odd(&bpe, "token 7 has type 7, and 2 tokens in all have none of the types 0 to 6");
    assert_false(tokenizer_is_control(tokenizer, 7));
    tokenizer_free(tokenizer);

    bpe = fixture_bpe_spec("qwen2");
    bpe.bos = FIXTURE_BPE_N;
    tokenizer = take_odd(&bpe, "'tokenizer.ggml.bos_token_id' is 269; the model has tokens 0 to 268: the key is ign");
    assert_int_equal(tokenizer_bos(tokenizer), TOKEN_NONE);
    tokenizer_free(tokenizer);

    spm.eos = UINT32_MAX;
    tokenizer = take_odd(&spm, "'tokenizer.ggml.eos_token_id' is 4294967295; the model has tokens 0 to");
    assert_int_equal(tokenizer_eos(tokenizer), FIXTURE_SPM_EOS); /* the default */
    tokenizer_free(tokenizer);

    spm = fixture_spm_spec();
    spm.scores = NULL;
    tokenizer = take_odd(&spm, "no key \"tokenizer.ggml.scores\": all scores are 0");
    tokenizer_free(tokenizer);
}

/* The two texts of a merge are one string, or two. */
static void test_tokenizer_takes_merges_in_pairs(void **state) {
    static const char text[] = "hello hello aaaaa 3333";
    TokenizerSpec joined = fixture_bpe_spec("qwen2"), pairs = joined;
    _cleanup_(token_list_deinit) TokenList a = { 0 }, b = { 0 };
    TokenizerFixture fixture;
    char texts[64][16];
    const char *merges[64];
    ErrText err = { 0 };

    for (size_t i = 0; i < joined.n_merges; i++) {
        const char *space = strchr(joined.merges[i], ' ');

        snprintf(texts[2 * i], sizeof(texts[0]), "%.*s", (int)(space - joined.merges[i]), joined.merges[i]);
        snprintf(texts[2 * i + 1], sizeof(texts[0]), "%s", space + 1);
        merges[2 * i] = texts[2 * i];
        merges[2 * i + 1] = texts[2 * i + 1];
    }
    pairs.merges = merges;
    pairs.n_merges = 2 * joined.n_merges;
    for (int as_pairs = 0; as_pairs < 2; as_pairs++) {
        _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;

        assert_int_equal(fixture_init(&fixture, as_pairs ? &pairs : &joined), 0);
        assert_int_equal(tokenizer_new(&tokenizer, fixture.file, &err), 0);
        assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), 0, as_pairs ? &b : &a, &err), 0);
        fixture_deinit(&fixture);
    }
    assert_true(a.n > 3 && a.n < strlen(text) && a.n == b.n);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof(*a.ids));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_unknown_names),   cmocka_unit_test(test_tokenizer_bad_arrays),
        cmocka_unit_test(test_tokenizer_bad_scores),      cmocka_unit_test(test_tokenizer_bad_byte_tokens),
        cmocka_unit_test(test_tokenizer_bad_merges),      cmocka_unit_test(test_tokenizer_bad_ids),
        cmocka_unit_test(test_tokenizer_takes_odd_files), cmocka_unit_test(test_tokenizer_takes_merges_in_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
