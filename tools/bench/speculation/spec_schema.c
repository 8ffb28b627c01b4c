// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_schema.h"

#include <errno.h>
#include <string.h>

#include "text/grammar/grammar_builder.h"
#include "text/grammar/schema/schema_grammar.h"

static int compile(Grammar **grammarp, const char *schema, ErrText *err) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    const GrammarLimits limits = GRAMMAR_LIMITS_DEFAULT;
    GrammarPart part;
    int r = grammar_builder_new(&builder, &limits);

    if (!r)
        r = grammar_part_json_schema(builder, schema, strlen(schema), &(SchemaOptions){ 0 }, &part, err);
    return r ? r : grammar_builder_finish(builder, part, grammarp, err);
}

int spec_schema_constraint(Constraint **constraintp, const json_t *schema, ConstraintVocabulary *vocabulary,
                           ErrText *err) {
    _cleanup_(freep) char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT);
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };
    int r;

    if (!text)
        return err_no_memory(err);
    r = compile(&grammar, text, err);
    if (!r) {
        (void)constraint_plan_add_grammar(&plan, grammar, CONSTRAINT_END);
        r = constraint_new(constraintp, &plan, vocabulary, err);
    }
    return r > 0 ? -EINVAL : r;
}
