// SPDX-License-Identifier: Apache-2.0
/* Tokenizers: golden vectors of real models, and small tables of this file. */
#undef NDEBUG
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "test/unit/fixtures/patience.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "test/unit/text/tokenizer/tokenizer_golden.h"

static Tokenizer *new_tokenizer(const TokenizerSpec *spec) {
    TokenizerFixture fixture;
    Tokenizer *tokenizer = NULL;

    if (fixture_init(&fixture, spec))
        fail_msg("fixture: %s", fixture.err.text);
    if (tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    fixture_deinit(&fixture); /* the tokenizer keeps nothing of the file */
    return tokenizer;
}

static void check_encode(const Tokenizer *tokenizer, const char *text, unsigned int flags, const uint32_t *ids,
                         size_t n) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ErrText err = { 0 };

    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), flags, &list, &err), 0);
    if (list.n != n || (n && memcmp(list.ids, ids, n * sizeof(*ids)))) {
        for (size_t i = 0; i < list.n; i++)
            print_error("%" PRIu32 " ", list.ids[i]);
        fail_msg("<- tokens of \"%s\"", text);
    }
}
#define CHECK_ENCODE(tokenizer, text, flags, ...)                                                                      \
    check_encode(tokenizer, text, flags, (const uint32_t[]){ __VA_ARGS__ },                                            \
                 sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static void check_round_trip(const Tokenizer *tokenizer, const char *text, size_t len_bytes) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(str_buf_deinit) StrBuf out = STR_BUF_NULL;
    ErrText err = { 0 };

    assert_int_equal(tokenizer_encode(tokenizer, text, len_bytes, 0, &list, &err), 0);
    for (size_t i = 0; i < list.n; i++) {
        assert_false(tokenizer_is_control(tokenizer, list.ids[i]));
        assert_int_equal(tokenizer_piece(tokenizer, list.ids[i], false, &out), 0);
    }
    assert_int_equal(out.len_bytes, len_bytes);
    if (len_bytes)
        assert_memory_equal(out.data, text, len_bytes);
}

/* --- golden vectors ----------------------------------------------------------------------------------------------- */

static void check_line(const GoldenModel *golden, const json_t *line) {
    const json_t *text = json_object_get(line, "text"), *ids = json_object_get(line, "ids");
    const json_t *ids_special = json_object_get(line, "ids_special");
    ErrText err;

    for (int special = 0; special < 2; special++) {
        unsigned int flags = special ? TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL : 0;
        _cleanup_(token_list_deinit) TokenList list = { 0 };

        assert_int_equal(
            tokenizer_encode(golden->tokenizer, json_string_value(text), json_string_length(text), flags, &list, &err),
            0);
        golden_check_ids(&list, special && ids_special ? ids_special : ids, special ? "special" : "plain",
                         json_string_value(text));
    }
}

static void test_tokenizer_golden_smollm2(void **state) {
    golden_each("smollm2-135m", "tokens", 77, check_line);
}

static void test_tokenizer_golden_qwen(void **state) {
    golden_each("qwen2.5-coder-0.5b", "tokens", 77, check_line);
}

static void test_tokenizer_golden_gemma(void **state) {
    golden_each("gemma3-270m", "tokens", 77, check_line);
}

/* The hash is SHA-256 of the number of tokens, each text with its length, and the types. On disk it outlives the
 * program. */
static const uint8_t smollm2_hash[TOKENIZER_HASH_BYTES] = { 0x4a, 0x5a, 0x46, 0x64, 0xa2, 0xeb, 0xed, 0x29,
                                                            0x48, 0x6e, 0x89, 0xd3, 0x06, 0x44, 0xcb, 0x4d,
                                                            0x99, 0x6c, 0xae, 0x1a, 0xf7, 0x8b, 0x6a, 0x0f,
                                                            0xa6, 0x91, 0x17, 0xc3, 0x50, 0xbe, 0xea, 0x53 };

