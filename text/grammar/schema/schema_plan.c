// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_plan.h"

#include <string.h>

#include "base/min_max.h"

/* --- what the root leads to --------------------------------------------------------------------------------------- */

static void want(SchemaCompiler *c, SchemaPlan *plan, uint32_t node) {
    if (node == SCHEMA_NODE_NOTHING || c->r)
        return;
    if (node >= plan->n_places) {
        size_t n = MAX((size_t)64, 2 * schema_nodes_count(c));
        uint32_t *more = schema_alloc(c, n, sizeof(*more));

        if (!more)
            return;
        if (plan->n_places)
            memcpy(more, plan->places, plan->n_places * sizeof(*more));
        plan->places = more;
        plan->n_places = n;
    }
    if (plan->places[node])
        return;
    if (plan->n == plan->room) {
        size_t room = plan->room ? 2 * plan->room : 32;
        SchemaPlanNode *more = schema_alloc(c, room, sizeof(*more));

        if (!more)
            return;
        if (plan->n)
            memcpy(more, plan->nodes, plan->n * sizeof(*more));
        plan->nodes = more;
        plan->room = room;
    }
    plan->nodes[plan->n++] = (SchemaPlanNode){ .node = node };
    plan->places[node] = (uint32_t)plan->n;
}

static void want_all(SchemaCompiler *c, SchemaPlan *plan, const SchemaVariants *variants) {
    for (size_t i = 0; i < variants->n; i++)
        want(c, plan, variants->items[i].node);
}

/* Resolves the shapes of node number at, and adds their children to the plan. */
static void resolve(SchemaCompiler *c, SchemaPlan *plan, size_t at) {
    const SchemaSet *set = schema_node_set(c, plan->nodes[at].node);
    const SchemaArrayForm **arrays;
    const SchemaObjectForm **objects;

    plan->nodes[at].set = set;
    plan->nodes[at].is_any = schema_set_is_any(set);
    if (plan->nodes[at].is_any)
        return;
    arrays = schema_alloc(c, set->n_arrays, sizeof(*arrays));
    objects = schema_alloc(c, set->n_objects, sizeof(*objects));
    plan->nodes[at].arrays = arrays;
    plan->nodes[at].objects = objects;
    for (size_t i = 0; i < set->n_arrays && !c->r; i++) {
        arrays[i] = schema_array_form(c, &set->arrays[i]);
        for (size_t k = 0; !c->r && k <= arrays[i]->n_prefix; k++)
            want_all(c, plan, &arrays[i]->elements[k]);
    }
    for (size_t i = 0; i < set->n_objects && !c->r; i++) {
        objects[i] = schema_object_form(c, &set->objects[i]);
        for (size_t k = 0; !c->r && k < objects[i]->n_members; k++)
            want_all(c, plan, &objects[i]->members[k].values);
        for (size_t k = 0; !c->r && k < objects[i]->n_classes; k++)
            want_all(c, plan, &objects[i]->classes[k].values);
    }
}

/* --- which nodes have a value ------------------------------------------------------------------------------------- */

const SchemaPlanNode *schema_plan_find(const SchemaPlan *plan, uint32_t node) {
    uint32_t place = node < plan->n_places ? plan->places[node] : 0;

    return place && plan->nodes[place - 1].is_productive ? &plan->nodes[place - 1] : NULL;
}

SchemaVariants schema_plan_keep(const SchemaPlan *plan, const SchemaVariants *variants) {
    SchemaVariants kept = { .n = 0 };

    for (size_t i = 0; i < variants->n; i++)
        if (schema_plan_find(plan, variants->items[i].node))
            kept.items[kept.n++] = variants->items[i];
    return kept;
}

static unsigned int marks_of(const SchemaPlan *plan, const SchemaVariants *variants, bool *is_possiblep) {
    SchemaVariants kept = schema_plan_keep(plan, variants);
    unsigned int marks = 0;

    for (size_t i = 0; i < kept.n; i++)
        marks |= kept.items[i].marks;
    *is_possiblep = kept.n;
    return marks;
}

bool schema_plan_object_fits(const SchemaPlan *plan, const SchemaObjectForm *form) {
    unsigned int marks = 0;
    size_t n_required = 0, n_possible = 0;
    bool is_possible, is_open = false;

    for (size_t i = 0; i < form->n_members; i++) {
        marks |= marks_of(plan, &form->members[i].values, &is_possible);
        if (form->members[i].is_required && !is_possible)
            return false;
        n_required += form->members[i].is_required;
        n_possible += is_possible;
    }
    for (size_t i = 0; i < form->n_classes; i++) {
        marks |= marks_of(plan, &form->classes[i].values, &is_possible);
        is_open |= is_possible;
    }
    return n_required <= form->max && (is_open || n_possible >= form->min) && marks + 1 == 1u << form->n_marks;
}

bool schema_plan_array_fits(const SchemaPlan *plan, const SchemaArrayForm *form) {
    unsigned int marks = 0, needed = 0;
    uint32_t n = form->max;
    bool is_possible;

    for (uint32_t i = 0; i <= form->n_prefix && i < n; i++) {
        marks |= marks_of(plan, &form->elements[i], &is_possible);
        if (!is_possible)
            n = i;
    }
    for (size_t i = 0; i < form->n_marks; i++)
        needed |= form->counts[i].min ? 1u << i : 0;
    return form->min <= n && !(needed & ~marks);
}

static bool has_value(SchemaCompiler *c, const SchemaPlan *plan, const SchemaPlanNode *one) {
    const SchemaSet *set = one->set;

    if (one->is_any || set->plain)
        return true;
    for (size_t i = 0; i < set->n_arrays; i++)
        if (schema_plan_array_fits(plan, one->arrays[i]))
            return true;
    for (size_t i = 0; i < set->n_objects; i++)
        if (schema_plan_object_fits(plan, one->objects[i]))
            return true;
    for (size_t i = 0; i < set->n_numbers; i++)
        if (!schema_number_is_empty(c, &set->numbers[i]))
            return true;
    return !schema_text_is_empty(c, &set->text);
}

void schema_plan_make(SchemaCompiler *c, SchemaPlan *plan, uint32_t root) {
    *plan = (SchemaPlan){ 0 };
    want(c, plan, SCHEMA_NODE_ANY);
    want(c, plan, root);
    for (size_t i = 0; i < plan->n && !c->r; i++)
        resolve(c, plan, i);
    /* Children mostly stand behind their parents, so that few rounds suffice. */
    for (bool has_changed = true; has_changed && !c->r;) {
        has_changed = false;
        for (size_t i = plan->n; i-- && schema_step(c, 1);) {
            SchemaPlanNode *one = &plan->nodes[i];

            if (!one->is_productive && has_value(c, plan, one))
                one->is_productive = has_changed = true;
        }
    }
}
