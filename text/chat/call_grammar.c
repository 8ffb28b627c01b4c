// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema/schema_grammar.h"

typedef struct Writer {
    GrammarBuilder *builder;
    const CallShape *shape;
    const CallTools *tools;
    int r;
    ErrText *err;
} Writer;

static GrammarPart text_part(Writer *w, const char *text) {
    return grammar_part_bytes(w->builder, text, strlen(text));
}

static GrammarPart regex_part(Writer *w, const char *pattern) {
    GrammarPart part = GRAMMAR_PART_NONE;
    int r = grammar_part_regex(w->builder, pattern, strlen(pattern), 0, &part, w->err);

    if (r && !w->r)
        w->r = r;
    return r ? grammar_part_nothing(w->builder) : part;
}

#define sequence(w, ...)                                                                                               \
    grammar_part_sequence((w)->builder, (const GrammarPart[]){ __VA_ARGS__ },                                          \
                          sizeof((const GrammarPart[]){ __VA_ARGS__ }) / sizeof(GrammarPart))
#define choice(w, ...)                                                                                                 \
    grammar_part_choice((w)->builder, (const GrammarPart[]){ __VA_ARGS__ },                                            \
                        sizeof((const GrammarPart[]){ __VA_ARGS__ }) / sizeof(GrammarPart))

