// SPDX-License-Identifier: Apache-2.0
/* Scores log-likelihoods of texts: how probable a continuation is for a model after a context. */
#ifndef COORDGEN_EVAL_SCORER_H
#define COORDGEN_EVAL_SCORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

/* An engine and room for some rows of logits. Thread: one. */
typedef struct Scorer {
    Engine *engine;
    float *logits; /* f32[SCORER_ROWS][n_vocab] */
} Scorer;

int scorer_init(Scorer *scorer, Engine *engine, ErrText *err);
void scorer_deinit(Scorer *scorer);

/* Score of some tokens. */
typedef struct Score {
    double log_likelihood; /* sum of log p(token | all before it) */
    size_t n_tokens;
    bool greedy; /* each token was the most probable one (the lowest id of equal ones) */
} Score;

#define SCORE_NONE ((Score){ .greedy = true })

/* A context and its continuation, as the tokens of the whole. */
typedef struct ScorePair {
    uint32_t *ids; /* [n] */
    size_t n;
    size_t n_context; /* 1..n - 1: tokens of the context */
    bool clean;       /* the context alone has the same tokens: nothing merged over the border */
} ScorePair;

int score_pair_init(ScorePair *pair, const Engine *engine, const char *context, size_t context_bytes,
                    const char *continuation, size_t continuation_bytes, ErrText *err);
/* Makes the pair without an engine, from the engine's tokenizer and context. */
int score_pair_init_with(ScorePair *pair, const Tokenizer *tokenizer, uint32_t n_context, const char *context,
                         size_t context_bytes, const char *continuation, size_t continuation_bytes, ErrText *err);
void score_pair_deinit(ScorePair *pair);

/* Sets the text for a code of engine_forward(), unless that has one, and returns the code. */
int scorer_forward_failed(int r, ErrText *err);
/* Appends ids[from..to) to the sequence and adds the scores of ids[i + 1] for the rows i from first_scored on. */
int scorer_append(Scorer *scorer, Sequence *sequence, const uint32_t *ids, size_t from, size_t to, size_t first_scored,
                  Score *score, ErrText *err);
/* Scores the continuation of each pair into scores[i]. The common part of the contexts is computed once. */
int scorer_pairs(Scorer *scorer, const ScorePair *pairs, size_t n, Score *scores, ErrText *err);

/* Returns the standard error of the share n_right / n: the sample's standard deviation over sqrt(n); NaN for n < 2. */
double standard_error_of_share(size_t n_right, size_t n);
/* Returns log(sum(exp(logits))), in double. */
double log_sum_exp(const float *logits, size_t n);

#endif
