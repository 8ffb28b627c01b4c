// SPDX-License-Identifier: Apache-2.0
/* Calls that arrive piece by piece, more of them than there is room for at first. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proto/call_list.h"

static void test_call_list_grows(void **state) {
    CallList list = { 0 };

    assert_null(call_list_last(&list));
    for (size_t i = 0; i < 9; i++) {
        char id[16], name[16];
        ListedCall *call;

        snprintf(id, sizeof(id), "id%zu", i);
        snprintf(name, sizeof(name), "tool%zu", i);
        call = call_list_begin(&list, id, name);
        assert_non_null(call);
        assert_ptr_equal(call, call_list_last(&list));
        assert_string_equal(call_list_arguments(&list, i), "");
        if (i % 2)
            str_buf_add(&call->arguments, "{}");
    }
    assert_int_equal(list.n, 9);
    for (size_t i = 0; i < list.n; i++) {
        assert_int_equal(list.calls[i].id[2] - '0', i);
        assert_int_equal(list.calls[i].name[4] - '0', i);
        assert_string_equal(call_list_arguments(&list, i), i % 2 ? "{}" : "");
    }
    call_list_deinit(&list);
    assert_true(!list.n && !list.calls);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_call_list_grows) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
