// SPDX-License-Identifier: Apache-2.0
/* Requests that the engine thread answers: checked here, put into the queue, answered by request.c. */
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "base/strings/printable.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_queue.h"
#include "daemon/requests/request_sampling.h"
#include "daemon/requests/session.h"
#include "proto/proto_check.h"
#include "spec/speculator.h"

Model *handler_admit(Peer *peer, uint64_t request_id, const char *name, const char *field) {
    Service *service = peer->service;
    Model *model;

    if (service->draining) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN,
                              service->config->timeouts.drain_ms, "", "the service is shutting down");
        return NULL;
    }
    if (peer->n_requests >= service->config->limits.max_requests_per_connection) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED,
                              admission_retry_ms(&service->requests.admission), "",
                              "%u requests are in flight on this connection: no more are accepted "
                              "before one ends",
                              peer->n_requests);
        return NULL;
    }
    model = handler_find_model(peer, request_id, name, field);
    return model && handler_demand_model(peer, request_id, model, name) ? model : NULL;
}

Request *handler_new_request(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes, Model *model) {
    uint64_t request_id = (*messagep)->request_id;
    Request *request = NULL;

    if (request_new(&request, &peer->service->requests, peer, messagep, len_bytes, model))
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                              admission_retry_ms(&peer->service->requests.admission), "",
                              "no memory for a request of %zu bytes: %s is reached", len_bytes,
                              user_memory_limit(peer->user, peer->is_admin));
    return request;
}

enum {
    ECHO_TOKEN_BYTES = 16, /* of text, for each token of a prompt that is echoed */
};

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* Takes the messages behind those of the session, if there is one. 0 or -ENOMEM. */
static int take_messages(Request *request, const Session *session, const Coordgen__V1__Messages *messages) {
    const size_t n_before = session ? session->n_messages : 0;

    request->input.messages = handler_messages(messages, session ? session->messages : NULL, n_before);
    if (!request->input.messages)
        return err_raise(-ENOMEM);
    request->input.n_own_messages = messages->n_message;
    request->job.input.chat.now_s = (int64_t)time(NULL);
    request->job.input.chat.messages = request->input.messages;
    request->job.input.chat.n_messages = n_before + messages->n_message;
    return 0;
}

/* Takes tools and documents for the chat template; both point into the request's message. */
static void take_tools(ChatInput *chat, const char *tools, const char *documents) {
    chat->tools = tools;
    chat->tools_bytes = tools ? strlen(tools) : 0;
    chat->documents = documents;
    chat->documents_bytes = documents ? strlen(documents) : 0;
}

static size_t text_bytes(const char *text) {
    return text ? strlen(text) : 0;
}

static void take_kwargs(ChatInput *chat, const char *kwargs) {
    chat->kwargs = kwargs;
    chat->kwargs_bytes = kwargs ? strlen(kwargs) : 0;
}

static size_t tools_bytes(const char *tools, const char *documents) {
    return text_bytes(tools) + text_bytes(documents);
}

/* Takes the prompt behind the session's text. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int take_prompt(Request *request, const Session *session, const char *prompt) {
    Job *job = &request->job;
    int r;

    job->input.text = prompt;
    job->input.text_bytes = strlen(prompt);
    job->input.tokenize_flags = TOKENIZE_ADD_BOS;
    if (!session)
        return 0;
    r = user_charge(request->user, request->is_admin, &request->bill, session->text.len_bytes + job->input.text_bytes);
    if (r)
        return r;
    str_buf_append(&request->input.raw, session->text.data ? session->text.data : "", session->text.len_bytes);
    str_buf_append(&request->input.raw, prompt, job->input.text_bytes);
    if (str_buf_failed(&request->input.raw))
        return err_raise(-ENOMEM);
    job->input.text = request->input.raw.data;
    job->input.text_bytes = request->input.raw.len_bytes;
    return 0;
}

/* Takes what stands beside messages or prompt. All of it points into the request's message. */
static void take_beside(JobInput *input, const Coordgen__V1__GenerateRequest *generate) {
    input->chat.answer_prefix = generate->answer_prefix;
    input->chat.answer_prefix_bytes = text_bytes(generate->answer_prefix);
    input->suffix = generate->suffix;
    input->suffix_bytes = text_bytes(generate->suffix);
}

