// SPDX-License-Identifier: Apache-2.0
/* The retry time that the queue gives to clients for which it has no room. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "daemon/requests/admission.h"

enum {
    DRAWS = 1000,
};

typedef struct Range {
    uint32_t least, most;
} Range;

static Range draw_many(Admission *admission) {
    Range range = { UINT32_MAX, 0 };

    for (int i = 0; i < DRAWS; i++) {
        const uint32_t ms = admission_retry_ms(admission);

        range.least = MIN(ms, range.least);
        range.most = MAX(ms, range.most);
    }
    return range;
}

/* With 32 waiting and four running requests of two seconds each, the next one has had its turn after 16.5 s. */
static void test_admission_retry_by_queue(void **state) {
    Admission admission;
    Range range;

    admission_init(&admission, NULL, NULL);
    for (int i = 0; i < 200; i++)
        admission_note_run(&admission, 2000000);
    admission.n_waiting = 32;
    admission.places[PLACE_OTHER].n_running = 3;
    admission.places[PLACE_INTERACTIVE].n_running = 1;
    range = draw_many(&admission);
    assert_in_range(range.least, 8200, 9000);
    assert_in_range(range.most, 15700, 16500);
}

static void test_admission_retry_bounds(void **state) {
    Admission admission;
    Range range;

    admission_init(&admission, NULL, NULL);
    for (int i = 0; i < 200; i++)
        admission_note_run(&admission, 10);
    range = draw_many(&admission);
    assert_in_range(range.least, 100, 110);
    assert_in_range(range.most, 190, 200);
    admission.n_waiting = 64;
    for (int i = 0; i < 200; i++)
        admission_note_run(&admission, 3600000000);
    range = draw_many(&admission);
    assert_in_range(range.least, 30000, 31000);
    assert_in_range(range.most, 59000, 60000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admission_retry_by_queue),
        cmocka_unit_test(test_admission_retry_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