static void test_tokenizer_real_tables(void **state) {
    GoldenModel golden;

    golden_model_open(&golden, GOLDEN_DEFAULT_MODEL);
    assert_string_equal(tokenizer_model_name(golden.tokenizer), "gpt2/smollm");
    assert_int_equal(tokenizer_n_tokens(golden.tokenizer), 49152);
    assert_int_equal(tokenizer_find(golden.tokenizer, "<|im_start|>"), 1);
    assert_int_equal(tokenizer_find(golden.tokenizer, "\xc4\xa0"
                                                      "a"),
                     253);
    assert_int_equal(tokenizer_find(golden.tokenizer, "no such token"), TOKEN_NONE);
    assert_int_equal(tokenizer_find(golden.tokenizer, ""), TOKEN_NONE);
    assert_int_equal(tokenizer_bos(golden.tokenizer), 1);
    assert_int_equal(tokenizer_eos(golden.tokenizer), 2);
    assert_false(tokenizer_adds_bos(golden.tokenizer));
    assert_true(tokenizer_is_end(golden.tokenizer, 0));
    assert_false(tokenizer_is_end(golden.tokenizer, 1));
    assert_true(tokenizer_is_end(golden.tokenizer, 2));
    assert_false(tokenizer_is_end(golden.tokenizer, 49152));
    assert_true(tokenizer_is_control(golden.tokenizer, 1));
    assert_false(tokenizer_is_control(golden.tokenizer, 253));
    assert_false(tokenizer_is_control(golden.tokenizer, UINT32_MAX));
    assert_memory_equal(tokenizer_hash(golden.tokenizer), smollm2_hash, sizeof(smollm2_hash));
    assert_in_range(tokenizer_memory_bytes(golden.tokenizer), 1 << 20, 8 << 20);
    golden_model_deinit(&golden);
}

/* --- small tables ------------------------------------------------------------------------------------------------- */

#define SPACE 0x20

static void test_tokenizer_byte_level(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("gpt-2");
    Tokenizer *tokenizer = new_tokenizer(&spec);

    assert_string_equal(tokenizer_model_name(tokenizer), "gpt2/gpt2");
    check_encode(tokenizer, "", 0, NULL, 0);
    CHECK_ENCODE(tokenizer, "hello", 0, 259);
    CHECK_ENCODE(tokenizer, "hello hello", 0, 259, 260);
    CHECK_ENCODE(tokenizer, "aaaaaaa", 0, 262, 261, 'a'); /* leftmost pairs first */
    CHECK_ENCODE(tokenizer, "333", 0, 263, '3');
    CHECK_ENCODE(tokenizer, "\x01\xff", 0, 1, 255);
    /* NUL is text */
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    assert_int_equal(tokenizer_encode(tokenizer, "a\0b", 3, 0, &list, NULL), 0);
    assert_int_equal(list.n, 3);
    assert_int_equal(list.ids[1], 0);
    /* tokens are appended to the list */
    assert_int_equal(tokenizer_encode(tokenizer, NULL, 0, 0, &list, NULL), 0);
    assert_int_equal(list.n, 3);
    tokenizer_free(tokenizer);
}

static void test_tokenizer_special(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("llama-bpe");
    Tokenizer *tokenizer = new_tokenizer(&spec);

    /* control tokens only when asked for, user-defined ones always */
    CHECK_ENCODE(tokenizer, "a<tool>b", 0, 'a', FIXTURE_TOOL, 'b');
    CHECK_ENCODE(tokenizer, "<|im_end|>", TOKENIZE_PARSE_SPECIAL, FIXTURE_IM_END);
    CHECK_ENCODE(tokenizer, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    CHECK_ENCODE(tokenizer, "a<|im_end|><|im_start|>b", TOKENIZE_PARSE_SPECIAL, 'a', FIXTURE_IM_END, FIXTURE_IM_START,
                 'b');
    /* this pre-tokenizer's models begin with BOS unless the file says otherwise */
    assert_true(tokenizer_adds_bos(tokenizer));
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_SPECIAL, FIXTURE_BOS, 'a');
    tokenizer_free(tokenizer);

    spec.add_bos = -1;
    spec.add_eos = 1;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_SPECIAL, 'a', FIXTURE_IM_END);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_BOS, 'a'); /* a prompt that ended would get no answer */
    tokenizer_free(tokenizer);
    spec.add_bos = 1;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_SPECIAL, FIXTURE_BOS, 'a', FIXTURE_IM_END);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_BOS, FIXTURE_BOS, 'a');
    tokenizer_free(tokenizer);

    /* a prompt gets only BOS: behind EOS nothing would be continued */
    spec.add_bos = 1;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_SPECIAL, FIXTURE_BOS, 'a', FIXTURE_IM_END);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_BOS, FIXTURE_BOS, 'a');
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_EOS, 'a', FIXTURE_IM_END);
    tokenizer_free(tokenizer);
}

