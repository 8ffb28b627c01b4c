// SPDX-License-Identifier: Apache-2.0
/* Classes and their ageing; the queue that is ordered by both, with a clock of its own. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "daemon/requests/admission.h"
#include "daemon/requests/request_state.h"
#include "scheduler/requests/priority.h"

#define AGEING_NS UINT64_C(1000)

static void test_priority_ages(void **state) {
    assert_int_equal(priority_aged(PRIORITY_BACKGROUND, 0, AGEING_NS), PRIORITY_BACKGROUND);
    assert_int_equal(priority_aged(PRIORITY_BACKGROUND, AGEING_NS - 1, AGEING_NS), PRIORITY_BACKGROUND);
    assert_int_equal(priority_aged(PRIORITY_BACKGROUND, AGEING_NS, AGEING_NS), PRIORITY_NORMAL);
    assert_int_equal(priority_aged(PRIORITY_BACKGROUND, 2 * AGEING_NS - 1, AGEING_NS), PRIORITY_NORMAL);
    assert_int_equal(priority_aged(PRIORITY_BACKGROUND, 2 * AGEING_NS, AGEING_NS), PRIORITY_INTERACTIVE);
    assert_int_equal(priority_aged(PRIORITY_NORMAL, AGEING_NS, AGEING_NS), PRIORITY_INTERACTIVE);
    assert_int_equal(priority_aged(PRIORITY_INTERACTIVE, 0, AGEING_NS), PRIORITY_INTERACTIVE);
    for (int priority = PRIORITY_BACKGROUND; priority <= PRIORITY_INTERACTIVE; priority++)
        assert_int_equal(priority_aged((Priority)priority, UINT64_MAX, 1), PRIORITY_INTERACTIVE);
    assert_string_equal(priority_name(PRIORITY_INTERACTIVE), "interactive");
    assert_string_equal(priority_name(PRIORITY_NORMAL), "normal");
    assert_string_equal(priority_name(PRIORITY_BACKGROUND), "background");
}

/* A queue of generations for a model that is ready. */
typedef struct Queue {
    Admission admission;
    Config config;
    Model model;
    Connection connection;
    Peer peer;
    Coordgen__V1__Request message;
    User users[4];
    Request requests[8];
    size_t n;
} Queue;

static void queue_init(Queue *queue) {
    *queue = (Queue){
        .config.turns = { .max_active = 2, .max_active_interactive = 1 },
        .model = { .stage = MODEL_READY },
    };
    queue->peer.connection = &queue->connection;
    admission_init(&queue->admission, NULL, &queue->config);
}

static Request *next_of(Admission *admission, uint64_t now_ns) {
    Request *yielding = NULL, *next = admission_next(admission, now_ns, &yielding);

    assert_null(yielding);
    return next;
}

static Request *queue_add(Queue *queue, Priority priority, uint64_t received_ns) {
    Request *request = &queue->requests[queue->n++];

    *request =
        (Request){ .peer = &queue->peer,
                   .user = &queue->users[0],
                   .serial = queue->n,
                   .model = &queue->model,
                   .state = REQUEST_WAITING,
                   .times.received_ns = received_ns,
                   .job = { .kind = JOB_GENERATE, .generate = { .priority = priority, .ageing_ns = AGEING_NS } } };
    TAILQ_INSERT_TAIL(&queue->admission.waiting, request, queue_link);
    queue->admission.n_waiting++;
    return request;
}

static void queue_remove(Queue *queue, Request *request) {
    TAILQ_REMOVE(&queue->admission.waiting, request, queue_link);
    queue->admission.n_waiting--;
}

static void queue_start(Queue *queue, Request *request) {
    queue_remove(queue, request);
    TAILQ_INSERT_TAIL(&queue->admission.submitted, request, queue_link);
    request->state = REQUEST_RUNNING;
    queue->admission.places[admission_kind(request)].n_active++;
    queue->admission.places[admission_kind(request)].n_running++;
    request->user->places[admission_kind(request)].n_active++;
    request->user->places[admission_kind(request)].n_running++;
}

static void test_admission_goes_by_class_then_arrival(void **state) {
    Admission *admission;
    Queue queue;
    Request *background, *normal, *second, *interactive;

    queue_init(&queue);
    admission = &queue.admission;
    assert_null(next_of(admission, 0));
    background = queue_add(&queue, PRIORITY_BACKGROUND, 0);
    normal = queue_add(&queue, PRIORITY_NORMAL, 1);
    second = queue_add(&queue, PRIORITY_NORMAL, 2);
    interactive = queue_add(&queue, PRIORITY_INTERACTIVE, 3);
    assert_ptr_equal(next_of(admission, 4), interactive);
    queue_remove(&queue, interactive);
    assert_ptr_equal(next_of(admission, 4), normal);
    queue_remove(&queue, normal);
    assert_ptr_equal(next_of(admission, 4), second);
    queue_remove(&queue, second);
    assert_ptr_equal(next_of(admission, 4), background);
}

