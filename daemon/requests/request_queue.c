// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/requests/request_queue.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/models/load/model_room.h"
#include "daemon/requests/request_constraint.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_generation.h"

/* Hands the job of a started request to the engine thread. */
static void submit(Request *request) {
    Model *model = request->model;

    request->job.engine = model->engine;
    request->job.generate.options.constraint.it = request->input.constraint.it;
    if (request_is_generation(request) && !request->job.generate.draft_pairp &&
        model->draft.state == MODEL_DRAFT_JOINED) {
        model->draft.n_generations++;
        request->job.generate.draft_engine = model->draft.model->engine;
        request->job.generate.draft_pairp = &model->draft.pair;
    }
    engine_thread_submit(request->table->engine_thread, &request->job);
}

static void start(Request *request) {
    admission_start(&request->table->admission, request);
    submit(request);
}

/* Pauses or resumes the job, which runs while its request has a place. */
static void settle_job(Request *request) {
    engine_thread_pause(request->table->engine_thread, &request->job, request->state != REQUEST_RUNNING);
}

/* Lets the constraint of a waiting request be compiled. Without memory the request ends. */
static void settle_constraint(Request *request) {
    int r = request_constraint_settle(request, request->table->constraints);

    if (r)
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, REQUEST_RETRY_NO_MEMORY_MS,
                     request_constraint_field(request), "no memory to compile the constraint: %s is reached",
                     user_memory_limit(request->user, request->is_admin));
}

void request_queue_enter(Request *request) {
    Admission *admission = &request->table->admission;

    assert_on_loop(request->table->loop);
    if (request->model->stage != MODEL_READY && !model_will_come(request->model)) {
        request_fail_by_model(request);
        return;
    }
    switch (admission_enter(admission, request)) {
    case ADMISSION_E_FULL:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, admission_retry_ms(admission), "",
                     "the queue is full: %u requests wait", admission->n_waiting + admission->n_small);
        return;
    case ADMISSION_E_QUOTA:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED, admission_retry_ms(admission), "",
                     "%u requests of this user wait: no more are accepted before one ends (half of max-queue)",
                     admission_user_max(admission));
        return;
    }
    if (request_is_submitted(request))
        submit(request);
    else
        settle_constraint(request);
    admission_share_places(admission);
}

void request_queue_pause(Request *request, bool paused) {
    if (!request_is_generation(request) || !request_is_submitted(request))
        return;
    admission_pause(&request->table->admission, request, paused);
    settle_job(request);
}

/* Ends a generation whose client does not read, with an error. @wanted: the resource that others wait for. */
static void end_stalled(Request *request, const char *wanted) {
    Admission *admission = &request->table->admission;
    const uint64_t since_ns =
        request_is_paused(request) ? request->times.paused_ns : request->peer->connection->output.accepted_ns;

    connection_send_error(request->peer->connection, request->id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                          admission_retry_ms(admission), "",
                          "ended after %" PRIu64 " ms without reading: others wait for the %s that it held",
                          (clock_now_ns() - since_ns) / 1000000, wanted);
    log_info_of(request->user->uid, TOPIC_DAEMON,
                "request %" PRIu64 ", uid %u: ended for another one: its client does not read", request->serial,
                (unsigned int)request->user->uid);
    admission_note_stalled(admission, request);
    request_abandon(request);
}

bool request_queue_wait_for_memory(Request *request) {
    Admission *admission = &request->table->admission;
    Request *holder;

    if (!request->peer)
        return false;
    if (model_make_room_for_kv(request->model->registry)) {
        admission_wait_again(admission, request);
        return true;
    }
    holder = admission_find_holder(admission, request->user);
    if (holder)
        end_stalled(holder, "memory");
    if (!admission->n_stalled)
        return false;
    admission_wait_again(admission, request);
    return true;
}

static void rest(Request *request, bool resting) {
    admission_rest(&request->table->admission, request, resting);
    settle_job(request);
}

/* Gives free places to requests. Each round gives one request a place, so that the loop ends. */
static void take_turns(Admission *admission, uint64_t now_ns) {
    Request *request, *yielding = NULL;

    admission_count_service(admission, now_ns);
    while ((request = admission_next(admission, now_ns, &yielding))) {
        if (yielding)
            rest(yielding, true);
        if (!admission_has_turn(admission, request))
            continue;
        if (request_is_waiting(request))
            start(request);
        else
            rest(request, false);
    }
}

static void serve_waiting(Admission *admission, uint64_t now_ns) {
    Request *request, *next, *stalled;

    for (request = TAILQ_FIRST(&admission->waiting); request; request = next) {
        next = TAILQ_NEXT(request, queue_link);
        if (model_can_serve(request->model) && !request->times.model_ready_ns)
            request->times.model_ready_ns = now_ns;
        if (!request_is_generation(request) && admission_can_start(admission, request))
            start(request);
        else if (!model_can_serve(request->model) && !model_will_come(request->model))
            request_fail_by_model(request);
        else
            settle_constraint(request);
    }
    take_turns(admission, now_ns);
    stalled = admission_find_stalled(admission, now_ns);
    if (stalled)
        end_stalled(stalled, "place");
    admission_share_places(admission);
}

void request_queue_settle(RequestTable *table) {
    assert_on_loop(table->loop);
    serve_waiting(&table->admission, clock_now_ns());
}

void request_queue_tick(RequestTable *table) {
    const uint64_t now_ns = clock_now_ns();
    Request *request;

    admission_number(&table->admission, now_ns);
    TAILQ_FOREACH (request, &table->admission.waiting, queue_link)
        request_generation_tick(request, now_ns);
}