/* A text that all programs take for a mark is a mark, whatever type the file gives it. */
static void test_tokenizer_retyped_marks(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    int32_t types[FIXTURE_BPE_N];
    Tokenizer *tokenizer;

    memcpy(types, spec.types, sizeof(types));
    types[FIXTURE_IM_END] = 1;
    spec.types = types;
    spec.has_eos = false;
    tokenizer = new_tokenizer(&spec);
    assert_int_equal(tokenizer_eos(tokenizer), TOKEN_NONE);
    assert_true(tokenizer_is_end(tokenizer, FIXTURE_IM_END));
    assert_false(tokenizer_is_end(tokenizer, FIXTURE_IM_START));
    assert_true(tokenizer_is_control(tokenizer, FIXTURE_IM_END));
    CHECK_ENCODE(tokenizer, "<|im_end|>", TOKENIZE_PARSE_SPECIAL, FIXTURE_IM_END);
    CHECK_ENCODE(tokenizer, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    tokenizer_free(tokenizer);
}

/* Merges, or the rule that a whole word may be one token, must not lead from plain text to a control token. */
static void test_tokenizer_injection_by_merges(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("llama-bpe");
    int32_t types[FIXTURE_BPE_N];
    Tokenizer *tokenizer;

    memcpy(types, spec.types, sizeof(types));
    types[259] = 3; /* "hello" */
    spec.types = types;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "hello", 0, 258, 'o');
    CHECK_ENCODE(tokenizer, "hello", TOKENIZE_PARSE_SPECIAL, 259);
    tokenizer_free(tokenizer);

    spec = fixture_spm_spec();
    spec.add_space_prefix = -1;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "<s>", 0, FIXTURE_SPM_LESS, FIXTURE_SPM_S_END);
    CHECK_ENCODE(tokenizer, "<s>", TOKENIZE_PARSE_SPECIAL, FIXTURE_SPM_BOS);
    /* a byte token's name is text as well */
    CHECK_ENCODE(tokenizer, "<0x41>", 0, FIXTURE_SPM_LESS, FIXTURE_SPM_BYTES + '0', FIXTURE_SPM_BYTES + 'x',
                 FIXTURE_SPM_BYTES + '4', FIXTURE_SPM_BYTES + '1', FIXTURE_SPM_BYTES + '>');
    tokenizer_free(tokenizer);
}

static void test_tokenizer_sentencepiece(void **state) {
    TokenizerSpec spec = fixture_spm_spec();
    Tokenizer *tokenizer = new_tokenizer(&spec);

    /* the highest score first: "ab" before " a", then " ab" */
    CHECK_ENCODE(tokenizer, "ab", 0, FIXTURE_SPM_SPACE_AB);
    CHECK_ENCODE(tokenizer, "aab", 0, FIXTURE_SPM_SPACE_A, FIXTURE_SPM_AB);
    CHECK_ENCODE(tokenizer, "", TOKENIZE_ADD_SPECIAL, FIXTURE_SPM_BOS);
    check_encode(tokenizer, "", 0, NULL, 0);
    CHECK_ENCODE(tokenizer, "a", TOKENIZE_ADD_SPECIAL, FIXTURE_SPM_BOS, FIXTURE_SPM_SPACE_A);
    /* every fragment gets its space; user-defined tokens are recognised with any flags */
    CHECK_ENCODE(tokenizer, "a\n\nb", 0, FIXTURE_SPM_SPACE_A, FIXTURE_SPM_NEWLINES, FIXTURE_SPM_SPACE, FIXTURE_SPM_B);
    /* bytes as a fallback, ill-formed ones too */
    CHECK_ENCODE(tokenizer, "\n", 0, FIXTURE_SPM_SPACE, FIXTURE_SPM_BYTES + 10);
    CHECK_ENCODE(tokenizer, "\xe2\x82", 0, FIXTURE_SPM_SPACE, FIXTURE_SPM_BYTES + 0xe2, FIXTURE_SPM_BYTES + 0x82);
    tokenizer_free(tokenizer);

    spec.add_space_prefix = -1;
    spec.add_bos = -1;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "ab", TOKENIZE_ADD_SPECIAL, FIXTURE_SPM_AB);
    CHECK_ENCODE(tokenizer, " a", 0, FIXTURE_SPM_SPACE_A);
    tokenizer_free(tokenizer);
}

