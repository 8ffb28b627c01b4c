#include "daemon/admission.h"

#include "base/clock.h"
#include "daemon/request.h"

enum {
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 60000,
    RUN_GUESS_US = 2000000, /* before the first generation has ended */
    /* Paused generations do not take a turn, but they keep their memory: they may not grow without bound. */
    HELD_PER_ACTIVE = 4,
};

void admission_init(Admission *admission, Server *server) {
    *admission = (Admission){ .server = server, .mean_run_us = RUN_GUESS_US };
    TAILQ_INIT(&admission->waiting);
}

static bool has_turn(const Admission *admission) {
    uint32_t max_active = admission->server->config->max_active;

    return admission->n_active - admission->n_paused < max_active && admission->n_active < HELD_PER_ACTIVE * max_active;
}

static bool can_start(const Admission *admission, const Request *request) {
    if (request->model->stage != MODEL_READY)
        return false;
    return !request_is_generation(request) || (has_turn(admission) && !request->connection->choked);
}

static void start(Admission *admission, Request *request) {
    if (request_is_generation(request))
        admission->n_active++;
    else
        admission->n_small++;
    request_submit(request);
}

static unsigned int n_held_back(const Admission *admission) {
    return admission->n_waiting + admission->n_small;
}

int admission_enter(Admission *admission, Request *request) {
    assert_on_loop(&admission->server->loop);
    if (request->model->stage == MODEL_READY)
        request->model_ready_ns = request->received_ns;
    /* Nobody may be overtaken; small requests have no queue to wait in but the engine thread's own. */
    if (can_start(admission, request) &&
        (request_is_generation(request) ? TAILQ_EMPTY(&admission->waiting)
                                        : admission->n_small <= admission->server->config->max_queue)) {
        start(admission, request);
        return 0;
    }
    if (n_held_back(admission) >= admission->server->config->max_queue)
        return ADMISSION_E_FULL;
    request->state = REQUEST_WAITING;
    TAILQ_INSERT_TAIL(&admission->waiting, request, queue_link);
    admission->n_waiting++;
    server_pump(admission->server);
    return 0;
}

void admission_leave(Admission *admission, Request *request) {
    assert_on_loop(&admission->server->loop);
    if (request->state == REQUEST_WAITING) {
        TAILQ_REMOVE(&admission->waiting, request, queue_link);
        admission->n_waiting--;
    } else if (request->state == REQUEST_SUBMITTED && request_is_generation(request)) {
        admission_pause(admission, request, false);
        admission->n_active--;
    } else if (request->state == REQUEST_SUBMITTED) {
        admission->n_small--;
    }
    server_pump(admission->server);
}

void admission_pause(Admission *admission, Request *request, bool paused) {
    if (request->is_paused == paused)
        return;
    request->is_paused = paused;
    admission->n_paused += paused ? 1 : -1u;
}

void admission_pump(Admission *admission) {
    Request *request, *next;

    assert_on_loop(&admission->server->loop);
    for (request = TAILQ_FIRST(&admission->waiting); request; request = next) {
        next = TAILQ_NEXT(request, queue_link);
        if (request->model->stage == MODEL_READY && !request->model_ready_ns)
            request->model_ready_ns = clock_now_ns();
        if (can_start(admission, request)) {
            TAILQ_REMOVE(&admission->waiting, request, queue_link);
            admission->n_waiting--;
            start(admission, request);
        } else if (request->model->stage != MODEL_READY && !model_is_coming(request->model)) {
            request_fail_by_model(request);
        }
    }
}

void admission_note_run(Admission *admission, uint64_t run_us) {
    admission->mean_run_us = (admission->mean_run_us * 7 + run_us) / 8;
}

uint32_t admission_position(const Admission *admission, const Request *request) {
    const Request *other;
    uint32_t position = 1;

    if (request->state != REQUEST_WAITING)
        return 0;
    TAILQ_FOREACH(other, &admission->waiting, queue_link) {
        if (other == request)
            return position;
        position++;
    }
    return position;
}

uint32_t admission_retry_ms(const Admission *admission) {
    /* A place is free when the next of those that are at work has ended. */
    uint64_t ms = admission->mean_run_us / 1000 / (admission->n_active ? admission->n_active : 1);

    return ms < RETRY_MIN_MS ? RETRY_MIN_MS : ms > RETRY_MAX_MS ? RETRY_MAX_MS : (uint32_t)ms;
}
