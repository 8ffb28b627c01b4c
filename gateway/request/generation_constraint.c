// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/generation_constraint.h"

#include <string.h>

#include "base/strings/utf8.h"

#define AT(member) offsetof(GenerationRequest, member)

static int set_whole_end(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    bool ends_in_time = false;
    int r = field_set_bool(field, value, &ends_in_time, path, error);

    if (!r)
        *(bool *)target = !ends_in_time;
    return r;
}

static const Field fields[] = {
    { "response_format", field_set_object, AT(json.response_format), 0, 0 },
    { "json_schema", field_set_any, AT(json.json_schema), 0, 0 },
    { "grammar", field_set_text, AT(json.grammar), 0, 0 },
    { "regex", field_set_text, AT(json.regex), 0, 0 },
    { "compact", field_set_bool, AT(options.compact), 0, 0 },
    { "any_order", field_set_bool, AT(options.any_order), 0, 0 },
    { "end_in_time", set_whole_end, AT(options.no_end_in_time), 0, 0 },
};
const FieldTable generation_constraint_table = { fields, sizeof(fields) / sizeof(*fields) };

/* ---- response_format --------------------------------------------------------------------------------------------- */

typedef struct FormatFields {
    const char *type;
    const json_t *schema, *json_schema;
} FormatFields;

static const Field format_fields[] = {
    { "type", field_set_text, offsetof(FormatFields, type), 0, 0 },
    { "schema", field_set_any, offsetof(FormatFields, schema), 0, 0 }, /* of llama-server, with json_object */
    { "json_schema", field_set_object, offsetof(FormatFields, json_schema), 0, 0 },
};
static const FieldTable format_tables[] = { { format_fields, sizeof(format_fields) / sizeof(*format_fields) } };

typedef struct WrapperFields {
    const json_t *schema;
    bool is_strict; /* enforced even without */
} WrapperFields;

static const Field wrapper_fields[] = {
    { "name", NULL, 0, 0, 0 }, /* both only describe the schema */
    { "description", NULL, 0, 0, 0 },
    { "schema", field_set_any, offsetof(WrapperFields, schema), 0, 0 },
    { "strict", field_set_bool, offsetof(WrapperFields, is_strict), 0, 0 },
};
static const FieldTable wrapper_tables[] = { { wrapper_fields, sizeof(wrapper_fields) / sizeof(*wrapper_fields) } };

static int set_constraint(GenerationRequest *request, CoordgenConstraintKind kind, const char *text, const char *param,
                          ApiError *error) {
    if (request->names.constraint)
        return api_error_field(error, param, "%s stands beside %s: leave one of the two out", param,
                               request->names.constraint);
    request->names.constraint = param;
    request->options.constraint_kind = kind;
    request->options.constraint = text;
    return 0;
}

int generation_set_schema(GenerationRequest *request, const json_t *schema, const char *param, ApiError *error) {
    const char *text;
    int r;

    if (!json_is_object(schema) && !json_is_boolean(schema))
        return api_error_field(error, param, "%s must be a JSON schema, which is an object", param);
    r = owned_json(&request->owned, schema, &text, error);
    return r ? r : set_constraint(request, COORDGEN_CONSTRAINT_JSON_SCHEMA, text, param, error);
}

/* OpenAI's json_object, and an empty schema of llama-server: any object. */
static int set_any_object(GenerationRequest *request, const char *param, ApiError *error) {
    return set_constraint(request, COORDGEN_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\"}", param, error);
}

static int set_wrapped(GenerationRequest *request, const json_t *wrapper, ApiError *error) {
    WrapperFields form = { 0 };
    int r;

    if (!wrapper)
        return api_error_field(error, "response_format.json_schema", "response_format.json_schema is missing");
    r = fields_read(wrapper, wrapper_tables, 1, &form, "response_format.json_schema", error);
    if (r)
        return r;
    if (!form.schema)
        return set_any_object(request, "response_format.json_schema.schema", error);
    return generation_set_schema(request, form.schema, "response_format.json_schema.schema", error);
}

static int set_format(GenerationRequest *request, const json_t *format, ApiError *error) {
    FormatFields form = { 0 };
    int r = fields_read(format, format_tables, 1, &form, "response_format", error);

    if (r)
        return r;
    if (!form.type)
        return api_error_field(error, "response_format.type", "response_format.type is missing");
    if (!strcmp(form.type, "json_schema") && !form.schema)
        return set_wrapped(request, form.json_schema, error);
    if (form.json_schema || (form.schema && strcmp(form.type, "json_object")))
        return api_error_field(error, "response_format.type", "response_format has a schema, and its type is '%.*s'",
                               UTF8_PREFIX(form.type, 64));
    if (!strcmp(form.type, "text"))
        return 0;
    if (strcmp(form.type, "json_object"))
        return api_error_field(error, "response_format.type",
                               "response_format.type: '%.*s' is none of text, json_object, json_schema",
                               UTF8_PREFIX(form.type, 64));
    if (!form.schema || (json_is_object(form.schema) && !json_object_size(form.schema)))
        return set_any_object(request, "response_format", error);
    return generation_set_schema(request, form.schema, "response_format.schema", error);
}

int generation_constraint_settle(GenerationRequest *request, ApiError *error) {
    const GenerationJson *json = &request->json;
    int r = 0;

    if (json->response_format)
        r = set_format(request, json->response_format, error);
    if (!r && json_is_object(json->json_schema) && !json_object_size(json->json_schema))
        r = set_any_object(request, "json_schema", error);
    else if (!r && json->json_schema)
        r = generation_set_schema(request, json->json_schema, "json_schema", error);
    if (!r && json->grammar && *json->grammar)
        r = set_constraint(request, COORDGEN_CONSTRAINT_GBNF, json->grammar, "grammar", error);
    if (!r && json->regex)
        r = set_constraint(request, COORDGEN_CONSTRAINT_REGEX, json->regex, "regex", error);
    return r;
}
