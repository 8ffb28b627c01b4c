// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/endpoints/health.h"

static void test_health_of_states(void **state) {
    static const struct {
        int state;
        const char *code, *message; /* NULL: healthy */
    } rows[] = {
        { COORDGEN_MODEL_READY, NULL, NULL },
        { COORDGEN_MODEL_AVAILABLE, NULL, NULL },
        { COORDGEN_MODEL_IMPORTING, "loading", "Loading model" },
        { COORDGEN_MODEL_LOADING, "loading", "Loading model" },
        { COORDGEN_MODEL_FAILED, "model_failed", "The default model has failed to load: no room" },
        { 0, "no_model", "The service has no default model: coordgenctl model default NAME" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const CoordgenModel model = { .name = "m", .detail = "no room", .state = (CoordgenModelState)rows[i].state };
        ApiError error = { .status = 0 };

        assert_int_equal(health_check(&model, &error), rows[i].code ? API_E_REFUSED : 0);
        assert_int_equal(error.status, rows[i].code ? 503 : 0);
        if (!rows[i].code)
            continue;
        assert_string_equal(error.type, "unavailable_error");
        assert_string_equal(error.code, rows[i].code);
        assert_string_equal(error.message, rows[i].message);
    }
}

static void test_health_without_model(void **state) {
    ApiError error;

    assert_int_equal(health_check(NULL, &error), API_E_REFUSED);
    assert_string_equal(error.code, "no_model");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_health_of_states),
                                        cmocka_unit_test(test_health_without_model) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
