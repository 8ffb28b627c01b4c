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
#include "daemon/requests/request_state.h"

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

/* ---- places of several answers ----------------------------------------------------------------------------------- */

enum {
    PLACES = 4,
    REQUESTS = 3,
};

typedef struct Company {
    Config config;
    Admission admission;
    User user;
    Model model;
    Request requests[REQUESTS];
} Company;

/* Adds a request with a place, or one that rests, as if the engine thread had its job. */
static Request *add(Company *company, size_t i, uint32_t n, RequestState state) {
    Request *request = &company->requests[i];
    AdmissionPlaces *places = &company->admission.places[PLACE_OTHER];

    request->user = &company->user;
    request->model = &company->model;
    request->state = state;
    request->job.kind = JOB_GENERATE;
    request->job.generate.n = n;
    request->job.generate.priority = PRIORITY_NORMAL;
    request->times.served_ns = UINT64_MAX; /* no time is counted */
    TAILQ_INSERT_TAIL(&company->admission.submitted, request, queue_link);
    company->admission.n_active++;
    places->n_active++;
    places->n_running += state == REQUEST_RUNNING;
    places->n_resting += state == REQUEST_RESTING;
    return request;
}

static void company_init(Company *company) {
    *company = (Company){ 0 };
    company->config.turns.max_active = PLACES;
    admission_init(&company->admission, NULL, &company->config);
}

static uint32_t width_of(Company *company, const Request *request) {
    admission_share_places(&company->admission);
    return atomic_load(&request->job.width);
}

/* Alone, all answers of a request run. Beside others they run in places that nobody has: the first request's answers
 * first, and always one of each. */
static void test_admission_places_of_answers(void **state) {
    _cleanup_(freep) Company *company = malloc(sizeof(*company));
    Request *first, *second, *plain;

    assert_non_null(company);
    company_init(company);
    first = add(company, 0, 16, REQUEST_RUNNING);
    assert_int_equal(width_of(company, first), 16);
    plain = add(company, 1, 1, REQUEST_RUNNING);
    assert_int_equal(width_of(company, first), 3);
    assert_int_equal(width_of(company, plain), 0); /* one answer needs no width */
    second = add(company, 2, 2, REQUEST_RUNNING);
    assert_int_equal(width_of(company, first), 2);
    assert_int_equal(width_of(company, second), 1);
    first->job.generate.n = 2;
    company->config.turns.max_active = 8;
    assert_int_equal(width_of(company, first), 2);
    assert_int_equal(width_of(company, second), 2);
}

/* A request that has given its place up, or waits for one, takes the places of further answers. */
static void test_admission_answers_make_way(void **state) {
    _cleanup_(freep) Company *company = malloc(sizeof(*company));
    Request *first, *resting, *waiting;

    assert_non_null(company);
    company_init(company);
    first = add(company, 0, 16, REQUEST_RUNNING);
    resting = add(company, 1, 16, REQUEST_RESTING);
    assert_int_equal(width_of(company, first), 1);
    assert_int_equal(width_of(company, resting), 1);
    company_init(company);
    first = add(company, 0, 16, REQUEST_RUNNING);
    waiting = &company->requests[2];
    waiting->model = &company->model;
    waiting->job.kind = JOB_GENERATE;
    TAILQ_INSERT_TAIL(&company->admission.waiting, waiting, queue_link);
    assert_int_equal(width_of(company, first), 16); /* its model cannot serve yet */
    company->model.stage = MODEL_READY;
    assert_int_equal(width_of(company, first), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admission_retry_by_queue),
        cmocka_unit_test(test_admission_retry_bounds),
        cmocka_unit_test(test_admission_places_of_answers),
        cmocka_unit_test(test_admission_answers_make_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
