// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/generation_chat.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/utf8.h"
#include "gateway/request/generation_tools.h"
#include "gateway/json/refused_fields.h"

#define AT(member) offsetof(GenerationRequest, member)

static int set_parallel(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    bool may = true;
    int r = field_set_bool(field, value, &may, path, error);

    if (!r)
        *(bool *)target = !may;
    return r;
}

static int set_continue(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationJson *json = target;

    json->has_continue = true;
    return field_set_bool(field, value, &json->does_continue, path, error);
}

static int set_beginning(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationJson *json = target;
    bool begins = true;
    int r = field_set_bool(field, value, &begins, path, error);

    json->has_beginning = !r && begins;
    json->has_no_answer = !r && !begins;
    return r;
}

/* Takes a limit on thinking, with -1 for none, by the name that the request gives it. */
static int set_thinking(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;

    request->names.thinking = field->name;
    if (json_is_integer(value) && json_integer_value(value) == -1) {
        request->options.thinking_tokens = COORDGEN_UNSET_COUNT;
        return 0;
    }
    return field_set_u32(field, value, &request->options.thinking_tokens, path, error);
}

static int set_split(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    bool does = true;
    int r = field_set_bool(field, value, &does, path, error);

    if (!r)
        *(CoordgenSplit *)target = does ? COORDGEN_SPLIT_ON : COORDGEN_SPLIT_OFF;
    return r;
}

/* Takes a list of documents for templates that show them. */
static int set_documents(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;

    if (!json_is_array(value))
        return api_error_field(error, path, "%s must be an array", path);
    return json_array_size(value) ? owned_json(&request->owned, value, &request->options.documents, error) : 0;
}

/* Accepts ["text"] alone. */
static int check_modalities(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    const char *kind = json_string_value(json_array_get(value, 0));

    if (json_array_size(value) == 1 && kind && !strcmp(kind, "text"))
        return 0;
    return api_error_field(error, path, "%s: only [\"text\"] is supported", path);
}

static int check_verbosity(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (json_is_string(value) && !strcmp(json_string_value(value), "medium"))
        return 0;
    return api_error_field(error, path, "%s: only 'medium' is supported: ask for shorter answers in a message", path);
}

static const Field fields[] = {
    { "messages", field_set_any, AT(json.messages), 0, 0 },
    { "tools", field_set_any, AT(json.tools), 0, 0 },
    { "tool_choice", field_set_any, AT(json.tool_choice), 0, 0 },
    { "parallel_tool_calls", set_parallel, AT(json.no_parallel_calls), 0, 0 },
    { "logprobs", field_set_bool, AT(json.with_logprobs), 0, 0 },
    { "top_logprobs", field_set_u32, AT(json.top_logprobs), 0, 20 },
    { "reasoning_effort", field_set_text, AT(json.reasoning_effort), 0, 0 },
    { "modalities", check_modalities, 0, 0, 0 },
    { "verbosity", check_verbosity, 0, 0, 0 },
    /* Fields of llama-server: */
    { "chat_template_kwargs", field_set_object, AT(json.template_kwargs), 0, 0 },
    { "add_generation_prompt", set_beginning, AT(json), 0, 0 },
    { "continue_final_message", set_continue, AT(json), 0, 0 },
    { "reasoning_format", field_set_text, AT(json.reasoning_format), 0, 0 },
    { "reasoning_budget_tokens", set_thinking, 0, 0, UINT32_MAX - 1.0 },
    { "thinking_budget_tokens", set_thinking, 0, 0, UINT32_MAX - 1.0 },
    { "reasoning_control", field_only_false, 0, 0, 0 },
    { "reasoning_in_content", field_only_false, 0, 0, 0 },
    { "parse_tool_calls", NULL, 0, 0, 0 }, /* llama-server replaces the request's value by its own */
    /* Fields of coordgen: */
    { "thinking_tokens", set_thinking, 0, 0, UINT32_MAX - 1.0 },
    { "split", set_split, AT(options.split), 0, 0 },
    { "documents", set_documents, 0, 0, 0 },
};
const FieldTable generation_chat_table = { fields, ARRAY_LEN(fields) };

