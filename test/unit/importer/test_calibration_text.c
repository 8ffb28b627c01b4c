// SPDX-License-Identifier: Apache-2.0
/* Tests the calibration text: the project's own text, unusable files of users, windows of tokens. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/strings/utf8.h"
#include "importer/calibration_text.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "test/unit/text/tokenizer/tokenizer_golden.h"

/* Packages name the text by this hash. A changed text makes other packages, so the hash changes on purpose only. */
#define OWN_SHA256 "9e58c74143ce8e18e6f67a44f5f3ea09bf445444ead137168c5defa1471246f8"
#define OWN_BYTES 72073

typedef struct Fixture {
    char folder[256];
    char path[PATH_MAX];
} Fixture;

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    test_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof(fixture->path), "%s/text.txt", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    test_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* --- the project's own -------------------------------------------------------------------------------------------- */

static void test_calibration_text_is_what_was_written(void **state) {
    char hex[SHA256_HEX_BYTES];
    size_t len_bytes;
    const char *text = calibration_text(&len_bytes);

    assert_int_equal(len_bytes, OWN_BYTES);
    sha256_hex(text, len_bytes, hex);
    assert_string_equal(hex, OWN_SHA256);
    assert_int_equal(text[len_bytes - 1], '\n');
    for (size_t at = 0, n; at < len_bytes; at += n) {
        Utf8Kind kind;

        n = utf8_step(text + at, len_bytes - at, &kind);
        assert_int_equal(kind, UTF8_WHOLE);
        assert_true(text[at] == '\n' || (unsigned char)text[at] >= ' ');
    }
}

