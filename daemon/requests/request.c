// SPDX-License-Identifier: Apache-2.0
/* The life of requests: made, recorded, ended; errors, and the answers to tokenize and detokenize. */
#define _GNU_SOURCE
#include "daemon/requests/request_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/journal.h"
#include "daemon/net/reply.h"
#include "daemon/requests/session.h"

uint64_t request_since_us(uint64_t from_ns, uint64_t to_ns) {
    return from_ns && to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static Request *request_free(Request *request) {
    if (!request)
        return NULL;
    frame_request_free(request->message);
    job_news_deinit(&request->job.news);
    free(request->messages);
    str_buf_deinit(&request->raw);
    str_buf_deinit(&request->answer);
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
    /* What decoding may have allocated at most: the message stays until the request ends. */
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
    request->received_ns = clock_now_ns();
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
    admission_leave(&request->table->admission, request);
    if (request->state == REQUEST_LOADING) {
        TAILQ_REMOVE(&request->table->loads, request, queue_link);
        request->table->n_loads--;
    }
    leave_connection(request);
    TAILQ_REMOVE(&request->user->requests, request, user_link);
    if (request->has_draft)
        request->model->n_drafted--;
    model_leave(request->model);
    request_free(request);
    if (session)
        session_detach(session);
}

Request *request_find(Peer *peer, uint64_t id) {
    Request *request;

    TAILQ_FOREACH(request, &peer->requests, peer_link)
    if (request->id == id)
        return request;
    return NULL;
}

static const char *operation_name(const Request *request) {
    switch (request->message->op_case) {
    case COORDGEN__V1__REQUEST__OP_GENERATE:
        return "generate";
    case COORDGEN__V1__REQUEST__OP_TOKENIZE:
        return "tokenize";
    case COORDGEN__V1__REQUEST__OP_DETOKENIZE:
        return "detokenize";
    case COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD:
        return "model-unload";
    default:
        return "model-load";
    }
}

uint32_t request_n_read_tokens(const Request *request) {
    return request->usage.n_cached_tokens + request->usage.n_prefilled_tokens;
}

void request_record(Request *request, const char *outcome, TallyOutcome tally) {
    if (request_is_generation(request) && request->started_ns) {
        Explanation explanation;

        explanation_of(&explanation, request, outcome);
        explanation_keep(&request->table->explanations, &explanation);
    }
    tally_note(&request->table->tallies, request->user->uid, tally, request_n_read_tokens(request),
               request->usage.n_cached_tokens, request->usage.n_output_tokens);
    journal_request(LOG_LEVEL_INFO,
                    &(RequestRecord){
                        .serial = request->serial,
                        .uid = request->user->uid,
                        .operation = operation_name(request),
                        .model = request->model->name,
                        .outcome = outcome,
                        .priority = request_is_generation(request) ? priority_name(request->job.priority) : NULL,
                        .n_prompt_tokens = request->usage.n_prompt_tokens,
                        .n_output_tokens = request->usage.n_output_tokens,
                        .first_token_us = request_since_us(request->received_ns, request->first_delta_ns),
                        .total_us = request_since_us(request->received_ns, clock_now_ns()),
                    });
}

void request_abandon(Request *request) {
    assert_on_loop(request->table->loop);
    leave_connection(request);
    if (request->state == REQUEST_SUBMITTED) {
        /* Counted when the engine thread lets go. A paused job must run to be let go of. */
        engine_thread_cancel(request->table->engine_thread, &request->job);
        admission_let_go(&request->table->admission, request);
        return;
    }
    request_record(request, "abandoned", TALLY_CANCELLED);
    request_end(request);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

void request_fail(Request *request, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field,
                  const char *format, ...) {
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (request->peer)
        connection_send_error(request->peer->connection, request->id, code, retry_after_ms, field, "%s", text);
    request_record(request, reply_code_name(code),
                   code == COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED ? TALLY_CANCELLED : TALLY_FAILED);
    request_end(request);
}

void request_fail_by_model(Request *request) {
    const Model *model = request->model;

    switch (model->stage) {
    case MODEL_FAILED:
        request_fail(request,
                     model->is_corrupt ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_CORRUPT
                                       : COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY,
                     model->lacked_memory && model->may_fit_later ? admission_retry_ms(&request->table->admission) : 0,
                     "", "model %.*s could not be loaded: %s", UTF8_PREFIX(model->name, 64),
                     model_failure(model, request->peer && request->peer->may_administer));
        return;
    case MODEL_UNLOADING:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                     "model %.*s is being unloaded", UTF8_PREFIX(model->name, 64));
        return;
    default:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                     "model %.*s is not loaded: an administrator can load it (coordgenctl model load %.*s)",
                     UTF8_PREFIX(model->name, 64), UTF8_PREFIX(model->name, 64));
    }
}

