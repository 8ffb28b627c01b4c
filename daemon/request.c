#define _GNU_SOURCE
#include "daemon/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/journal.h"
#include "daemon/reply.h"
#include "daemon/session.h"

#define RETRY_NO_MEMORY_MS 1000
#define PROGRESS_INTERVAL_NS (UINT64_C(250) * 1000 * 1000)

bool request_is_generation(const Request *request) {
    return request->job.kind == JOB_GENERATE;
}

static uint64_t since_us(uint64_t from_ns, uint64_t to_ns) {
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
    free(request);
    return NULL;
}
DEFINE_CLEANUP(Request, request_free)

int request_new(Request **requestp, Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes,
                Model *model) {
    _cleanup_(request_freep) Request *request = calloc(1, sizeof(*request));
    Server *server = connection->server;
    int r;

    assert_on_loop(&server->loop);
    if (!request)
        return err_raise(-ENOMEM);
    /* What decoding may have allocated at most: the message stays until the request ends. */
    r = connection_charge(connection, &request->bill, sizeof(*request) + frame_decode_budget_bytes(len_bytes));
    if (r)
        return r;
    request->server = server;
    request->connection = connection;
    request->id = (*messagep)->request_id;
    request->serial = ++server->last_request;
    request->uid = connection->uid;
    request->is_admin = connection->is_admin;
    request->model = model;
    request->received_ns = clock_now_ns();
    request->job.owner = request;
    request->message = steal(messagep);
    model->n_users++;
    TAILQ_INSERT_TAIL(&connection->requests, request, connection_link);
    connection->n_requests++;
    *requestp = steal(&request);
    return 0;
}

static void leave_connection(Request *request) {
    if (!request->connection)
        return;
    TAILQ_REMOVE(&request->connection->requests, request, connection_link);
    request->connection->n_requests--;
    request->connection = NULL;
}

void request_end(Request *request) {
    Session *session = request->session;

    assert_on_loop(&request->server->loop);
    admission_leave(&request->server->admission, request);
    if (request->state == REQUEST_LOADING)
        TAILQ_REMOVE(&request->server->loads, request, queue_link);
    leave_connection(request);
    model_leave(request->model);
    request_free(request);
    if (session)
        session_detach(session);
}

Request *request_find(Connection *connection, uint64_t id) {
    Request *request;

    TAILQ_FOREACH(request, &connection->requests, connection_link)
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

/* Of the prompt: kept from earlier requests, or computed. */
static uint32_t n_read_tokens(const Request *request) {
    return request->usage.n_cached_tokens + request->usage.n_prefilled_tokens;
}

/* One line and the counters, once a request. */
static void record(Request *request, const char *outcome, uint64_t *counter) {
    ++*counter;
    request->server->n_prompt_tokens += n_read_tokens(request);
    request->server->n_cached_tokens += request->usage.n_cached_tokens;
    request->server->n_output_tokens += request->usage.n_output_tokens;
    journal_request(LOG_LEVEL_INFO, &(RequestRecord){
                                        .serial = request->serial,
                                        .uid = request->uid,
                                        .operation = operation_name(request),
                                        .model = request->model->name,
                                        .outcome = outcome,
                                        .priority = request_is_generation(request)
                                                        ? priority_name(request->job.priority)
                                                        : NULL,
                                        .n_prompt_tokens = request->usage.n_prompt_tokens,
                                        .n_output_tokens = request->usage.n_output_tokens,
                                        .first_token_us = since_us(request->received_ns, request->first_delta_ns),
                                        .total_us = since_us(request->received_ns, clock_now_ns()),
                                    });
}

void request_abandon(Request *request) {
    assert_on_loop(&request->server->loop);
    leave_connection(request);
    if (request->state == REQUEST_SUBMITTED) {
        /* Counted when the engine thread lets go. A paused job must run to be let go of. */
        engine_thread_cancel(request->server->engine_thread, &request->job);
        admission_pause(&request->server->admission, request, false);
        return;
    }
    record(request, "abandoned", &request->server->n_cancelled);
    request_end(request);
}

void request_end_stalled(Request *request) {
    reply_error(request->connection, request->id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                server_retry_ms(request->server), "",
                "ended after %" PRIu64 " ms without reading: others wait for the place that it held",
                (clock_now_ns() - request->paused_ns) / 1000000);
    log_info(TOPIC_DAEMON, "request %" PRIu64 ", uid %u: ended for another one: its client does not read",
             request->serial, (unsigned int)request->uid);
    request_abandon(request);
}

void request_pause(Request *request, bool paused) {
    if (!request_is_generation(request) || request->state != REQUEST_SUBMITTED)
        return;
    admission_pause(&request->server->admission, request, paused);
    engine_thread_pause(request->server->engine_thread, &request->job, paused);
}

void request_submit(Request *request) {
    request->state = REQUEST_SUBMITTED;
    request->job.engine = request->model->engine;
    engine_thread_submit(request->server->engine_thread, &request->job);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

void request_fail(Request *request, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field,
                  const char *format, ...) {
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (request->connection)
        reply_error(request->connection, request->id, code, retry_after_ms, field, "%s", text);
    record(request, reply_code_name(code),
           code == COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED ? &request->server->n_cancelled
                                                                  : &request->server->n_failed);
    request_end(request);
}

void request_fail_by_model(Request *request) {
    const Model *model = request->model;

    switch (model->stage) {
    case MODEL_FAILED:
        request_fail(request,
                     model->is_corrupt ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_CORRUPT
                                       : COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY,
                     0, "", "model %.64s could not be loaded: %s", model->name, model->failure.text);
        return;
    case MODEL_UNLOADING:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                     "model %.64s is being unloaded", model->name);
        return;
    default:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                     "model %.64s is not loaded: an administrator can load it (coordgenctl model load %.64s)",
                     model->name, model->name);
    }
}

