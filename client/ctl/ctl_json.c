// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ctl_json.h"

#include <inttypes.h>
#include <string.h>

#include "base/strings/json_text.h"

void ctl_json_set(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, value);
}

static int print(json_t *object, size_t flags) {
    int r;

    if (!object) {
        fputs("coordgenctl: out of memory for JSON\n", stderr);
        return CTL_EXIT_FAILED;
    }
    ctl_json_set(object, "format", json_integer(CTL_JSON_FORMAT));
    r = json_dumpf(object, stdout, flags | JSON_ENSURE_ASCII);
    json_decref(object);
    fputc('\n', stdout);
    return r || fflush(stdout) ? CTL_EXIT_FAILED : CTL_EXIT_OK; /* main() reports the failed output */
}

int ctl_json_print(const Ctl *ctl, json_t *object) {
    return print(object, ctl->json == CTL_JSON_PRETTY ? JSON_INDENT(2) : JSON_COMPACT);
}

int ctl_json_print_line(const Ctl *ctl, json_t *object) {
    return print(object, JSON_COMPACT);
}

json_t *ctl_json_text(const char *text, size_t len_bytes) {
    json_t *made = json_text_n(text, len_bytes);

    return made ? made : json_null();
}

static json_t *call_of(const CoordgenCallDelta *call) {
    json_t *object = json_object();

    ctl_json_set(object, "index", json_integer(call->index));
    if (call->name) {
        ctl_json_set(object, "id", ctl_json_text(call->id, strlen(call->id)));
        ctl_json_set(object, "name", ctl_json_text(call->name, strlen(call->name)));
    }
    ctl_json_set(object, "arguments", ctl_json_text(call->arguments, call->arguments_bytes));
    return object;
}

void ctl_json_set_part(json_t *line, const CoordgenEvent *event) {
    static const char *const names[] = {
        [COORDGEN_PART_TEXT] = "text", [COORDGEN_PART_REASONING] = "reasoning", [COORDGEN_PART_CALL] = "call"
    };
    const size_t part = (size_t)event->part;

    ctl_json_set(line, "text", ctl_json_text(event->text, event->text_bytes));
    ctl_json_set(line, "part", json_string(part < ARRAY_LEN(names) && names[part] ? names[part] : "unknown"));
    if (event->call)
        ctl_json_set(line, "call", call_of(event->call));
}

static json_t *text_of(const char *text) {
    return ctl_json_text(text, strlen(text));
}

/* Makes JSON of a number that only loaded models have; null for other models. */
static json_t *known(uint64_t number) {
    return number ? json_integer((json_int_t)number) : json_null();
}

json_t *ctl_json_pair(const CoordgenModelPair *pair) {
    json_t *object = json_object();

    ctl_json_set(object, "target", ctl_json_text(pair->target, strlen(pair->target)));
    ctl_json_set(object, "draft", *pair->draft ? ctl_json_text(pair->draft, strlen(pair->draft)) : json_null());
    ctl_json_set(object, "by", json_string(pair->is_stored ? "command" : "setting"));
    ctl_json_set(object, "state",
                 json_string(*pair->draft ? coordgen_model_pair_state_name((int)pair->state) : "none"));
    ctl_json_set(object, "detail", ctl_json_text(pair->detail, strlen(pair->detail)));
    return object;
}

