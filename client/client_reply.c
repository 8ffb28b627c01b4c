// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "client/client_reply.h"
#include "client/client_reply_internal.h"

static void origins_fill(CoordgenSamplingOrigins *origins, const Coordgen__V1__GenerateDone *done) {
    const Coordgen__V1__SamplingOrigins *from = done->sampling_origins;

    *origins =
        (CoordgenSamplingOrigins){ .struct_bytes = sizeof(*origins), .family = client_or_empty(done->sampling_family) };
    if (!from)
        return;
    origins->temperature = (CoordgenSamplingOrigin)from->temperature;
    origins->top_k = (CoordgenSamplingOrigin)from->top_k;
    origins->top_p = (CoordgenSamplingOrigin)from->top_p;
    origins->min_p = (CoordgenSamplingOrigin)from->min_p;
    origins->repetition_penalty = (CoordgenSamplingOrigin)from->repetition_penalty;
    origins->repetition_window = (CoordgenSamplingOrigin)from->repetition_window;
}

/* origins: the room for result->sampling_origins */
static void generate_fill(CoordgenGenerateResult *result, CoordgenSamplingOrigins *origins,
                          const Coordgen__V1__GenerateDone *done) {
    origins_fill(origins, done);
    result->sampling_origins = origins;
    result->ends_repetition = done->end_repetition;
    result->end_reason = (CoordgenEndReason)done->end_reason;
    result->model = client_or_empty(done->model);
    result->seed = done->seed;
    result->max_tokens = done->max_tokens;
    result->priority = (CoordgenPriority)done->priority;
    result->incomplete_bytes = done->incomplete_bytes;
    result->reasoning_tokens = done->reasoning_tokens;
    result->ended_in_time = done->ended_in_time;
    if (done->usage) {
        result->prompt_tokens = done->usage->prompt_tokens;
        result->cached_tokens = done->usage->cached_tokens;
        result->output_tokens = done->usage->output_tokens;
        result->reuse = (CoordgenReuse)done->usage->reuse;
        result->decode_steps = done->usage->decode_steps;
        result->drafted_tokens = done->usage->drafted_tokens;
        result->accepted_tokens = done->usage->accepted_tokens;
        result->request_number = done->usage->request_number;
    }
    if (done->timings) {
        result->queue_us = done->timings->queue_us;
        result->load_us = done->timings->load_us;
        result->prefill_us = done->timings->prefill_us;
        result->decode_us = done->timings->decode_us;
        result->total_us = done->timings->total_us;
    }
    if (done->sampling) {
        result->temperature = done->sampling->temperature;
        result->top_k = done->sampling->top_k;
        result->top_p = done->sampling->top_p;
        result->min_p = done->sampling->min_p;
        result->repetition_penalty = done->sampling->repetition_penalty;
        result->repetition_window = done->sampling->repetition_window;
    }
}

/* pair: the room for to->draft */
static void model_fill(CoordgenModel *to, CoordgenModelPair *pair, const Coordgen__V1__Model *from) {
    if (from->draft)
        client_pair_fill(pair, from->draft);
    *to = (CoordgenModel){
        .struct_bytes = sizeof(*to),
        .name = client_or_empty(from->name),
        .path = client_or_empty(from->path),
        .state = (CoordgenModelState)from->state,
        .detail = client_or_empty(from->detail),
        .is_default = from->is_default,
        .architecture = client_or_empty(from->architecture),
        .kv_type = client_or_empty(from->kv_type),
        .kernel = client_or_empty(from->kernel),
        .source_sha256 = client_or_empty(from->source_sha256),
        .chat_format = client_or_empty(from->chat_format),
        .context_tokens = from->context_tokens,
        .vocabulary = from->vocabulary,
        .parameters = from->parameters,
        .weights_bytes = from->weights_bytes,
        .kv_bytes_per_token = from->kv_bytes_per_token,
        .file_bytes = from->file_bytes,
        .draft = from->draft ? pair : NULL,
        .n_draft_of = from->n_draft_of,
        .draft_of = (const char *const *)from->draft_of,
        .layers = from->layers,
        .streamed_layers = from->streamed_layers,
        .pinned_bytes = from->pinned_bytes,
        .sweep_bytes = from->sweep_bytes,
        .read_bytes_per_s = from->read_bytes_per_s,
        .image = client_or_empty(from->image),
        .n_chat_takes = from->n_chat_takes,
        .chat_takes = (const char *const *)from->chat_takes,
        .default_by = (CoordgenModelDefaultBy)from->default_by,
        .usable_context_tokens = from->usable_context_tokens,
        .setting_context_tokens = from->setting_context_tokens,
        .file_time_s = from->file_time_s,
        .embedding_values = from->embedding_values,
    };
}