static void fail_by_result(Request *request, const JobNews *news) {
    const char *field = "", *text = *news->err.text ? news->err.text : "no reason was given";
    const char *op = operation_name(request);
    char path[64];
    Coordgen__V1__ErrorCode code;
    uint32_t retry_ms = 0;

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
        log_error(TOPIC_DAEMON, "request %" PRIu64 ": %s", request->serial, text);
        break;
    case JOB_E_MEMORY:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY;
        /* When nobody else holds memory, waiting frees none. */
        if (request->server->admission.n_active > 1)
            retry_ms = admission_retry_ms(&request->server->admission);
        break;
    default:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL;
        log_error(TOPIC_DAEMON, "request %" PRIu64 ": %s", request->serial, text);
    }
    request_fail(request, code, retry_ms, field, "%s", text);
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

static void send_progress(Request *request, uint64_t now_ns, uint32_t position) {
    Coordgen__V1__Response response;
    Coordgen__V1__GenerateProgress progress = COORDGEN__V1__GENERATE_PROGRESS__INIT;

    if (request->connection->choked || now_ns - request->progress_ns < PROGRESS_INTERVAL_NS)
        return;
    if (request->progress_sent && request->progress_position == position &&
        request->progress_prefilled == n_read_tokens(request))
        return;
    request->progress_sent = true;
    request->progress_ns = now_ns;
    request->progress_position = position;
    request->progress_prefilled = n_read_tokens(request);
    reply_init(&response, request->id);
    progress.has_queue_position = true;
    progress.queue_position = position;
    if (!position) {
        progress.has_prefilled_tokens = progress.has_prompt_tokens = true;
        progress.prefilled_tokens = n_read_tokens(request);
        progress.prompt_tokens = request->usage.n_prompt_tokens;
    }
    response.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_PROGRESS;
    response.generate_progress = &progress;
    connection_send(request->connection, &response);
}

void request_tick(Request *request, uint64_t now_ns) {
    if (request_is_generation(request) && request->connection)
        send_progress(request, now_ns, request->queue_position);
}

/* One delta a step, as the engine gave them. */
static void send_deltas(Request *request, const JobNews *news) {
    JobMark from = { 0, 0 };

    if (news->n_marks && !request->first_delta_ns)
        request->first_delta_ns = clock_now_ns();
    for (size_t i = 0; i < news->n_marks; i++) {
        Coordgen__V1__Response response;
        Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
        JobMark to = news->marks[i];

        reply_init(&response, request->id);
        delta.has_sequence = true;
        delta.sequence = request->n_deltas++;
        delta.has_text = true;
        delta.text.len = to.text_end - from.text_end;
        delta.text.data = delta.text.len ? (uint8_t *)news->text.data + from.text_end : NULL;
        delta.n_tokens = to.tokens_end - from.tokens_end;
        delta.tokens = delta.n_tokens ? news->tokens.ids + from.tokens_end : NULL;
        response.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_DELTA;
        response.generate_delta = &delta;
        connection_send(request->connection, &response);
        from = to;
    }
}

