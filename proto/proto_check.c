// SPDX-License-Identifier: Apache-2.0
#include "proto/proto_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/min_max.h"

/* Sets text and path: "field: what". */
#define refuse(fault, path, ...) refuse_at((fault), (path), PROTO_CHECK_E_VALUE, __VA_ARGS__)

static int refuse_at(FrameFault *fault, const char *path, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse_at(FrameFault *fault, const char *path, int code, const char *format, ...) {
    va_list args;

    va_start(args, format);
    vsnprintf(fault->err.text, sizeof(fault->err.text), format, args);
    va_end(args);
    err_prefix(&fault->err, "%s", path);
    snprintf(fault->field, sizeof(fault->field), "%s", path);
    return code;
}

/* Writes the path of a field: the operation, then the field in it, as "generate.messages". */
static const char *path_join(char *room, size_t room_bytes, const char *op, const char *field) {
    snprintf(room, room_bytes, "%s.%s", op, field);
    return room;
}

static int logit_bias_check(const Coordgen__V1__SamplingOptions *sampling, FrameFault *fault) {
    if (sampling->n_logit_bias > PROTO_LOGIT_BIASES_MAX)
        return refuse(fault, "generate.sampling.logit_bias", "%zu tokens: at most %d", sampling->n_logit_bias,
                      PROTO_LOGIT_BIASES_MAX);
    for (size_t i = 0; i < sampling->n_logit_bias; i++) {
        const Coordgen__V1__LogitBias *one = sampling->logit_bias[i];
        char path[64];

        snprintf(path, sizeof(path), "generate.sampling.logit_bias[%zu]", i);
        if (!one->has_token || !one->has_bias)
            return refuse(fault, path, "a token and a bias are needed");
        if (one->bias != -INFINITY && !(one->bias >= -PROTO_LOGIT_BIAS_MAX && one->bias <= PROTO_LOGIT_BIAS_MAX))
            return refuse(fault, path, "the bias %g of token %" PRIu32 " is not in -%d..%d, nor -infinity (never)",
                          (double)one->bias, one->token, PROTO_LOGIT_BIAS_MAX, PROTO_LOGIT_BIAS_MAX);
    }
    return 0;
}

/* A single empty text stands for no breakers at all. */
static int dry_breaker_check(const Coordgen__V1__SamplingOptions *sampling, FrameFault *fault) {
    if (sampling->n_dry_breaker > PROTO_DRY_BREAKERS_MAX)
        return refuse(fault, "generate.sampling.dry_breaker", "%zu texts: at most %d", sampling->n_dry_breaker,
                      PROTO_DRY_BREAKERS_MAX);
    for (size_t i = 0; i < sampling->n_dry_breaker; i++) {
        const size_t len_bytes = strlen(sampling->dry_breaker[i]);
        char path[64];

        snprintf(path, sizeof(path), "generate.sampling.dry_breaker[%zu]", i);
        if (!len_bytes && sampling->n_dry_breaker > 1)
            return refuse(fault, path, "a text among others must not be empty; a single empty one means none");
        if (len_bytes > PROTO_DRY_BREAKER_BYTES_MAX)
            return refuse(fault, path, "%zu bytes: at most %d", len_bytes, PROTO_DRY_BREAKER_BYTES_MAX);
    }
    return 0;
}

/* Every comparison states the allowed range, because a NaN passes no comparison. */
int proto_check_sampling(const Coordgen__V1__SamplingOptions *sampling, FrameFault *fault) {
    const struct {
        bool has;
        float value;
        const char *path;
        bool is_good;
        const char *range;
    } fields[] = {
#define FIELD(name, condition, range)                                                                                  \
    { sampling->has_##name, sampling->name, "generate.sampling." #name, (condition), (range) }
        FIELD(temperature, sampling->temperature >= 0 && sampling->temperature <= 100, "in 0..100 (0: greedy)"),
        FIELD(top_p, sampling->top_p > 0 && sampling->top_p <= 1, "above 0 and at most 1 (1: off)"),
        FIELD(min_p, sampling->min_p >= 0 && sampling->min_p < 1, "at least 0 and below 1 (0: off)"),
        FIELD(repetition_penalty, sampling->repetition_penalty > 0 && sampling->repetition_penalty <= 10,
              "above 0 and at most 10 (1: off)"),
        FIELD(presence_penalty, sampling->presence_penalty >= -10 && sampling->presence_penalty <= 10,
              "in -10..10 (0: off)"),
        FIELD(frequency_penalty, sampling->frequency_penalty >= -10 && sampling->frequency_penalty <= 10,
              "in -10..10 (0: off)"),
        FIELD(typical_p, sampling->typical_p > 0 && sampling->typical_p <= 1, "above 0 and at most 1 (1: off)"),
        FIELD(xtc_probability, sampling->xtc_probability >= 0 && sampling->xtc_probability <= 1, "in 0..1 (0: off)"),
        FIELD(xtc_threshold, sampling->xtc_threshold >= 0 && sampling->xtc_threshold <= 0.5f, "in 0..0.5"),
        FIELD(dry_multiplier, sampling->dry_multiplier >= 0 && sampling->dry_multiplier <= 100, "in 0..100 (0: off)"),
        FIELD(dry_base, sampling->dry_base >= 1 && sampling->dry_base <= 10, "in 1..10"),
#undef FIELD
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (fields[i].has && !fields[i].is_good)
            return refuse(fault, fields[i].path, "%g is not %s", (double)fields[i].value, fields[i].range);
    return logit_bias_check(sampling, fault) ? PROTO_CHECK_E_VALUE : dry_breaker_check(sampling, fault);
}

static int model_name_check(const char *op, const char *name, bool needed, size_t max_bytes, FrameFault *fault) {
    char path[64];

    path_join(path, sizeof(path), op, "model");
    if (needed && (!name || !*name))
        return refuse(fault, path, "a model must be named");
    if (name && strlen(name) > max_bytes)
        return refuse(fault, path, "a name of %zu bytes: at most %zu", strlen(name), max_bytes);
    return 0;
}

static int model_load_check(const Coordgen__V1__ModelLoadRequest *load, FrameFault *fault) {
    int r = model_name_check("model_load", load->model, !load->on_demand, PROTO_PATH_BYTES_MAX, fault);

    if (!r && load->on_demand && load->model && *load->model == '/')
        return refuse(fault, "model_load.model", "'%.64s' is a path: on_demand takes the name of a model", load->model);
    if (!r && load->on_demand && load->with_file)
        return refuse(fault, "model_load.with_file", "on_demand takes the name of a model: leave one of the two out");
    if (!r && load->has_with_file && load->with_file && *load->model != '/')
        return refuse(fault, "model_load.with_file", "model is '%.64s': the absolute path of the file is needed",
                      load->model);
    return r;
}

/* Checks the tool calls of one message, and what a tool's answer says of them. path: its fields begin with it. */
static int message_calls_check(const char *path, const Coordgen__V1__Message *message, FrameFault *fault) {
    const bool is_assistant = message->role == COORDGEN__V1__ROLE__ROLE_ASSISTANT,
               is_tool = message->role == COORDGEN__V1__ROLE__ROLE_TOOL;
    char field[160];

    snprintf(field, sizeof(field), "%s.tool_calls", path);
    if (message->n_tool_calls && !is_assistant)
        return refuse(fault, field, "only messages of the assistant have calls: leave them out");
    if (message->n_tool_calls > PROTO_CALLS_MAX)
        return refuse(fault, field, "%zu calls: at most %d", message->n_tool_calls, PROTO_CALLS_MAX);
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const Coordgen__V1__ToolCall *call = message->tool_calls[i];

        snprintf(field, sizeof(field), "%s.tool_calls[%zu].name", path, i);
        if (!call->name || !*call->name)
            return refuse(fault, field, "missing: the name of the tool");
        if (strlen(call->name) > PROTO_TOOL_NAME_BYTES_MAX)
            return refuse(fault, field, "%zu bytes: at most %d", strlen(call->name), PROTO_TOOL_NAME_BYTES_MAX);
        snprintf(field, sizeof(field), "%s.tool_calls[%zu].id", path, i);
        if (call->id && strlen(call->id) > PROTO_CALL_ID_BYTES_MAX)
            return refuse(fault, field, "%zu bytes: at most %d", strlen(call->id), PROTO_CALL_ID_BYTES_MAX);
    }
    snprintf(field, sizeof(field), "%s.reasoning", path);
    if (message->reasoning && !is_assistant)
        return refuse(fault, field, "only messages of the assistant have thinking: leave it out");
    snprintf(field, sizeof(field), "%s.tool_call_id", path);
    if (message->tool_call_id && !is_tool)
        return refuse(fault, field, "only messages of a tool answer a call: leave it out");
    if (message->tool_call_id && strlen(message->tool_call_id) > PROTO_CALL_ID_BYTES_MAX)
        return refuse(fault, field, "%zu bytes: at most %d", strlen(message->tool_call_id), PROTO_CALL_ID_BYTES_MAX);
    snprintf(field, sizeof(field), "%s.name", path);
    if (message->name && strlen(message->name) > PROTO_TOOL_NAME_BYTES_MAX)
        return refuse(fault, field, "%zu bytes: at most %d", strlen(message->name), PROTO_TOOL_NAME_BYTES_MAX);
    return 0;
}

static int messages_check(const char *op, const Coordgen__V1__Messages *messages, FrameFault *fault) {
    char path[96];
    int r;

    path_join(path, sizeof(path), op, "messages");
    if (!messages || !messages->n_message)
        return refuse(fault, path, "at least one message is needed");
    if (messages->n_message > PROTO_MESSAGES_MAX)
        return refuse(fault, path, "%zu messages: at most %d", messages->n_message, PROTO_MESSAGES_MAX);
    for (size_t i = 0; i < messages->n_message; i++) {
        const Coordgen__V1__Message *message = messages->message[i];

        if (!message->has_role || message->role == COORDGEN__V1__ROLE__ROLE_UNSPECIFIED) {
            snprintf(path, sizeof(path), "%s.messages.message[%zu].role", op, i);
            return refuse(fault, path, "missing: one of system, user, assistant, tool");
        }
        if (!message->text && !message->n_tool_calls) {
            snprintf(path, sizeof(path), "%s.messages.message[%zu].text", op, i);
            return refuse(fault, path, "missing");
        }
        snprintf(path, sizeof(path), "%s.messages.message[%zu]", op, i);
        r = message_calls_check(path, message, fault);
        if (r)
            return r;
    }
    return 0;
}

static int session_id_check(const char *field, bool has, uint64_t id, FrameFault *fault) {
    return has && id ? 0 : refuse(fault, field, "missing or 0: the number that session_open gave");
}

static int session_open_check(const Coordgen__V1__SessionOpenRequest *open, FrameFault *fault) {
    if (open->input_case == COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_MESSAGES) {
        int r = messages_check("session_open", open->messages, fault);

        if (r)
            return r;
    } else if (open->input_case == COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_PROMPT && !*open->prompt) {
        return refuse(fault, "session_open.prompt", "the prompt is empty: leave it out");
    }
    return model_name_check("session_open", open->model, false, PROTO_MODEL_NAME_BYTES_MAX, fault);
}

static int chat_only(const char *field, FrameFault *fault) {
    return refuse(fault, field, "only a chat template takes it: send messages with it, or leave it out");
}

static int kwargs_check(const char *op, const char *kwargs, FrameFault *fault) {
    char path[64];

    if (!kwargs || strlen(kwargs) <= PROTO_KWARGS_BYTES_MAX)
        return 0;
    path_join(path, sizeof(path), op, "template_kwargs");
    return refuse(fault, path, "%zu bytes: at most %d", strlen(kwargs), PROTO_KWARGS_BYTES_MAX);
}

/* Refuses fields that only a chat template takes, in a request without messages. */
static int chat_only_check(const char *op, const char *tools, const char *documents, bool has_generation_prompt,
                           FrameFault *fault) {
    char path[64];

    if (!tools && !documents && !has_generation_prompt)
        return 0;
    path_join(path, sizeof(path), op, tools ? "tools" : documents ? "documents" : "add_generation_prompt");
    return chat_only(path, fault);
}

/* Checks what the model may do with its tools. */
static int tool_choice_check(const Coordgen__V1__GenerateRequest *generate, FrameFault *fault) {
    const Coordgen__V1__ToolChoice *choice = generate->tool_choice;
    const bool is_named = choice && choice->mode == COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NAMED,
               has_calls = generate->tools &&
                           !(choice && choice->mode == COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NONE);

    if (choice && !generate->tools)
        return refuse(fault, "generate.tool_choice", "it chooses among tools: send tools with it, or leave it out");
    if (choice && (choice->mode < COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_UNSPECIFIED ||
                   choice->mode > COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NAMED))
        return refuse(fault, "generate.tool_choice.mode",
                      "%d is none of none (1), auto (2), required (3), named (4): leave it out for auto",
                      (int)choice->mode);
    if (is_named != (choice && choice->name && *choice->name))
        return refuse(fault, "generate.tool_choice.name",
                      is_named ? "missing: the name of the tool" : "only mode NAMED takes the name of a tool");
    if (is_named && strlen(choice->name) > PROTO_TOOL_NAME_BYTES_MAX)
        return refuse(fault, "generate.tool_choice.name", "%zu bytes: at most %d", strlen(choice->name),
                      PROTO_TOOL_NAME_BYTES_MAX);
    if (has_calls && generate->constraint)
        return refuse(fault, "generate.constraint",
                      "calls of the tools have a constraint of their own: leave one of them out, or set tool_choice "
                      "to NONE");
    if (choice && has_calls && generate->ignore_end)
        return refuse(fault, "generate.ignore_end", "calls say where the answer ends: leave one of them out");
    return 0;
}

/* Checks the text of a constraint; whether it can be enforced is found out when it is compiled. */
static int constraint_check(const Coordgen__V1__Constraint *constraint, bool ignores_end, FrameFault *fault) {
    size_t bytes_max = PROTO_CONSTRAINT_BYTES_MAX, len_bytes;
    const char *path, *text;

    switch (constraint->form_case) {
    case COORDGEN__V1__CONSTRAINT__FORM_JSON_SCHEMA:
        path = "generate.constraint.json_schema";
        text = constraint->json_schema;
        break;
    case COORDGEN__V1__CONSTRAINT__FORM_GBNF:
        path = "generate.constraint.gbnf";
        text = constraint->gbnf;
        break;
    case COORDGEN__V1__CONSTRAINT__FORM_REGEX:
        path = "generate.constraint.regex";
        text = constraint->regex;
        bytes_max = PROTO_REGEX_BYTES_MAX;
        break;
    default:
        return refuse(fault, "generate.constraint",
                      "it has no form: set json_schema, gbnf or regex, or leave the constraint out");
    }
    len_bytes = strlen(text);
    if (!len_bytes)
        return refuse(fault, path, "it is empty: leave the constraint out for an answer of any form");
    if (len_bytes > bytes_max)
        return refuse(fault, path, "%zu bytes: at most %zu", len_bytes, bytes_max);
    if (constraint->compact && constraint->form_case != COORDGEN__V1__CONSTRAINT__FORM_JSON_SCHEMA)
        return refuse(fault, "generate.constraint.compact", "only json_schema has white space to leave out");
    if (constraint->any_order && constraint->form_case != COORDGEN__V1__CONSTRAINT__FORM_JSON_SCHEMA)
        return refuse(fault, "generate.constraint.any_order", "only json_schema has properties");
    if (ignores_end)
        return refuse(fault, "generate.ignore_end", "the constraint says where the answer ends: leave one of them out");
    return 0;
}

/* Refuses what contradicts a limit on the thinking. */
static int thinking_check(const Coordgen__V1__GenerateRequest *generate, FrameFault *fault) {
    if (!generate->has_thinking_tokens)
        return 0;
    if (generate->ignore_end)
        return refuse(fault, "generate.ignore_end",
                      "with thinking_tokens the answer ends where the model ends it: leave "
                      "one of them out");
    if (generate->has_add_generation_prompt && !generate->add_generation_prompt)
        return refuse(fault, "generate.add_generation_prompt",
                      "thinking_tokens needs a prompt that begins the answer: leave one of them out");
    return 0;
}

static int prompt_tokens_check(const Coordgen__V1__TokenIds *tokens, FrameFault *fault) {
    if (!tokens || !tokens->n_id)
        return refuse(fault, "generate.prompt_tokens", "the prompt is empty");
    if (tokens->n_id > PROTO_TOKENS_MAX)
        return refuse(fault, "generate.prompt_tokens", "%zu tokens: at most %u", tokens->n_id, PROTO_TOKENS_MAX);
    return 0;
}

/* Checks suffix, answer_prefix, echo and n: each with the inputs that it goes with. */
static int completion_check(const Coordgen__V1__GenerateRequest *generate, FrameFault *fault) {
    const bool is_chat = generate->input_case == COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES;

    if (generate->suffix && generate->input_case != COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT)
        return refuse(fault, "generate.suffix", "it needs the text before the gap as a prompt: send a prompt with it");
    if (generate->suffix && generate->has_session)
        return refuse(fault, "generate.suffix", "a session is one text without a gap: leave one of the two out");
    if (generate->answer_prefix && !is_chat)
        return refuse(fault, "generate.answer_prefix",
                      "only an answer to messages has a beginning: append it to the prompt instead");
    if (generate->answer_prefix && !*generate->answer_prefix)
        return refuse(fault, "generate.answer_prefix", "the text is empty: leave it out");
    if (generate->answer_prefix && generate->has_add_generation_prompt && !generate->add_generation_prompt)
        return refuse(fault, "generate.answer_prefix",
                      "it stands behind the generation prompt: leave add_generation_prompt out");
    if (generate->echo && is_chat)
        return refuse(fault, "generate.echo", "messages have no text of their own: send a prompt, or leave it out");
    if (generate->echo && generate->has_session)
        return refuse(fault, "generate.echo", "a session has its text with the service: leave one of the two out");
    if (generate->has_n && (!generate->n || generate->n > PROTO_CHOICES_MAX))
        return refuse(fault, "generate.n", "%" PRIu32 " answers: 1 to %d", generate->n, PROTO_CHOICES_MAX);
    return 0;
}

static int generate_check(const Coordgen__V1__GenerateRequest *generate, FrameFault *fault) {
    int r;

    r = model_name_check("generate", generate->model, false, PROTO_MODEL_NAME_BYTES_MAX, fault);
    if (r)
        return r;
    switch (generate->input_case) {
    case COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES:
        r = kwargs_check("generate", generate->template_kwargs, fault);
        if (!r)
            r = messages_check("generate", generate->messages, fault);
        if (r)
            return r;
        break;
    case COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT:
        if (!*generate->prompt)
            return refuse(fault, "generate.prompt", "the prompt is empty");
        if (generate->template_kwargs || generate->has_thinking_tokens)
            return chat_only(generate->template_kwargs ? "generate.template_kwargs" : "generate.thinking_tokens",
                             fault);
        if (generate->split && generate->has_session)
            return refuse(fault, "generate.split",
                          "a session that goes on with raw prompts keeps answers as they are written: leave it out");
        r = chat_only_check("generate", generate->tools, generate->documents, generate->has_add_generation_prompt,
                            fault);
        if (r)
            return r;
        break;
    case COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT_TOKENS:
        r = prompt_tokens_check(generate->prompt_tokens, fault);
        if (!r)
            r = chat_only_check("generate", generate->tools, generate->documents, generate->has_add_generation_prompt,
                                fault);
        if (r)
            return r;
        if (generate->has_session)
            return refuse(fault, "generate.prompt_tokens", "a session goes on with texts: send a prompt or messages");
        break;
    default:
        return refuse(fault, "generate.messages", "messages or a prompt are needed");
    }
    r = completion_check(generate, fault);
    if (r)
        return r;
    if (generate->has_session && (r = session_id_check("generate.session", true, generate->session, fault)))
        return r;
    r = thinking_check(generate, fault);
    if (!r)
        r = tool_choice_check(generate, fault);
    if (r)
        return r;
    if (generate->constraint && (r = constraint_check(generate->constraint, generate->ignore_end, fault)))
        return r;
    if (generate->n_stop > PROTO_STOPS_MAX)
        return refuse(fault, "generate.stop", "%zu stop strings: at most %d", generate->n_stop, PROTO_STOPS_MAX);
    for (size_t i = 0; i < generate->n_stop; i++) {
        size_t len_bytes = strlen(generate->stop[i]);
        char path[64];

        snprintf(path, sizeof(path), "generate.stop[%zu]", i);
        if (!len_bytes)
            return refuse(fault, path, "a stop string must not be empty");
        if (len_bytes > PROTO_STOP_BYTES_MAX)
            return refuse(fault, path, "%zu bytes: at most %d", len_bytes, PROTO_STOP_BYTES_MAX);
    }
    if (generate->has_priority && (generate->priority < COORDGEN__V1__PRIORITY__PRIORITY_INTERACTIVE ||
                                   generate->priority > COORDGEN__V1__PRIORITY__PRIORITY_BACKGROUND))
        return refuse(fault, "generate.priority",
                      "%d is none of interactive (1), normal (2), background (3): leave it out for normal",
                      (int)generate->priority);
    if (generate->speculation && strlen(generate->speculation) > PROTO_SPECULATION_BYTES_MAX)
        return refuse(fault, "generate.speculation", "%zu bytes: at most %d", strlen(generate->speculation),
                      PROTO_SPECULATION_BYTES_MAX);
    if (generate->has_logprobs && generate->logprobs > PROTO_LOGPROBS_MAX)
        return refuse(fault, "generate.logprobs", "%" PRIu32 " other tokens: at most %d", generate->logprobs,
                      PROTO_LOGPROBS_MAX);
    return generate->sampling ? proto_check_sampling(generate->sampling, fault) : 0;
}

static int tokenize_check(const Coordgen__V1__TokenizeRequest *tokenize, FrameFault *fault) {
    int r;

    r = model_name_check("tokenize", tokenize->model, false, PROTO_MODEL_NAME_BYTES_MAX, fault);
    if (r)
        return r;
    switch (tokenize->input_case) {
    case COORDGEN__V1__TOKENIZE_REQUEST__INPUT_TEXT:
        if (tokenize->template_kwargs || tokenize->render_only || tokenize->answer_prefix ||
            tokenize->has_thinking_tokens)
            return chat_only(tokenize->render_only       ? "tokenize.render_only"
                             : tokenize->template_kwargs ? "tokenize.template_kwargs"
                             : tokenize->answer_prefix   ? "tokenize.answer_prefix"
                                                         : "tokenize.thinking_tokens",
                             fault);
        return chat_only_check("tokenize", tokenize->tools, tokenize->documents, tokenize->has_add_generation_prompt,
                               fault);
    case COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES:
        if (tokenize->has_add_special || tokenize->has_parse_special)
            return refuse(fault, tokenize->has_add_special ? "tokenize.add_special" : "tokenize.parse_special",
                          "the chat template decides on special tokens: leave it out with messages");
        if (tokenize->render_only && tokenize->count_only)
            return refuse(fault, "tokenize.render_only", "the reply has no tokens to count: leave count_only out");
        if (tokenize->answer_prefix && !*tokenize->answer_prefix)
            return refuse(fault, "tokenize.answer_prefix", "the text is empty: leave it out");
        if ((tokenize->answer_prefix || tokenize->has_thinking_tokens) && tokenize->has_add_generation_prompt &&
            !tokenize->add_generation_prompt)
            return refuse(fault, "tokenize.add_generation_prompt",
                          "%s is in an answer that has begun: leave one of them out",
                          tokenize->answer_prefix ? "answer_prefix" : "thinking_tokens");
        r = kwargs_check("tokenize", tokenize->template_kwargs, fault);
        return r ? r : messages_check("tokenize", tokenize->messages, fault);
    default:
        return refuse(fault, "tokenize.text", "a text or messages are needed");
    }
}

/* Checks texts or token ids, one of the two. The number of values of a vector is the model's: the service checks that
 * the reply fits a frame. */
static int embed_check(const Coordgen__V1__EmbedRequest *embed, FrameFault *fault) {
    char path[64];
    size_t n_ids = 0;

    if (embed->n_text && embed->n_tokens)
        return refuse(fault, "embed.tokens", "texts and token ids are given: one of them");
    if (!embed->n_text && !embed->n_tokens)
        return refuse(fault, "embed.text", "1 to %d texts are needed", PROTO_TEXTS_MAX);
    if (embed->n_text > PROTO_TEXTS_MAX || embed->n_tokens > PROTO_TEXTS_MAX)
        return refuse(fault, embed->n_text ? "embed.text" : "embed.tokens", "%zu texts: at most %d",
                      MAX(embed->n_text, embed->n_tokens), PROTO_TEXTS_MAX);
    for (size_t i = 0; i < embed->n_text; i++)
        if (!*embed->text[i]) {
            snprintf(path, sizeof(path), "embed.text[%zu]", i);
            return refuse(fault, path, "the text is empty");
        }
    for (size_t i = 0; i < embed->n_tokens; i++) {
        snprintf(path, sizeof(path), "embed.tokens[%zu]", i);
        n_ids += embed->tokens[i]->n_id;
        if (!embed->tokens[i]->n_id)
            return refuse(fault, path, "the text has no token");
        if (n_ids > PROTO_TOKENS_MAX)
            return refuse(fault, path, "more than %u tokens together", PROTO_TOKENS_MAX);
    }
    if (embed->has_pooling && (embed->pooling < COORDGEN__V1__POOLING__POOLING_UNSPECIFIED ||
                               embed->pooling > COORDGEN__V1__POOLING__POOLING_CLS))
        return refuse(fault, "embed.pooling", "%d is none of mean (1), last (2), cls (3): leave it out for the model's",
                      (int)embed->pooling);
    if (embed->has_priority && (embed->priority < COORDGEN__V1__PRIORITY__PRIORITY_INTERACTIVE ||
                                embed->priority > COORDGEN__V1__PRIORITY__PRIORITY_BACKGROUND))
        return refuse(fault, "embed.priority",
                      "%d is none of interactive (1), normal (2), background (3): leave it out for normal",
                      (int)embed->priority);
    return model_name_check("embed", embed->model, false, PROTO_MODEL_NAME_BYTES_MAX, fault);
}

static int hello_check(const Coordgen__V1__HelloRequest *hello, FrameFault *fault) {
    if (!hello->has_version_min || !hello->version_min)
        return refuse(fault, "hello.version_min", "missing or 0");
    if (!hello->has_version_max || hello->version_max < hello->version_min)
        return refuse(fault, "hello.version_max", "missing, or below version_min");
    if (hello->client_name && strlen(hello->client_name) > PROTO_CLIENT_NAME_BYTES_MAX)
        return refuse(fault, "hello.client_name", "%zu bytes: at most %d", strlen(hello->client_name),
                      PROTO_CLIENT_NAME_BYTES_MAX);
    return 0;
}

static int detokenize_check(const Coordgen__V1__DetokenizeRequest *detokenize, FrameFault *fault) {
    if (detokenize->n_tokens > PROTO_TOKENS_MAX)
        return refuse(fault, "detokenize.tokens", "%zu tokens: at most %u", detokenize->n_tokens, PROTO_TOKENS_MAX);
    return model_name_check("detokenize", detokenize->model, false, PROTO_MODEL_NAME_BYTES_MAX, fault);
}

/* draft may be "", for none. */
static int model_pair_check(const Coordgen__V1__ModelPairRequest *pair, FrameFault *fault) {
    if (!pair->target || !*pair->target)
        return refuse(fault, "model_pair.target", "a model must be named");
    if (strlen(pair->target) > PROTO_MODEL_NAME_BYTES_MAX)
        return refuse(fault, "model_pair.target", "a name of %zu bytes: at most %d", strlen(pair->target),
                      PROTO_MODEL_NAME_BYTES_MAX);
    if (!pair->draft)
        return refuse(fault, "model_pair.draft", "missing: a model, or \"\" for none");
    if (strlen(pair->draft) > PROTO_MODEL_NAME_BYTES_MAX)
        return refuse(fault, "model_pair.draft", "a name of %zu bytes: at most %d", strlen(pair->draft),
                      PROTO_MODEL_NAME_BYTES_MAX);
    return 0;
}

/**
 * proto_check_request() - check ranges, lengths, counts and presence, which the types of the wire cannot tell
 * @request: decoded by frame_decode_request(), or built by a client before it is sent
 * @fault:   gets text and field path; its request_id is left alone
 *
 * The service itself checks what depends on its state: which models exist, what fits into the context.
 * Return: 0, PROTO_CHECK_E_VALUE, PROTO_CHECK_E_ENVELOPE.
 */
int proto_check_request(const Coordgen__V1__Request *request, FrameFault *fault) {
    if (!request->has_request_id || !request->request_id)
        return refuse_at(fault, "request_id", PROTO_CHECK_E_ENVELOPE, "missing or 0: every request has a number");
    switch (request->op_case) {
    case COORDGEN__V1__REQUEST__OP_HELLO:
        return hello_check(request->hello, fault);
    case COORDGEN__V1__REQUEST__OP_GENERATE:
        return generate_check(request->generate, fault);
    case COORDGEN__V1__REQUEST__OP_CANCEL:
        if (!request->cancel->has_target_request_id || !request->cancel->target_request_id)
            return refuse(fault, "cancel.target_request_id", "missing or 0");
        return 0;
    case COORDGEN__V1__REQUEST__OP_TOKENIZE:
        return tokenize_check(request->tokenize, fault);
    case COORDGEN__V1__REQUEST__OP_DETOKENIZE:
        return detokenize_check(request->detokenize, fault);
    case COORDGEN__V1__REQUEST__OP_EMBED:
        return embed_check(request->embed, fault);
    case COORDGEN__V1__REQUEST__OP_STATUS:
    case COORDGEN__V1__REQUEST__OP_REQUEST_LIST:
    case COORDGEN__V1__REQUEST__OP_MODEL_LIST:
    case COORDGEN__V1__REQUEST__OP_MODEL_PAIR_LIST:
    case COORDGEN__V1__REQUEST__OP_DISK:
    case COORDGEN__V1__REQUEST__OP_PRUNE:
        return 0;
    case COORDGEN__V1__REQUEST__OP_MODEL_DEFAULT:
        return request->model_default->model ? model_name_check("model_default", request->model_default->model, true,
                                                                PROTO_MODEL_NAME_BYTES_MAX, fault)
                                             : 0;
    case COORDGEN__V1__REQUEST__OP_MODEL_PAIR:
        return model_pair_check(request->model_pair, fault);
    case COORDGEN__V1__REQUEST__OP_MODEL_SHOW:
        return model_name_check("model_show", request->model_show->model, false, PROTO_MODEL_NAME_BYTES_MAX, fault);
    case COORDGEN__V1__REQUEST__OP_MODEL_LOAD:
        return model_load_check(request->model_load, fault);
    case COORDGEN__V1__REQUEST__OP_EXPLAIN:
        if (!request->explain->has_number || !request->explain->number)
            return refuse(fault, "explain.number", "missing or 0: the request_number of a usage");
        return 0;
    case COORDGEN__V1__REQUEST__OP_REQUEST_CANCEL:
        if (!request->request_cancel->has_number || !request->request_cancel->number)
            return refuse(fault, "request_cancel.number", "missing or 0: the request_number of a usage");
        return 0;
    case COORDGEN__V1__REQUEST__OP_MODEL_REMOVE:
        return model_name_check("model_remove", request->model_remove->model, true, PROTO_MODEL_NAME_BYTES_MAX, fault);
    case COORDGEN__V1__REQUEST__OP_SESSION_OPEN:
        return session_open_check(request->session_open, fault);
    case COORDGEN__V1__REQUEST__OP_SESSION_FORK:
        return session_id_check("session_fork.session", request->session_fork->has_session,
                                request->session_fork->session, fault);
    case COORDGEN__V1__REQUEST__OP_SESSION_CLOSE:
        return session_id_check("session_close.session", request->session_close->has_session,
                                request->session_close->session, fault);
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_STATS:
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_EXPORT:
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_IMPORT:
        return 0;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FORGET:
        return model_name_check("draft_db_forget", request->draft_db_forget->model, false, PROTO_MODEL_NAME_BYTES_MAX,
                                fault);
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FREEZE:
        return request->draft_db_freeze->has_frozen
                   ? 0
                   : refuse(fault, "draft_db_freeze.frozen", "missing: true to freeze, false to thaw");
    case COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD:
        return model_name_check("model_unload", request->model_unload->model, true, PROTO_MODEL_NAME_BYTES_MAX, fault);
    default:
        return refuse_at(fault, "op", PROTO_CHECK_E_ENVELOPE, "the request names no operation");
    }
}

int proto_version_choose(const Coordgen__V1__HelloRequest *hello, uint32_t *versionp, ErrText *err) {
    if (hello->version_max < PROTO_VERSION_MIN || hello->version_min > PROTO_VERSION_MAX)
        return err_set(err, PROTO_CHECK_E_VALUE,
                       "protocol versions %" PRIu32 "..%" PRIu32 " are asked for, this service speaks %u..%u: update "
                       "the older side",
                       hello->version_min, hello->version_max, PROTO_VERSION_MIN, PROTO_VERSION_MAX);
    *versionp = MIN(hello->version_max, PROTO_VERSION_MAX);
    return 0;
}