/* Charges the prompt's text as often as it is echoed: it waits in memory for a client that reads. 0,
 * ACCOUNT_E_LIMIT. */
static int charge_echo(Request *request) {
    const JobInput *input = &request->job.input;
    const uint64_t len_bytes = input->text_bytes + (uint64_t)input->n_tokens * ECHO_TOKEN_BYTES;

    if (!request->job.generate.echo)
        return 0;
    return user_charge(request->user, request->is_admin, &request->bill, MAX(request->job.generate.n, 1) * len_bytes);
}

/* Takes the prompt's token ids. */
static void take_tokens(JobInput *input, const Coordgen__V1__TokenIds *tokens) {
    input->tokens = tokens->id;
    input->n_tokens = tokens->n_id;
}

/* Takes the input of a generation. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int take_input(Request *request, const Session *session, const Coordgen__V1__GenerateRequest *generate) {
    int r = 0;

    take_beside(&request->job.input, generate);
    switch (generate->input_case) {
    case COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES:
        r = take_messages(request, session, generate->messages);
        break;
    case COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT_TOKENS:
        take_tokens(&request->job.input, generate->prompt_tokens);
        break;
    default:
        r = take_prompt(request, session, generate->prompt);
    }
    return r ? r : charge_echo(request);
}

static size_t input_bytes(const Coordgen__V1__Messages *messages, const char *text) {
    return messages ? handler_messages_bytes(messages) : text_bytes(text);
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

static uint64_t random_seed(void) {
    uint64_t seed;

    /* Never short for 8 bytes once the pool is filled, and it is when a daemon runs. */
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = clock_now_ns();
    return seed;
}

/* Takes the sampling options that the message sets; the others are the service's until the engine thread knows the
 * model. Return: 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int take_sampling(Request *request, const Coordgen__V1__SamplingOptions *sampling, const Config *config) {
    static const Coordgen__V1__SamplingOptions nothing = COORDGEN__V1__SAMPLING_OPTIONS__INIT;
    const Coordgen__V1__SamplingOptions *from = sampling ? sampling : &nothing;
    const size_t biases_bytes = from->n_logit_bias * sizeof(SamplerBias);
    JobGenerate *generate = &request->job.generate;
    SamplerOptions asked;
    int r = 0;

    if (biases_bytes) {
        r = user_charge(request->user, request->is_admin, &request->bill, biases_bytes);
        request->input.biases = r ? NULL : malloc(biases_bytes);
        if (!request->input.biases)
            return r ? r : err_raise(-ENOMEM);
    }
    generate->sampling_fields = request_sampling_take(from, request->input.biases, &asked);
    asked.seed = from->has_seed ? from->seed : random_seed();
    generate->samples_as_model = config->generations.sampling_defaults == CONFIG_SAMPLING_MODEL;
    sampling_choose(&generate->sampling, NULL, &asked, generate->sampling_fields);
    generate->options.sampler = generate->sampling.options;
    return 0;
}

uint64_t handler_kv_share_bytes(const Peer *peer) {
    const AccountTable *accounts = &peer->service->accounts;
    const uint64_t own = accounts->limit_bytes[ACCOUNT_KV], all = accounts->others_limit_bytes, bytes = MIN(own, all);
    const uint32_t percent = peer->service->config->memory.kv_user_percent;

    if (peer->is_admin || bytes == UINT64_MAX || percent == 100)
        return 0;
    return bytes / 100 * percent;
}

/* Takes the constraint, whose text points into the request's message. */
static void take_constraint(Request *request, const Coordgen__V1__Constraint *constraint) {
    ConstraintSpec *spec = &request->input.constraint.spec;

    if (!constraint)
        return;
    switch (constraint->form_case) {
    case COORDGEN__V1__CONSTRAINT__FORM_JSON_SCHEMA:
        *spec = (ConstraintSpec){ .form = CONSTRAINT_FORM_JSON_SCHEMA, .text = constraint->json_schema };
        break;
    case COORDGEN__V1__CONSTRAINT__FORM_GBNF:
        *spec = (ConstraintSpec){ .form = CONSTRAINT_FORM_GBNF, .text = constraint->gbnf };
        break;
    default: /* proto_check_request() has refused others */
        *spec = (ConstraintSpec){ .form = CONSTRAINT_FORM_REGEX, .text = constraint->regex };
    }
    spec->n_bytes = strlen(spec->text);
    spec->is_compact = constraint->compact;
    spec->is_any_order = constraint->any_order;
    request->job.generate.options.constraint.may_be_cut = constraint->has_end_in_time && !constraint->end_in_time;
}