/* Normal requests that come one after the other hold a background one up for the ageing time and no longer. */
static void test_admission_waiting_is_bounded(void **state) {
    Admission *admission;
    Queue queue;
    Request *background, *normal;

    queue_init(&queue);
    admission = &queue.admission;
    background = queue_add(&queue, PRIORITY_BACKGROUND, 0);
    for (uint64_t now_ns = 0; now_ns < AGEING_NS; now_ns += AGEING_NS / 4) {
        normal = queue_add(&queue, PRIORITY_NORMAL, now_ns);
        assert_ptr_equal(next_of(admission, now_ns), normal);
        queue_remove(&queue, normal);
    }
    normal = queue_add(&queue, PRIORITY_NORMAL, AGEING_NS);
    assert_ptr_equal(next_of(admission, AGEING_NS), background);
    queue_remove(&queue, background);
    assert_ptr_equal(next_of(admission, AGEING_NS), normal);
}

/* Places: an interactive request does not wait for the others to end, nor the others for interactive ones. */
static void test_admission_has_places_for_interactive(void **state) {
    Admission *admission;
    Queue queue;
    Request *background, *interactive;

    queue_init(&queue);
    admission = &queue.admission;
    background = queue_add(&queue, PRIORITY_BACKGROUND, 0);
    interactive = queue_add(&queue, PRIORITY_INTERACTIVE, 0);
    admission->places[PLACE_OTHER] = (AdmissionPlaces){ .n_active = 2, .n_running = 2 };
    assert_ptr_equal(next_of(admission, 0), interactive);
    /* A background request takes no place of the interactive ones, however long it waits. */
    queue_remove(&queue, interactive);
    assert_null(next_of(admission, 100 * AGEING_NS));
    admission->places[PLACE_OTHER].n_running = 1; /* a generation whose client does not read gives its place away */
    assert_ptr_equal(next_of(admission, 0), background);
    admission->places[PLACE_OTHER] = (AdmissionPlaces){ 0 };
    admission->places[PLACE_INTERACTIVE] = (AdmissionPlaces){ .n_active = 1, .n_running = 1 };
    interactive = queue_add(&queue, PRIORITY_INTERACTIVE, 0);
    assert_ptr_equal(next_of(admission, 0), background);
    queue_remove(&queue, background);
    assert_null(next_of(admission, 0));
    admission->places[PLACE_INTERACTIVE].n_active =
        4; /* paused generations keep their memory, so their number is bounded */
    admission->places[PLACE_INTERACTIVE].n_running = 0;
    assert_null(next_of(admission, 0));
    admission->places[PLACE_INTERACTIVE].n_active = 3;
    assert_ptr_equal(next_of(admission, 0), interactive);
}

static void test_admission_position_goes_by_class(void **state) {
    Queue queue;
    Request *background, *normal, *interactive;

    queue_init(&queue);
    background = queue_add(&queue, PRIORITY_BACKGROUND, 0);
    normal = queue_add(&queue, PRIORITY_NORMAL, 0);
    interactive = queue_add(&queue, PRIORITY_INTERACTIVE, 0);
    admission_number(&queue.admission, 0);
    assert_int_equal(interactive->progress.queue_position, 1);
    assert_int_equal(normal->progress.queue_position, 2);
    assert_int_equal(background->progress.queue_position, 3);
    normal->times.received_ns = AGEING_NS;
    admission_number(&queue.admission, AGEING_NS); /* both count as normal: the first that came goes first */
    assert_int_equal(background->progress.queue_position, 2);
    assert_int_equal(normal->progress.queue_position, 3);
}

/* A user who asks for much waits for his own requests: with one place after the other, users take turns. The positions
 * that users are told are the order in which requests start. */
static void test_admission_users_take_turns(void **state) {
    static const uid_t uids[] = { 1, 1, 1, 1, 2, 2, 3 };
    static const size_t order[] = { 0, 4, 6, 1, 5, 2, 3 };
    Admission *admission;
    Queue queue;

    queue_init(&queue);
    queue.config.turns.max_active = ARRAY_LEN(uids) + 1;
    admission = &queue.admission;
    for (size_t i = 0; i < ARRAY_LEN(uids); i++)
        queue_add(&queue, PRIORITY_NORMAL, i)->user = &queue.users[uids[i]];
    admission_number(admission, 10);
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        Request *next = next_of(admission, 10);

        assert_ptr_equal(next, &queue.requests[order[i]]);
        assert_int_equal(next->progress.queue_position, i + 1);
        queue_start(&queue, next);
    }
    assert_null(next_of(admission, 10));
}