/* ---- refused by name --------------------------------------------------------------------------------------------- */

#define REFUSED(X)                                                                                                     \
    X("audio", "audio is not supported")                                                                               \
    X("prediction", "the service makes drafts itself, of earlier answers among others")                                \
    X("web_search_options", "the service has no access to the web")                                                    \
    X("functions", "it was replaced by tools: send tools")                                                             \
    X("function_call", "it was replaced by tool_choice: send tools and tool_choice")                                   \
    X("chat_template", "a template is set by the service's administrator")                                             \
    X("thinking_forced_open", "the service reads it from the chat template")                                           \
    X("chat_format", "the service reads it from the chat template")                                                    \
    X("chat_parser", "the service reads it from the chat template")                                                    \
    X("generation_prompt", "the service reads it from the chat template")                                              \
    X("reasoning_budget_message", "the end of thinking is the model's own mark")                                       \
    X("prompt", "a conversation has messages: POST /v1/completions takes a prompt")

DEFINE_REFUSED_FIELDS(REFUSED)
const FieldTable generation_chat_refused = { refused, ARRAY_LEN(refused) };

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Whether the last message is the beginning of the answer. Without a word of the request it is, as llama-server has
 * it: an assistant's message that nobody has answered. */
static int does_continue(const GenerationRequest *request, bool *doesp, ApiError *error) {
    const GenerationJson *json = &request->json;
    const MessageList *messages = &request->messages;
    const CoordgenMessage *last = &messages->list[messages->n - 1];
    const bool is_answer = last->role == COORDGEN_ROLE_ASSISTANT;

    *doesp = json->has_continue ? json->does_continue : is_answer && !last->n_tool_calls;
    if (!json->does_continue)
        return 0;
    if (json->has_beginning)
        return api_error_field(error, "add_generation_prompt",
                               "add_generation_prompt and continue_final_message exclude each other");
    if (!is_answer || last->n_tool_calls)
        return api_error_field(error, "continue_final_message",
                               "continue_final_message: the last message is not an assistant's, or has calls of tools");
    return 0;
}

/* Makes the last message the beginning of the answer. */
static int take_beginning(GenerationRequest *request, ApiError *error) {
    MessageList *messages = &request->messages;
    const CoordgenMessage *last = &messages->list[messages->n - 1];
    FieldPath at;

    if (messages->n > 1 && last[-1].role == COORDGEN_ROLE_ASSISTANT)
        return api_error_field(error, "messages",
                               "messages end with two of the assistant: the last one is continued, "
                               "and there is no question behind the one before");
    if (last->reasoning && *last->reasoning) {
        field_path(&at, "messages[%zu].reasoning_content", messages->n - 1);
        return api_error_field(error, at.text, "%s: an answer that is continued cannot have thinking", at.text);
    }
    request->options.answer_prefix = *last->text ? last->text : NULL;
    request->names.answer_prefix = request->json.has_continue ? "continue_final_message" : "messages";
    messages->n--;
    return 0;
}

static int settle_messages(GenerationRequest *request, ApiError *error) {
    bool does = false;
    int r;

    if (request->messages.n) { /* of an endpoint that reads its conversation itself */
        request->options.messages = request->messages.list;
        request->options.n_messages = request->messages.n;
        return 0;
    }
    if (!request->json.messages)
        return api_error_field(error, "messages", "messages is missing: an array with at least one message");
    r = messages_read(&request->messages, request->json.messages, "messages", error);
    if (!r)
        r = does_continue(request, &does, error);
    if (!r && does)
        r = take_beginning(request, error);
    if (r)
        return r;
    if (!request->messages.n)
        return api_error_field(error, "messages", "messages has nothing before the answer: a question is needed");
    request->options.messages = request->messages.list;
    request->options.n_messages = request->messages.n;
    request->options.no_generation_prompt = request->json.has_no_answer && !does;
    return 0;
}

