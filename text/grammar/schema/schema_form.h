// SPDX-License-Identifier: Apache-2.0
/* Shapes with their children resolved to nodes: what is written into the grammar. */
#ifndef COORDGEN_SCHEMA_FORM_H
#define COORDGEN_SCHEMA_FORM_H

#include "text/grammar/schema/schema_children.h"

enum {
    SCHEMA_MARKS_MAX = 3,      /* "some child fits" of one shape */
    SCHEMA_SPLITTERS_MAX = 10, /* patterns of names in one shape */
    SCHEMA_CLASSES_MAX = 32,   /* combinations of them that some name has */
};

/* A child's values that set the marks: bit i says that the child counts for exists[i] or contains[i]. */
typedef struct SchemaVariant {
    unsigned int marks;
    uint32_t node;
} SchemaVariant;

typedef struct SchemaVariants {
    SchemaVariant items[1 << SCHEMA_MARKS_MAX];
    size_t n;
} SchemaVariants;

typedef struct SchemaMember {
    SchemaName name;
    bool is_required;
    SchemaVariants values;
} SchemaMember;

/* Properties that are not listed: names of a set, with values of the same nodes. */
typedef struct SchemaNameClass {
    SchemaText names;
    SchemaVariants values;
} SchemaNameClass;

typedef struct SchemaObjectForm {
    SchemaMember *members; /* in the order of the schema */
    size_t n_members;
    SchemaNameClass *classes;
    size_t n_classes;
    uint32_t min, max;
    size_t n_marks; /* each of which some property must set */
} SchemaObjectForm;

typedef struct SchemaArrayForm {
    SchemaVariants *elements; /* the first ones; behind them the last entry, for all others */
    uint32_t n_prefix;
    uint32_t min, max;
    size_t n_marks;
    struct {
        uint32_t min, max;
    } counts[SCHEMA_MARKS_MAX]; /* elements that set the mark */
} SchemaArrayForm;

/* The functions return what lives as long as the compiler. c->r is set where a shape is too complex. */
const SchemaObjectForm *schema_object_form(SchemaCompiler *c, const SchemaObject *object);
const SchemaArrayForm *schema_array_form(SchemaCompiler *c, const SchemaArray *array);

#endif
