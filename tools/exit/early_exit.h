// SPDX-License-Identifier: Apache-2.0
/* Early exit: predicts the tokens behind the rows of trees from their hidden states at a middle layer. The predictor
 * runs the model's own head on a state as it is (logit lens) or after a trained map that brings the state nearer to the
 * last layer's. Thread, for all functions with an engine: the one that computes. */
#ifndef COORDGEN_EXIT_EARLY_EXIT_H
#define COORDGEN_EXIT_EARLY_EXIT_H

#include "engine/core/engine_core.h"
#include "tools/exit/draft_shadows.h"
#include "tools/exit/exit_map.h"
#include "tools/exit/tree_pruning.h"

#define EARLY_EXIT_ROWS 64

/* A predictor of an engine. Embedded; all zero: there is none. */
typedef struct EarlyExit {
    Engine *engine;  /* outlives the predictor */
    uint32_t layer;  /* number of layers before the hidden state that the predictor reads; 0: there is none */
    PruningMix mix;  /* mixture of the predictor's shares with the draft's */
    float tau;       /* divisor of the candidates' logits */
    ExitMap map;     /* without a block: the hidden state as it is (logit lens) */
    Backend *floats; /* device that the map runs on; NULL without a map */
    BackendLinear *linear;
    AccountedBlock rows; /* scratch; early_exit.c has its parts */
} EarlyExit;

/* Makes the logit lens behind the first `layer` layers, 1..n_layers - 1; 0: no predictor. Replaces what *exit was,
 * unless it fails. Return: 0, -EINVAL, ENGINE_E_MEMORY, with a text. */
int early_exit_set_lens(EarlyExit *exit, Engine *engine, uint32_t layer, ErrText *err);
/* Loads the trained predictor of the engine's package. Errors as early_exit_set_lens(); ENGINE_E_MODEL: there is no
 * such file, or it was refused, with a text that names it. */
int early_exit_load(EarlyExit *exit, Engine *engine, const char *path, ErrText *err);
void early_exit_deinit(EarlyExit *exit);

/* Computes log_shares f32[n] of edges, grouped by rows, from the rows' hidden states f32[rows][n_embd]. A row's shares
 * add up to 1. Return: 0; 1: the head's weights are not in memory now; -errno with a text. */
int early_exit_score(EarlyExit *exit, const float *hidden, const DraftEdge *edges, size_t n, float *log_shares,
                     ErrText *err);

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Scales rows f32[n][n_embd] to mean square 1, which maps are trained on. scaled may be hidden. */
void early_exit_scale(const float *hidden, size_t n, size_t n_embd, float *scaled);
/* Maps rows of a hidden state, f32[n][n_embd], to what the head takes in, f32[n][n_embd]; n at most EARLY_EXIT_ROWS. No
 * aliasing. Return: 0, -errno. */
int early_exit_states(EarlyExit *exit, const float *hidden, size_t n, float *states, ErrText *err);
/* Computes logits[i] of token tokens[i] at state f32[n_embd], by the head's row alone. The head must be there. */
void early_exit_logits(EarlyExit *exit, const float *state, const uint32_t *tokens, size_t n, float *logits);
/* Computes log_shares[i] = log softmax(logits / tau)[i] of n logits, n at least 1. log_shares may be logits. */
void early_exit_shares(const float *logits, size_t n, float tau, float *log_shares);

#endif
