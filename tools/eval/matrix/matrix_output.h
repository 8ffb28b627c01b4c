// SPDX-License-Identifier: Apache-2.0
/* What a run of `matrix` gives: tokens, and the logits that each was sampled from; compared, and handed from one
 * process to another in a file. */
#ifndef COORDGEN_EVAL_MATRIX_OUTPUT_H
#define COORDGEN_EVAL_MATRIX_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

typedef struct MatrixOutput {
    uint32_t *tokens; /* [n] */
    float *logits;    /* [n_logits][n_vocab] */
    size_t n, n_logits, room, n_vocab;
} MatrixOutput;

/* With room for that many tokens. 0 or -ENOMEM. */
int matrix_output_init(MatrixOutput *output, size_t room, size_t n_vocab);
void matrix_output_deinit(MatrixOutput *output);
/* GenerationLogitsFn and GenerationDeltaFn; arg: the output. What has no room is left out. */
void matrix_output_take_logits(void *arg, const float *logits);
void matrix_output_take(void *arg, const char *text, size_t len_bytes, const uint32_t *tokens, size_t n_tokens);
/* Where it differs from the golden one, to the bit; false when nowhere. */
bool matrix_output_differs(const MatrixOutput *output, const MatrixOutput *golden, char *where, size_t where_bytes);
/* n of them to and from a file. 0, -EPROTO (it has fewer tokens than there is room for), -errno, with a text. */
int matrix_outputs_dump(const char *path, const MatrixOutput *outputs, size_t n, ErrText *err);
int matrix_outputs_load(const char *path, MatrixOutput *outputs, size_t n, ErrText *err);

#endif