/* Phi-3's special tokens take the spaces behind them, except three; other models' do not. */
static void test_tokenizer_strips_right(void **state) {
    static const char *const names[] = { "Phi-3 Mini", "my PHI3 of today", "Phi 3.5", NULL };
    TokenizerSpec spec = fixture_spm_spec();
    const char *tokens[FIXTURE_SPM_N];

    memcpy(tokens, spec.tokens, sizeof(tokens));
    tokens[FIXTURE_SPM_END] = "<|end|>";
    spec.tokens = tokens;
    spec.add_bos = -1;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        Tokenizer *tokenizer;

        spec.name = names[i];
        tokenizer = new_tokenizer(&spec);
        if (i < 2) {
            CHECK_ENCODE(tokenizer, "<|end|> \n\ta", TOKENIZE_PARSE_SPECIAL, FIXTURE_SPM_END, FIXTURE_SPM_SPACE_A);
            CHECK_ENCODE(tokenizer, "<|end|>  <|end|> ", TOKENIZE_PARSE_SPECIAL, FIXTURE_SPM_END, FIXTURE_SPM_END);
            CHECK_ENCODE(tokenizer, "\n\n a", 0, FIXTURE_SPM_NEWLINES, FIXTURE_SPM_SPACE_A); /* user-defined ones too */
        } else {
            CHECK_ENCODE(tokenizer, "<|end|>\ta", TOKENIZE_PARSE_SPECIAL, FIXTURE_SPM_END, FIXTURE_SPM_SPACE,
                         FIXTURE_SPM_BYTES + '\t', FIXTURE_SPM_A);
            CHECK_ENCODE(tokenizer, "\n\n a", 0, FIXTURE_SPM_NEWLINES, FIXTURE_SPM_SPACE, FIXTURE_SPM_SPACE_A);
        }
        CHECK_ENCODE(tokenizer, "<s> a", TOKENIZE_PARSE_SPECIAL, FIXTURE_SPM_BOS, FIXTURE_SPM_SPACE,
                     FIXTURE_SPM_SPACE_A);
        CHECK_ENCODE(tokenizer, "<|end|>\xc2\xa0", TOKENIZE_PARSE_SPECIAL, FIXTURE_SPM_END, FIXTURE_SPM_SPACE,
                     FIXTURE_SPM_BYTES + 0xc2, FIXTURE_SPM_BYTES + 0xa0); /* spaces of ASCII alone */
        tokenizer_free(tokenizer);
    }
}

/* A run of characters that the model has no token for, as a whole or by bytes, is one unknown token. */
static void test_tokenizer_unknown_characters(void **state) {
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "<0xC3>", "<0xA9>" };
    static const int32_t types[] = { 2, 3, 3, 1, 1, 6, 6 };
    static const float scores[ARRAY_LEN(tokens)] = { 0 };
    TokenizerSpec spec = { .model = "llama",
                           .tokens = tokens,
                           .n_tokens = ARRAY_LEN(tokens),
                           .types = types,
                           .n_types = ARRAY_LEN(tokens),
                           .scores = scores,
                           .n_scores = ARRAY_LEN(tokens),
                           .add_bos = -1,
                           .add_space_prefix = -1 };
    Tokenizer *tokenizer = new_tokenizer(&spec);

    CHECK_ENCODE(tokenizer, "a\xc3\xa9", 0, 4, 5, 6);
    CHECK_ENCODE(tokenizer, "xyza\xc3\xaa", 0, 0, 4, 0); /* half of a character is no token */
    CHECK_ENCODE(tokenizer, "x\xc3\xa9y z", 0, 0, 5, 6, 0, 3, 0);
    CHECK_ENCODE(tokenizer, "\xff\xff", 0, 0);
    tokenizer_free(tokenizer);

    spec.has_unknown = true;
    spec.unknown = 4;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, " xy", 0, 3, 4);
    tokenizer_free(tokenizer);
}

