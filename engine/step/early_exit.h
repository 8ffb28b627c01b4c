// SPDX-License-Identifier: Apache-2.0
/* What a middle layer of a step already says of the tokens behind its rows: shares of candidates, by the model's own
 * head on the hidden state there, which a trained map has brought nearer to the last layer's where there is one. */
#ifndef COORDGEN_ENGINE_EARLY_EXIT_H
#define COORDGEN_ENGINE_EARLY_EXIT_H

#include "engine/engine.h"
#include "model/package/exit_map.h"

/* Of an engine; all zero: it has none. */
typedef struct EarlyExit {
    uint32_t layer;  /* the state behind the first so many */
    PruningMix mix;  /* ExitMap has it, */
    float tau;       /* and this */
    ExitMap map;     /* without a block: the hidden state as it is (logit lens) */
    Backend *floats; /* that the map is on; NULL without */
    BackendLinear *linear;
    AccountedBlock rows; /* scratch: early_exit.c has its parts */
} EarlyExit;

void early_exit_deinit(EarlyExit *exit);
/* f32[n][n_embd] to rows of mean square 1, as maps are trained on; may be the same memory. */
void early_exit_scale(const float *hidden, size_t n, size_t n_embd, float *scaled);
/* Rows of a hidden state, f32[n][n_embd], to what the head takes in, f32[n][n_embd]; n at most
 * EARLY_EXIT_ROWS. No aliasing. */
#define EARLY_EXIT_ROWS 64
int early_exit_states(Engine *engine, const float *hidden, size_t n, float *states, ErrText *err);
/* logits[i] of token tokens[i] at state f32[n_embd], by the head's row alone. The head must be there. */
void early_exit_logits(Engine *engine, const float *state, const uint32_t *tokens, size_t n, float *logits);
/* log_shares[i] of logits[n], n at least 1: log softmax of logits / tau. May be the same memory. */
void early_exit_shares(const float *logits, size_t n, float tau, float *log_shares);
/* Spans that ask for it get their shares, and go on with the rows that they choose. The step is behind the layer. 0,
 * -errno. */
int early_exit_run(EngineStep *step, ErrText *err);

#endif