json_t *ctl_json_model(const CoordgenModel *model) {
    json_t *object = json_object(), *draft_of = json_array(), *chat_takes = json_array();

    ctl_json_set(object, "name", text_of(model->name));
    ctl_json_set(object, "state", json_string(coordgen_model_state_name(model->state)));
    ctl_json_set(object, "default", json_boolean(model->is_default));
    ctl_json_set(object, "path", text_of(model->path));
    ctl_json_set(object, "detail", text_of(model->detail));
    ctl_json_set(object, "architecture", text_of(model->architecture));
    ctl_json_set(object, "chat_format", text_of(model->chat_format));
    for (size_t i = 0; i < model->n_chat_takes; i++)
        json_array_append_new(chat_takes, text_of(model->chat_takes[i]));
    ctl_json_set(object, "chat_takes", chat_takes);
    ctl_json_set(object, "default_by",
                 model->default_by ? json_string(coordgen_model_default_by_name((int)model->default_by)) : json_null());
    ctl_json_set(object, "context_tokens", known(model->context_tokens));
    ctl_json_set(object, "usable_context_tokens", known(model->usable_context_tokens));
    ctl_json_set(object, "setting_context_tokens", known(model->setting_context_tokens));
    ctl_json_set(object, "vocabulary", known(model->vocabulary));
    ctl_json_set(object, "parameters", known(model->parameters));
    ctl_json_set(object, "file_bytes", json_integer((json_int_t)model->file_bytes));
    ctl_json_set(object, "file_time_s", json_integer((json_int_t)model->file_time_s));
    ctl_json_set(object, "embedding_values", known(model->embedding_values));
    ctl_json_set(object, "weights_bytes", json_integer((json_int_t)model->weights_bytes));
    ctl_json_set(object, "kv_bytes_per_token", json_integer((json_int_t)model->kv_bytes_per_token));
    ctl_json_set(object, "kv_type", text_of(model->kv_type));
    ctl_json_set(object, "kernel", text_of(model->kernel));
    ctl_json_set(object, "source_sha256", text_of(model->source_sha256));
    for (size_t i = 0; i < model->n_draft_of; i++)
        json_array_append_new(draft_of, text_of(model->draft_of[i]));
    ctl_json_set(object, "draft", model->draft ? ctl_json_pair(model->draft) : json_null());
    ctl_json_set(object, "draft_of", draft_of);
    ctl_json_set(object, "layers", json_integer(model->layers));
    ctl_json_set(object, "streamed_layers", json_integer(model->streamed_layers));
    ctl_json_set(object, "pinned_bytes", json_integer((json_int_t)model->pinned_bytes));
    ctl_json_set(object, "sweep_bytes", json_integer((json_int_t)model->sweep_bytes));
    ctl_json_set(object, "read_bytes_per_s", json_integer((json_int_t)model->read_bytes_per_s));
    ctl_json_set(object, "image", text_of(model->image));
    return object;
}

static void set_origin(json_t *object, const char *name, CoordgenSamplingOrigin origin) {
    ctl_json_set(object, name, json_string(coordgen_sampling_origin_name((int)origin)));
}

static json_t *sampling_origins(const CoordgenSamplingOrigins *origins) {
    json_t *object = json_object();

    set_origin(object, "temperature", origins->temperature);
    set_origin(object, "top_k", origins->top_k);
    set_origin(object, "top_p", origins->top_p);
    set_origin(object, "min_p", origins->min_p);
    set_origin(object, "repetition_penalty", origins->repetition_penalty);
    set_origin(object, "repetition_window", origins->repetition_window);
    return object;
}

