// SPDX-License-Identifier: Apache-2.0
/* Tests the windows of a text: their tokens, with and without a BOS, and texts that give no window. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "importer/check/text_windows.h"
#include "test/unit/fixtures/tiny_engine.h"

/* Each letter is a token, except for merges: "ab" is 26, "cd" 27. */
static const char text[] = "eabfgcdhijkemn";
static const uint32_t tokens[] = { 4, 26, 5, 6, 27, 7, 8, 9, 10, 4, 12, 13 };
#define BOS 2

static void open_text(TinyEngine *tiny, char *path, size_t path_bytes) {
    tiny_engine_open(tiny, ENGINE_DEVICE_REFERENCE, 0);
    test_write_file(tiny->files->folder, "text.txt", text, strlen(text));
    snprintf(path, path_bytes, "%s/text.txt", tiny->files->folder);
}

static void test_text_windows_of_all(void **state) {
    TinyEngine tiny = { 0 };
    TextWindows windows = { 0 };
    char path[300];

    open_text(&tiny, path, sizeof(path));
    assert_int_equal(text_windows_init(&windows, tiny.engine, path, 4, 0, NULL), 0);
    assert_int_equal(windows.n, 3);
    assert_int_equal(windows.len, 4);
    assert_int_equal(windows.n_scored, 1); /* row 2, by the token of row 3 */
    assert_false(windows.bos_replaces_first);
    assert_memory_equal(windows.ids, tokens, sizeof(tokens));
    text_windows_deinit(&windows);
    tiny_engine_close(&tiny);
}

/* The first windows only, and no more than were asked for; tokens that do not fill a window are left over. */
static void test_text_windows_of_some(void **state) {
    TinyEngine tiny = { 0 };
    TextWindows windows = { 0 };
    char path[300];

    open_text(&tiny, path, sizeof(path));
    assert_int_equal(text_windows_init(&windows, tiny.engine, path, 10, 0, NULL), 0);
    assert_int_equal(windows.n, 1);
    assert_int_equal(windows.n_scored, 4);
    assert_memory_equal(windows.ids, tokens, 10 * sizeof(*tokens));
    text_windows_deinit(&windows);
    assert_int_equal(text_windows_init(&windows, tiny.engine, path, 4, 2, NULL), 0);
    assert_int_equal(windows.n, 2);
    text_windows_deinit(&windows);
    tiny_engine_close(&tiny);
}

/* The BOS stands before the text, and replaces the first token of the windows behind the first. */
static void test_text_windows_with_bos(void **state) {
    TinyEngine tiny = { .adds_bos = true };
    TextWindows windows = { 0 };
    char path[300];

    open_text(&tiny, path, sizeof(path));
    assert_int_equal(text_windows_init(&windows, tiny.engine, path, 4, 0, NULL), 0);
    assert_true(windows.bos_replaces_first);
    assert_int_equal(windows.n, 3);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(windows.ids[i], i % 4 ? tokens[i - 1] : BOS);
    text_windows_deinit(&windows);
    tiny_engine_close(&tiny);
}

static void test_text_windows_refuses(void **state) {
    static const struct {
        size_t len, n;
        const char *says;
    } cases[] = {
        { 2, 0, "--window 2: an even number from 4 to the model's 512 positions is needed" },
        { 5, 0, "--window 5: an even number" },
        { 514, 0, "--window 514: an even number" },
        { 4, 4, "12 tokens make 3 windows of 4, but --windows asks for 4" },
        { 14, 0, "12 tokens do not fill one window of 14" },
    };
    TinyEngine tiny = { 0 };
    char path[300];

    open_text(&tiny, path, sizeof(path));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        TextWindows windows = { 0 };
        ErrText err = { 0 };

        assert_int_equal(text_windows_init(&windows, tiny.engine, path, cases[i].len, cases[i].n, &err), -EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
        assert_null(windows.ids);
    }
    snprintf(path, sizeof(path), "%s/missing.txt", tiny.files->folder);
    assert_int_equal(text_windows_init(&(TextWindows){ 0 }, tiny.engine, path, 4, 0, NULL), -ENOENT);
    tiny_engine_close(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_windows_of_all),
        cmocka_unit_test(test_text_windows_of_some),
        cmocka_unit_test(test_text_windows_with_bos),
        cmocka_unit_test(test_text_windows_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
