// SPDX-License-Identifier: Apache-2.0
/* Streaming detokenizer: whole sequences only, U+FFFD for bytes that cannot be one, marks hidden or shown. */
#undef NDEBUG
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/strings/utf8.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"

#define FFFD "\xef\xbf\xbd"

typedef struct Setup {
    TokenizerFixture fixture;
    Tokenizer *bpe; /* ids below 256 are bytes */
    Tokenizer *spm;
} Setup;

static int set_up(void **state) {
    static Setup setup;
    TokenizerSpec specs[] = { fixture_bpe_spec("qwen2"), fixture_spm_spec() };

    for (int i = 0; i < 2; i++) {
        if (fixture_init(&setup.fixture, &specs[i]) ||
            tokenizer_new(i ? &setup.spm : &setup.bpe, setup.fixture.file, &setup.fixture.err))
            fail_msg("%s", setup.fixture.err.text);
        fixture_deinit(&setup.fixture);
    }
    *state = &setup;
    return 0;
}

static int tear_down(void **state) {
    Setup *setup = *state;

    tokenizer_free(setup->bpe);
    tokenizer_free(setup->spm);
    return 0;
}

/* Pushes the bytes of in, one a token; '|' in steps ends the text that one push gave out. */
static void check_bytes(const Tokenizer *tokenizer, const char *in, size_t n, const char *steps) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Detokenizer detokenizer;

    detokenizer_init(&detokenizer, tokenizer, true, false);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(detokenizer_push(&detokenizer, (uint8_t)in[i], &text), 0);
        str_buf_add(&text, "|");
    }
    assert_int_equal(detokenizer_finish(&detokenizer, &text), 0);
    assert_string_equal(text.data, steps);
}

static void test_detokenizer_holds_incomplete(void **state) {
    const Tokenizer *bpe = ((Setup *)*state)->bpe;

    check_bytes(bpe, "ab", 2, "a|b|");
    check_bytes(bpe, "\xc3\xa9x", 3, "|\xc3\xa9|x|");
    check_bytes(bpe, "\xe2\x82\xac", 3, "||\xe2\x82\xac|");
    check_bytes(bpe, "\xf0\x9f\x98\x80", 4, "|||\xf0\x9f\x98\x80|");
}

/* Checks the examples of Unicode, chapter 3, "U+FFFD substitution of maximal subparts" (tables 3-8 to 3-11). */
static void test_detokenizer_replaces_maximal_subparts(void **state) {
    const Tokenizer *bpe = ((Setup *)*state)->bpe;

    check_bytes(bpe, "\xc0\xaf", 2, FFFD "|" FFFD "|");
    check_bytes(bpe, "\xed\xa0\x80", 3, "|" FFFD FFFD "|" FFFD "|");
    check_bytes(bpe, "\xf4\x91\x92\x93", 4, "|" FFFD FFFD "|" FFFD "|" FFFD "|");
    check_bytes(bpe, "\xff\x41", 2, FFFD "|A|");
    check_bytes(bpe, "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, "||" FFFD "|" FFFD "|||" FFFD "||" FFFD "A|");
    check_bytes(bpe, "\xe2\x82", 2, "||" FFFD); /* one U+FFFD for a sequence that is cut off at the end */
    check_bytes(bpe, "\xf0\x9f\x98", 3, "|||" FFFD);
    check_bytes(bpe, "\xe2", 1, "|" FFFD);
}

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

/* The text does not depend on the division of bytes among tokens. */
static void test_detokenizer_equals_whole_text(void **state) {
    const Tokenizer *bpe = ((Setup *)*state)->bpe;
    uint64_t random = (uint64_t)time(NULL) * 2654435761u | 1;

    print_message("seed %" PRIu64 "\n", random);
    for (int round = 0; round < 5000; round++) {
        _cleanup_(str_buf_deinit) StrBuf streamed = STR_BUF_NULL, whole = STR_BUF_NULL, pieces = STR_BUF_NULL;
        size_t n = next_random(&random) % 40, len_bytes;
        Detokenizer detokenizer;

        detokenizer_init(&detokenizer, bpe, false, false);
        for (size_t i = 0; i < n; i++) {
            static const uint8_t leads[] = { 0xe2, 0xf0, 0xc3, 0xed, 0x82, 0x9f, 0xa0, 0x80 };
            uint32_t id = next_random(&random) % 4 ? leads[next_random(&random) % 8] : next_random(&random) % 263;

            assert_int_equal(detokenizer_push(&detokenizer, id, &streamed), 0);
            assert_int_equal(tokenizer_piece(bpe, id, false, &pieces), 0);
        }
        assert_int_equal(detokenizer_finish(&detokenizer, &streamed), 0);
        for (size_t at = 0; at < pieces.len_bytes; at += len_bytes) {
            Utf8Kind kind;

            len_bytes = utf8_step(pieces.data + at, pieces.len_bytes - at, &kind);
            if (kind == UTF8_WHOLE)
                str_buf_append(&whole, pieces.data + at, len_bytes);
            else
                str_buf_add(&whole, FFFD);
        }
        assert_int_equal(streamed.len_bytes, whole.len_bytes);
        if (whole.len_bytes)
            assert_memory_equal(streamed.data, whole.data, whole.len_bytes);
    }
}

static void test_detokenizer_control_tokens(void **state) {
    const Tokenizer *bpe = ((Setup *)*state)->bpe;
    static const uint32_t ids[] = { 'a', FIXTURE_IM_END, FIXTURE_TOOL, 0xe2, FIXTURE_IM_START, 'b' };
    static const char *const texts[] = { "a<tool>" FFFD "b", "a<|im_end|><tool>" FFFD "<|im_start|>b" };

    for (int with_special = 0; with_special < 2; with_special++) {
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
        Detokenizer detokenizer;

        detokenizer_init(&detokenizer, bpe, true, with_special);
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
            assert_int_equal(detokenizer_push(&detokenizer, ids[i], &text), 0);
        assert_int_equal(detokenizer_finish(&detokenizer, &text), 0);
        assert_string_equal(text.data, texts[with_special]);
    }
}

static void test_detokenizer_bad_id(void **state) {
    const Tokenizer *bpe = ((Setup *)*state)->bpe;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Detokenizer detokenizer;

    detokenizer_init(&detokenizer, bpe, true, false);
    assert_int_equal(detokenizer_push(&detokenizer, FIXTURE_BPE_N, &text), -EINVAL);
    assert_int_equal(detokenizer_push(&detokenizer, TOKEN_NONE, &text), -EINVAL);
    assert_int_equal(tokenizer_piece(bpe, TOKEN_NONE, true, &text), -EINVAL);
    assert_int_equal(detokenizer_push(&detokenizer, 'x', &text), 0);
    assert_string_equal(text.data, "x");
}

static void check_spm(const Tokenizer *spm, bool at_start, const uint32_t *ids, size_t n, const char *wanted) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Detokenizer detokenizer;

    detokenizer_init(&detokenizer, spm, at_start, false);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(detokenizer_push(&detokenizer, ids[i], &text), 0);
    assert_int_equal(detokenizer_finish(&detokenizer, &text), 0);
    assert_string_equal(text.data, wanted);
}
#define IDS(...) (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)