/* Takes what the model may do with the tools. Its calls are constrained by their schemas. */
static void take_calls(Request *request, const Coordgen__V1__ToolChoice *choice) {
    static const CallMode modes[] = {
        [COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_UNSPECIFIED] = CALL_MODE_AUTO,
        [COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NONE] = CALL_MODE_NONE,
        [COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_AUTO] = CALL_MODE_AUTO,
        [COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_REQUIRED] = CALL_MODE_REQUIRED,
        [COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NAMED] = CALL_MODE_NAMED,
    };
    ChatInput *chat = &request->job.input.chat;
    ConstraintSpec *spec = &request->input.constraint.spec;
    const CallMode mode = !chat->tools ? CALL_MODE_NONE : choice ? modes[choice->mode] : CALL_MODE_AUTO;

    if (mode == CALL_MODE_NONE || (mode == CALL_MODE_AUTO && chat_is_empty_json(chat->tools, chat->tools_bytes)))
        return;
    chat->offers_calls = true;
    request->job.input.calls = (CallChoice){ .mode = mode,
                                             .name = mode == CALL_MODE_NAMED ? choice->name : NULL,
                                             .is_single = choice && choice->single };
    spec->tools = chat->tools;
    spec->tools_bytes = chat->tools_bytes;
    spec->choice = request->job.input.calls;
}

Priority handler_priority(bool is_set, Coordgen__V1__Priority priority) {
    static const Priority priorities[] = {
        [COORDGEN__V1__PRIORITY__PRIORITY_INTERACTIVE] = PRIORITY_INTERACTIVE,
        [COORDGEN__V1__PRIORITY__PRIORITY_NORMAL] = PRIORITY_NORMAL,
        [COORDGEN__V1__PRIORITY__PRIORITY_BACKGROUND] = PRIORITY_BACKGROUND,
    };

    return is_set ? priorities[priority] : PRIORITY_NORMAL;
}

/* Chooses the sources of drafts: the request's, else the setting's. false: the error is sent. */
static bool choose_speculation(Peer *peer, uint64_t request_id, const Coordgen__V1__GenerateRequest *generate,
                               uint32_t *sourcesp) {
    const char *text = generate->speculation ? generate->speculation : peer->service->config->generations.speculation;
    ErrText err;

    if (!speculation_parse(text, sourcesp, &err))
        return true;
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                          "generate.speculation", "generate.%s", err.text);
    return false;
}

/* Finds the session that a generation asks for, and checks that it is free, with this kind of input and this model.
 * NULL: the error is sent. */
