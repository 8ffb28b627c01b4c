// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_generation.h"

#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "daemon/models/model_message.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_choices.h"
#include "daemon/requests/request_embedding.h"
#include "daemon/requests/request_logprobs.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_sampling.h"
#include "daemon/requests/session.h"

/* Sends progress with so many tokens of the prompt read, unless the client knows that already. */
static void send_progress_at(Request *request, uint64_t now_ns, uint32_t position, uint32_t n_read) {
    Coordgen__V1__Response response;
    Coordgen__V1__GenerateProgress progress = COORDGEN__V1__GENERATE_PROGRESS__INIT;
    const Model *model = request->model;

    if (request->progress.told_ns && request->progress.position == position && request->progress.prefilled == n_read &&
        request->progress.permille == model->load.permille)
        return;
    request->progress.told_ns = now_ns;
    request->progress.position = position;
    request->progress.prefilled = n_read;
    request->progress.permille = model->load.permille;
    reply_init(&response, request->id);
    progress.has_queue_position = true;
    progress.queue_position = position;
    if (!position) {
        progress.has_prefilled_tokens = progress.has_prompt_tokens = progress.has_cached_tokens = true;
        progress.prefilled_tokens = n_read;
        progress.prompt_tokens = request->answer.usage.n_prompt_tokens;
        progress.cached_tokens = request->answer.usage.n_cached_tokens;
    }
    if (position && !model_can_serve(model)) {
        progress.has_model_state = progress.has_model_permille = true;
        progress.model_state = model_wire_state(model);
        progress.model_permille = model->load.permille;
    }
    if (!position || progress.has_model_state)
        progress.model = model->name;
    response.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_PROGRESS;
    response.generate_progress = &progress;
    connection_send(request->peer->connection, &response);
}

static void send_progress(Request *request, uint64_t now_ns, uint32_t position) {
    if (!request_is_embedding(request) && !request->peer->connection->output.is_choked &&
        now_ns - request->progress.told_ns >= REQUEST_PROGRESS_INTERVAL_NS)
        send_progress_at(request, now_ns, position, request_n_read_tokens(request));
}

/* Sends progress of the prompt to a client that wants all of it: first what was cached, last the whole prompt, whatever
 * the loop has seen of the steps. */
static void send_each_progress(Request *request, const JobNews *news) {
    const GenerationUsage *usage = &request->answer.usage;
    const uint32_t n_read = news->n_marks ? usage->n_prompt_tokens : request_n_read_tokens(request);

    if (!request->progress.has_begun) {
        request->progress.has_begun = true;
        send_progress_at(request, clock_now_ns(), 0, usage->n_cached_tokens);
    }
    send_progress_at(request, clock_now_ns(), 0, MIN(n_read, usage->n_prompt_tokens));
}

void request_generation_tick(Request *request, uint64_t now_ns) {
    if (request_is_generation(request) && request->peer)
        send_progress(request, now_ns, request->progress.queue_position);
}

static Coordgen__V1__AnswerPart part_of(AnswerPart part) {
    static const Coordgen__V1__AnswerPart parts[] = {
        [ANSWER_TEXT] = COORDGEN__V1__ANSWER_PART__ANSWER_PART_TEXT,
        [ANSWER_REASONING] = COORDGEN__V1__ANSWER_PART__ANSWER_PART_REASONING,
        [ANSWER_CALL] = COORDGEN__V1__ANSWER_PART__ANSWER_PART_CALL,
    };

    return parts[part];
}

static void call_fill(Coordgen__V1__ToolCallDelta *call, JobCall *from) {
    coordgen__v1__tool_call_delta__init(call);
    call->has_index = call->has_arguments = true;
    call->index = from->index;
    call->name = from->name;
    call->id = from->id;
    call->arguments.len = from->arguments_bytes;
    call->arguments.data = (uint8_t *)from->texts;
}