static GrammarPart many(Writer *w, GrammarPart part, bool is_single) {
    return grammar_part_repeat(w->builder, part, 0, is_single ? 0 : GRAMMAR_NO_MAX);
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

/* Whether a schema says by properties alone what an object has, so that names it does not list are no arguments. */
static bool lists_all(const json_t *schema) {
    static const char *const others[] = { "additionalProperties",
                                          "patternProperties",
                                          "propertyNames",
                                          "allOf",
                                          "anyOf",
                                          "oneOf",
                                          "not",
                                          "if",
                                          "$ref",
                                          "unevaluatedProperties",
                                          "dependentSchemas",
                                          "dependencies",
                                          "minProperties",
                                          "const",
                                          "enum" };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (json_object_get(schema, others[i]))
            return false;
    return true;
}

/* Writes the schema of a tool's arguments: an object, which has no other properties than the listed ones if the schema
 * does not speak of others. NULL: no memory. */
static char *arguments_schema(const CallTool *tool) {
    json_t *schema = tool->parameters ? json_copy((json_t *)(uintptr_t)tool->parameters) : json_object();
    char *text = NULL;

    if (!schema)
        return NULL;
    if (!json_object_get(schema, "type") && !json_object_get(schema, "$ref"))
        json_object_set_new(schema, "type", json_string("object"));
    if (lists_all(schema))
        json_object_set_new(schema, "additionalProperties", json_false());
    text = json_dumps(schema, 0);
    json_decref(schema);
    return text;
}

static bool may_be_object(const CallTool *tool) {
    const json_t *type = json_object_get(tool->parameters, "type");
    size_t i;
    json_t *one;

    if (!type || json_is_string(type))
        return !type || !strcmp(json_string_value(type), "object");
    json_array_foreach(type, i, one) if (json_is_string(one) && !strcmp(json_string_value(one), "object")) return true;
    return false;
}

static GrammarPart arguments_part(Writer *w, const CallTool *tool) {
    GrammarPart part = grammar_part_nothing(w->builder);
    char *schema;
    int r;

    if (w->r)
        return part;
    if (!may_be_object(tool)) {
        w->r = err_set(w->err, GRAMMAR_E_SYNTAX, "tool '%s': parameters: #: type: arguments are an object", tool->name);
        return part;
    }
    schema = arguments_schema(tool);
    if (!schema) {
        w->r = err_no_memory(w->err);
        return part;
    }
    r = grammar_part_json_schema(w->builder, schema, strlen(schema), &(SchemaOptions){ 0 }, &part, w->err);
    free(schema);
    if (r > 0)
        err_prefix(w->err, "tool '%s': parameters", tool->name);
    w->r = r;
    return part;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static GrammarPart object_call(Writer *w, const CallTool *tool) {
    const CallShape *shape = w->shape;
    char front[3 * CALL_TOOLS_NAME_BYTES_MAX];
    GrammarPart id = grammar_part_empty(w->builder);

    snprintf(front, sizeof(front), "%s%s%s{\"%s\": \"%s\", \"%s\": ", shape->wrapper ? "{\"" : "",
             shape->wrapper ? shape->wrapper : "", shape->wrapper ? "\": " : "", shape->name_key, tool->name,
             shape->arguments_key);
    if (shape->has_id)
        id = grammar_part_repeat(w->builder, regex_part(w, ", \"id\": \"[a-zA-Z0-9]{9}\""), 0, 1);
    return sequence(w, text_part(w, front), arguments_part(w, tool), id, text_part(w, shape->wrapper ? "}}" : "}"));
}

static GrammarPart plain_call(Writer *w, const CallTool *tool) {
    return sequence(w, text_part(w, tool->name), text_part(w, w->shape->infix), arguments_part(w, tool));
}

/* A call of any tool that the choice allows. */
static GrammarPart one_call(Writer *w) {
    GrammarPart rule = grammar_part_rule(w->builder, "call"), any = grammar_part_nothing(w->builder);

    for (size_t i = 0; i < w->tools->n && !w->r; i++)
        if (call_tools_allows(w->tools, &w->tools->tools[i]))
            any = choice(w, any,
                         w->shape->name_key ? object_call(w, &w->tools->tools[i]) : plain_call(w, &w->tools->tools[i]));
    grammar_rule_set(w->builder, rule, any);
    return rule;
}

static bool is_single(const CallTools *tools) {
    return tools->choice.is_single || tools->choice.mode == CALL_MODE_NAMED;
}

/* Calls that follow each other without further start marks. */
static GrammarPart joined_calls(Writer *w) {
    GrammarPart call = one_call(w);

    return sequence(w, call, many(w, sequence(w, text_part(w, w->shape->joint), call), is_single(w->tools)));
}

/* What stands between the marks. */
static GrammarPart body(Writer *w) {
    GrammarPart pad = text_part(w, w->shape->pad);

    if (w->shape->is_list)
        return sequence(w, pad, text_part(w, "["), joined_calls(w), text_part(w, "]"));
    return sequence(w, pad, one_call(w), pad);
}

static GrammarPart section(Writer *w) {
    return sequence(w, body(w), text_part(w, w->shape->end ? w->shape->end : ""));
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Any bytes. Free text may hold any, so that its complement is found to be empty at once. */
static GrammarPart anything(Writer *w) {
    return grammar_part_not(w->builder, grammar_part_nothing(w->builder));
}

/* An answer whose calls begin at its front: what begins like a call is one. */
static GrammarPart front_answer(Writer *w) {
    GrammarPart calls = sequence(w, regex_part(w, "[ \\n]{0,2}"), joined_calls(w)), start;
    char pattern[2 * CALL_TOOLS_NAME_BYTES_MAX];

    if (w->tools->choice.mode != CALL_MODE_AUTO)
        return calls;
    if (w->shape->wrapper)
        snprintf(pattern, sizeof(pattern), "[ \\t\\r\\n]*\\{[ \\t\\r\\n]*\"%s\"", w->shape->wrapper);
    else
        snprintf(pattern, sizeof(pattern), "[ \\t\\r\\n]*\\{[ \\t\\r\\n]*\"(?:%s|%s|id|type)\"", w->shape->name_key,
                 w->shape->arguments_key);
    start = regex_part(w, pattern);
    return choice(w, calls, grammar_part_not(w->builder, sequence(w, start, anything(w))));
}

/* An answer with marks that are text. */
static GrammarPart marked_answer(Writer *w) {
    GrammarPart mark = text_part(w, w->shape->start), any = anything(w);
    GrammarPart call = sequence(w, mark, section(w)), text;
    const bool is_last = is_single(w->tools) || w->shape->is_list;

    if (w->tools->choice.mode != CALL_MODE_AUTO)
        return sequence(w, call, many(w, sequence(w, text_part(w, w->shape->joint), call), is_last));
    text = grammar_part_not(w->builder, sequence(w, any, mark, any));
    if (is_last)
        return sequence(w, text, grammar_part_repeat(w->builder, call, 0, 1));
    return sequence(w, text, many(w, sequence(w, call, text), false));
}

/* The only tool that may be called, for scopes of one tool. */
static const CallTool *only_tool(const CallTools *tools) {
    for (size_t i = 0; i < tools->n; i++)
        if (call_tools_allows(tools, &tools->tools[i]))
            return &tools->tools[i];
    return NULL;
}

static GrammarPart scope_part(Writer *w, CallScope scope) {
    switch (scope) {
    case CALL_SCOPE_ANSWER:
        return w->shape->start ? marked_answer(w) : front_answer(w);
    case CALL_SCOPE_CALLS:
        return joined_calls(w);
    case CALL_SCOPE_JOINT:
        return grammar_part_repeat(w->builder, text_part(w, w->shape->joint), 0, 1);
    case CALL_SCOPE_SECTION:
        return section(w);
    case CALL_SCOPE_BODY:
        return body(w);
    case CALL_SCOPE_NAME:
        return text_part(w, only_tool(w->tools)->name);
    case CALL_SCOPE_ARGUMENTS:
        return arguments_part(w, only_tool(w->tools));
    }
    return grammar_part_nothing(w->builder);
}

int call_grammar_new(Grammar **grammarp, const CallShape *shape, const CallTools *tools, CallScope scope,
                     const GrammarLimits *limits, ErrText *err) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    Writer w = { .shape = shape, .tools = tools, .err = err };
    GrammarPart root;
    int r = grammar_builder_new(&builder, limits);

    if (r)
        return err_no_memory(err);
    w.builder = builder;
    root = scope_part(&w, scope);
    return w.r ? w.r : grammar_builder_finish(builder, root, grammarp, err);
}