static bool models_fill(CoordgenReply *reply, Coordgen__V1__Model *const *models, size_t n) {
    reply->models.list = calloc(n ? n : 1, sizeof(*reply->models.list));
    reply->models.pairs = calloc(n ? n : 1, sizeof(*reply->models.pairs));
    if (!reply->models.list || !reply->models.pairs)
        return false;
    for (size_t i = 0; i < n; i++)
        model_fill(&reply->models.list[i], &reply->models.pairs[i], models[i]);
    reply->models.n = n;
    return true;
}

static bool status_fill(CoordgenReply *reply, const Coordgen__V1__StatusReply *status) {
    reply->status.status = (CoordgenStatus){
        .struct_bytes = sizeof(reply->status.status),
        .service_version = client_or_empty(status->service_version),
        .isa = client_or_empty(status->isa),
        .uptime_us = status->uptime_us,
        .pid = status->pid,
        .threads = status->threads,
        .connections = status->connections,
        .connections_max = status->connections_max,
        .requests_queued = status->requests_queued,
        .requests_running = status->requests_running,
        .queue_max = status->queue_max,
        .draining = status->draining,
        .requests_done = status->requests_done,
        .requests_cancelled = status->requests_cancelled,
        .requests_failed = status->requests_failed,
        .prompt_tokens = status->prompt_tokens,
        .output_tokens = status->output_tokens,
        .preemptions = status->preemptions,
        .cached_tokens = status->cached_tokens,
        .prefix_cache_bytes = status->prefix_cache_bytes,
        .prefix_cache_max_bytes = status->prefix_cache_max_bytes,
        .sessions = status->sessions,
        .memory_used_bytes = status->memory_used_bytes,
        .memory_limit_bytes = status->memory_limit_bytes,
        .memory_limit_source = client_or_empty(status->memory_limit_source),
    };
    reply->status.memory = calloc(status->n_memory ? status->n_memory : 1, sizeof(*reply->status.memory));
    if (!reply->status.memory)
        return false;
    for (size_t i = 0; i < status->n_memory; i++)
        reply->status.memory[i] = (CoordgenMemory){
            .struct_bytes = sizeof(reply->status.memory[i]),
            .name = client_or_empty(status->memory[i]->name),
            .used_bytes = status->memory[i]->used_bytes,
            .peak_bytes = status->memory[i]->peak_bytes,
            .limit_bytes = status->memory[i]->limit_bytes,
        };
    reply->status.n_memory = status->n_memory;
    return models_fill(reply, status->models, status->n_models);
}

/* Fills in a single model; a model that the service left out has an empty name. */
static bool model_fill_one(CoordgenReply *reply, Coordgen__V1__Model *model) {
    Coordgen__V1__Model none = COORDGEN__V1__MODEL__INIT;
    Coordgen__V1__Model *list[] = { model ? model : &none };

    return models_fill(reply, list, 1);
}

static bool model_show_fill(CoordgenReply *reply, const Coordgen__V1__ModelShowReply *show) {
    const Coordgen__V1__SamplingOptions *sampling = show->sampling;

    if (sampling)
        reply->models.sampling = (CoordgenSamplingDefaults){
            .struct_bytes = sizeof(reply->models.sampling),
            .temperature = sampling->temperature,
            .top_k = sampling->top_k,
            .top_p = sampling->top_p,
            .min_p = sampling->min_p,
            .repetition_penalty = sampling->repetition_penalty,
            .repetition_window = sampling->repetition_window,
        };
    return model_fill_one(reply, show->model);
}

/* Fills in the list of answers, if the request has set n. false: out of memory. */
static bool choices_fill(ReplyGenerate *generate, const Coordgen__V1__GenerateDone *done) {
    if (!done->n_choices)
        return true;
    if (!client_choices_list(&generate->further, &generate->answer, generate->calls, done, &generate->choices))
        return false;
    generate->result.choices = generate->choices;
    generate->result.n_choices = done->n_choices;
    return true;
}

