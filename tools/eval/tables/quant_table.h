// SPDX-License-Identifier: Apache-2.0
/* The ablation of a model: what each recipe costs in bytes and gives in quality, beside the float reference. */
#ifndef COORDGEN_EVAL_QUANT_TABLE_H
#define COORDGEN_EVAL_QUANT_TABLE_H

#include "quant/format/recipe_spec.h"
#include "tools/eval/eval.h"
#include "tools/eval/tables/table_store.h"

#define QUANT_TABLE_ROWS_MAX 64

typedef struct QuantTableRow {
    char spec[RECIPE_SPEC_MAX]; /* "float", or in the form of recipe_spec_format() */
    bool is_float;
    QuantRecipe recipe;
    json_t *stored; /* the store's */
} QuantTableRow;

/* One column that is measured: perplexity of a text, or accuracy on questions. */
typedef struct QuantTableColumn {
    const char *path;
    const char *name; /* of the file, without its folder */
    bool is_mcq;
    json_t *settings; /* what its results are found by in the store */
} QuantTableColumn;

typedef struct QuantTable {
    const EvalOptions *options;
    TableStore store;
    QuantTableRow rows[QUANT_TABLE_ROWS_MAX]; /* the float row first */
    size_t n_rows;
    QuantTableColumn columns[1 + EVAL_MCQ_MAX];
    size_t n_columns;
} QuantTable;

/* Reads what is stored, and all questions, which must be as they should; nothing is measured yet. */
int quant_table_open(QuantTable *table, const EvalOptions *options, ErrText *err);
void quant_table_close(QuantTable *table);
/* Makes the row's package and measures what the store does not have; saves after each. */
int quant_table_run_row(QuantTable *table, QuantTableRow *row, ErrText *err);

/* NULL while it has not been measured. */
const json_t *quant_table_cell(const QuantTable *table, const QuantTableRow *row, size_t column);
/* Perplexity of a row; NaN while there is none or without --file. */
double quant_table_perplexity(const QuantTable *table, const QuantTableRow *row);

#endif
