// SPDX-License-Identifier: Apache-2.0
/* What the float reference says of the next token, row by row of a text's windows, and the divergence of other models
 * from that. The rows are kept in a file, so the reference computes a text once for all recipes and all later runs.
 *
 * A row keeps the log-probabilities of the REFERENCE_TOP most probable tokens and the probability of all others
 * together. The divergence takes the others as one token, so the result is a lower bound of the divergence over all
 * tokens. docs/lab/recipes-divergence.md says how much is lost. */
#ifndef COORDGEN_EVAL_REFERENCE_ROWS_H
#define COORDGEN_EVAL_REFERENCE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "importer/check/text_windows.h"

#define REFERENCE_TOP 2048

typedef struct ReferenceRow {
    uint32_t ids[REFERENCE_TOP]; /* most probable first, the lowest id first of equal ones; 0 past the vocabulary */
    float log_p[REFERENCE_TOP];  /* log-probabilities of these */
    float rest;                  /* probability of all other tokens together */
    float log_next;              /* log-probability of the token that follows in the text */
} ReferenceRow;

/* All scored rows of a text's windows. */
typedef struct ReferenceRows {
    ReferenceRow *rows; /* [n], window by window */
    size_t n;
} ReferenceRows;

/* Errors are standard errors, computed from the means of the windows; NaN for one window. */
typedef struct ReferenceDivergence {
    size_t n_rows;
    double nats, nats_error;               /* mean of sum p log(p / q): p of the reference */
    double same_top, same_top_error;       /* share of rows with the same most probable token */
    double worst;                          /* mean nats of the worst hundredth of the rows, one row at least */
    double loss_change, loss_change_error; /* model's negative log-likelihood minus the reference's, nats a token */
} ReferenceDivergence;

/* Takes the row of the reference's logits f32[n]; next: the token that follows, below n. */
void reference_row_take(ReferenceRow *row, const float *logits, size_t n, uint32_t next);
/* Returns the nats of a model's logits f32[n] from the row. all: log_sum_exp() of the logits. same: both have the same
 * most probable token. */
double reference_row_divergence(const ReferenceRow *row, const float *logits, size_t n, double all, bool *same_topp);

/* Computes the rows with the engine of the reference. 0, -ENOMEM, or an error of the engine with a text. */
int reference_rows_compute(ReferenceRows *rows, Engine *reference, const TextWindows *windows, ErrText *err);
/* Measures an engine of the same vocabulary. @rows are of the same windows. Errors as above. */
int reference_rows_measure(ReferenceDivergence *result, const ReferenceRows *rows, Engine *engine,
                           const TextWindows *windows, ErrText *err);

/* Writes the name in which the rows of a source's windows are kept: 64 hex digits of all that the rows depend on.
 * @source_sha256: of the reference's file. 0 or -ENOMEM. */
int reference_rows_key(char key[SHA256_HEX_BYTES], const char *source_sha256, const TextWindows *windows);
/* Reads n rows that were saved under the key, in this machine's byte order. 0, -ENOENT if the file is missing or holds
 * anything else, or another -errno with a text. */
int reference_rows_load(ReferenceRows *rows, const char *path, const char *key, size_t n, ErrText *err);
/* Replaces the file as a whole. */
int reference_rows_save(const ReferenceRows *rows, const char *path, const char *key, ErrText *err);
void reference_rows_deinit(ReferenceRows *rows);

#endif