static bool reply_fill(CoordgenReply *reply) {
    const Coordgen__V1__Response *response = reply->response;

    switch (response->op_case) {
    case COORDGEN__V1__RESPONSE__OP_GENERATE_DONE:
        generate_fill(&reply->generate.result, &reply->generate.origins, response->generate_done);
        if (!choices_fill(&reply->generate, response->generate_done))
            return false;
        if (response->generate_done->sampling) {
            if (!client_sampling_reply_fill(&reply->generate.sampling, response->generate_done->sampling))
                return false;
            reply->generate.result.more_sampling = &reply->generate.sampling.options;
        }
        return !response->generate_done->explanation ||
               client_explanation_fill(reply, response->generate_done->explanation);
    case COORDGEN__V1__RESPONSE__OP_REQUEST_LIST:
        return client_requests_fill(reply, response->request_list->requests, response->request_list->n_requests);
    case COORDGEN__V1__RESPONSE__OP_EXPLAIN:
        return client_requests_fill(reply, &response->explain->request, response->explain->request ? 1 : 0);
    case COORDGEN__V1__RESPONSE__OP_STATUS:
        return status_fill(reply, response->status);
    case COORDGEN__V1__RESPONSE__OP_MODEL_LIST:
        return models_fill(reply, response->model_list->models, response->model_list->n_models);
    case COORDGEN__V1__RESPONSE__OP_MODEL_SHOW:
        return model_show_fill(reply, response->model_show);
    case COORDGEN__V1__RESPONSE__OP_MODEL_LOAD:
        return model_fill_one(reply, response->model_load->model);
    case COORDGEN__V1__RESPONSE__OP_MODEL_DEFAULT:
        return model_fill_one(reply, response->model_default->model);
    case COORDGEN__V1__RESPONSE__OP_MODEL_PAIR:
        return client_pairs_fill(reply, &response->model_pair->pair, response->model_pair->pair ? 1 : 0);
    case COORDGEN__V1__RESPONSE__OP_MODEL_PAIR_LIST:
        return client_pairs_fill(reply, response->model_pair_list->pairs, response->model_pair_list->n_pairs);
    case COORDGEN__V1__RESPONSE__OP_MODEL_REMOVE:
        return client_files_fill(reply, response->model_remove);
    case COORDGEN__V1__RESPONSE__OP_DISK:
        return client_files_fill(reply, response->disk);
    case COORDGEN__V1__RESPONSE__OP_PRUNE:
        return client_files_fill(reply, response->prune);
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_STATS:
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FORGET:
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FREEZE:
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT:
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_IMPORT:
        return client_draft_db_fill(reply);
    default:
        return true;
    }
}

/* Takes the answer over. false: out of memory. */
static bool answer_fill(ReplyGenerate *generate, ClientAnswer *answer) {
    CoordgenGenerateResult *result = &generate->result;
    bool failed;

    generate->answer = *answer;
    *answer = (ClientAnswer){ 0 };
    result->text = client_or_empty(generate->answer.text.data);
    result->text_bytes = generate->answer.text.len_bytes;
    result->reasoning = client_or_empty(generate->answer.reasoning.data);
    result->tool_calls = generate->calls = client_answer_calls(&generate->answer, &failed);
    result->n_tool_calls = generate->answer.calls.n;
    return !failed;
}

CoordgenReply *client_reply_new(RequestKind kind, const ClientFailure *failure, Coordgen__V1__Response **responsep,
                                ClientAnswer *answer, ClientChoices *choices) {
    CoordgenReply *reply = calloc(1, sizeof(*reply));

    if (!reply)
        return NULL;
    atomic_init(&reply->n_refs, 1);
    reply->kind = kind;
    reply->generate.result.struct_bytes = sizeof(reply->generate.result);
    reply->generate.result.model = "";
    reply->generate.further = *choices;
    *choices = (ClientChoices){ 0 };
    if (!answer_fill(&reply->generate, answer))
        return coordgen_reply_unref(reply);
    if (failure) {
        reply->failure = *failure;
        return reply;
    }
    reply->response = steal(responsep);
    return reply_fill(reply) ? reply : coordgen_reply_unref(reply);
}