static Coordgen__V1__EndReason end_reason(GenerationEnd end) {
    switch (end) {
    case GENERATION_END_TOKEN:
        return COORDGEN__V1__END_REASON__END_REASON_END_TOKEN;
    case GENERATION_END_STOP:
        return COORDGEN__V1__END_REASON__END_REASON_STOP_STRING;
    case GENERATION_END_MAX:
        return COORDGEN__V1__END_REASON__END_REASON_MAX_TOKENS;
    case GENERATION_END_CONTEXT:
        return COORDGEN__V1__END_REASON__END_REASON_CONTEXT_FULL;
    case GENERATION_END_CANCELLED:
        return COORDGEN__V1__END_REASON__END_REASON_CANCELLED;
    case GENERATION_RUNNING:
        break;
    }
    return COORDGEN__V1__END_REASON__END_REASON_UNSPECIFIED;
}

static Coordgen__V1__Reuse reuse_of(PrefixOutcome outcome) {
    static const Coordgen__V1__Reuse reuses[_PREFIX_OUTCOME_N] = {
        [PREFIX_UNKNOWN] = COORDGEN__V1__REUSE__REUSE_UNSPECIFIED,
        [PREFIX_WHOLE] = COORDGEN__V1__REUSE__REUSE_WHOLE,
        [PREFIX_NEW_TEXT] = COORDGEN__V1__REUSE__REUSE_NEW_TEXT,
        [PREFIX_DIFFERENT] = COORDGEN__V1__REUSE__REUSE_DIFFERENT,
        [PREFIX_FIRST_USE] = COORDGEN__V1__REUSE__REUSE_FIRST_USE,
        [PREFIX_EVICTED] = COORDGEN__V1__REUSE__REUSE_EVICTED,
        [PREFIX_TOO_SHORT] = COORDGEN__V1__REUSE__REUSE_TOO_SHORT,
        [PREFIX_OFF] = COORDGEN__V1__REUSE__REUSE_OFF,
        [PREFIX_DECLINED] = COORDGEN__V1__REUSE__REUSE_DECLINED,
    };

    return reuses[outcome];
}

static void fill_timings(const Request *request, uint64_t now_ns, Coordgen__V1__Timings *timings) {
    uint64_t began_ns = request->started_ns ? request->started_ns : now_ns;
    uint64_t ready_ns = request->model_ready_ns ? request->model_ready_ns : began_ns;

    coordgen__v1__timings__init(timings);
    timings->has_queue_us = timings->has_load_us = timings->has_prefill_us = true;
    timings->has_decode_us = timings->has_total_us = true;
    timings->load_us = since_us(request->received_ns, ready_ns);
    timings->queue_us = since_us(ready_ns, began_ns);
    timings->prefill_us = request->usage.prefill_ns / 1000;
    timings->decode_us = request->usage.decode_ns / 1000;
    timings->total_us = since_us(request->received_ns, now_ns);
}

static void fill_sampling(const SamplerOptions *from, Coordgen__V1__SamplingOptions *sampling) {
    coordgen__v1__sampling_options__init(sampling);
    sampling->has_temperature = sampling->has_top_k = sampling->has_top_p = sampling->has_min_p = true;
    sampling->has_repetition_penalty = sampling->has_repetition_window = sampling->has_seed = true;
    sampling->temperature = from->temperature;
    sampling->top_k = from->top_k;
    sampling->top_p = from->top_p;
    sampling->min_p = from->min_p;
    sampling->repetition_penalty = from->repetition_penalty;
    sampling->repetition_window = from->repetition_window;
    sampling->seed = from->seed;
}

/* The cap that took effect: what was asked for, or what the context left. */
static uint32_t effective_max_tokens(const Request *request) {
    uint32_t asked = request->job.generation_options.max_tokens, left;

    if (!request->context_tokens)
        return asked;
    left = request->context_tokens > request->usage.n_prompt_tokens
               ? request->context_tokens - request->usage.n_prompt_tokens
               : 0;
    return asked && asked < left ? asked : left;
}

static Coordgen__V1__Priority wire_priority(Priority priority) {
    return priority > PRIORITY_NORMAL   ? COORDGEN__V1__PRIORITY__PRIORITY_INTERACTIVE
           : priority < PRIORITY_NORMAL ? COORDGEN__V1__PRIORITY__PRIORITY_BACKGROUND
                                        : COORDGEN__V1__PRIORITY__PRIORITY_NORMAL;
}

