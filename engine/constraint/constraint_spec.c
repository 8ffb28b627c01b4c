// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/constraint_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/sha2.h>

#include "engine/constraint/call_plan.h"
#include "engine/constraint/engine_vocabulary.h"
#include "engine/engine.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/schema/schema_grammar.h"

static int spec_code(int r) {
    return r <= 0 ? r : r == GRAMMAR_E_TOO_COMPLEX ? CONSTRAINT_SPEC_E_TOO_COMPLEX : CONSTRAINT_SPEC_E_INVALID;
}

static int add_form(const ConstraintSpec *spec, GrammarBuilder *builder, GrammarPart *partp, ErrText *err) {
    switch (spec->form) {
    case CONSTRAINT_FORM_JSON_SCHEMA:
        return grammar_part_json_schema(
            builder, spec->text, spec->n_bytes,
            &(SchemaOptions){ .is_compact = spec->is_compact, .is_any_order = spec->is_any_order }, partp, err);
    case CONSTRAINT_FORM_GBNF:
        return gbnf_parse(builder, spec->text, spec->n_bytes, partp, err);
    case CONSTRAINT_FORM_REGEX:
        return grammar_part_regex(builder, spec->text, spec->n_bytes, 0, partp, err);
    case CONSTRAINT_FORM_NONE:
        break;
    }
    return err_set(err, -EINVAL, "there is no form");
}

static size_t name_bytes(const ConstraintSpec *spec) {
    return spec->choice.name ? strlen(spec->choice.name) : 0;
}

size_t constraint_spec_bytes(const ConstraintSpec *spec) {
    return spec->n_bytes + spec->tools_bytes + name_bytes(spec) + 3;
}

/* Copies a text to the cursor, which moves behind its NUL; NULL stays NULL. */
static const char *put_text(char **cursorp, const char *text, size_t n_bytes) {
    char *at = *cursorp;

    if (!text)
        return NULL;
    if (n_bytes)
        memcpy(at, text, n_bytes);
    at[n_bytes] = '\0';
    *cursorp += n_bytes + 1;
    return at;
}

char *constraint_spec_copy(ConstraintSpec *to, const ConstraintSpec *from) {
    char *texts = malloc(constraint_spec_bytes(from)), *cursor = texts;

    if (!texts)
        return NULL;
    *to = *from;
    to->text = put_text(&cursor, from->text, from->n_bytes);
    to->tools = put_text(&cursor, from->tools, from->tools_bytes);
    to->choice.name = put_text(&cursor, from->choice.name, name_bytes(from));
    return texts;
}

static int read_tools(const ConstraintSpec *spec, CallTools **toolsp, ErrText *err) {
    int r = call_tools_new(toolsp, spec->tools, spec->tools_bytes, &spec->choice, err);

    return r == CALL_E_TOOLS ? CONSTRAINT_SPEC_E_TOOLS : r == CALL_E_CHOICE ? CONSTRAINT_SPEC_E_CHOICE : r;
}

static int check_tools(const ConstraintSpec *spec, ErrText *err) {
    _cleanup_(call_tools_freep) CallTools *tools = NULL;

    return read_tools(spec, &tools, err);
}

/* Adds the segments of tool calls. Where the format of the model's calls is unknown, the answer is any text. */
static int add_tools(const ConstraintSpec *spec, Engine *engine, ConstraintPlan *plan, uint32_t *firstp, ErrText *err) {
    _cleanup_(call_tools_freep) CallTools *tools = NULL;
    const CallShape *shape = engine_call_shape(engine);
    ErrText why = { 0 };
    int r = read_tools(spec, &tools, err);

    if (r)
        return r;
    if (!shape && spec->choice.mode != CALL_MODE_AUTO)
        return err_set(err, CONSTRAINT_SPEC_E_CHOICE,
                       "the format in which the model's chat template writes calls is unknown, so none can be "
                       "required: let the model choose (auto), or use another template (setting chat-template)");
    if (!shape || !tools->n) {
        *firstp = constraint_plan_add_free(
            plan, &(ConstraintFree){ .is_end_allowed = true, .tokens_max = UINT32_MAX, .over = CONSTRAINT_END });
        return 0;
    }
    r = call_plan_add(plan, shape, tools, engine_tokenizer(engine), &CONSTRAINT_LIMITS, firstp, &why);
    if (r == -ENOMEM)
        return err_no_memory(err);
    return r <= 0
               ? r
               : err_set(err, r == GRAMMAR_E_TOO_COMPLEX ? CONSTRAINT_SPEC_E_TOO_COMPLEX : CONSTRAINT_SPEC_E_PARAMETERS,
                         "%s", *why.text ? why.text : "too complex: limits on parts, memory and time");
}