/* If texts are equal the first token counts. An empty text is never matched. All of these tokens still have a piece. */
static void test_tokenizer_duplicates_and_empty(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    const char *tokens[FIXTURE_BPE_N + 2];
    int32_t types[FIXTURE_BPE_N + 2];
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Tokenizer *tokenizer;

    memcpy(tokens, spec.tokens, FIXTURE_BPE_N * sizeof(*tokens));
    memcpy(types, spec.types, FIXTURE_BPE_N * sizeof(*types));
    tokens[FIXTURE_BPE_N] = "hello";
    tokens[FIXTURE_BPE_N + 1] = "";
    types[FIXTURE_BPE_N] = types[FIXTURE_BPE_N + 1] = 1;
    spec.tokens = tokens;
    spec.types = types;
    spec.n_tokens = spec.n_types = FIXTURE_BPE_N + 2;
    tokenizer = new_tokenizer(&spec);
    CHECK_ENCODE(tokenizer, "hello", 0, 259);
    assert_int_equal(tokenizer_find(tokenizer, "hello"), 259);
    assert_int_equal(tokenizer_piece(tokenizer, FIXTURE_BPE_N, false, &text), 0);
    assert_int_equal(tokenizer_piece(tokenizer, FIXTURE_BPE_N + 1, false, &text), 0);
    assert_string_equal(text.data, "hello");
    tokenizer_free(tokenizer);
}

static void test_tokenizer_absent_bytes_are_left_out(void **state) {
    static const char *const tokens[] = { "a", "b", "ab" }, *const merges[] = { "a b" };
    TokenizerSpec spec = { .model = "gpt2", .tokens = tokens, .n_tokens = 3, .merges = merges, .n_merges = 1 };
    Tokenizer *tokenizer = new_tokenizer(&spec); /* no pre-tokenizer named: "default" */

    assert_string_equal(tokenizer_model_name(tokenizer), "gpt2/default");
    CHECK_ENCODE(tokenizer, "abcab", 0, 2, 2);
    assert_int_equal(tokenizer_bos(tokenizer), TOKEN_NONE);
    assert_int_equal(tokenizer_eos(tokenizer), TOKEN_NONE);
    tokenizer_free(tokenizer);
}

/* --- round trips -------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

static void test_tokenizer_round_trip(void **state) {
    static const char *const pres[] = { "gpt-2", "smollm", "qwen2", "llama-bpe", "default" };
    static const char *const pieces[] = { "<|im_end|>", "<tool>",   "hello",        " ",
                                          "  ",         "\n",       "\r\n",         "'s",
                                          "\xc2\x85",   "\xc2\xa0", "\xe2\x80\x83", "\xf0\x9f\x91\xa9\xe2\x80\x8d",
                                          "e\xcc\x81",  "3333",     "\xff",         "\xed\xa0\x80",
                                          "\xe2\x82",   "\0" };
    uint64_t random = (uint64_t)time(NULL) * 2654435761u | 1;

    print_message("seed %" PRIu64 "\n", random);
    for (size_t p = 0; p < ARRAY_LEN(pres); p++) {
        TokenizerSpec spec = fixture_bpe_spec(pres[p]);
        Tokenizer *tokenizer = new_tokenizer(&spec);

        for (int round = 0; round < 2000; round++) {
            char text[256];
            size_t n = 0, wanted = next_random(&random) % 200;

            while (n < wanted) {
                const char *piece = pieces[next_random(&random) % ARRAY_LEN(pieces)];

                if (next_random(&random) % 2) {
                    text[n++] = (char)next_random(&random);
                    continue;
                }
                memcpy(text + n, piece, strlen(piece));
                n += strlen(piece);
            }
            check_round_trip(tokenizer, text, n);
        }
        tokenizer_free(tokenizer);
    }
}

/* Lengths at which a quadratic step or a matcher's limit would show. */
static void test_tokenizer_long_runs(void **state) {
    static const char *const units[] = { "a",
                                         " ",
                                         "\n",
                                         "3",
                                         "!",
                                         "\xe3\x80\x80",
                                         "<|im_end|",
                                         "<tool",
                                         " \n",
                                         "\xff",
                                         "'s",
                                         "aA",
                                         "\xcc\x81",
                                         ("\xe4\xb8\xad"
                                          "A"),
                                         "hell",
                                         "a a " };
    static const char *const pres[] = { "smollm", "qwen2", "gpt-4o", "deepseek-llm", "deepseek-v3", "exaone-moe" };
    const size_t len_bytes = patience_is_short() ? 1 << 16 : 1 << 18;
    _cleanup_(freep) char *text = malloc(len_bytes);

    assert_non_null(text);
    for (size_t u = 0; u < ARRAY_LEN(units); u++) {
        for (size_t i = 0; i < len_bytes; i++)
            text[i] = units[u][i % strlen(units[u])];
        for (size_t kind = 0; kind <= ARRAY_LEN(pres); kind++) {
            TokenizerSpec spec = kind == ARRAY_LEN(pres) ? fixture_spm_spec() : fixture_bpe_spec(pres[kind]);
            Tokenizer *tokenizer;

            spec.add_space_prefix = -1;
            tokenizer = new_tokenizer(&spec);
            check_round_trip(tokenizer, text, len_bytes);
            tokenizer_free(tokenizer);
        }
    }
}