/* Sends one delta for each part of each step of the engine. */
static void send_deltas(Request *request, const JobNews *news) {
    JobMark from = { 0 };

    if (news->n_marks && news->usage.n_output_tokens && !request->times.first_delta_ns)
        request->times.first_delta_ns = clock_now_ns();
    for (size_t i = 0; i < news->n_marks; i++) {
        Coordgen__V1__Response response;
        Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
        Coordgen__V1__ToolCallDelta call;
        JobMark to = news->marks[i];
        RequestLogprobs logprobs;

        reply_init(&response, request->id);
        delta.has_sequence = true;
        delta.model = request->answer.n_deltas ? NULL : request->model->name;
        delta.sequence = request->answer.n_deltas++;
        delta.has_choice = request->message->generate->has_n;
        delta.choice = to.choice;
        delta.has_text = true;
        delta.text.len = to.text_end - from.text_end;
        delta.text.data = delta.text.len ? (uint8_t *)news->text.data + from.text_end : NULL;
        delta.n_tokens = to.tokens_end - from.tokens_end;
        delta.tokens = delta.n_tokens ? news->tokens.ids + from.tokens_end : NULL;
        delta.has_part = to.part != ANSWER_TEXT;
        delta.part = part_of(to.part);
        if (to.call) {
            call_fill(&call, to.call);
            delta.call = &call;
        }
        request_logprobs_fill(&logprobs, &news->logprobs, from.logprobs_end, to.logprobs_end, &delta);
        response.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_DELTA;
        response.generate_delta = &delta;
        connection_send(request->peer->connection, &response);
        from = to;
    }
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

/* Returns the effective limit on output tokens: the smaller one of the request's limit and the rest of the context. */
static uint32_t effective_max_tokens(const Request *request) {
    uint32_t asked = request->job.generate.options.max_tokens, left;

    if (!request->answer.context_tokens)
        return asked;
    left = request->answer.context_tokens > request->answer.usage.n_prompt_tokens
               ? request->answer.context_tokens - request->answer.usage.n_prompt_tokens
               : 0;
    return asked && asked < left ? asked : left;
}

/* Gives the calls that have begun their ids, where the model wrote none: letters and digits, different for each call
 * since the service's start, and hardly ever those of a service before. */
static void name_calls(const Request *request, JobNews *news) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (size_t i = 0; i < news->n_marks; i++) {
        JobCall *call = news->marks[i].call;
        uint64_t number;

        if (!call || !call->name || call->id)
            continue;
        /* An odd factor keeps different numbers different; 62^9 is above 2^53. */
        number = ((request->serial << 16 | (news->marks[i].choice & 15) << 12 | (call->index & 4095)) +
                  request->times.received_ns / 1000000000 * 1000003) *
                     UINT64_C(0x9e3779b97f4a7c15) &
                 ((UINT64_C(1) << 53) - 1);
        for (size_t k = 0; k < JOB_CALL_ID_BYTES; k++, number /= 62)
            call->own_id[k] = digits[number % 62];
        call->own_id[JOB_CALL_ID_BYTES] = 0;
        call->id = call->own_id;
    }
}

/* Appends the news to the answer that the session will keep, which begins with the request's answer_prefix. */
static void keep_answer(Request *request, const JobNews *news) {
    const ChatInput *chat = &request->job.input.chat;
    const size_t own_bytes = kept_answer_bytes(news),
                 prefix_bytes = own_bytes && !request->answer.kept.text.len_bytes ? chat->answer_prefix_bytes : 0;

    /* Text without room on the account is not kept, and the request ends with an error (see remember_turn()). */
    if (user_charge(request->user, request->is_admin, &request->bill, prefix_bytes + own_bytes))
        request->answer.kept.failed = true;
    str_buf_append(&request->answer.kept.text, prefix_bytes ? chat->answer_prefix : "", prefix_bytes);
    kept_answer_add(&request->answer.kept, news);
}