static void test_calibration_text_is_the_default(void **state) {
    CalibrationText text;
    size_t len_bytes;

    assert_int_equal(calibration_load(&text, NULL, NULL), 0);
    assert_ptr_equal(text.text, calibration_text(&len_bytes));
    assert_int_equal(text.len_bytes, OWN_BYTES);
    assert_string_equal(text.sha256, OWN_SHA256);
    calibration_deinit(&text);
    assert_null(text.text);
    calibration_deinit(&text);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void refused(Fixture *fixture, int code, const char *words) {
    CalibrationText text = { .name = "untouched" };
    ErrText err = { 0 };

    assert_int_equal(calibration_load(&text, fixture->path, &err), code);
    assert_string_equal(text.name, "untouched");
    assert_non_null(strstr(err.text, fixture->path));
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void test_calibration_text_file(void **state) {
    Fixture *fixture = *state;
    static const char words[] = "Gr\xc3\xbc\xc3\x9f"
                                "e <|im_end|>\r\n";
    CalibrationText text;
    char hex[SHA256_HEX_BYTES];

    test_write_file(fixture->folder, "text.txt", words, sizeof(words) - 1);
    assert_int_equal(calibration_load(&text, fixture->path, NULL), 0);
    assert_int_equal(text.len_bytes, sizeof(words) - 1);
    assert_memory_equal(text.text, words, sizeof(words) - 1);
    assert_ptr_equal(text.name, fixture->path);
    sha256_hex(words, sizeof(words) - 1, hex);
    assert_string_equal(text.sha256, hex);
    calibration_deinit(&text);
}

static void test_calibration_text_refuses_files(void **state) {
    Fixture *fixture = *state;
    char *link = NULL;

    refused(fixture, -ENOENT, "No such file");

    assert_int_equal(mkfifo(fixture->path, 0600), 0);
    refused(fixture, CALIBRATION_E_UNUSABLE, "not a regular file");
    assert_int_equal(unlink(fixture->path), 0);

    assert_int_equal(mkdir(fixture->path, 0700), 0);
    refused(fixture, CALIBRATION_E_UNUSABLE, "not a regular file");
    assert_int_equal(rmdir(fixture->path), 0);

    assert_true(asprintf(&link, "%s/elsewhere", fixture->folder) > 0);
    assert_int_equal(symlink(link, fixture->path), 0);
    refused(fixture, -ENOENT, "No such file");
    assert_int_equal(unlink(fixture->path), 0);
    free(link);

    test_write_file(fixture->folder, "text.txt", "", 0);
    refused(fixture, CALIBRATION_E_UNUSABLE, "empty");
}

static void test_calibration_text_refuses_what_is_no_text(void **state) {
    static const struct {
        const char *bytes;
        size_t len_bytes;
        const char *words;
    } cases[] = {
        { "ab\xff", 3, "byte 0xff at offset 2" },
        { "a\xc3", 2, "byte 0xc3 at offset 1" },        /* cut */
        { "\xed\xa0\x80", 3, "byte 0xed at offset 0" }, /* a surrogate */
        { "abc\0def", 7, "byte 0x00 at offset 3" },     /* binary, or UTF-16 */
        { "\xff\xfe"
          "a\0b\0",
          6, "byte 0xff at offset 0" }, /* UTF-16 with its mark */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        test_write_file(((Fixture *)*state)->folder, "text.txt", cases[i].bytes, cases[i].len_bytes);
        refused(*state, CALIBRATION_E_UNUSABLE, cases[i].words);
    }
}

static void test_calibration_text_length_cap(void **state) {
    Fixture *fixture = *state;

    test_write_file(fixture->folder, "text.txt", "", 0);
    assert_int_equal(truncate(fixture->path, CALIBRATION_TEXT_MAX_BYTES), 0);
    refused(fixture, CALIBRATION_E_UNUSABLE, "byte 0x00 at offset 0"); /* of the largest size, but no text */
    assert_int_equal(truncate(fixture->path, CALIBRATION_TEXT_MAX_BYTES + 1), 0);
    refused(fixture, CALIBRATION_E_UNUSABLE, "64 MiB");
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

static Tokenizer *new_tokenizer(const TokenizerSpec *spec) {
    TokenizerFixture fixture;
    Tokenizer *tokenizer = NULL;

    if (fixture_init(&fixture, spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    fixture_deinit(&fixture);
    return tokenizer;
}

static CalibrationText borrowed(const char *text, size_t len_bytes) {
    return (CalibrationText){ .name = "a text", .text = text, .len_bytes = len_bytes };
}

/* Letters without merges: each byte is a token, so that every id is known. */
static void test_calibration_windows_small(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("gpt-2");
    Tokenizer *tokenizer = new_tokenizer(&spec);
    CalibrationText text = borrowed("bcdfgbc", 7);
    uint32_t *tokens = NULL;
    size_t n = 0;

    assert_int_equal(calibration_windows(&text, tokenizer, 8, 3, &tokens, &n, NULL), 0);
    assert_int_equal(n, 2); /* the seventh byte is left over */
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tokens[i], text.text[i]);
    free(tokens);
    assert_int_equal(calibration_windows(&text, tokenizer, 1, 3, &tokens, &n, NULL), 0);
    assert_int_equal(n, 1);
    free(tokens);
    assert_int_equal(calibration_windows(&text, tokenizer, 1, 7, &tokens, &n, NULL), 0);
    assert_int_equal(n, 1);
    free(tokens);
    tokenizer_free(tokenizer);
}

static void test_calibration_windows_bos_and_marks(void **state) {
    static const uint32_t wanted[] = { FIXTURE_BOS, '<', '|', 'i', 'm', FIXTURE_BOS, '_', 'e', 'n', 'd' };
    TokenizerSpec spec = fixture_bpe_spec("llama-bpe");
    Tokenizer *tokenizer = new_tokenizer(&spec);
    CalibrationText text = borrowed("<|im_end|>", 10);
    uint32_t *tokens = NULL;
    size_t n = 0;

    assert_true(tokenizer_adds_bos(tokenizer));
    assert_int_equal(calibration_windows(&text, tokenizer, 8, 5, &tokens, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(tokens, wanted, sizeof(wanted));
    free(tokens);
    tokenizer_free(tokenizer);
}

static void test_calibration_windows_errors(void **state) {
    static const struct {
        size_t n_windows, window_tokens;
    } cases[] = { { 0, 512 },
                  { 1, 0 },
                  { 1, 1 },
                  { CALIBRATION_WINDOWS_MAX + 1, 512 },
                  { 1, CALIBRATION_WINDOW_TOKENS_MAX + 1 },
                  { SIZE_MAX, SIZE_MAX } };
    TokenizerSpec spec = fixture_bpe_spec("gpt-2");
    Tokenizer *tokenizer = new_tokenizer(&spec);
    CalibrationText text = borrowed("bcdfgbc", 7);
    uint32_t *tokens = NULL;
    size_t n = 77;
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        err.text[0] = 0;
        assert_int_equal(
            calibration_windows(&text, tokenizer, cases[i].n_windows, cases[i].window_tokens, &tokens, &n, &err),
            -EINVAL);
        assert_non_null(strstr(err.text, "4096"));
    }
    assert_int_equal(calibration_windows(&text, tokenizer, 8, 8, &tokens, &n, &err), CALIBRATION_E_SHORT);
    assert_string_equal(err.text, "a text: 7 tokens, but calibration needs at least 8, better 272: give a longer text, "
                                  "or leave --calibration out");
    assert_null(tokens);
    assert_int_equal(n, 77);
    tokenizer_free(tokenizer);
}

/* Tokens of 64 bytes and of one, characters of one to four bytes: the cut behind a prefix never shows. */
static void test_calibration_windows_of_long_texts(void **state) {
    static const char *const parts[] = {
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\xf0\x9f\x90\x90", "hello hello", "\n", "\xe6\xa1\xa5\xe6\xa2\x81", "x", "3333"
    };
    TokenizerSpec spec = fixture_bpe_spec("gpt-2");
    Tokenizer *tokenizer = new_tokenizer(&spec);
    _cleanup_(str_buf_deinit) StrBuf all = STR_BUF_NULL;
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    CalibrationText text;

    for (unsigned int i = 0; i < 4000; i++)
        str_buf_append(&all, parts[i * i % ARRAY_LEN(parts)], strlen(parts[i * i % ARRAY_LEN(parts)]));
    assert_int_equal(tokenizer_encode(tokenizer, all.data, all.len_bytes, 0, &list, NULL), 0);
    text = borrowed(all.data, all.len_bytes);
    for (size_t n_windows = 1; n_windows <= 64; n_windows *= 2)
        for (size_t window_tokens = 5; window_tokens <= 13; window_tokens++) {
            uint32_t *tokens;
            size_t n;

            assert_int_equal(calibration_windows(&text, tokenizer, n_windows, window_tokens, &tokens, &n, NULL), 0);
            assert_int_equal(n, n_windows);
            assert_memory_equal(tokens, list.ids, n * window_tokens * sizeof(*tokens));
            free(tokens);
        }
    tokenizer_free(tokenizer);
}

/* A token of 128 bytes: the first prefix has too few tokens, and is doubled until it has enough. */
static void test_calibration_windows_of_long_tokens(void **state) {
    enum {
        N_POWERS = 8,
        LETTERS = 1 << (N_POWERS - 1),
        N_REPEATS = 300
    };
    static char powers[N_POWERS][LETTERS + 1];
    const char *texts[N_POWERS + 1] = { "<unk>" };
    int32_t types[N_POWERS + 1] = { 2 };
    float scores[N_POWERS + 1] = { 0 };
    TokenizerSpec spec = { .model = "llama",
                           .tokens = texts,
                           .n_tokens = N_POWERS + 1,
                           .types = types,
                           .n_types = N_POWERS + 1,
                           .scores = scores,
                           .n_scores = N_POWERS + 1,
                           .has_unknown = true,
                           .add_bos = -1,
                           .add_space_prefix = -1 };
    _cleanup_(str_buf_deinit) StrBuf all = STR_BUF_NULL;
    Tokenizer *tokenizer;
    CalibrationText text;
    uint32_t *tokens;
    size_t n;

    for (int i = 0; i < N_POWERS; i++) {
        memset(powers[i], 'q', (size_t)1 << i);
        texts[i + 1] = powers[i];
        types[i + 1] = 1;
        scores[i + 1] = (float)i;
    }
    tokenizer = new_tokenizer(&spec);
    for (int i = 0; i < N_REPEATS; i++)
        str_buf_append(&all, powers[N_POWERS - 1], LETTERS);
    text = borrowed(all.data, all.len_bytes);
    assert_int_equal(calibration_windows(&text, tokenizer, 4, 8, &tokens, &n, NULL), 0);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n * 8; i++)
        assert_int_equal(tokens[i], N_POWERS);
    free(tokens);
    assert_int_equal(calibration_windows(&text, tokenizer, 100, 4, &tokens, &n, NULL), 0);
    assert_int_equal(n, N_REPEATS / 4); /* the text ends */
    free(tokens);
    tokenizer_free(tokenizer);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these have memory of their own */
/* Peak of memory since the last call; 0: the system does not report it. */
static size_t peak_kib(void) {
    char line[128];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, "VmHWM:", strlen("VmHWM:")))
            kib = strtoul(line + strlen("VmHWM:"), NULL, 10);
    if (file)
        fclose(file);
    file = fopen("/proc/self/clear_refs", "we");
    if (!file || fputs("5", file) < 0 || fclose(file))
        return 0;
    return kib;
}
#else
static size_t peak_kib(void) {
    return 0;
}
#endif

/* Small models have tokens for a to j only: the text stands behind MiBs without a token, which are tokenized in
 * parts. */
static void test_calibration_windows_of_text_without_tokens(void **state) {
    static const char end[] = "abcdefghij";
    enum {
        EMPTY_BYTES = 8 << 20,
    };
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    _cleanup_(str_buf_deinit) StrBuf image = STR_BUF_NULL, all = STR_BUF_NULL;
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    uint32_t *tokens = NULL;
    CalibrationText text;
    size_t n = 0, kib;

    model_maker_run(&maker, &image);
    assert_int_equal(gguf_parse(&file, image.data, image.len_bytes, "tiny", NULL), 0);
    assert_int_equal(tokenizer_new(&tokenizer, file, NULL), 0);
    assert_int_equal(tokenizer_encode(tokenizer, end, strlen(end), 0, &list, NULL), 0);
    for (size_t i = 0; i < EMPTY_BYTES; i += 16)
        str_buf_add(&all, "AAAAAAAAAAAAAAAA");
    str_buf_addf(&all, " %s", end);
    text = borrowed(all.data, all.len_bytes);
    kib = peak_kib();
    assert_int_equal(calibration_windows(&text, tokenizer, 4, list.n, &tokens, &n, NULL), 0);
    if (kib)
        assert_true(peak_kib() < 120 << 10); /* measured: 58 MiB; in one piece 192 */
    assert_int_equal(n, 1);
    assert_memory_equal(tokens, list.ids, list.n * sizeof(*tokens));
    free(tokens);
}

/* --- the real tokenizers ------------------------------------------------------------------------------------------ */

static void check_model(const char *model, size_t n_tokens, bool bos) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    GoldenModel golden;
    CalibrationText text;
    uint32_t *tokens;
    size_t n;

    if (!golden_model_open(&golden, model))
        skip();
    assert_int_equal(calibration_load(&text, NULL, NULL), 0);
    assert_int_equal(tokenizer_encode(golden.tokenizer, text.text, text.len_bytes, 0, &list, NULL), 0);
    assert_int_equal(list.n, n_tokens);
    assert_int_equal(tokenizer_adds_bos(golden.tokenizer), bos);
    assert_int_equal(
        calibration_windows(&text, golden.tokenizer, CALIBRATION_WINDOWS, CALIBRATION_WINDOW_TOKENS, &tokens, &n, NULL),
        0);
    assert_int_equal(n, CALIBRATION_WINDOWS);
    for (size_t i = 0, next = 0; i < n * CALIBRATION_WINDOW_TOKENS; i++) {
        bool first = i % CALIBRATION_WINDOW_TOKENS == 0;

        assert_int_equal(tokens[i], bos && first ? tokenizer_bos(golden.tokenizer) : list.ids[next++]);
        assert_int_equal(tokenizer_is_control(golden.tokenizer, tokens[i]), bos && first);
    }
    free(tokens);
    calibration_deinit(&text);
    golden_model_deinit(&golden);
}

static void test_calibration_text_smollm2(void **state) {
    check_model("smollm2-135m", 19834, false);
}

static void test_calibration_text_qwen(void **state) {
    check_model("qwen2.5-coder-0.5b", 18093, false);
}

static void test_calibration_text_qwen_large(void **state) {
    check_model("qwen2.5-coder-1.5b", 18093, false);
}

static void test_calibration_text_gemma(void **state) {
    check_model("gemma3-270m", 18131, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calibration_text_is_what_was_written),
        cmocka_unit_test(test_calibration_text_is_the_default),
        cmocka_unit_test_setup_teardown(test_calibration_text_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibration_text_refuses_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibration_text_refuses_what_is_no_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibration_text_length_cap, setup, teardown),
        cmocka_unit_test(test_calibration_windows_small),
        cmocka_unit_test(test_calibration_windows_bos_and_marks),
        cmocka_unit_test(test_calibration_windows_errors),
        cmocka_unit_test(test_calibration_windows_of_long_texts),
        cmocka_unit_test(test_calibration_windows_of_long_tokens),
        cmocka_unit_test(test_calibration_windows_of_text_without_tokens),
        cmocka_unit_test(test_calibration_text_smollm2),
        cmocka_unit_test(test_calibration_text_qwen),
        cmocka_unit_test(test_calibration_text_qwen_large),
        cmocka_unit_test(test_calibration_text_gemma),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
