// SPDX-License-Identifier: Apache-2.0
/* The plan of a grammar: the nodes that the root leads to, their forms, and which of them any value fits at all. */
#ifndef COORDGEN_SCHEMA_PLAN_H
#define COORDGEN_SCHEMA_PLAN_H

#include "text/grammar/schema/schema_form.h"

typedef struct SchemaPlanNode {
    uint32_t node;
    const SchemaSet *set;
    const SchemaArrayForm **arrays;   /* [set->n_arrays], NULL: no value fits */
    const SchemaObjectForm **objects; /* [set->n_objects] */
    bool is_any;
    bool is_productive;
} SchemaPlanNode;

typedef struct SchemaPlan {
    SchemaPlanNode *nodes;
    size_t n, room;
    uint32_t *places; /* of a node in nodes, plus 1; 0: not in the plan */
    size_t n_places;
} SchemaPlan;

/* Follows the root. c->r is set on failure. */
void schema_plan_make(SchemaCompiler *c, SchemaPlan *plan, uint32_t root);
/* Returns the node's entry; NULL: no value fits. */
const SchemaPlanNode *schema_plan_find(const SchemaPlan *plan, uint32_t node);
/* Takes variants without a value out. */
SchemaVariants schema_plan_keep(const SchemaPlan *plan, const SchemaVariants *variants);
bool schema_plan_object_fits(const SchemaPlan *plan, const SchemaObjectForm *form);
bool schema_plan_array_fits(const SchemaPlan *plan, const SchemaArrayForm *form);

#endif