/* Keeps what was written, for the session. */
static void keep_answer(Request *request, const JobNews *news) {
    /* What cannot be counted is not kept: the request then ends with an error (see remember_turn()). */
    if (connection_charge(request->connection, &request->bill, news->text.len_bytes))
        request->answer.failed = true;
    str_buf_append(&request->answer, news->text.data ? news->text.data : "", news->text.len_bytes);
}

/* Question and answer become a part of the session, if there is an answer. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int remember_turn(const Request *request) {
    Session *session = request->session;
    const StrBuf *answer = &request->answer;
    _cleanup_(freep) ChatMessage *turn = NULL;
    const size_t n = request->n_own_messages;

    if (str_buf_failed(answer))
        return -ENOMEM;
    if (!answer->len_bytes)
        return 0;
    if (!request->job.n_messages) {
        const size_t before = session->text.len_bytes;
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

        str_buf_append(&text, request->raw.data + before, request->raw.len_bytes - before);
        str_buf_append(&text, answer->data, answer->len_bytes);
        return str_buf_failed(&text) ? -ENOMEM : session_add_text(session, text.data, text.len_bytes);
    }
    turn = calloc(n + 1, sizeof(*turn));
    if (!turn)
        return err_raise(-ENOMEM);
    memcpy(turn, request->messages + request->job.n_messages - n, n * sizeof(*turn));
    turn[n] =
        (ChatMessage){ .role = CHAT_ROLE_ASSISTANT, .text = answer->data, .len_bytes = answer->len_bytes };
    return session_add_messages(session, turn, n + 1);
}

/* The last message of a generation, and its end. */
static void finish_generation(Request *request, GenerationEnd end) {
    Coordgen__V1__Response response;
    Coordgen__V1__GenerateDone done = COORDGEN__V1__GENERATE_DONE__INIT;
    Coordgen__V1__Usage usage = COORDGEN__V1__USAGE__INIT;
    Coordgen__V1__Timings timings;
    Coordgen__V1__SamplingOptions sampling;
    uint64_t now_ns = clock_now_ns();

    if (request->connection && request->session && request->session->connection && remember_turn(request)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_NO_MEMORY_MS, "",
                     "no memory for the answer in the session, which is as it was: %s is reached",
                     connection_limit(request->session->connection));
        return;
    }
    if (request->started_ns && end != GENERATION_END_CANCELLED)
        admission_note_run(&request->server->admission, since_us(request->started_ns, now_ns));
    if (request->connection) {
        reply_init(&response, request->id);
        fill_timings(request, now_ns, &timings);
        fill_sampling(&request->job.generation_options.sampler, &sampling);
        usage.has_prompt_tokens = usage.has_cached_tokens = usage.has_output_tokens = true;
        usage.prompt_tokens = request->usage.n_prompt_tokens;
        usage.cached_tokens = request->usage.n_cached_tokens;
        usage.output_tokens = request->usage.n_output_tokens;
        usage.has_reuse = true;
        usage.reuse = reuse_of(request->usage.outcome);
        done.has_end_reason = done.has_seed = done.has_max_tokens = done.has_deltas = true;
        done.end_reason = end_reason(end);
        done.usage = &usage;
        done.timings = &timings;
        done.seed = sampling.seed;
        done.sampling = &sampling;
        done.max_tokens = effective_max_tokens(request);
        done.model = request->model->name;
        done.deltas = request->n_deltas;
        done.has_priority = true;
        done.priority = wire_priority(request->job.priority);
        response.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_DONE;
        response.generate_done = &done;
        connection_send(request->connection, &response);
    }
    record(request, request->connection ? generation_end_name(end) : "abandoned",
           end == GENERATION_END_CANCELLED ? &request->server->n_cancelled : &request->server->n_done);
    request_end(request);
}

static void generation_news(Request *request, const JobNews *news) {
    if (news->started) {
        request->started_ns = news->started_ns;
        request->context_tokens = news->context_tokens;
    }
    request->usage = news->usage;
    if (request->connection) {
        if (request->session)
            keep_answer(request, news);
        send_deltas(request, news);
        if (!news->done && !request->n_deltas && request->usage.n_prompt_tokens)
            send_progress(request, clock_now_ns(), 0);
    }
    if (!news->done)
        return;
    if (news->result)
        fail_by_result(request, news);
    else
        finish_generation(request, news->end);
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
    reply.tokens = news->tokens.ids;
    reply.n_tokens = news->tokens.n;
    reply.pieces = pieces;
    reply.n_pieces = news->n_marks;
    response.op_case = COORDGEN__V1__RESPONSE__OP_TOKENIZE;
    response.tokenize = &reply;
    connection_send(request->connection, &response);
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
    connection_send(request->connection, &response);
    return true;
}

