// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/constraint_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/sha2.h>

#include "engine/constraint/engine_vocabulary.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/schema/schema_grammar.h"

static int spec_code(int r) {
    return r <= 0 ? r : r == GRAMMAR_E_TOO_COMPLEX ? CONSTRAINT_SPEC_E_TOO_COMPLEX : CONSTRAINT_SPEC_E_INVALID;
}

static int add_form(const ConstraintSpec *spec, GrammarBuilder *builder, GrammarPart *partp, ErrText *err) {
    switch (spec->form) {
    case CONSTRAINT_FORM_JSON_SCHEMA:
        return grammar_part_json_schema(builder, spec->text, spec->n_bytes,
                                        &(SchemaOptions){ .is_compact = spec->is_compact }, partp, err);
    case CONSTRAINT_FORM_GBNF:
        return gbnf_parse(builder, spec->text, spec->n_bytes, partp, err);
    case CONSTRAINT_FORM_REGEX:
        return grammar_part_regex(builder, spec->text, spec->n_bytes, 0, partp, err);
    case CONSTRAINT_FORM_NONE:
        break;
    }
    return err_set(err, -EINVAL, "there is no form");
}

size_t constraint_spec_bytes(const ConstraintSpec *spec) {
    return spec->n_bytes + 1;
}

char *constraint_spec_copy(ConstraintSpec *to, const ConstraintSpec *from) {
    char *texts = malloc(constraint_spec_bytes(from));

    if (!texts)
        return NULL;
    *to = *from;
    if (from->n_bytes)
        memcpy(texts, from->text, from->n_bytes);
    texts[from->n_bytes] = '\0';
    to->text = texts;
    return texts;
}

int constraint_spec_compile(const ConstraintSpec *spec, const GrammarLimits *limits, Grammar **grammarp, ErrText *err) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    const size_t bytes_max =
        spec->form == CONSTRAINT_FORM_REGEX ? CONSTRAINT_REGEX_BYTES_MAX : CONSTRAINT_TEXT_BYTES_MAX;
    ErrText why = { 0 };
    GrammarPart part;
    int r;

    *grammarp = NULL;
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
    ConstraintVocabulary *vocabulary;
    int r = engine_vocabulary(engine, &vocabulary, err);

    if (r)
        return r == ENGINE_E_MEMORY ? CONSTRAINT_SPEC_E_MEMORY : r;
    constraint_plan_add_grammar(&plan, grammar, CONSTRAINT_END);
    r = constraint_new(constraintp, &plan, vocabulary, err);
    return r <= 0 ? r : r == CONSTRAINT_E_TOO_COMPLEX ? CONSTRAINT_SPEC_E_TOO_COMPLEX : CONSTRAINT_SPEC_E_INVALID;
}

void constraint_spec_hash(const ConstraintSpec *spec, uint8_t hash[CONSTRAINT_SPEC_HASH_BYTES]) {
    const uint8_t head[] = { (uint8_t)spec->form, spec->is_compact };
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, sizeof(head), head);
    sha256_update(&sha, spec->n_bytes, (const uint8_t *)spec->text);
    sha256_digest(&sha, CONSTRAINT_SPEC_HASH_BYTES, hash);
}
