// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/generation_fields.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "gateway/request/generation_chat.h"
#include "gateway/request/generation_constraint.h"
#include "gateway/request/sampling_fields.h"
#include "gateway/json/refused_fields.h"

#define AT(member) offsetof(GenerationRequest, member)

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Takes a limit on the answer, with -1 for none, by the name that the request gives it. */
static int set_max_tokens(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;
    uint32_t most = 0;
    int r = 0;

    if (!json_is_integer(value) || json_integer_value(value) != -1)
        r = field_set_u32(field, value, &most, path, error);
    if (r)
        return r;
    if (request->names.max_tokens && request->options.max_tokens != most)
        return api_error_field(error, path, "%s stands beside %s, which says something else: leave one of the two out",
                               path, request->names.max_tokens);
    request->names.max_tokens = field->name;
    request->options.max_tokens = most;
    return 0;
}

static int set_n(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    uint32_t n = 1;
    int r = field_set_u32(field, value, &n, path, error);

    /* The service answers a single one without choices. */
    *(uint32_t *)target = n == 1 ? 0 : n;
    return r;
}

static int set_stop(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;
    const size_t n = json_is_string(value) ? 1 : json_array_size(value);
    const char **stops;
    FieldPath at;
    int r = 0;

    if (!json_is_string(value) && !json_is_array(value))
        return api_error_field(error, path, "%s must be a string or an array of strings", path);
    stops = owned_array(&request->owned, n, sizeof(*stops));
    if (!stops)
        return api_error_no_memory(error);
    if (json_is_string(value))
        r = field_set_text(field, value, &stops[0], path, error);
    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = field_set_text(field, json_array_get(value, i), &stops[i], field_path(&at, "%s[%zu]", path, i), error);
    request->options.stops = stops;
    request->options.n_stops = n;
    return r;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static int set_stream_options(const Field *field, const json_t *value, void *target, const char *path,
                              ApiError *error) {
    static const Field stream_fields[] = {
        { "include_usage", field_set_bool, offsetof(AnswerWishes, with_usage), 0, 0 },
        { "include_obfuscation", field_only_false, 0, 0, 0 },
    };
    static const FieldTable table = { stream_fields, ARRAY_LEN(stream_fields) };

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    return fields_read(value, &table, 1, target, path, error);
}

static int set_ping(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (json_is_integer(value) && json_integer_value(value) == -1) {
        *(uint32_t *)target = 0;
        return 0;
    }
    return field_set_u32(field, value, target, path, error);
}

/* ---- what every client may send ---------------------------------------------------------------------------------- */

static int check_tier(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    const char *tier = json_string_value(value);

    if (tier && (!strcmp(tier, "auto") || !strcmp(tier, "default")))
        return 0;
    return api_error_field(error, path, "%s: only auto and default are supported: see priority", path);
}

static int check_object(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return json_is_object(value) ? 0 : api_error_field(error, path, "%s must be an object", path);
}

static int check_text(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return json_is_string(value) ? 0 : api_error_field(error, path, "%s must be a string", path);
}

/* Accepts no adapter. */
static int check_lora(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return json_is_array(value) && !json_array_size(value)
               ? 0
               : api_error_field(error, path, "%s: adapters are not supported: leave it out", path);
}

static int set_no_reuse(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    bool does_cache = true;
    int r = field_set_bool(field, value, &does_cache, path, error);

    if (!r)
        *(bool *)target = !does_cache;
    return r;
}

int generation_set_priority(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    const char *name = json_string_value(value);

    for (int i = COORDGEN_PRIORITY_INTERACTIVE; name && i <= COORDGEN_PRIORITY_BACKGROUND; i++)
        if (!strcmp(coordgen_priority_name(i), name)) {
            *(CoordgenPriority *)target = (CoordgenPriority)i;
            return 0;
        }
    return api_error_field(error, path, "%s must be interactive, normal or background", path);
}

static int set_repetition(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    bool ends = false;
    int r = field_set_bool(field, value, &ends, path, error);

    if (!r)
        *(CoordgenRepetition *)target = ends ? COORDGEN_REPETITION_END : COORDGEN_REPETITION_ALLOW;
    return r;
}

static const Field common_fields[] = {
    { "model", field_set_text, AT(options.model), 0, 0 },
    { "max_tokens", set_max_tokens, 0, 1, UINT32_MAX },
    { "max_completion_tokens", set_max_tokens, 0, 1, UINT32_MAX },
    { "n_predict", set_max_tokens, 0, 1, UINT32_MAX },
    { "n", set_n, AT(options.n), 1, 16 },
    { "n_cmpl", set_n, AT(options.n), 1, 16 },
    { "stop", set_stop, 0, 0, 0 },
    { "stream", field_set_bool, AT(wishes.is_stream), 0, 0 },
    { "stream_options", set_stream_options, AT(wishes), 0, 0 },
    { "user", check_text, 0, 0, 0 }, /* names of this and the next line are for OpenAI's own bookkeeping */
    { "safety_identifier", check_text, 0, 0, 0 },
    { "prompt_cache_key", check_text, 0, 0, 0 },       /* every prompt is looked up in the user's own cache */
    { "prompt_cache_retention", check_text, 0, 0, 0 }, /* the service's settings count */
    { "metadata", check_object, 0, 0, 0 },             /* for stored answers; none is stored */
    { "store", field_only_false, 0, 0, 0 },
    { "service_tier", check_tier, 0, 0, 0 },
    /* Fields of llama-server: */
    { "return_progress", field_set_bool, AT(wishes.with_progress), 0, 0 },
    { "timings_per_token", field_set_bool, AT(wishes.with_timings), 0, 0 },
    { "return_tokens", field_set_bool, AT(wishes.with_tokens), 0, 0 },
    { "sse_ping_interval", set_ping, AT(wishes.ping_s), 1, 86400 },
    { "n_probs", field_set_u32, AT(json.n_probs), 0, 20 },
    { "post_sampling_probs", field_only_false, 0, 0, 0 },
    { "cache_prompt", set_no_reuse, AT(options.no_reuse), 0, 0 },
    { "ignore_eos", field_set_bool, AT(options.ignore_end), 0, 0 },
    { "n_keep", NULL, 0, 0, 0 }, /* a context that is full ends the answer, as llama-server's does unless told so */
    { "n_discard", NULL, 0, 0, 0 },
    { "n_cache_reuse", NULL, 0, 0, 0 }, /* changes no token */
    { "n_indent", field_only_number, 0, 0, 0 },
    { "t_max_predict_ms", field_only_number, 0, -1, 0 },
    { "t_max_prompt_ms", field_only_number, 0, -1, 0 },
    { "verbose", field_only_false, 0, 0, 0 },
    { "lora", check_lora, 0, 0, 0 },
    { "grammar_lazy", field_only_false, 0, 0, 0 },
    /* Fields of coordgen: */
    { "priority", generation_set_priority, AT(options.priority), 0, 0 },
    { "no_history", field_set_bool, AT(options.no_history), 0, 0 },
    { "no_reuse", field_set_bool, AT(options.no_reuse), 0, 0 },
    { "speculation", field_set_text, AT(options.speculation), 0, 0 },
    { "explain", field_set_bool, AT(options.explain), 0, 0 },
    { "end_repetition", set_repetition, AT(options.repetition), 0, 0 },
};

/* ---- refused by name --------------------------------------------------------------------------------------------- */

#define REFUSED(X)                                                                                                     \
    X("deadline_ms", "the service has no deadlines yet: leave it out")                                                 \
    X("id_slot", "the service gives out places itself: leave it out")                                                  \
    X("preserved_tokens", "control tokens are never text: leave it out")                                               \
    X("grammar_triggers", "a constraint begins with the answer: leave it out")                                         \
    X("response_fields", "the answer has all its fields: leave it out")                                                \
    X("speculative.n_max", "the service chooses drafts by what they bring: see speculation")                           \
    X("speculative.n_min", "the service chooses drafts by what they bring: see speculation")                           \
    X("speculative.p_min", "the service chooses drafts by what they bring: see speculation")                           \
    X("speculative.type", "the service chooses drafts by what they bring: see speculation")                            \
    X("speculative.ngram_size_n", "the service chooses drafts by what they bring: see speculation")                    \
    X("speculative.ngram_size_m", "the service chooses drafts by what they bring: see speculation")                    \
    X("speculative.ngram_min_hits", "the service chooses drafts by what they bring: see speculation")

DEFINE_REFUSED_FIELDS(REFUSED)

/* ---- everything -------------------------------------------------------------------------------------------------- */

static int settle(GenerationRequest *request, unsigned int groups, ApiError *error) {
    int r = 0;

    sampling_fields_settle(request);
    if (request->json.n_probs != UINT32_MAX && request->json.n_probs) {
        request->options.logprobs = request->json.n_probs;
        request->names.logprobs = "n_probs";
    }
    request->options.want_tokens = request->wishes.with_tokens || request->wishes.with_timings;
    request->options.each_progress = request->wishes.is_stream && request->wishes.with_progress;
    if (!request->wishes.is_stream && request->wishes.with_usage)
        return api_error_field(error, "stream_options", "stream_options needs stream: set stream to true");
    if (groups & GENERATION_FIELDS_CONSTRAINT)
        r = generation_constraint_settle(request, error);
    if (!r && groups & GENERATION_FIELDS_CHAT)
        r = generation_chat_settle(request, error);
    return r;
}

int generation_fields_read(GenerationRequest *request, unsigned int groups, const FieldTable *more, size_t n_more,
                           ApiError *error) {
    FieldTable tables[GENERATION_TABLES_MAX + 6];
    size_t n = 0;
    int r;

    assert(n_more <= GENERATION_TABLES_MAX);
    for (size_t i = 0; i < n_more; i++)
        tables[n++] = more[i];
    if (groups & GENERATION_FIELDS_COMMON) {
        tables[n++] = (FieldTable){ common_fields, ARRAY_LEN(common_fields) };
        tables[n++] = sampling_fields_table;
        tables[n++] = (FieldTable){ refused, ARRAY_LEN(refused) };
    }
    if (groups & GENERATION_FIELDS_CONSTRAINT)
        tables[n++] = generation_constraint_table;
    if (groups & GENERATION_FIELDS_CHAT) {
        tables[n++] = generation_chat_table;
        tables[n++] = generation_chat_refused;
    }
    r = fields_read(request->body, tables, n, request, "", error);
    return r ? r : settle(request, groups, error);
}
