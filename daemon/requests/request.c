// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request.h"

#include "base/log.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_constraint.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_generation.h"
#include "daemon/requests/request_queue.h"

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
    if (request->job.input.render_only) {
        reply.text = news->text.data ? news->text.data : (char *)"";
    } else {
        reply.has_count = true;
        reply.count = (uint32_t)news->tokens.n;
    }
    if (!request->job.input.count_only) {
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

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void end_generation(Request *request, const JobNews *news) {
    /* Vectors of texts that have ended would be computed again. */
    if (news->result == JOB_E_MEMORY && !request->answer.n_deltas && !request->job.run.vectors &&
        request_queue_wait_for_memory(request))
        return;
    if (news->result)
        request_fail_by_result(request, news);
    else if (news->end == GENERATION_END_CANCELLED && request->is_cut_short)
        request_fail_by_shutdown(request);
    else
        request_generation_finish(request, news->end);
}

static void end_tokens(Request *request, const JobNews *news) {
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
        request_generation_tell(request, news);
    if (!news->done)
        return;
    if (request_is_generation(request))
        end_generation(request, news);
    else
        end_tokens(request, news);
}

void request_on_constraints(RequestTable *table) {
    Request *request;
    ErrText err;
    int r;

    assert_on_loop(table->loop);
    while (request_constraint_take(table->constraints, &request, &r, &err))
        if (request && r)
            request_fail_by_constraint(request, r, &err);
    loop_pump(table->loop);
}

static void cut_short(Request *request) {
    request->is_cut_short = !atomic_load(&request->job.cancelled); /* false: the client has cancelled it */
    if (request_is_submitted(request))
        engine_thread_cancel(request->table->engine_thread, &request->job);
    else
        request_fail_by_shutdown(request);
}

void request_cancel(Request *request) {
    assert_on_loop(request->table->loop);
    if (request_is_submitted(request))
        engine_thread_cancel(request->table->engine_thread, &request->job);
    else if (request_is_generation(request))
        request_generation_finish(request, GENERATION_END_CANCELLED);
    else
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED, 0, "", "cancelled");
}

void request_turn_away_all(RequestTable *table) {
    RequestList *const lists[] = { &table->admission.waiting, &table->loads };
    Request *request;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while ((request = TAILQ_FIRST(lists[i])))
            request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, table->config->timeouts.drain_ms,
                         "", "the service is shutting down");
}

void request_cut_short_all(RequestTable *table) {
    RequestList *const lists[] = { &table->admission.waiting, &table->admission.submitted, &table->loads };
    Request *request, *next;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (request = TAILQ_FIRST(lists[i]); request; request = next) {
            next = TAILQ_NEXT(request, queue_link);
            if (request->peer)
                cut_short(request);
        }
}