void request_fail_by_result(Request *request, const JobNews *news) {
    const char *field = "", *text = *news->err.text ? news->err.text : "no reason was given";
    const char *op = operation_name(request), *remedy = "";
    char path[64], model[96];
    Coordgen__V1__ErrorCode code;
    uint32_t retry_ms = 0;
    ErrText told;

    switch (news->result) {
    case JOB_E_EMPTY:
    case JOB_E_OPTIONS:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = "generate";
        break;
    case JOB_E_ROLE:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        snprintf(path, sizeof(path), "%s.messages", op);
        field = path;
        break;
    case JOB_E_TOOLS: /* the text says which of the two */
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        snprintf(path, sizeof(path), "%s.%s", op, strncmp(text, "documents", 9) ? "tools" : "documents");
        field = path;
        snprintf(model, sizeof(model), " (model %.*s)", UTF8_PREFIX(request->model->name, 64));
        remedy = model;
        break;
    case JOB_E_ANSWER:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        break;
    case JOB_E_TOKEN:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = "detokenize.tokens";
        break;
    case JOB_E_TOO_LONG:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_CONTEXT_FULL;
        break;
    case JOB_E_NO_TEMPLATE:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_NO_TEMPLATE;
        break;
    case JOB_E_CANCELLED:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED;
        text = "cancelled";
        break;
    case JOB_E_MODEL: /* its file was changed while it was loaded */
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_CORRUPT;
        log_error_of(request->user->uid, TOPIC_DAEMON, "request %" PRIu64 ": %s", request->serial, text);
        if (!request->peer || !request->peer->may_administer)
            text = "its file is damaged: the service's log says where"; /* and has the path */
        break;
    case JOB_E_MEMORY:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY;
        /* When nobody else holds memory, waiting frees none. */
        if (request->table->admission.n_active > (request_is_generation(request) ? 1u : 0u)) {
            retry_ms = admission_retry_ms(&request->table->admission);
            remedy = ": try again later, or with less";
        } else {
            remedy = ", also when nothing else runs: ask for less";
        }
        if (request->peer && request->peer->may_administer) {
            err_set(&told, 0, "%s%s", text, remedy);
            model_explain_memory(request->model->registry, &told);
            text = told.text;
            remedy = "";
        }
        break;
    case JOB_E_SHARE:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED;
        if (user_n_active(request->user) > 1) {
            retry_ms = admission_retry_ms(&request->table->admission);
            remedy = ": try again later, or with less";
        } else {
            remedy = ", also when nothing else of this user runs: ask for less";
        }
        break;
    default:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL;
        log_error_of(request->user->uid, TOPIC_DAEMON, "request %" PRIu64 ": %s", request->serial, text);
    }
    request_fail(request, code, retry_ms, field, "%s%s", text, remedy);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static bool finish_tokenize(Request *request, const JobNews *news) {
    _cleanup_(freep) ProtobufCBinaryData *pieces = calloc(news->n_marks + 1, sizeof(*pieces));
    Coordgen__V1__Response response;
    Coordgen__V1__TokenizeReply reply = COORDGEN__V1__TOKENIZE_REPLY__INIT;
    size_t from = 0;

    if (!pieces)
        return false;
    for (size_t i = 0; i < news->n_marks; i++) {
        pieces[i].data = news->text.data ? (uint8_t *)news->text.data + from : NULL;
        pieces[i].len = news->marks[i].text_end - from;
        from = news->marks[i].text_end;
    }
    reply_init(&response, request->id);
    reply.has_count = true;
    reply.count = (uint32_t)news->tokens.n;
    if (!request->job.count_only) {
        reply.tokens = news->tokens.ids;
        reply.n_tokens = news->tokens.n;
        reply.pieces = pieces;
        reply.n_pieces = news->n_marks;
    }
    response.op_case = COORDGEN__V1__RESPONSE__OP_TOKENIZE;
    response.tokenize = &reply;
    connection_send(request->peer->connection, &response);
    return true;
}

static bool finish_detokenize(Request *request, const JobNews *news) {
    Coordgen__V1__Response response;
    Coordgen__V1__DetokenizeReply reply = COORDGEN__V1__DETOKENIZE_REPLY__INIT;

    reply_init(&response, request->id);
    reply.has_text = true;
    reply.text.data = (uint8_t *)news->text.data;
    reply.text.len = news->text.len_bytes;
    response.op_case = COORDGEN__V1__RESPONSE__OP_DETOKENIZE;
    response.detokenize = &reply;
    connection_send(request->peer->connection, &response);
    return true;
}

static void small_news(Request *request, const JobNews *news) {
    if (!news->done)
        return;
    if (news->result == JOB_E_CANCELLED && request->is_cut_short) {
        request_fail_by_shutdown(request);
        return;
    }
    if (news->result) {
        request_fail_by_result(request, news);
        return;
    }
    if (!request->peer) {
        request_record(request, "abandoned", TALLY_CANCELLED);
    } else if (request->job.kind == JOB_TOKENIZE ? finish_tokenize(request, news) : finish_detokenize(request, news)) {
        request_record(request, "done", TALLY_DONE);
    } else {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, REQUEST_RETRY_NO_MEMORY_MS, "",
                     "out of memory");
        return;
    }
    request_end(request);
}

