// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_set.h"

#include "base/cleanup.h"
#include "base/min_max.h"

const SchemaNumber schema_number_any = { 0 };
const SchemaArray schema_array_any = { .max = SCHEMA_NO_MAX };
const SchemaObject schema_object_any = { .max = SCHEMA_NO_MAX, .names = { .kind = SCHEMA_TEXT_EXCEPT } };

SchemaSet schema_set_any(void) {
    return (SchemaSet){
        .plain = SCHEMA_VALUES_PLAIN,
        .numbers = &schema_number_any,
        .n_numbers = 1,
        .text = SCHEMA_TEXT_ANY,
        .arrays = &schema_array_any,
        .n_arrays = 1,
        .objects = &schema_object_any,
        .n_objects = 1,
    };
}

bool schema_array_is_any(const SchemaArray *array) {
    return !array->n_layers && !array->n_elements && !array->n_contains && !array->min && array->max == SCHEMA_NO_MAX &&
           !array->unique;
}

bool schema_object_is_any(const SchemaObject *object) {
    return !object->n_layers && !object->n_entries && !object->n_exists && !object->min &&
           object->max == SCHEMA_NO_MAX && schema_text_is_any(&object->names);
}

bool schema_set_is_any(const SchemaSet *set) {
    return set->plain == SCHEMA_VALUES_PLAIN && set->n_numbers && schema_number_is_any(&set->numbers[0]) &&
           schema_text_is_any(&set->text) && set->n_arrays && schema_array_is_any(&set->arrays[0]) && set->n_objects &&
           schema_object_is_any(&set->objects[0]);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

/* Joins two lists of layers without repetition. */
static const json_t **join_layers(SchemaCompiler *c, const json_t **a, size_t na, const json_t **b, size_t nb,
                                  size_t *np) {
    const json_t **all = schema_join(c, a, na, b, nb, sizeof(*all));
    size_t n = na;

    for (size_t i = 0; i < nb && all; i++) {
        size_t k = 0;

        while (k < na && all[k] != b[i])
            k++;
        if (k == na)
            all[n++] = b[i];
    }
    *np = all ? n : 0;
    return all;
}

static bool entries_equal(const SchemaEntry *a, const SchemaEntry *b) {
    return a->is_required == b->is_required && a->is_absent == b->is_absent && a->has_literal == b->has_literal &&
           a->literal.schema == b->literal.schema && a->literal.is_negated == b->literal.is_negated &&
           schema_name_equal(a->name, b->name);
}

/* Joins the entries. False: a property would be both required and absent. */
static bool join_entries(SchemaCompiler *c, const SchemaObject *a, const SchemaObject *b, SchemaObject *both) {
    SchemaEntry *all = schema_join(c, a->entries, a->n_entries, b->entries, b->n_entries, sizeof(*all));
    size_t n = a->n_entries;

    for (size_t i = 0; i < b->n_entries && all; i++) {
        const SchemaEntry *one = &b->entries[i];
        bool is_known = false;

        for (size_t k = 0; k < a->n_entries; k++) {
            if ((one->is_absent && all[k].is_required) || (one->is_required && all[k].is_absent))
                if (schema_name_equal(one->name, all[k].name))
                    return false;
            is_known |= entries_equal(&all[k], one);
        }
        if (!is_known)
            all[n++] = *one;
    }
    both->entries = all;
    both->n_entries = all ? n : 0;
    return schema_step(c, 1 + a->n_entries * b->n_entries / 64);
}

static bool object_and(SchemaCompiler *c, const SchemaObject *a, const SchemaObject *b, SchemaObject *both) {
    *both = (SchemaObject){ .min = MAX(a->min, b->min), .max = MIN(a->max, b->max) };
    if (both->min > both->max || !join_entries(c, a, b, both))
        return false;
    both->layers = join_layers(c, a->layers, a->n_layers, b->layers, b->n_layers, &both->n_layers);
    both->exists = schema_join(c, a->exists, a->n_exists, b->exists, b->n_exists, sizeof(*both->exists));
    both->n_exists = both->exists ? a->n_exists + b->n_exists : 0;
    both->names = schema_text_and(c, a->names, b->names);
    return true;
}

static bool array_and(SchemaCompiler *c, const SchemaArray *a, const SchemaArray *b, SchemaArray *both) {
    *both = (SchemaArray){ .min = MAX(a->min, b->min),
                           .max = MIN(a->max, b->max),
                           .unique = a->unique ? a->unique : b->unique };
    if (both->min > both->max || !schema_step(c, 1))
        return false;
    both->layers = join_layers(c, a->layers, a->n_layers, b->layers, b->n_layers, &both->n_layers);
    both->elements = schema_join(c, a->elements, a->n_elements, b->elements, b->n_elements, sizeof(*both->elements));
    both->n_elements = both->elements ? a->n_elements + b->n_elements : 0;
    both->contains = schema_join(c, a->contains, a->n_contains, b->contains, b->n_contains, sizeof(*both->contains));
    both->n_contains = both->contains ? a->n_contains + b->n_contains : 0;
    return true;
}

/* Every pair of alternatives; an alternative that says nothing leaves the other list as it is. */
#define PRODUCT(c, a, b, field, type, is_any, join, set)                                                               \
    do {                                                                                                               \
        if ((a)->n_##field == 1 && is_any(&(a)->field[0])) {                                                           \
            (set)->field = (b)->field;                                                                                 \
            (set)->n_##field = (b)->n_##field;                                                                         \
        } else if ((b)->n_##field == 1 && is_any(&(b)->field[0])) {                                                    \
            (set)->field = (a)->field;                                                                                 \
            (set)->n_##field = (a)->n_##field;                                                                         \
        } else {                                                                                                       \
            type *all_ = schema_alloc((c), (a)->n_##field * (b)->n_##field, sizeof(type));                             \
            for (size_t i_ = 0; i_ < (a)->n_##field && all_; i_++)                                                     \
                for (size_t k_ = 0; k_ < (b)->n_##field && !(c)->r; k_++)                                              \
                    (set)->n_##field += join((c), &(a)->field[i_], &(b)->field[k_], &all_[(set)->n_##field]);          \
            (set)->field = all_;                                                                                       \
        }                                                                                                              \
    } while (0)

SchemaSet schema_set_and(SchemaCompiler *c, const SchemaSet *a, const SchemaSet *b) {
    SchemaSet set = { .plain = a->plain & b->plain };

    set.text = schema_text_and(c, a->text, b->text);
    PRODUCT(c, a, b, numbers, SchemaNumber, schema_number_is_any, schema_number_and, &set);
    PRODUCT(c, a, b, arrays, SchemaArray, schema_array_is_any, array_and, &set);
    PRODUCT(c, a, b, objects, SchemaObject, schema_object_is_any, object_and, &set);
    return set;
}

/* --- either ------------------------------------------------------------------------------------------------------- */

/* The alternatives of both lists; one that says nothing stands for all. */
#define SUM(c, a, b, field, is_any, set)                                                                               \
    do {                                                                                                               \
        bool a_is_any_ = (a)->n_##field && is_any(&(a)->field[0]);                                                     \
        bool b_is_any_ = (b)->n_##field && is_any(&(b)->field[0]);                                                     \
        if (!(b)->n_##field || a_is_any_ || !(a)->n_##field || b_is_any_) {                                            \
            bool takes_a_ = (a_is_any_ || !(b)->n_##field) && !(b_is_any_ && !a_is_any_);                              \
            (set)->field = takes_a_ ? (a)->field : (b)->field;                                                         \
            (set)->n_##field = a_is_any_ || b_is_any_ ? 1 : takes_a_ ? (a)->n_##field : (b)->n_##field;                \
        } else {                                                                                                       \
            (set)->field =                                                                                             \
                schema_join((c), (a)->field, (a)->n_##field, (b)->field, (b)->n_##field, sizeof(*(set)->field));       \
            (set)->n_##field = (set)->field ? (a)->n_##field + (b)->n_##field : 0;                                     \
        }                                                                                                              \
    } while (0)

SchemaSet schema_set_or(SchemaCompiler *c, const SchemaSet *a, const SchemaSet *b) {
    SchemaSet set = { .plain = a->plain | b->plain };

    if (!schema_step(c, 1))
        return set;
    set.text = schema_text_or(c, a->text, b->text);
    SUM(c, a, b, numbers, schema_number_is_any, &set);
    SUM(c, a, b, arrays, schema_array_is_any, &set);
    SUM(c, a, b, objects, schema_object_is_any, &set);
    return set;
}