/* The space that the tokenizer put before the text is dropped once, at the start, and only where it puts one. */
static void test_detokenizer_leading_space(void **state) {
    const Tokenizer *spm = ((Setup *)*state)->spm;

    check_spm(spm, true, IDS(FIXTURE_SPM_BOS, FIXTURE_SPM_SPACE_A, FIXTURE_SPM_SPACE_A), "a a");
    check_spm(spm, false, IDS(FIXTURE_SPM_SPACE_A, FIXTURE_SPM_SPACE_A), " a a");
    check_spm(spm, true, IDS(FIXTURE_SPM_SPACE, FIXTURE_SPM_SPACE, FIXTURE_SPM_A), " a");
    check_spm(spm, true, IDS(FIXTURE_SPM_A, FIXTURE_SPM_SPACE_A), "a a");
    check_spm(spm, true, IDS(FIXTURE_SPM_NEWLINES, FIXTURE_SPM_SPACE_AB), "\n\n ab");
    check_spm(spm, true, IDS(FIXTURE_SPM_BYTES + 0xc3, FIXTURE_SPM_BYTES + 0xa9, FIXTURE_SPM_UNKNOWN), "\xc3\xa9");
}

static void test_detokenizer_held(void **state) {
    static const char in[] = "a\xc3\xa9\xf0\x9f\x98\x80\xe4\xb8";
    static const size_t held[] = { 0, 1, 0, 1, 2, 3, 0, 1, 2 };
    const Tokenizer *bpe = ((Setup *)*state)->bpe;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Detokenizer detokenizer;

    detokenizer_init(&detokenizer, bpe, true, false);
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        assert_int_equal(detokenizer_push(&detokenizer, (uint8_t)in[i], &text), 0);
        assert_int_equal(detokenizer_held(&detokenizer), held[i]);
    }
    assert_string_equal(text.data, "a\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(detokenizer_finish(&detokenizer, &text), 0);
    assert_int_equal(detokenizer_held(&detokenizer), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detokenizer_holds_incomplete),
        cmocka_unit_test(test_detokenizer_replaces_maximal_subparts),
        cmocka_unit_test(test_detokenizer_equals_whole_text),
        cmocka_unit_test(test_detokenizer_control_tokens),
        cmocka_unit_test(test_detokenizer_bad_id),
        cmocka_unit_test(test_detokenizer_leading_space),
        cmocka_unit_test(test_detokenizer_held),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