void request_on_news(Request *request, JobNews *news) {
    assert_on_loop(request->table->loop);
    if (request_is_generation(request))
        request_generation_on_news(request, news);
    else
        small_news(request, news);
}

void request_fail_by_shutdown(Request *request) {
    request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, request->table->config->drain_timeout_ms,
                 "", "the service is shutting down: the request ends before its time, after %" PRIu32 " tokens",
                 request->usage.n_output_tokens);
}

static void cut_short(Request *request) {
    request->is_cut_short = !atomic_load(&request->job.cancelled); /* else its client has ended it */
    if (request->state == REQUEST_SUBMITTED)
        engine_thread_cancel(request->table->engine_thread, &request->job);
    else
        request_fail_by_shutdown(request);
}

void request_cancel(Request *request) {
    assert_on_loop(request->table->loop);
    if (request->state == REQUEST_SUBMITTED)
        engine_thread_cancel(request->table->engine_thread, &request->job);
    else if (request_is_generation(request))
        request_generation_finish(request, GENERATION_END_CANCELLED);
    else
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED, 0, "", "cancelled");
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

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

void request_table_turn_away(RequestTable *table) {
    RequestList *const lists[] = { &table->admission.waiting, &table->loads };
    Request *request;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while ((request = TAILQ_FIRST(lists[i])))
            request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, table->config->drain_timeout_ms,
                         "", "the service is shutting down");
}

void request_table_cut_short(RequestTable *table) {
    RequestList *const lists[] = { &table->admission.waiting, &table->admission.submitted, &table->loads };
    Request *request, *next;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (request = TAILQ_FIRST(lists[i]); request; request = next) {
            next = TAILQ_NEXT(request, queue_link);
            if (request->peer)
                cut_short(request);
        }
}
