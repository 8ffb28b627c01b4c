// SPDX-License-Identifier: Apache-2.0
/* The ablation of a model: each recipe's bytes and quality beside the float reference. */
#ifndef COORDGEN_EVAL_QUANT_TABLE_H
#define COORDGEN_EVAL_QUANT_TABLE_H

#include "quant/format/recipe_spec.h"
#include "tools/eval/eval.h"
#include "tools/eval/tables/table_store.h"

#define QUANT_TABLE_ROWS_MAX 64

typedef struct QuantTableRow {
    char spec[RECIPE_SPEC_MAX]; /* "float", or a spec as recipe_spec_format() writes it */
    bool is_float;
    QuantRecipe recipe;
    json_t *stored; /* the store's */
} QuantTableRow;

typedef enum QuantTableKind {
    QUANT_TABLE_PERPLEXITY, /* of a text */
    QUANT_TABLE_MCQ,        /* accuracy on questions */
    QUANT_TABLE_DIVERGENCE, /* from the float reference, on a text; the float row keeps the reference's rows for it */
} QuantTableKind;

/* A measured column. */
typedef struct QuantTableColumn {
    const char *path;
    const char *name; /* name of the file, without its folder */
    QuantTableKind kind;
    json_t *settings; /* key of its results in the store */
} QuantTableColumn;

typedef struct QuantTable {
    const EvalOptions *options;
    TableStore store;
    QuantTableRow rows[QUANT_TABLE_ROWS_MAX]; /* the float row first */
    size_t n_rows;
    QuantTableColumn columns[1 + EVAL_MCQ_MAX + EVAL_DIVERGENCE_MAX];
    size_t n_columns;
} QuantTable;

/* Reads the stored results and checks all questions; measures nothing yet. */
int quant_table_open(QuantTable *table, const EvalOptions *options, ErrText *err);
void quant_table_close(QuantTable *table);
/* Makes the row's package and measures what the store lacks; saves after each measurement. */
int quant_table_run_row(QuantTable *table, QuantTableRow *row, ErrText *err);

/* Returns a measurement; NULL: not measured yet. */
const json_t *quant_table_cell(const QuantTable *table, const QuantTableRow *row, size_t column);
/* Returns the perplexity of a row; NaN: not measured, or no --file. */
double quant_table_perplexity(const QuantTable *table, const QuantTableRow *row);

#endif
