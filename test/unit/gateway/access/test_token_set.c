// SPDX-License-Identifier: Apache-2.0
/* Files of tokens: who can read them, what stands in them, which token is one of theirs. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/access/token_set.h"

#define TOKEN "0123456789abcdef"

/* Reads a file with that text and mode. */
static int read_file(const char *text, size_t len_bytes, mode_t mode, TokenSet **setp, ErrText *err) {
    char path[] = "/tmp/coordgen-token-XXXXXX";
    int fd = mkstemp(path), r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len_bytes), len_bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    r = token_set_read(setp, path, err);
    unlink(path);
    return r;
}

static void test_token_set_has(void **state) {
    const char *text = TOKEN "\r\n\n" TOKEN "-another\n~!token-without-end";
    TokenSet *set;
    ErrText err;

    assert_int_equal(read_file(text, strlen(text), 0600, &set, &err), 0);
    assert_true(token_set_has(set, TOKEN));
    assert_true(token_set_has(set, TOKEN "-another"));
    assert_true(token_set_has(set, "~!token-without-end"));
    assert_false(token_set_has(set, ""));
    assert_false(token_set_has(set, TOKEN "\r"));
    assert_false(token_set_has(set, TOKEN "-"));
    assert_false(token_set_has(set, "0123456789ABCDEF"));
    token_set_free(set);
    assert_int_equal(read_file(text, strlen(text), 0400, &set, &err), 0);
    token_set_free(set);
}

static void test_token_set_refuses(void **state) {
    static const struct {
        const char *text;
        size_t len_bytes;
        mode_t mode;
        const char *words;
    } rows[] = {
        { "", 0, 0600, "has no token" },
        { "\n\n", 2, 0600, "has no token" },
        { "short", 5, 0600, ":1: a token has 16 to 512 characters" },
        { TOKEN "\n" TOKEN " \n", 34, 0600, ":2: a token has ASCII characters only" },
        { TOKEN "\303\244", 18, 0600, ":1: a token has ASCII characters only" },
        { TOKEN "\0" TOKEN, 33, 0600, "has a NUL" },
        { TOKEN, 16, 0604, "mode 0604" },
        { TOKEN, 16, 0660, "chmod 600" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        TokenSet *set = NULL;
        ErrText err;

        assert_int_equal(read_file(rows[i].text, rows[i].len_bytes, rows[i].mode, &set, &err), TOKEN_E_FILE);
        assert_non_null(strstr(err.text, rows[i].words));
        assert_null(strstr(err.text, TOKEN)); /* no token in a log */
        assert_null(set);
    }
}

static void test_token_set_other_files(void **state) {
    TokenSet *set = NULL;
    ErrText err;

    assert_int_equal(token_set_read(&set, "/nonexistent/token", &err), -ENOENT);
    assert_int_equal(token_set_read(&set, "/tmp", &err), TOKEN_E_FILE);
    assert_int_equal(token_set_read(&set, "/dev/null", &err), TOKEN_E_FILE);
}

static void test_token_set_too_many(void **state) {
    char text[(sizeof(TOKEN)) * 65];
    TokenSet *set = NULL;
    ErrText err;

    for (size_t i = 0; i < 65; i++)
        memcpy(text + i * sizeof(TOKEN), TOKEN "\n", sizeof(TOKEN));
    assert_int_equal(read_file(text, sizeof(text), 0600, &set, &err), TOKEN_E_FILE);
    assert_int_equal(read_file(text, sizeof(text) - sizeof(TOKEN), 0600, &set, &err), 0);
    token_set_free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_set_has),
        cmocka_unit_test(test_token_set_refuses),
        cmocka_unit_test(test_token_set_other_files),
        cmocka_unit_test(test_token_set_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
