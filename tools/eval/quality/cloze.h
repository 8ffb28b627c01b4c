// SPDX-License-Identifier: Apache-2.0
/* Measures cloze tests (LAMBADA): whether the model says the last words of a text by itself. */
#ifndef COORDGEN_EVAL_CLOZE_H
#define COORDGEN_EVAL_CLOZE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

typedef struct ClozeOptions {
    const char *file;
    size_t limit;   /* the first rows; 0: all */
    bool with_rows; /* fill Cloze.rows */
    /* After every row; may be NULL. */
    void (*on_row)(void *arg, size_t n_done, size_t n_rows, size_t n_right);
    void *arg;
} ClozeOptions;

typedef struct Cloze {
    size_t n_rows, n_right; /* right: every reference token was the most probable one */
    size_t n_merged;        /* rows whose prompt and reference share a token at the border */
    double accuracy, standard_error;
    double perplexity; /* exp(-mean log-likelihood of the references), a reference counted as one word */
    json_t *rows;      /* array of one object a row, or NULL */
} Cloze;

/* Measures all rows; errors as mcq_measure(). */
int cloze_measure(Cloze *result, Engine *engine, const ClozeOptions *options, ErrText *err);
void cloze_deinit(Cloze *result);

#endif