/* Adds prompt and answer to a session of raw prompts. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int remember_text(const Request *request) {
    Session *session = request->session;
    const StrBuf *answer = &request->answer.kept.text;
    const size_t before = session->text.len_bytes;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    str_buf_append(&text, request->input.raw.data + before, request->input.raw.len_bytes - before);
    str_buf_append(&text, answer->data, answer->len_bytes);
    return str_buf_failed(&text) ? -ENOMEM : session_add_text(session, text.data, text.len_bytes);
}

/* Adds question and answer to the session, if there is an answer. Return: 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int remember_turn(const Request *request) {
    Session *session = request->session;
    const KeptAnswer *answer = &request->answer.kept;
    _cleanup_(freep) ChatMessage *turn = NULL;
    const size_t n = request->input.n_own_messages;
    int r;

    if (answer->failed)
        return -ENOMEM;
    if (kept_answer_is_empty(answer))
        return 0;
    if (!request->job.input.chat.n_messages)
        return remember_text(request);
    turn = calloc(n + 1, sizeof(*turn));
    if (!turn)
        return err_raise(-ENOMEM);
    memcpy(turn, request->input.messages + request->job.input.chat.n_messages - n, n * sizeof(*turn));
    r = kept_answer_message(answer, &turn[n]);
    if (!r)
        r = session_add_messages(session, turn, n + 1);
    free((ChatToolCall *)(uintptr_t)turn[n].tool_calls);
    return r;
}

void request_generation_finish(Request *request, GenerationEnd end) {
    Coordgen__V1__Response response;
    Coordgen__V1__GenerateDone done = COORDGEN__V1__GENERATE_DONE__INIT;
    Coordgen__V1__Usage usage = COORDGEN__V1__USAGE__INIT;
    Coordgen__V1__Timings timings;
    Coordgen__V1__SamplingOptions sampling;
    Coordgen__V1__SamplingOrigins origins;
    ExplanationMessage message;
    ChoiceMessages choices;
    Explanation explanation;
    uint64_t now_ns = clock_now_ns();

    if (request->peer && request->session && request->session->peer && remember_turn(request)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, REQUEST_RETRY_NO_MEMORY_MS, "",
                     "no memory for the answer in the session, which is as it was: %s is reached",
                     user_memory_limit(request->user, request->is_admin));
        return;
    }
    if (request->times.started_ns && end != GENERATION_END_CANCELLED)
        admission_note_run(&request->table->admission, request_since_us(request->times.started_ns, now_ns));
    if (request_is_embedding(request)) {
        request_embedding_finish(request, end);
        return;
    }
    if (request->peer) {
        reply_init(&response, request->id);
        request_fill_timings(request, now_ns, &timings);
        request_sampling_fill(&request->job.generate.sampling.options, request->message->generate->sampling, &sampling);
        request_sampling_fill_origins(&request->job.generate.sampling, &origins);
        usage.has_prompt_tokens = usage.has_cached_tokens = usage.has_output_tokens = true;
        usage.prompt_tokens = request->answer.usage.n_prompt_tokens;
        usage.cached_tokens = request->answer.usage.n_cached_tokens;
        usage.output_tokens = request->answer.usage.n_output_tokens;
        usage.has_decode_steps = usage.has_drafted_tokens = usage.has_accepted_tokens = true;
        usage.decode_steps = request->answer.usage.n_steps;
        usage.drafted_tokens = request->answer.usage.n_drafted_tokens;
        usage.accepted_tokens = request->answer.usage.n_accepted_tokens;
        usage.has_request_number = true;
        usage.request_number = request->serial;
        usage.has_reuse = true;
        usage.reuse = reuse_of(request->answer.usage.outcome);
        done.has_end_reason = done.has_seed = done.has_max_tokens = done.has_deltas = true;
        done.end_reason = request_end_reason(end);
        done.usage = &usage;
        done.timings = &timings;
        done.seed = sampling.seed;
        done.sampling = &sampling;
        done.sampling_origins = &origins;
        done.sampling_family =
            (char *)(uintptr_t)request->job.generate.sampling.family; /* packing only reads the string */
        done.has_end_repetition = true;
        done.end_repetition = request->job.generate.options.ends_repetition;
        done.max_tokens = effective_max_tokens(request);
        done.model = request->model->name;
        done.deltas = request->answer.n_deltas;
        done.has_priority = true;
        done.priority = explanation_priority(request->job.generate.priority);
        if (request->message->generate->explain) {
            explanation_of(&explanation, request, generation_end_name(end));
            explanation_message(&message, &explanation, true);
            done.explanation = &message.explanation;
        }
        done.has_reasoning_tokens = request->answer.usage.n_reasoning_tokens > 0;
        done.reasoning_tokens = request->answer.usage.n_reasoning_tokens;
        done.has_tool_calls = request->answer.usage.n_calls > 0;
        done.tool_calls = request->answer.usage.n_calls;
        done.has_ended_in_time = request->answer.usage.ended_in_time;
        done.ended_in_time = request->answer.usage.ended_in_time;
        done.has_incomplete_bytes = request->answer.usage.n_incomplete_bytes > 0;
        done.incomplete_bytes = request->answer.usage.n_incomplete_bytes;
        request_fill_choices(request, end, &choices, &done);
        response.op_case = COORDGEN__V1__RESPONSE__OP_GENERATE_DONE;
        response.generate_done = &done;
        connection_send(request->peer->connection, &response);
    }
    request_record(request, request->peer ? generation_end_name(end) : "abandoned",
                   end == GENERATION_END_CANCELLED ? TALLY_CANCELLED : TALLY_DONE);
    request_end(request);
}

void request_generation_tell(Request *request, JobNews *news) {
    if (news->started) {
        request->times.started_ns = news->started_ns;
        request->answer.context_tokens = news->context_tokens;
    }
    request->answer.usage = news->usage;
    if (request->peer) {
        name_calls(request, news);
        if (request->session)
            keep_answer(request, news);
        if (!news->result && !request->answer.n_deltas && request->answer.usage.n_prompt_tokens &&
            !request_is_embedding(request) && request->message->generate->each_progress)
            send_each_progress(request, news);
        send_deltas(request, news);
        if (!news->done && !request->answer.n_deltas && request->answer.usage.n_prompt_tokens)
            send_progress(request, clock_now_ns(), 0);
    }
}
