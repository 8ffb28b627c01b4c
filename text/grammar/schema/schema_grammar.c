// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_grammar.h"

#include "text/grammar/schema/schema_emit.h"
#include "text/grammar/schema/schema_expand.h"

static int translate(SchemaCompiler *c, GrammarPart *partp) {
    const SchemaLiteral whole = { c->source->root, false };
    SchemaPlan plan;
    GrammarPart part;
    uint32_t root;

    if (schema_nodes_init(c, schema_expand))
        return c->r;
    root = schema_node(c, &whole, 1);
    schema_plan_make(c, &plan, root);
    part = schema_emit(c, &plan, root);
    if (!c->r && !schema_plan_find(&plan, root))
        return err_set(c->err, GRAMMAR_E_NOTHING, "#: no value fits the schema");
    if (!c->r)
        *partp = part;
    return c->r;
}

int grammar_part_json_schema(GrammarBuilder *builder, const char *text, size_t len_bytes, const SchemaOptions *options,
                             GrammarPart *partp, ErrText *err) {
    SchemaSource source;
    SchemaCompiler c = { .builder = builder,
                         .source = &source,
                         .is_compact = options->is_compact,
                         .is_any_order = options->is_any_order,
                         .err = err,
                         .character = GRAMMAR_PART_NONE };
    int r;

    r = schema_source_init(&source, text, len_bytes, err);
    if (!r)
        r = translate(&c, partp);
    schema_nodes_deinit(&c);
    schema_compiler_deinit(&c);
    schema_source_deinit(&source);
    return r;
}