static Session *usable_session(Peer *peer, uint64_t request_id, const Coordgen__V1__GenerateRequest *generate,
                               bool is_chat) {
    Session *session = handler_find_session(peer, request_id, generate->session, "generate.session");

    if (!session)
        return NULL;
    if (session->request) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                              admission_retry_ms(&peer->service->requests.admission), "generate.session",
                              "session %" PRIu64 " is answering: one request at a time; session_fork makes another one",
                              session->id);
        return NULL;
    }
    if (generate->model && *generate->model && strcmp(generate->model, session->model_name)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "generate.model", "generate.model: session %" PRIu64 " is with %.*s: leave the model out",
                              session->id, UTF8_PREFIX(session->model_name, 64));
        return NULL;
    }
    if (session->input == (is_chat ? SESSION_RAW : SESSION_CHAT)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              is_chat ? "generate.messages" : "generate.prompt",
                              is_chat ? "generate.messages: session %" PRIu64 " goes on with raw prompts"
                                      : "generate.prompt: session %" PRIu64 " goes on with messages",
                              session->id);
        return NULL;
    }
    if (is_chat && session->n_messages + generate->messages->n_message > PROTO_MESSAGES_MAX) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "generate.messages",
                              "generate.messages: session %" PRIu64 " has %zu messages: at most %d", session->id,
                              session->n_messages, PROTO_MESSAGES_MAX);
        return NULL;
    }
    return session;
}

void handle_generate(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__GenerateRequest *generate = (*messagep)->generate;
    const Config *config = peer->service->config;
    bool is_chat = generate->input_case == COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES;
    const char *raw = generate->input_case == COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT ? generate->prompt : NULL;
    Session *session = NULL;
    Model *model;
    Request *request;
    uint32_t sources;
    Job *job;
    int r;

    if (!choose_speculation(peer, (*messagep)->request_id, generate, &sources))
        return;
    if (generate->has_session) {
        session = usable_session(peer, (*messagep)->request_id, generate, is_chat);
        if (!session)
            return;
        connection_spend(peer->connection, session_work(session));
    }
    model =
        handler_admit(peer, (*messagep)->request_id, session ? session->model_name : generate->model, "generate.model");
    if (!model || !handler_text_fits(peer, (*messagep)->request_id,
                                     input_bytes(is_chat ? generate->messages : NULL, raw) +
                                         tools_bytes(generate->tools, generate->documents) +
                                         tools_bytes(generate->suffix, generate->answer_prefix) +
                                         (session ? session_text_bytes(session) : 0),
                                     is_chat ? "generate.messages" : "generate.prompt"))
        return;
    request = handler_new_request(peer, messagep, len_bytes, model);
    if (!request)
        return;
    request->input.chose_speculation = generate->speculation != NULL;
    job = &request->job;
    job->kind = JOB_GENERATE;
    job->generate.n = generate->has_n ? generate->n : 1;
    job->generate.echo = generate->echo;
    job->generate.want_tokens = generate->want_tokens;
    job->generate.keeps_history =
        !generate->no_history && !no_history_has(&peer->service->drafts.no_history, peer->user->uid, peer->name);
    job->generate.prompt_max_tokens = config->limits.prompt_max_tokens;
    job->generate.priority = handler_priority(generate->has_priority, generate->priority);
    job->generate.ageing_ns = (uint64_t)config->turns.ageing_ms * 1000000;
    job->generate.options = (GenerationOptions){
        .max_tokens = generate->max_tokens,
        .context_tokens = config_context_tokens(config, model->name),
        .speculation = { .sources = sources },
        .ignore_end = generate->ignore_end,
        .is_infill = generate->suffix != NULL,
        .is_answer = is_chat && !generate->answer_prefix, /* else the answer has begun already */
        .ends_repetition = generate->has_end_repetition ? generate->end_repetition : is_chat && !generate->ignore_end,
        .user = peer->user->uid,
        .no_reuse = generate->no_reuse,
        .kv_max_bytes = handler_kv_share_bytes(peer),
        .n_stops = generate->n_stop,
        .logprobs = { generate->has_logprobs, generate->logprobs },
    };
    for (size_t i = 0; i < generate->n_stop; i++)
        job->generate.options.stops[i] = generate->stop[i];
    take_constraint(request, generate->constraint);
    job->generate.options.constraint.prefix = generate->answer_prefix;
    job->generate.options.constraint.prefix_bytes = text_bytes(generate->answer_prefix);
    if (!generate->constraint) /* max_tokens may cut an answer off whose thinking alone is limited */
        job->generate.options.constraint.may_be_cut = true;
    request->input.constraint.spec.may_think = is_chat;
    request->input.constraint.spec.thinking_tokens =
        generate->has_thinking_tokens ? generate->thinking_tokens : THINKING_NO_LIMIT;
    take_tools(&job->input.chat, generate->tools, generate->documents);
    job->input.chat.no_generation_prompt = generate->has_add_generation_prompt && !generate->add_generation_prompt;
    take_calls(request, generate->tool_choice);
    take_kwargs(&job->input.chat, generate->template_kwargs);
    if (generate->has_thinking_tokens)
        job->input.chat.thinking = generate->thinking_tokens ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
    job->input.chat.placep = &job->run.place;
    job->input.splits = generate->has_split ? generate->split : is_chat;
    r = take_sampling(request, generate->sampling, config);
    if (!r)
        r = take_input(request, session, generate);
    if (r) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                     admission_retry_ms(&peer->service->requests.admission), "", "no memory for the prompt");
        return;
    }
    if (session) {
        session_attach(session, request);
        request->session = session;
        job->generate.options.pin = &session->pin;
    }
    request_queue_enter(request);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