/* ---- thinking ---------------------------------------------------------------------------------------------------- */

/* Translates OpenAI's effort: none switches the thinking off, medium is the templates' own, others are variables of
 * templates that know them. */
static int settle_effort(GenerationRequest *request, json_t *kwargs, ApiError *error) {
    static const char *const efforts[] = { "none", "minimal", "low", "medium", "high", "xhigh" };
    const char *effort = request->json.reasoning_effort;
    size_t i = 0;

    if (!effort)
        return 0;
    while (i < ARRAY_LEN(efforts) && strcmp(efforts[i], effort))
        i++;
    if (i == ARRAY_LEN(efforts))
        return api_error_field(error, "reasoning_effort",
                               "reasoning_effort: '%.*s' is none of none, minimal, low, medium, high, xhigh",
                               UTF8_PREFIX(effort, 64));
    if (!strcmp(effort, "medium"))
        return 0;
    if (!strcmp(effort, "none")) {
        if (request->options.thinking_tokens != COORDGEN_UNSET_COUNT && request->options.thinking_tokens)
            return api_error_field(error, "reasoning_effort", "reasoning_effort is none, and %s allows thinking",
                                   request->names.thinking);
        request->options.thinking_tokens = 0;
        request->names.thinking = "reasoning_effort";
        return 0;
    }
    if (json_object_get(kwargs, "reasoning_effort"))
        return api_error_field(error, "reasoning_effort", "reasoning_effort stands in chat_template_kwargs, too");
    request->names.kwargs = "reasoning_effort";
    return json_object_set_new(kwargs, "reasoning_effort", json_string(effort)) ? api_error_no_memory(error) : 0;
}

static int settle_format(GenerationRequest *request, ApiError *error) {
    const char *format = request->json.reasoning_format;

    if (!format || !strcmp(format, "auto") || !strcmp(format, "deepseek"))
        return 0;
    if (strcmp(format, "none"))
        return api_error_field(error, "reasoning_format", "reasoning_format: '%.*s' is none of auto, deepseek, none",
                               UTF8_PREFIX(format, 64));
    if (request->options.tools)
        return api_error_field(error, "reasoning_format",
                               "reasoning_format none leaves calls of tools in the text, too: leave it out");
    request->options.split = COORDGEN_SPLIT_OFF;
    return 0;
}

static int settle_thinking(GenerationRequest *request, ApiError *error) {
    json_t *kwargs = request->json.template_kwargs ? json_copy((json_t *)request->json.template_kwargs) : json_object();
    int r = kwargs ? settle_effort(request, kwargs, error) : api_error_no_memory(error);

    if (!r && json_object_size(kwargs))
        r = owned_json(&request->owned, kwargs, &request->options.template_kwargs, error);
    json_decref(kwargs);
    return r ? r : settle_format(request, error);
}

/* ---- everything -------------------------------------------------------------------------------------------------- */

static int settle_logprobs(GenerationRequest *request, ApiError *error) {
    const GenerationJson *json = &request->json;

    if (json->top_logprobs != UINT32_MAX && !json->with_logprobs)
        return api_error_field(error, "top_logprobs", "top_logprobs needs logprobs: set logprobs to true");
    if (!json->with_logprobs)
        return 0;
    request->options.logprobs = json->top_logprobs == UINT32_MAX ? 0 : json->top_logprobs;
    request->names.logprobs = "top_logprobs";
    return 0;
}

int generation_chat_settle(GenerationRequest *request, ApiError *error) {
    const GenerationJson *json = &request->json;
    int r = settle_messages(request, error);

    if (!r && json->tools)
        r = generation_set_tools(request, json->tools, error);
    if (!r && json->tool_choice)
        r = generation_set_tool_choice(request, json->tool_choice, error);
    if (!r)
        r = settle_thinking(request, error);
    request->options.single_call = request->options.tools && json->no_parallel_calls;
    return r ? r : settle_logprobs(request, error);
}
