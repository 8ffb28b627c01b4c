// SPDX-License-Identifier: Apache-2.0
/* The form that graphs are read in: the one that is loaded sooner, by the speeds of disk and expansion. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "weights/graphs/graph_form.h"

static void test_graph_form_rule(void **state) {
    static const struct {
        double mb_per_s, expand_ms;
        GraphForm form;
        double materialised_ms, packed_ms;
    } cases[] = {
        /* 100 MB of int8, 60 MB packed. A slow disk, and a fast one. */
        { 500, 50, GRAPH_FORM_PACKED, 200, 120 },
        { 4000, 50, GRAPH_FORM_MATERIALISED, 25, 50 },
        /* Expanding is the longer part; the packed form is faster by less than a tenth, then by a little more. */
        { 500, 250, GRAPH_FORM_MATERIALISED, 200, 250 },
        { 500, 190, GRAPH_FORM_MATERIALISED, 200, 190 },
        { 500, 180, GRAPH_FORM_PACKED, 200, 180 },
        /* Nothing is known. */
        { 0, 50, GRAPH_FORM_MATERIALISED, 0, 0 },
        { 500, 0, GRAPH_FORM_MATERIALISED, 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const GraphFormCosts costs = { .materialised_bytes = 100000000,
                                       .packed_bytes = 60000000,
                                       .bytes_per_s = cases[i].mb_per_s * 1e6,
                                       .expand_ns = cases[i].expand_ms * 1e6 };
        const GraphFormChoice choice = graph_form_choose(&costs);
        char text[300];

        assert_int_equal(choice.form, cases[i].form);
        assert_int_equal((int)(choice.materialised_ns / 1e4 + 0.5), (int)(cases[i].materialised_ms * 100));
        assert_int_equal((int)(choice.packed_ns / 1e4 + 0.5), (int)(cases[i].packed_ms * 100));
        graph_form_explain(&costs, &choice, text, sizeof(text));
        assert_true(strlen(text) < sizeof(text) - 1);
        assert_ptr_equal(strstr(text, graph_form_name(choice.form)), text);
    }
}

/* A package of 8 bits: the same number of bytes, which must be expanded. */
static void test_graph_form_equal(void **state) {
    const GraphFormCosts costs = {
        .materialised_bytes = 1000, .packed_bytes = 1000, .bytes_per_s = 1e9, .expand_ns = 10
    };

    assert_int_equal(graph_form_choose(&costs).form, GRAPH_FORM_MATERIALISED);
}

static void test_graph_form_names(void **state) {
    GraphForm form;

    for (GraphForm i = 0; i < _GRAPH_FORM_N; i++) {
        assert_true(choice_set(graph_form_choices, graph_form_name(i), &form));
        assert_int_equal(form, i);
    }
    assert_false(choice_set(graph_form_choices, "", &form));
    assert_false(choice_set(graph_form_choices, "Packed", &form));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_graph_form_rule), cmocka_unit_test(test_graph_form_equal),
                                        cmocka_unit_test(test_graph_form_names) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