static void test_tokenizer_too_long(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    Tokenizer *tokenizer = new_tokenizer(&spec);
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ErrText err = { 0 };

    /* refused by its length before it is read */
    assert_int_equal(tokenizer_encode(tokenizer, "a", ((size_t)64 << 20) + 1, 0, &list, &err), TOKENIZER_E_TOO_LONG);
    assert_non_null(strstr(err.text, "67108865 bytes"));
    assert_int_equal(list.n, 0);
    tokenizer_free(tokenizer);
}

/* Many threads use one tokenizer, because nothing in it is written after it was made. */
typedef struct ThreadWork {
    const Tokenizer *tokenizer;
    const char *text;
    const TokenList *wanted;
    bool same;
} ThreadWork;

static void *encode_often(void *opaque) {
    ThreadWork *work = opaque;

    work->same = true;
    for (int i = 0; i < 50; i++) {
        _cleanup_(token_list_deinit) TokenList list = { 0 };

        if (tokenizer_encode(work->tokenizer, work->text, strlen(work->text), TOKENIZE_PARSE_SPECIAL, &list, NULL) ||
            list.n != work->wanted->n || memcmp(list.ids, work->wanted->ids, list.n * sizeof(*list.ids)))
            work->same = false;
    }
    return NULL;
}

static void test_tokenizer_threads(void **state) {
    static const char text[] = "hello aaaa 3333<|im_end|><tool>\r\n  it's \xe6\x97\xa5\xff x\n\n\n";
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    Tokenizer *tokenizer = new_tokenizer(&spec);
    _cleanup_(token_list_deinit) TokenList wanted = { 0 };
    pthread_t threads[4];
    ThreadWork works[4];

    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), TOKENIZE_PARSE_SPECIAL, &wanted, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        works[i] = (ThreadWork){ .tokenizer = tokenizer, .text = text, .wanted = &wanted };
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &works[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(works[i].same);
    }
    tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_golden_smollm2),
        cmocka_unit_test(test_tokenizer_golden_qwen),
        cmocka_unit_test(test_tokenizer_golden_gemma),
        cmocka_unit_test(test_tokenizer_real_tables),
        cmocka_unit_test(test_tokenizer_byte_level),
        cmocka_unit_test(test_tokenizer_special),
        cmocka_unit_test(test_tokenizer_retyped_marks),
        cmocka_unit_test(test_tokenizer_injection_by_merges),
        cmocka_unit_test(test_tokenizer_sentencepiece),
        cmocka_unit_test(test_tokenizer_strips_right),
        cmocka_unit_test(test_tokenizer_unknown_characters),
        cmocka_unit_test(test_tokenizer_duplicates_and_empty),
        cmocka_unit_test(test_tokenizer_absent_bytes_are_left_out),
        cmocka_unit_test(test_tokenizer_round_trip),
        cmocka_unit_test(test_tokenizer_long_runs),
        cmocka_unit_test(test_tokenizer_too_long),
        cmocka_unit_test(test_tokenizer_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
