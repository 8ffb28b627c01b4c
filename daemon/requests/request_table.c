// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/requests/request_table.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/engine/job_choices.h"
#include "daemon/engine/job_vectors.h"
#include "daemon/systemd/journal.h"
#include "daemon/models/load/model_unload.h"
#include "daemon/requests/request_constraint.h"
#include "daemon/requests/session.h"

void request_table_init(RequestTable *table, Loop *loop, const Config *config) {
    *table = (RequestTable){ .loop = loop, .config = config };
    admission_init(&table->admission, loop, config);
    TAILQ_INIT(&table->loads);
}

void request_table_deinit(RequestTable *table) {
    assert(request_table_is_empty(table));
    tally_table_deinit(&table->tallies);
    explanation_table_deinit(&table->explanations);
}

bool request_table_is_empty(const RequestTable *table) {
    return !table->admission.n_active && !table->admission.n_small && !table->admission.n_waiting && !table->n_loads;
}

uint64_t request_since_us(uint64_t from_ns, uint64_t to_ns) {
    return from_ns && to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static Request *request_free(Request *request) {
    if (!request)
        return NULL;
    frame_request_free(request->message);
    job_news_deinit(&request->job.news);
    job_choices_free(request->job.run.choices);
    job_vectors_free(request->job.run.vectors);
    free(request->job.texts.list);
    free(request->input.messages);
    free(request->input.biases);
    str_buf_deinit(&request->input.raw);
    kept_answer_deinit(&request->answer.kept);
    bill_settle(&request->bill);
    user_unref(request->user);
    free(request);
    return NULL;
}
DEFINE_CLEANUP(Request, request_free)

int request_new(Request **requestp, RequestTable *table, Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes,
                Model *model) {
    _cleanup_(request_freep) Request *request = calloc(1, sizeof(*request));
    int r;

    assert_on_loop(table->loop);
    if (!request)
        return err_raise(-ENOMEM);
    request->user = user_ref(peer->user);
    /* Charges the upper bound on the decoded message, which stays in memory until the request ends. */
    r = user_charge(peer->user, peer->is_admin, &request->bill,
                    sizeof(*request) + frame_decode_budget_bytes(len_bytes));
    if (r)
        return r;
    request->table = table;
    request->peer = peer;
    request->id = (*messagep)->request_id;
    request->serial = ++table->last_serial;
    request->is_admin = peer->is_admin;
    request->model = model;
    request->times.received_ns = clock_now_ns();
    request->job.owner = request;
    request->message = steal(messagep);
    model->n_users++;
    TAILQ_INSERT_TAIL(&peer->requests, request, peer_link);
    TAILQ_INSERT_TAIL(&request->user->requests, request, user_link);
    peer->n_requests++;
    *requestp = steal(&request);
    return 0;
}

static void leave_connection(Request *request) {
    if (!request->peer)
        return;
    TAILQ_REMOVE(&request->peer->requests, request, peer_link);
    request->peer->n_requests--;
    request->peer = NULL;
}

void request_end(Request *request) {
    Session *session = request->session;

    assert_on_loop(request->table->loop);
    if (request->state == REQUEST_LOADING) {
        TAILQ_REMOVE(&request->table->loads, request, queue_link);
        request->table->n_loads--;
    }
    admission_leave(&request->table->admission, request);
    request_constraint_end(request);
    leave_connection(request);
    TAILQ_REMOVE(&request->user->requests, request, user_link);
    if (request->job.generate.draft_pairp)
        request->model->draft.n_generations--;
    model_leave(request->model);
    request_free(request);
    if (session)
        session_detach(session);
}

Request *request_find(Peer *peer, uint64_t id) {
    Request *request;

    TAILQ_FOREACH (request, &peer->requests, peer_link)
        if (request->id == id)
            return request;
    return NULL;
}

const char *request_operation_name(const Request *request) {
    switch (request->message->op_case) {
    case COORDGEN__V1__REQUEST__OP_GENERATE:
        return "generate";
    case COORDGEN__V1__REQUEST__OP_TOKENIZE:
        return "tokenize";
    case COORDGEN__V1__REQUEST__OP_DETOKENIZE:
        return "detokenize";
    case COORDGEN__V1__REQUEST__OP_EMBED:
        return "embed";
    case COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD:
        return "model-unload";
    default:
        return "model-load";
    }
}

uint32_t request_n_read_tokens(const Request *request) {
    return request->answer.usage.n_cached_tokens + request->answer.usage.n_prefilled_tokens;
}

void request_fill_timings(const Request *request, uint64_t now_ns, Coordgen__V1__Timings *timings) {
    uint64_t began_ns = request->times.started_ns ? request->times.started_ns : now_ns;
    uint64_t ready_ns = request->times.model_ready_ns ? request->times.model_ready_ns : began_ns;

    coordgen__v1__timings__init(timings);
    timings->has_queue_us = timings->has_load_us = timings->has_prefill_us = true;
    timings->has_decode_us = timings->has_total_us = true;
    /* A request may begin before all weights have arrived; the time that its steps wait for weights counts as load. */
    timings->load_us = request_since_us(request->times.received_ns, ready_ns) + request->answer.usage.load_ns / 1000;
    timings->queue_us = request_since_us(ready_ns, began_ns);
    timings->prefill_us = request->answer.usage.prefill_ns / 1000;
    timings->decode_us = request->answer.usage.decode_ns / 1000;
    timings->total_us = request_since_us(request->times.received_ns, now_ns);
}

void request_record(Request *request, const char *outcome, TallyOutcome tally) {
    if (request_is_generation(request) && request->times.started_ns) {
        Explanation explanation;

        explanation_of(&explanation, request, outcome);
        explanation_keep(&request->table->explanations, &explanation);
    }
    tally_note(&request->table->tallies, request->user->uid, tally, request_n_read_tokens(request),
               request->answer.usage.n_cached_tokens, request->answer.usage.n_output_tokens);
    journal_request(
        LOG_LEVEL_INFO,
        &(RequestRecord){
            .serial = request->serial,
            .uid = request->user->uid,
            .operation = request_operation_name(request),
            .model = request->model->name,
            .outcome = outcome,
            .priority = request_is_generation(request) ? priority_name(request->job.generate.priority) : NULL,
            .n_prompt_tokens = request->answer.usage.n_prompt_tokens,
            .n_output_tokens = request->answer.usage.n_output_tokens,
            .first_token_us = request_since_us(request->times.received_ns, request->times.first_delta_ns),
            .total_us = request_since_us(request->times.received_ns, clock_now_ns()),
        });
}

void request_abandon(Request *request) {
    assert_on_loop(request->table->loop);
    leave_connection(request);
    if (request_is_submitted(request)) {
        /* The request leaves the counts once the engine thread releases the job, which a paused job must run for. */
        engine_thread_cancel(request->table->engine_thread, &request->job);
        admission_let_go(&request->table->admission, request);
        return;
    }
    request_record(request, "abandoned", TALLY_CANCELLED);
    request_end(request);
}
