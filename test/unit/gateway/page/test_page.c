// SPDX-License-Identifier: Apache-2.0
#include "gateway/page/page.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* SHA-256 of "a" and of "bc", in base64 by another program. */
#define HASH_A "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs="
#define HASH_BC "Hgu9bGhroFC46wP/7txk/cnYCUf86CGrvl1tyNJSxaw="

static void test_page_policy_hashes_what_is_inside(void **state) {
    static const char html[] = "<html><style>a</style><body><script>bc</script></body>";
    char policy[PAGE_POLICY_BYTES];

    assert_int_equal(page_policy(html, strlen(html), policy), 0);
    assert_non_null(strstr(policy, "default-src 'none';"));
    assert_non_null(strstr(policy, "style-src 'sha256-" HASH_A "';"));
    assert_non_null(strstr(policy, "script-src 'sha256-" HASH_BC "';"));
    assert_null(strstr(policy, "unsafe"));
}

static void test_page_policy_refuses_a_damaged_page(void **state) {
    static const char *const pages[] = {
        "", "<style>a</style>", "<script>bc</script>", "<style>a</style><script>bc", "<style>a<script>bc</script>",
    };
    char policy[PAGE_POLICY_BYTES];

    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++)
        assert_int_equal(page_policy(pages[i], strlen(pages[i]), policy), -EINVAL);
}

static void test_page_policy_reads_within_the_length(void **state) {
    static const char html[] = "<style>a</style><script>bc</script>";
    char policy[PAGE_POLICY_BYTES];

    assert_int_equal(page_policy(html, strlen(html) - 1, policy), -EINVAL);
}

/* A script that contains its own end would be cut off by every browser. */
static void test_page_html_has_one_style_and_one_script(void **state) {
    static const char *const marks[] = { "<style>", "</style>", "<script>", "</script>" };
    char policy[PAGE_POLICY_BYTES], text[256 << 10];
    size_t len_bytes;
    const char *html = page_html(&len_bytes);

    assert_true(len_bytes > 10000 && len_bytes < sizeof(text));
    memcpy(text, html, len_bytes);
    text[len_bytes] = '\0';
    assert_int_equal(strlen(text), len_bytes);
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        const char *first = strstr(text, marks[i]);

        assert_non_null(first);
        assert_null(strstr(first + 1, marks[i]));
    }
    assert_null(strstr(text, "@STYLE@"));
    assert_null(strstr(text, "@SCRIPT@"));
    assert_int_equal(page_policy(html, len_bytes, policy), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_policy_hashes_what_is_inside),
        cmocka_unit_test(test_page_policy_refuses_a_damaged_page),
        cmocka_unit_test(test_page_policy_reads_within_the_length),
        cmocka_unit_test(test_page_html_has_one_style_and_one_script),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
