// SPDX-License-Identifier: Apache-2.0
/* Output of a run of `matrix`: the tokens and the logits of each, compared, and passed between processes in a file. */
#ifndef COORDGEN_EVAL_MATRIX_OUTPUT_H
#define COORDGEN_EVAL_MATRIX_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/generation.h"
#include "base/cleanup.h"
#include "base/err.h"

typedef struct MatrixOutput {
    uint32_t *tokens; /* [n] */
    float *logits;    /* [n_logits][n_vocab] */
    size_t n, n_logits, room, n_vocab;
} MatrixOutput;

/* Allocates an output with room for that many tokens. Return: 0 or -ENOMEM. */
int matrix_output_init(MatrixOutput *output, size_t room, size_t n_vocab);
void matrix_output_deinit(MatrixOutput *output);
/* Callbacks GenerationLogitsFn and GenerationDeltaFn; @arg is the output. Tokens beyond the room are dropped. */
void matrix_output_take_logits(void *arg, const float *logits);
void matrix_output_take(void *arg, const GenerationDelta *delta);
/* Tells whether the output differs from the golden one in any bit, and where. */
bool matrix_output_differs(const MatrixOutput *output, const MatrixOutput *golden, char *where, size_t where_bytes);
/* Write n outputs to a file, and read them. Return: 0, -EPROTO (fewer tokens than there is room for) or -errno, with a
 * text. */
int matrix_outputs_dump(const char *path, const MatrixOutput *outputs, size_t n, ErrText *err);
int matrix_outputs_load(const char *path, MatrixOutput *outputs, size_t n, ErrText *err);

#endif