static void small_news(Request *request, const JobNews *news) {
    if (!news->done)
        return;
    if (news->result) {
        fail_by_result(request, news);
        return;
    }
    if (!request->connection) {
        record(request, "abandoned", &request->server->n_cancelled);
    } else if (request->job.kind == JOB_TOKENIZE ? finish_tokenize(request, news) : finish_detokenize(request, news)) {
        record(request, "done", &request->server->n_done);
    } else {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_NO_MEMORY_MS, "", "out of memory");
        return;
    }
    request_end(request);
}

void request_on_news(Request *request, JobNews *news) {
    assert_on_loop(&request->server->loop);
    if (request_is_generation(request))
        generation_news(request, news);
    else
        small_news(request, news);
}

/* ---- cancel and model loads -------------------------------------------------------------------------------------- */

void request_cancel(Request *request) {
    assert_on_loop(&request->server->loop);
    if (request->state == REQUEST_SUBMITTED)
        engine_thread_cancel(request->server->engine_thread, &request->job);
    else if (request_is_generation(request))
        finish_generation(request, GENERATION_END_CANCELLED);
    else
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED, 0, "", "cancelled");
}

static void send_load_progress(Request *request) {
    Coordgen__V1__Response response;
    Coordgen__V1__ModelLoadProgress progress = COORDGEN__V1__MODEL_LOAD_PROGRESS__INIT;
    const Model *model = request->model;
    uint32_t permille = model->permille;
    uint32_t stage = (uint32_t)model->stage;
    uint64_t now_ns = clock_now_ns();

    if (request->connection->choked ||
        (request->progress_sent && request->progress_position == stage &&
         (request->progress_prefilled == permille || now_ns - request->progress_ns < PROGRESS_INTERVAL_NS)))
        return;
    request->progress_sent = true;
    request->progress_ns = now_ns;
    request->progress_position = stage;
    request->progress_prefilled = permille;
    reply_init(&response, request->id);
    progress.has_state = progress.has_permille = true;
    progress.state = model->stage == MODEL_IMPORTING ? COORDGEN__V1__MODEL_STATE__MODEL_STATE_IMPORTING
                                                     : COORDGEN__V1__MODEL_STATE__MODEL_STATE_LOADING;
    progress.permille = permille;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD_PROGRESS;
    response.model_load_progress = &progress;
    connection_send(request->connection, &response);
}

static void finish_load(Request *request) {
    Coordgen__V1__Response response;
    Coordgen__V1__ModelLoadReply reply = COORDGEN__V1__MODEL_LOAD_REPLY__INIT;
    Coordgen__V1__Model model;
    char detail[sizeof(ErrText)];

    reply_init(&response, request->id);
    model_describe(request->model, &model, detail, sizeof(detail));
    reply.model = &model;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD;
    response.model_load = &reply;
    connection_send(request->connection, &response);
    record(request, "done", &request->server->n_done);
    request_end(request);
}

static void finish_unload(Request *request) {
    Coordgen__V1__Response response;
    Coordgen__V1__ModelUnloadReply reply = COORDGEN__V1__MODEL_UNLOAD_REPLY__INIT;

    reply_init(&response, request->id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_UNLOAD;
    response.model_unload = &reply;
    connection_send(request->connection, &response);
    record(request, "done", &request->server->n_done);
    request_end(request);
}

void request_wait_for_model(Request *request) {
    assert_on_loop(&request->server->loop);
    request->job.kind = request->message->op_case == COORDGEN__V1__REQUEST__OP_MODEL_LOAD ? JOB_LOAD : JOB_UNLOAD;
    request->state = REQUEST_LOADING;
    TAILQ_INSERT_TAIL(&request->server->loads, request, queue_link);
    server_pump(request->server);
}

void request_on_model_change(Request *request) {
    assert_on_loop(&request->server->loop);
    if (request->job.kind == JOB_UNLOAD) {
        if (request->model->stage != MODEL_UNLOADING)
            finish_unload(request);
    } else if (model_is_coming(request->model)) {
        send_load_progress(request);
    } else if (request->model->stage == MODEL_READY) {
        finish_load(request);
    } else {
        request_fail_by_model(request);
    }
}
