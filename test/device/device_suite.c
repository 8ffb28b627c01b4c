// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/device/device_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

const DeviceCheck device_checks[] = {
#define DEVICE_CHECK(name, is_of_weights) { #name, test_device_##name, is_of_weights },
#include "test/device/device_checks.inc"
#undef DEVICE_CHECK
};
const size_t device_checks_n = ARRAY_LEN(device_checks);
_Static_assert(ARRAY_LEN(device_checks) <= DEVICE_CHECKS_MAX, "a group of cmocka holds all checks");

static int begin_check(void **state) {
    DeviceSuite *suite = *state;
    const char *env = getenv("TEST_SEED");

    suite->random = env ? strtoull(env, NULL, 0) : 20261127;
    return 0;
}

/* Runs the checks of a scope; name NULL: all. */
static int run_checks(DeviceSuite *suite, DeviceScope scope, const char *name) {
    struct CMUnitTest tests[DEVICE_CHECKS_MAX] = { { 0 } };
    char names[DEVICE_CHECKS_MAX][80];
    size_t n = 0;

    suite->digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < device_checks_n; i++) {
        const DeviceCheck *check = &device_checks[i];

        if (name ? strcmp(name, check->name) != 0 : scope == DEVICE_SCOPE_WEIGHTS && !check->is_of_weights)
            continue;
        snprintf(names[n], sizeof(names[n]), "%s.%s", suite->dut->name, check->name);
        tests[n] = (struct CMUnitTest){ names[n], check->check, begin_check, NULL, suite };
        n++;
    }
    assert_true(n);
    return cmocka_run_group_tests_name(suite->dut->name, tests, NULL, NULL);
}

int device_suite_run(DeviceSuite *suite, DeviceScope scope) {
    return run_checks(suite, scope, NULL);
}

int device_suite_run_one(DeviceSuite *suite, const char *name) {
    return run_checks(suite, DEVICE_SCOPE_ALL, name);
}
