// SPDX-License-Identifier: Apache-2.0
/* Numbers of a plot: each kind of line, and names that CSV has to quote. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tools/eval/tables/plot_numbers.h"

static void test_plot_numbers_points(void **state) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    plot_numbers_begin(&text, "model & co", "package, MB", true, "perplexity");
    plot_numbers_level(&text, "float", 29.25);
    plot_numbers_point(&text, "int8", 85.9, 51.60641, "4");
    plot_numbers_point(&text, "a,\"b\"", 1000000, 1e-7, NULL);
    assert_string_equal(text.data, "title,model & co\nx,\"package, MB\",log\ny,perplexity\nlevel,float,29.25\n"
                                   "point,int8,85.9,51.6064,4\npoint,\"a,\"\"b\"\"\",1e+06,1e-07\n");
}

static void test_plot_numbers_bars(void **state) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    plot_numbers_begin(&text, "t", NULL, false, "y");
    plot_numbers_bar(&text, "sam", "two\nlines", 2.5);
    assert_string_equal(text.data, "title,t\ny,y\nbar,sam,\"two\nlines\",2.5\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plot_numbers_points),
        cmocka_unit_test(test_plot_numbers_bars),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
