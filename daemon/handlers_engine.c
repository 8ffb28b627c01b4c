/* Requests that the engine thread answers: checked here, put into the queue, answered by request.c. */
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "daemon/handlers.h"
#include "daemon/reply.h"
#include "daemon/request.h"

/* What every request that takes time must pass. Return: its model, or NULL and the error is sent. */
static Model *admit(Connection *connection, uint64_t request_id, const char *name, const char *field) {
    Server *server = connection->server;
    ErrText err;
    Model *model;

    if (server->draining) {
        reply_error(connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN,
                    server->config->drain_timeout_ms, "", "the service is shutting down");
        return NULL;
    }
    if (connection->n_requests >= server->config->max_requests_per_connection) {
        reply_error(connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED,
                    server_retry_ms(server), "",
                    "%u requests are in flight on this connection: no more are accepted "
                    "before one ends",
                    connection->n_requests);
        return NULL;
    }
    model = handler_find_model(connection, request_id, name, field);
    if (!model)
        return NULL;
    /* A model of the folder loads on demand where the administrator lets apps load. */
    if (model->stage == MODEL_AVAILABLE && (connection->is_admin || server->config->api_may_load))
        (void)model_load(model, &err);
    return model;
}

static void enter(Request *request) {
    Server *server = request->server;

    if (request->model->stage != MODEL_READY && !model_is_coming(request->model)) {
        request_fail_by_model(request);
        return;
    }
    if (admission_enter(&server->admission, request) == ADMISSION_E_FULL)
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, admission_retry_ms(&server->admission), "",
                     "the queue is full: %u requests wait", server->admission.n_waiting + server->admission.n_small);
}