/* A user's places of the same kind count, and the class goes before turns. */
static void test_admission_turns_are_within_a_class(void **state) {
    Admission *admission;
    Queue queue;
    Request *much, *little, *background;

    queue_init(&queue);
    queue.config.turns.max_active = 4;
    queue.config.turns.max_active_interactive = 2;
    admission = &queue.admission;
    for (size_t i = 0; i < 2; i++) {
        Request *interactive = queue_add(&queue, PRIORITY_INTERACTIVE, 0);

        interactive->user = &queue.users[2];
        queue_start(&queue, interactive);
    }
    much = queue_add(&queue, PRIORITY_NORMAL, 1);
    much->user = &queue.users[1];
    queue_start(&queue, much);
    much = queue_add(&queue, PRIORITY_NORMAL, 2);
    much->user = &queue.users[1];
    background = queue_add(&queue, PRIORITY_BACKGROUND, 3);
    background->user = &queue.users[3];
    little = queue_add(&queue, PRIORITY_NORMAL, 4);
    little->user = &queue.users[2];
    assert_ptr_equal(next_of(admission, 5), little);
    admission_number(admission, 5);
    assert_int_equal(little->progress.queue_position, 1);
    assert_int_equal(much->progress.queue_position, 2);
    assert_int_equal(background->progress.queue_position, 3);
    queue_remove(&queue, little);
    assert_ptr_equal(next_of(admission, 5), much);
}

/* A user with two places more gives one up at once; with one more, after a turn and if served more; never for his own
 * requests. */
static void test_admission_places_turn(void **state) {
    Admission *admission;
    Queue queue;
    Request *first, *latest, *own, *other, *yielding = NULL;
    const uint64_t late_ns = UINT64_C(100) * 1000 * 1000 * 1000;

    queue_init(&queue);
    admission = &queue.admission;
    first = queue_add(&queue, PRIORITY_NORMAL, late_ns);
    queue_start(&queue, first);
    latest = queue_add(&queue, PRIORITY_NORMAL, late_ns);
    queue_start(&queue, latest);
    own = queue_add(&queue, PRIORITY_NORMAL, late_ns);
    assert_null(admission_next(admission, late_ns, &yielding));
    queue_remove(&queue, own);
    other = queue_add(&queue, PRIORITY_NORMAL, late_ns);
    other->user = &queue.users[1];
    other->job.generate.ageing_ns = 0;
    first->times.placed_ns = latest->times.placed_ns = late_ns;
    assert_ptr_equal(admission_next(admission, late_ns, &yielding), other);
    assert_ptr_equal(yielding, latest);
    queue.config.turns.max_active = 1;
    latest->state = REQUEST_PAUSED;
    queue.users[0].places[PLACE_OTHER].n_running = 1;
    queue.users[0].places[PLACE_OTHER].served_ns = 1;
    assert_null(admission_next(admission, late_ns + 999999999, &yielding));
    assert_ptr_equal(admission_next(admission, late_ns + 1000000000, &yielding), other);
    assert_ptr_equal(yielding, first);
    queue.users[1].places[PLACE_OTHER].served_ns = 1;
    assert_null(admission_next(admission, late_ns + 1000000000, &yielding));
}

/* A background generation gives its place up at once for a normal request, also of the same user, and not for another
 * background one. A place that it got by waiting is kept for a turn. */
static void test_admission_background_stands_aside(void **state) {
    const uint64_t late_ns = UINT64_C(100) * 1000 * 1000 * 1000;
    Request *background, *running, *normal, *other, *yielding = NULL;
    Admission *admission;
    Queue queue;

    queue_init(&queue);
    admission = &queue.admission;
    background = queue_add(&queue, PRIORITY_BACKGROUND, late_ns);
    running = queue_add(&queue, PRIORITY_NORMAL, late_ns);
    queue_start(&queue, background);
    queue_start(&queue, running);
    background->times.placed_ns = running->times.placed_ns = late_ns;
    other = queue_add(&queue, PRIORITY_BACKGROUND, late_ns);
    assert_null(admission_next(admission, late_ns, &yielding));
    queue_remove(&queue, other);
    normal = queue_add(&queue, PRIORITY_NORMAL, late_ns);
    assert_ptr_equal(admission_next(admission, late_ns, &yielding), normal);
    assert_ptr_equal(yielding, background);
    background->times.rested_ns = late_ns - 1;
    assert_null(admission_next(admission, late_ns + 999999999, &yielding));
    normal->times.received_ns = late_ns + 1000000000;
    assert_ptr_equal(admission_next(admission, late_ns + 1000000000, &yielding), normal);
    assert_ptr_equal(yielding, background);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admission_background_stands_aside),
        cmocka_unit_test(test_priority_ages),
        cmocka_unit_test(test_admission_goes_by_class_then_arrival),
        cmocka_unit_test(test_admission_waiting_is_bounded),
        cmocka_unit_test(test_admission_has_places_for_interactive),
        cmocka_unit_test(test_admission_position_goes_by_class),
        cmocka_unit_test(test_admission_users_take_turns),
        cmocka_unit_test(test_admission_turns_are_within_a_class),
        cmocka_unit_test(test_admission_places_turn),
    };

    return cmocka_run_group_tests_name("priority", tests, NULL, NULL);
}