static json_t *calls_of(const CoordgenToolCall *calls, size_t n) {
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *object = json_object();

        ctl_json_set(object, "id", text_of(calls[i].id));
        ctl_json_set(object, "name", text_of(calls[i].name));
        ctl_json_set(object, "arguments", text_of(calls[i].arguments));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *choices_of(const CoordgenGenerateResult *result) {
    json_t *list = json_array();
    char seed[24];

    for (size_t i = 0; i < result->n_choices; i++) {
        const CoordgenChoice *choice = &result->choices[i];
        json_t *object = json_object();

        snprintf(seed, sizeof(seed), "%" PRIu64, choice->seed); /* a string, as in the result */
        ctl_json_set(object, "choice", json_integer((json_int_t)i));
        ctl_json_set(object, "text", ctl_json_text(choice->text, choice->text_bytes));
        if (*choice->reasoning)
            ctl_json_set(object, "reasoning", text_of(choice->reasoning));
        if (choice->n_tool_calls)
            ctl_json_set(object, "tool_calls", calls_of(choice->tool_calls, choice->n_tool_calls));
        ctl_json_set(object, "end_reason", json_string(coordgen_end_reason_name((int)choice->end_reason)));
        ctl_json_set(object, "output_tokens", json_integer(choice->output_tokens));
        ctl_json_set(object, "incomplete_bytes", json_integer(choice->incomplete_bytes));
        ctl_json_set(object, "seed", json_string(seed));
        json_array_append_new(list, object);
    }
    return list;
}

json_t *ctl_json_result(const CoordgenGenerateResult *result) {
    json_t *object = json_object(), *usage = json_object(), *timings = json_object(), *sampling = json_object();
    char seed[24];

    ctl_json_set(usage, "prompt_tokens", json_integer(result->prompt_tokens));
    ctl_json_set(usage, "cached_tokens", json_integer(result->cached_tokens));
    ctl_json_set(usage, "output_tokens", json_integer(result->output_tokens));
    ctl_json_set(usage, "reasoning_tokens", json_integer(result->reasoning_tokens));
    ctl_json_set(usage, "decode_steps", json_integer(result->decode_steps));
    ctl_json_set(usage, "drafted_tokens", json_integer(result->drafted_tokens));
    ctl_json_set(usage, "accepted_tokens", json_integer(result->accepted_tokens));
    ctl_json_set(usage, "request_number", json_integer((json_int_t)result->request_number));
    ctl_json_set(usage, "reuse", json_string(coordgen_reuse_name(result->reuse)));
    ctl_json_set(timings, "queue_us", json_integer((json_int_t)result->queue_us));
    ctl_json_set(timings, "load_us", json_integer((json_int_t)result->load_us));
    ctl_json_set(timings, "prefill_us", json_integer((json_int_t)result->prefill_us));
    ctl_json_set(timings, "decode_us", json_integer((json_int_t)result->decode_us));
    ctl_json_set(timings, "total_us", json_integer((json_int_t)result->total_us));
    ctl_json_set(sampling, "temperature", json_real((double)result->temperature));
    ctl_json_set(sampling, "top_k", json_integer(result->top_k));
    ctl_json_set(sampling, "top_p", json_real((double)result->top_p));
    ctl_json_set(sampling, "min_p", json_real((double)result->min_p));
    ctl_json_set(sampling, "repetition_penalty", json_real((double)result->repetition_penalty));
    ctl_json_set(sampling, "repetition_window", json_integer(result->repetition_window));
    /* A string, because readers that keep numbers as doubles would lose bits of it. */
    snprintf(seed, sizeof(seed), "%" PRIu64, result->seed);
    ctl_json_set(sampling, "seed", json_string(seed));
    if (result->sampling_origins) {
        ctl_json_set(sampling, "from", sampling_origins(result->sampling_origins));
        ctl_json_set(sampling, "family", text_of(result->sampling_origins->family));
    }
    ctl_json_set(object, "ends_repetition", json_boolean(result->ends_repetition));
    ctl_json_set(object, "model", text_of(result->model));
    ctl_json_set(object, "text", ctl_json_text(result->text, result->text_bytes));
    ctl_json_set(object, "reasoning", text_of(result->reasoning));
    ctl_json_set(object, "tool_calls", calls_of(result->tool_calls, result->n_tool_calls));
    ctl_json_set(object, "end_reason", json_string(coordgen_end_reason_name(result->end_reason)));
    ctl_json_set(object, "priority", json_string(coordgen_priority_name(result->priority)));
    ctl_json_set(object, "max_tokens", json_integer(result->max_tokens));
    ctl_json_set(object, "ended_in_time", json_boolean(result->ended_in_time));
    ctl_json_set(object, "incomplete_bytes", json_integer(result->incomplete_bytes));
    ctl_json_set(object, "usage", usage);
    ctl_json_set(object, "timings", timings);
    ctl_json_set(object, "sampling", sampling);
    if (result->n_choices)
        ctl_json_set(object, "choices", choices_of(result));
    return object;
}

json_t *ctl_json_error(int code, const char *message, const char *field, uint32_t retry_after_ms) {
    json_t *object = json_object(), *error = json_object();

    ctl_json_set(error, "code", json_string(coordgen_error_name(code)));
    ctl_json_set(error, "number", json_integer(code));
    ctl_json_set(error, "message", text_of(message));
    ctl_json_set(error, "field", text_of(field));
    ctl_json_set(error, "retry_after_ms", json_integer(retry_after_ms));
    ctl_json_set(object, "error", error);
    return object;
}