static Request *new_request(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes, Model *model) {
    uint64_t request_id = (*messagep)->request_id;
    Request *request = NULL;

    if (request_new(&request, connection, messagep, len_bytes, model))
        reply_error(connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                    server_retry_ms(connection->server), "",
                    "no memory for a request of %zu bytes: session-memory-limit is reached", len_bytes);
    return request;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* The message's texts, as the engine wants them; they stay in the message. 0 or an error code that was sent. */
static int take_messages(Request *request, const Coordgen__V1__Messages *messages) {
    static const ChatRole roles[] = {
        [COORDGEN__V1__ROLE__ROLE_SYSTEM] = CHAT_ROLE_SYSTEM,
        [COORDGEN__V1__ROLE__ROLE_USER] = CHAT_ROLE_USER,
        [COORDGEN__V1__ROLE__ROLE_ASSISTANT] = CHAT_ROLE_ASSISTANT,
    };

    request->messages = calloc(messages->n_message, sizeof(*request->messages));
    if (!request->messages)
        return err_raise(-ENOMEM);
    for (size_t i = 0; i < messages->n_message; i++)
        request->messages[i] = (ChatMessage){
            .role = roles[messages->message[i]->role],
            .text = messages->message[i]->text,
            .len_bytes = strlen(messages->message[i]->text),
        };
    request->job.messages = request->messages;
    request->job.n_messages = messages->n_message;
    return 0;
}

static size_t input_bytes(const Coordgen__V1__Messages *messages, const char *text) {
    size_t sum_bytes = 0;

    if (!messages)
        return strlen(text);
    for (size_t i = 0; i < messages->n_message; i++)
        sum_bytes += strlen(messages->message[i]->text);
    return sum_bytes;
}

static bool text_fits(Connection *connection, uint64_t request_id, size_t len_bytes, const char *field) {
    uint64_t max_bytes = connection->server->config->prompt_max_bytes;

    if (len_bytes <= max_bytes)
        return true;
    reply_error(connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, field,
                "%s: %zu bytes of text: at most %llu are accepted", field, len_bytes, (unsigned long long)max_bytes);
    return false;
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

static uint64_t random_seed(void) {
    uint64_t seed;

    /* Never short for 8 bytes once the pool is filled, and it is when a daemon runs. */
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = clock_now_ns();
    return seed;
}

static SamplerOptions sampler_options(const Coordgen__V1__SamplingOptions *sampling) {
    SamplerOptions options = SAMPLER_OPTIONS_GREEDY;

    if (sampling && sampling->has_temperature)
        options.temperature = sampling->temperature;
    if (sampling && sampling->has_top_k)
        options.top_k = sampling->top_k;
    if (sampling && sampling->has_top_p)
        options.top_p = sampling->top_p;
    if (sampling && sampling->has_min_p)
        options.min_p = sampling->min_p;
    if (sampling && sampling->has_repetition_penalty)
        options.repetition_penalty = sampling->repetition_penalty;
    if (sampling && sampling->has_repetition_window)
        options.repetition_window = sampling->repetition_window;
    options.seed = sampling && sampling->has_seed ? sampling->seed : random_seed();
    return options;
}

static Priority priority_of(const Coordgen__V1__GenerateRequest *generate) {
    static const Priority priorities[] = {
        [COORDGEN__V1__PRIORITY__PRIORITY_INTERACTIVE] = PRIORITY_INTERACTIVE,
        [COORDGEN__V1__PRIORITY__PRIORITY_NORMAL] = PRIORITY_NORMAL,
        [COORDGEN__V1__PRIORITY__PRIORITY_BACKGROUND] = PRIORITY_BACKGROUND,
    };

    return generate->has_priority ? priorities[generate->priority] : PRIORITY_NORMAL;
}

void handle_generate(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__GenerateRequest *generate = (*messagep)->generate;
    const Config *config = connection->server->config;
    bool is_chat = generate->input_case == COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES;
    Model *model = admit(connection, (*messagep)->request_id, generate->model, "generate.model");
    Request *request;
    Job *job;

    if (!model || !text_fits(connection, (*messagep)->request_id,
                             input_bytes(is_chat ? generate->messages : NULL, generate->prompt),
                             is_chat ? "generate.messages" : "generate.prompt"))
        return;
    request = new_request(connection, messagep, len_bytes, model);
    if (!request)
        return;
    job = &request->job;
    job->kind = JOB_GENERATE;
    job->want_tokens = generate->want_tokens;
    job->prompt_max_tokens = config->prompt_max_tokens;
    job->priority = priority_of(generate);
    job->ageing_ns = (uint64_t)config->priority_ageing_ms * 1000000;
    job->generation_options = (GenerationOptions){
        .max_tokens = generate->max_tokens,
        .context_tokens = config->context_tokens,
        .ignore_end = generate->ignore_end,
        .user = connection->uid,
        .no_reuse = generate->no_reuse,
        .sampler = sampler_options(generate->sampling),
        .n_stops = generate->n_stop,
    };
    for (size_t i = 0; i < generate->n_stop; i++)
        job->generation_options.stops[i] = generate->stop[i];
    if (!is_chat) {
        job->text = generate->prompt;
        job->text_bytes = strlen(generate->prompt);
        job->tokenize_flags = TOKENIZE_ADD_SPECIAL;
    } else if (take_messages(request, generate->messages)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, server_retry_ms(request->server), "",
                     "out of memory");
        return;
    }
    enter(request);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

void handle_tokenize(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__TokenizeRequest *tokenize = (*messagep)->tokenize;
    bool is_chat = tokenize->input_case == COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES;
    Model *model = admit(connection, (*messagep)->request_id, tokenize->model, "tokenize.model");
    Request *request;
    Job *job;

    if (!model || !text_fits(connection, (*messagep)->request_id,
                             input_bytes(is_chat ? tokenize->messages : NULL, tokenize->text),
                             is_chat ? "tokenize.messages" : "tokenize.text"))
        return;
    request = new_request(connection, messagep, len_bytes, model);
    if (!request)
        return;
    job = &request->job;
    job->kind = JOB_TOKENIZE;
    if (!is_chat) {
        job->text = tokenize->text;
        job->text_bytes = strlen(tokenize->text);
        job->tokenize_flags = (tokenize->add_special ? TOKENIZE_ADD_SPECIAL : 0u) |
                              (tokenize->parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    } else if (take_messages(request, tokenize->messages)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, server_retry_ms(request->server), "",
                     "out of memory");
        return;
    }
    enter(request);
}

void handle_detokenize(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__DetokenizeRequest *detokenize = (*messagep)->detokenize;
    Model *model = admit(connection, (*messagep)->request_id, detokenize->model, "detokenize.model");
    Request *request = model ? new_request(connection, messagep, len_bytes, model) : NULL;

    if (!request)
        return;
    request->job.kind = JOB_DETOKENIZE;
    request->job.tokens = detokenize->tokens;
    request->job.n_tokens = detokenize->n_tokens;
    request->job.with_special = detokenize->with_special;
    enter(request);
}