int constraint_spec_compile(const ConstraintSpec *spec, const GrammarLimits *limits, Grammar **grammarp, ErrText *err) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    const size_t bytes_max =
        spec->form == CONSTRAINT_FORM_REGEX ? CONSTRAINT_REGEX_BYTES_MAX : CONSTRAINT_TEXT_BYTES_MAX;
    ErrText why = { 0 };
    GrammarPart part;
    int r;

    *grammarp = NULL;
    if (spec->tools)
        return check_tools(spec, err);
    if (spec->form == CONSTRAINT_FORM_NONE)
        return 0;
    if (spec->n_bytes > bytes_max)
        return err_set(err, CONSTRAINT_SPEC_E_TOO_COMPLEX, "%zu bytes: at most %zu are allowed", spec->n_bytes,
                       bytes_max);
    r = grammar_builder_new(&builder, limits);
    if (!r)
        r = add_form(spec, builder, &part, &why);
    if (!r)
        r = grammar_builder_finish(builder, part, grammarp, &why);
    if (!r)
        return 0;
    if (r == -ENOMEM)
        return err_no_memory(err);
    return err_set(err, spec_code(r), "%s", *why.text ? why.text : "too complex: limits on parts, memory and time");
}

int constraint_spec_build(const ConstraintSpec *spec, Grammar *grammar, Engine *engine, Constraint **constraintp,
                          ErrText *err) {
    _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };
    const ThinkingMarks marks = chat_template_thinking(engine_chat_template(engine), engine_tokenizer(engine));
    ConstraintVocabulary *vocabulary;
    uint32_t first = 0;
    int r = engine_vocabulary(engine, &vocabulary, err);

    if (r)
        return r == ENGINE_E_MEMORY ? CONSTRAINT_SPEC_E_MEMORY : r;
    if (spec->tools)
        r = add_tools(spec, engine, &plan, &first, err);
    else
        first = grammar ? constraint_plan_add_grammar(&plan, grammar, CONSTRAINT_END)
                        : thinking_plan_add_any(&plan, &marks);
    if (r)
        return r;
    plan.start = first;
    if (spec->may_think)
        r = thinking_plan_add(&plan, &marks, engine_tokenizer(engine), spec->thinking_tokens, first, err);
    if (!r)
        r = constraint_new(constraintp, &plan, vocabulary, err);
    return r <= 0 ? r : r == CONSTRAINT_E_TOO_COMPLEX ? CONSTRAINT_SPEC_E_TOO_COMPLEX : CONSTRAINT_SPEC_E_INVALID;
}

void constraint_spec_hash(const ConstraintSpec *spec, uint8_t hash[CONSTRAINT_SPEC_HASH_BYTES]) {
    const uint32_t tokens = spec->may_think ? spec->thinking_tokens : 0;
    const uint8_t head[] = { (uint8_t)spec->form,     spec->is_compact,       spec->may_think,
                             (uint8_t)tokens,         (uint8_t)(tokens >> 8), (uint8_t)(tokens >> 16),
                             (uint8_t)(tokens >> 24), spec->tools != NULL,    (uint8_t)spec->choice.mode,
                             spec->choice.is_single,  spec->is_any_order };
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, sizeof(head), head);
    if (spec->n_bytes)
        sha256_update(&sha, spec->n_bytes, (const uint8_t *)spec->text);
    if (spec->choice.name) /* with its NUL, so that it cannot be a part of the tools */
        sha256_update(&sha, name_bytes(spec) + 1, (const uint8_t *)spec->choice.name);
    if (spec->tools_bytes)
        sha256_update(&sha, spec->tools_bytes, (const uint8_t *)spec->tools);
    sha256_digest(&sha, CONSTRAINT_SPEC_HASH_BYTES, hash);
}