void handle_tokenize(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__TokenizeRequest *tokenize = (*messagep)->tokenize;
    bool is_chat = tokenize->input_case == COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES;
    Model *model = handler_admit(peer, (*messagep)->request_id, tokenize->model, "tokenize.model");
    Request *request;
    Job *job;

    if (!model ||
        !handler_text_fits(peer, (*messagep)->request_id,
                           input_bytes(is_chat ? tokenize->messages : NULL, tokenize->text) +
                               tools_bytes(tokenize->tools, tokenize->documents) + text_bytes(tokenize->answer_prefix),
                           is_chat ? "tokenize.messages" : "tokenize.text"))
        return;
    request = handler_new_request(peer, messagep, len_bytes, model);
    if (!request)
        return;
    job = &request->job;
    job->kind = JOB_TOKENIZE;
    job->input.count_only = tokenize->count_only;
    job->input.render_only = tokenize->render_only;
    take_tools(&job->input.chat, tokenize->tools, tokenize->documents);
    job->input.chat.offers_calls = tokenize->tools != NULL;
    take_kwargs(&job->input.chat, tokenize->template_kwargs);
    job->input.chat.answer_prefix = tokenize->answer_prefix;
    job->input.chat.answer_prefix_bytes = text_bytes(tokenize->answer_prefix);
    if (tokenize->has_thinking_tokens)
        job->input.chat.thinking = tokenize->thinking_tokens ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
    job->input.chat.no_generation_prompt = tokenize->has_add_generation_prompt && !tokenize->add_generation_prompt;
    if (!is_chat) {
        job->input.text = tokenize->text;
        job->input.text_bytes = strlen(tokenize->text);
        job->input.tokenize_flags = (tokenize->add_special ? TOKENIZE_ADD_SPECIAL : 0u) |
                                    (tokenize->parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    } else if (take_messages(request, NULL, tokenize->messages)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                     admission_retry_ms(&peer->service->requests.admission), "", "out of memory");
        return;
    }
    request_queue_enter(request);
}

void handle_detokenize(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__DetokenizeRequest *detokenize = (*messagep)->detokenize;
    Model *model = handler_admit(peer, (*messagep)->request_id, detokenize->model, "detokenize.model");
    Request *request = model ? handler_new_request(peer, messagep, len_bytes, model) : NULL;

    if (!request)
        return;
    request->job.kind = JOB_DETOKENIZE;
    request->job.detokenize.tokens = detokenize->tokens;
    request->job.detokenize.n_tokens = detokenize->n_tokens;
    request->job.detokenize.with_special = detokenize->with_special;
    request_queue_enter(request);
}