CoordgenReply *coordgen_reply_ref(CoordgenReply *reply) {
    if (reply)
        atomic_fetch_add_explicit(&reply->n_refs, 1, memory_order_relaxed);
    return reply;
}

CoordgenReply *coordgen_reply_unref(CoordgenReply *reply) {
    if (!reply || atomic_fetch_sub_explicit(&reply->n_refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    if (reply->response)
        frame_response_free(reply->response);
    client_answer_deinit(&reply->generate.answer);
    client_choices_list_free(reply->generate.choices, reply->generate.result.n_choices);
    client_choices_deinit(&reply->generate.further);
    free(reply->generate.calls);
    free(reply->models.list);
    free(reply->models.pairs);
    free(reply->files.list);
    free(reply->files.systems);
    free(reply->status.memory);
    client_requests_deinit(reply);
    client_sampling_reply_deinit(&reply->generate.sampling);
    free(reply->draft_db.users);
    free(reply);
    return NULL;
}

/* A NULL reply means that there was no memory for one. */
int coordgen_reply_error(const CoordgenReply *reply) {
    return reply ? reply->failure.code : COORDGEN_E_NO_MEMORY;
}

const char *coordgen_reply_message(const CoordgenReply *reply) {
    return reply ? reply->failure.err.text : "out of memory for a reply";
}

const char *coordgen_reply_field(const CoordgenReply *reply) {
    return reply ? reply->failure.field : "";
}

uint32_t coordgen_reply_retry_after_ms(const CoordgenReply *reply) {
    return reply ? reply->failure.retry_after_ms : 0;
}

uint32_t coordgen_reply_too_long(const CoordgenReply *reply, uint32_t *limitp) {
    if (limitp)
        *limitp = reply ? reply->failure.context_tokens : 0;
    return reply ? reply->failure.prompt_tokens : 0;
}

/* A generation that failed has the text that came before the failure. */
const CoordgenGenerateResult *coordgen_reply_generate(const CoordgenReply *reply) {
    return reply && reply->kind == REQUEST_GENERATE ? &reply->generate.result : NULL;
}

uint64_t coordgen_reply_session(const CoordgenReply *reply) {
    return client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_SESSION_OPEN)   ? reply->response->session_open->session
           : client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_SESSION_FORK) ? reply->response->session_fork->session
                                                                                : 0;
}

const uint32_t *coordgen_reply_tokens(const CoordgenReply *reply, size_t *n_tokensp) {
    bool here = client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_TOKENIZE);

    if (n_tokensp)
        *n_tokensp = here ? reply->response->tokenize->n_tokens : 0;
    return here ? reply->response->tokenize->tokens : NULL;
}

size_t coordgen_reply_n_tokens(const CoordgenReply *reply) {
    return !client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_TOKENIZE) ? 0
           : reply->response->tokenize->has_count                          ? reply->response->tokenize->count
                                                                           : reply->response->tokenize->n_tokens;
}

static void length_set(size_t *len_bytesp, size_t len_bytes) {
    if (len_bytesp)
        *len_bytesp = len_bytes;
}

const char *coordgen_reply_piece(const CoordgenReply *reply, size_t index, size_t *len_bytesp) {
    const ProtobufCBinaryData *piece;

    length_set(len_bytesp, 0);
    if (!client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_TOKENIZE) || index >= reply->response->tokenize->n_pieces)
        return NULL;
    piece = &reply->response->tokenize->pieces[index];
    length_set(len_bytesp, piece->len);
    return piece->data ? (const char *)piece->data : "";
}

const char *coordgen_reply_text(const CoordgenReply *reply, size_t *len_bytesp) {
    const ProtobufCBinaryData *text;
    const char *rendered;

    length_set(len_bytesp, 0);
    if (client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_TOKENIZE)) {
        rendered = reply->response->tokenize->text;
        length_set(len_bytesp, rendered ? strlen(rendered) : 0);
        return rendered;
    }
    if (!client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_DETOKENIZE))
        return NULL;
    text = &reply->response->detokenize->text;
    length_set(len_bytesp, text->len);
    return text->data ? (const char *)text->data : "";
}

const CoordgenStatus *coordgen_reply_status(const CoordgenReply *reply) {
    return client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_STATUS) ? &reply->status.status : NULL;
}

size_t coordgen_reply_n_memory(const CoordgenReply *reply) {
    return reply ? reply->status.n_memory : 0;
}

