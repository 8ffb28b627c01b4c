// SPDX-License-Identifier: Apache-2.0
/* The layers that stay in memory for a percentage or a size, and what is refused. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "weights/residency/weights_memory.h"

static const uint64_t even[] = { 100, 100, 100, 100, 100, 100, 100, 100, 100, 100 },
                      uneven[] = { 50, 150, 10, 400, 90, 100, 100, 50, 25, 25 };

static size_t pinned(WeightsMemory memory, const uint64_t *layer_bytes, uint64_t slot_bytes) {
    const WeightsSizes sizes = { .layer_bytes = layer_bytes, .n_layers = 10, .others_bytes = 1000 };
    ErrText err = { 0 };
    size_t n = SIZE_MAX;

    if (weights_memory_plan(&memory, &sizes, slot_bytes, &n, &err))
        fail_msg("%s", err.text);
    return n;
}

static size_t percent(uint32_t percent, const uint64_t *layer_bytes) {
    return pinned((WeightsMemory){ .is_set = true, .is_percent = true, .percent = percent }, layer_bytes, 100);
}

static size_t bytes(uint64_t bytes, const uint64_t *layer_bytes, uint64_t slot_bytes) {
    return pinned((WeightsMemory){ .is_set = true, .bytes = bytes }, layer_bytes, slot_bytes);
}

static void test_memory_percent(void **state) {
    assert_int_equal(pinned((WeightsMemory){ 0 }, even, 100), 10);
    assert_int_equal(percent(0, even), 0);
    assert_int_equal(percent(9, even), 0);
    assert_int_equal(percent(10, even), 1);
    assert_int_equal(percent(55, even), 5);
    assert_int_equal(percent(69, even), 6);
    /* Three layers would each have a slot, so there is no ring. */
    assert_int_equal(percent(70, even), 10);
    assert_int_equal(percent(100, even), 10);
    /* Whole layers from the first one on: 50, 200, 210, 610, ... of 1000. */
    assert_int_equal(percent(4, uneven), 0);
    assert_int_equal(percent(5, uneven), 1);
    assert_int_equal(percent(60, uneven), 3);
    assert_int_equal(percent(61, uneven), 4);
}

static void test_memory_percent_of_much(void **state) {
    const uint64_t huge[10] = { [0 ... 9] = (uint64_t)1 << 60 };

    assert_int_equal(percent(49, huge), 4);
}

static void test_memory_bytes(void **state) {
    assert_int_equal(bytes(1300, even, 100), 0);
    assert_int_equal(bytes(1399, even, 100), 0);
    assert_int_equal(bytes(1400, even, 100), 1);
    assert_int_equal(bytes(1950, even, 100), 6);
    assert_int_equal(bytes(2000, even, 100), 10); /* all */
    assert_int_equal(bytes(1999, even, 100), 6);
    assert_int_equal(bytes(1500, uneven, 150), 1);
    assert_int_equal(bytes(1650, uneven, 150), 2);
}

static void test_memory_too_little(void **state) {
    const WeightsSizes sizes = { .layer_bytes = even, .n_layers = 10, .others_bytes = 1000 };
    const WeightsMemory memory = { .is_set = true, .bytes = 1299 };
    ErrText err = { 0 };
    size_t n;

    assert_int_equal(weights_memory_plan(&memory, &sizes, 100, &n, &err), WEIGHTS_MEMORY_E_LITTLE);
    assert_non_null(strstr(err.text, "1299"));
    assert_non_null(strstr(err.text, "1300"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_percent),
        cmocka_unit_test(test_memory_percent_of_much),
        cmocka_unit_test(test_memory_bytes),
        cmocka_unit_test(test_memory_too_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
