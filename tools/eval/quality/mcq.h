// SPDX-License-Identifier: Apache-2.0
/* Measures multiple choice by log-likelihood: the most probable continuation is the model's choice. */
#ifndef COORDGEN_EVAL_MCQ_H
#define COORDGEN_EVAL_MCQ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

/* Divisor of a continuation's log-likelihood before choices are compared. */
typedef enum McqNormalise {
    MCQ_NORMALISE_AUTO,  /* none for rows whose `set` is "winogrande" or begins with "winogrande/", else bytes */
    MCQ_NORMALISE_BYTES, /* its bytes of UTF-8 */
    MCQ_NORMALISE_NONE,
} McqNormalise;

int mcq_normalise_parse(const char *name, McqNormalise *normalisep); /* 0 or -EINVAL */
const char *mcq_normalise_name(McqNormalise normalise);

typedef struct McqOptions {
    const char *file;
    size_t limit; /* the first rows; 0: all */
    McqNormalise normalise;
    bool with_rows; /* fill Mcq.rows */
    /* After every row; may be NULL. */
    void (*on_row)(void *arg, size_t n_done, size_t n_rows, size_t n_right);
    void *arg;
} McqOptions;

typedef struct Mcq {
    size_t n_rows, n_right;
    size_t n_merged; /* pairs whose context and continuation share a token at the border */
    double accuracy, standard_error;
    json_t *rows; /* array of one object a row, or NULL */
} Mcq;

/* Reads and tokenizes all rows, then scores them. Return: 0, -EINVAL (a malformed row), ENGINE_E_CONTEXT (a row that is
 * too long) or another error, with a text that names file and line. */
int mcq_measure(Mcq *result, Engine *engine, const McqOptions *options, ErrText *err);
/* Reads and tokenizes the rows as mcq_measure() would, with the same errors, and scores none. */
int mcq_check(const Tokenizer *tokenizer, uint32_t n_context, const McqOptions *options, ErrText *err);
void mcq_deinit(Mcq *result);

#endif