const CoordgenMemory *coordgen_reply_memory(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->status.n_memory ? &reply->status.memory[index] : NULL;
}

size_t coordgen_reply_n_models(const CoordgenReply *reply) {
    return reply ? reply->models.n : 0;
}

const CoordgenModel *coordgen_reply_model(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->models.n ? &reply->models.list[index] : NULL;
}

const char *coordgen_reply_chat_template(const CoordgenReply *reply, size_t *len_bytesp) {
    const bool here = client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_MODEL_SHOW) &&
                      reply->response->model_show->has_chat_template;
    const ProtobufCBinaryData *text = here ? &reply->response->model_show->chat_template : NULL;

    length_set(len_bytesp, here ? text->len : 0);
    return !here ? NULL : text->data ? (const char *)text->data : "";
}

const CoordgenSamplingDefaults *coordgen_reply_sampling_defaults(const CoordgenReply *reply) {
    return reply && reply->models.sampling.struct_bytes ? &reply->models.sampling : NULL;
}

const char *coordgen_end_reason_name(int reason) {
    static const char *const names[] = {
        [COORDGEN_END_NONE] = "none",
        [COORDGEN_END_TOKEN] = "end-token",
        [COORDGEN_END_STOP] = "stop-string",
        [COORDGEN_END_MAX_TOKENS] = "max-tokens",
        [COORDGEN_END_CONTEXT_FULL] = "context-full",
        [COORDGEN_END_CANCELLED] = "cancelled",
        [COORDGEN_END_REPETITION] = "repetition",
        [COORDGEN_END_TOOL_CALLS] = "tool-calls",
        [COORDGEN_END_NO_MEMORY] = "no-memory",
        [COORDGEN_END_TOO_COMPLEX] = "too-complex",
    };

    return reason >= 0 && (size_t)reason < ARRAY_LEN(names) ? names[reason] : "unknown";
}

const char *coordgen_sampling_origin_name(int origin) {
    static const char *const names[] = {
        [COORDGEN_SAMPLING_UNKNOWN] = "unknown", [COORDGEN_SAMPLING_REQUEST] = "request",
        [COORDGEN_SAMPLING_FILE] = "file",       [COORDGEN_SAMPLING_FAMILY] = "family",
        [COORDGEN_SAMPLING_SERVICE] = "service",
    };

    return origin >= 0 && (size_t)origin < ARRAY_LEN(names) ? names[origin] : "unknown";
}

const char *coordgen_reuse_name(int reuse) {
    static const char *const names[] = {
        [COORDGEN_REUSE_UNKNOWN] = "unknown",     [COORDGEN_REUSE_WHOLE] = "whole",
        [COORDGEN_REUSE_NEW_TEXT] = "new-text",   [COORDGEN_REUSE_DIFFERENT] = "different",
        [COORDGEN_REUSE_FIRST_USE] = "first-use", [COORDGEN_REUSE_EVICTED] = "evicted",
        [COORDGEN_REUSE_TOO_SHORT] = "too-short", [COORDGEN_REUSE_OFF] = "off",
        [COORDGEN_REUSE_DECLINED] = "declined",
    };

    return reuse >= 0 && (size_t)reuse < ARRAY_LEN(names) ? names[reuse] : "unknown";
}

const char *coordgen_priority_name(int priority) {
    static const char *const names[] = {
        [COORDGEN_PRIORITY_DEFAULT] = "normal",
        [COORDGEN_PRIORITY_INTERACTIVE] = "interactive",
        [COORDGEN_PRIORITY_NORMAL] = "normal",
        [COORDGEN_PRIORITY_BACKGROUND] = "background",
    };

    return priority >= 0 && (size_t)priority < ARRAY_LEN(names) ? names[priority] : "unknown";
}

const char *coordgen_model_state_name(int state) {
    static const char *const names[] = {
        [0] = "unknown",
        [COORDGEN_MODEL_AVAILABLE] = "available",
        [COORDGEN_MODEL_IMPORTING] = "importing",
        [COORDGEN_MODEL_LOADING] = "loading",
        [COORDGEN_MODEL_READY] = "ready",
        [COORDGEN_MODEL_FAILED] = "failed",
    };

    return state >= 0 && (size_t)state < ARRAY_LEN(names) ? names[state] : "unknown";
}
