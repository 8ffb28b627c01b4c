// SPDX-License-Identifier: Apache-2.0
/* A thread of its own makes the same tokenizer, or gives the same error. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "text/tokenizer/tokenizer_load.h"

static void test_tokenizer_load_as_made_at_once(void **state) {
    const TokenizerSpec spec = fixture_bpe_spec("qwen2");
    _cleanup_(token_list_deinit) TokenList ids = { 0 }, expected = { 0 };
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL, *at_once = NULL;
    TokenizerFixture fixture;
    TokenizerLoad load;
    ErrText err = { .text = "as it was" };

    assert_int_equal(fixture_init(&fixture, &spec), 0);
    tokenizer_load_begin(&load, fixture.file, NULL, 0);
    assert_int_equal(tokenizer_new(&at_once, fixture.file, &fixture.err), 0);
    assert_int_equal(tokenizer_load_end(&load, &tokenizer, &err), 0);
    assert_string_equal(err.text, "as it was");
    assert_true(load.has_thread);
    fixture_deinit(&fixture);
    assert_int_equal(tokenizer_encode(tokenizer, "hello there", 11, 0, &ids, &err), 0);
    assert_int_equal(tokenizer_encode(at_once, "hello there", 11, 0, &expected, &err), 0);
    assert_true(ids.n > 0);
    assert_int_equal(ids.n, expected.n);
    assert_memory_equal(ids.ids, expected.ids, ids.n * sizeof(*ids.ids));
}

static void test_tokenizer_load_tells_what_is_wrong(void **state) {
    const TokenizerSpec spec = fixture_bpe_spec("kimi-k2");
    Tokenizer *tokenizer = NULL;
    TokenizerFixture fixture;
    TokenizerLoad load;
    ErrText err = { 0 }, expected = { 0 };

    assert_int_equal(fixture_init(&fixture, &spec), 0);
    tokenizer_load_begin(&load, fixture.file, NULL, 0);
    assert_int_equal(tokenizer_load_end(&load, &tokenizer, &err), TOKENIZER_E_UNSUPPORTED);
    assert_null(tokenizer);
    assert_int_equal(tokenizer_new(&tokenizer, fixture.file, &expected), TOKENIZER_E_UNSUPPORTED);
    assert_string_equal(err.text, expected.text);
    fixture_deinit(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_load_as_made_at_once),
        cmocka_unit_test(test_tokenizer_load_tells_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
