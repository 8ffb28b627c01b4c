// SPDX-License-Identifier: Apache-2.0
/* Early exit: a predictor of the tokens behind the rows of trees, at a middle layer of their steps. The predictor runs
 * the model's own head on the hidden state there, as it is (logit lens) or after a trained map that brings the state
 * nearer to the last layer's. */
#ifndef COORDGEN_ENGINE_EARLY_EXIT_H
#define COORDGEN_ENGINE_EARLY_EXIT_H

#include "engine/step/engine_step.h"
#include "spec/tree/tree_pruning.h"

#define EARLY_EXIT_ROWS 64

/* Sets the logit lens behind the first `layer` layers; 0: no predictor. Thread: the one that computes, between steps.
 * 0, -EINVAL, -EBUSY, ENGINE_E_MEMORY, with a text. */
int engine_set_lens(Engine *engine, uint32_t layer, ErrText *err);
/* Loads the trained predictor of a package. Thread and errors as engine_set_lens(); ENGINE_E_MODEL: there is no such
 * file, or it was refused, and nothing has changed. */
int engine_load_exit(Engine *engine, const char *path, ErrText *err);
uint32_t engine_exit_layer(const Engine *engine); /* 0: there is no predictor */
PruningMix engine_exit_mix(const Engine *engine); /* how its shares and the draft's are mixed */

typedef struct EarlyExit EarlyExit; /* step/step_state.h */

void early_exit_deinit(EarlyExit *exit);
/* Scales rows f32[n][n_embd] to mean square 1, which maps are trained on. scaled may be hidden. */
void early_exit_scale(const float *hidden, size_t n, size_t n_embd, float *scaled);
/* Maps rows of a hidden state, f32[n][n_embd], to what the head takes in, f32[n][n_embd]; n at most EARLY_EXIT_ROWS. No
 * aliasing. */
int early_exit_states(Engine *engine, const float *hidden, size_t n, float *states, ErrText *err);
/* Computes logits[i] of token tokens[i] at state f32[n_embd], by the head's row alone. The head must be there. */
void early_exit_logits(Engine *engine, const float *state, const uint32_t *tokens, size_t n, float *logits);
/* Computes log_shares[i] = log softmax(logits / tau)[i] of n logits, n at least 1. log_shares may be logits. */
void early_exit_shares(const float *logits, size_t n, float tau, float *log_shares);
/* Fills in the shares that spans ask for, and drops the rows that they do not choose. The step is behind the
 * predictor's layer. 0, -errno. */
int early_exit_run(EngineStep *step, ErrText *err);

#endif
