// SPDX-License-Identifier: Apache-2.0
/* A request answered in one mode: the tokens and logits, to the bit, and their times. */
#ifndef COORDGEN_BENCH_SPEC_ANSWER_H
#define COORDGEN_BENCH_SPEC_ANSWER_H

#include "engine/generation.h"

enum {
    SPEC_ANSWER_E_DIFFERS = 1 /* two answers to one request differ; the text says where */
};

/* An answer. The arrays have room for the options' max_tokens, the hashes for an end token more. */
typedef struct SpecAnswer {
    uint32_t *tokens;  /* [n] */
    uint64_t *ends_ns; /* [n]: ns from the start to the end of the token's step */
    uint64_t *hashes;  /* [n_hashes]: hash of the logits that each token, and the end token, was sampled from */
    size_t n, n_hashes;
    size_t n_prompt;
    size_t n_decoded;    /* tokens that decoding steps gave: all but the first, with the end token */
    uint64_t prefill_ns; /* time from the start to the first token */
    uint64_t total_ns;
    uint64_t draft_bytes; /* the most that the answer added to the account draftdb */
    DraftReport report;
    uint64_t prompt_model_ns; /* part of the report's model_ns spent on reading the prompt */
    WeightsRingCounts flash;  /* while it decoded */
} SpecAnswer;

/* Allocates an answer. Return: 0 or -ENOMEM; spec_answer_deinit() is called either way. */
int spec_answer_init(SpecAnswer *answer, size_t max_tokens);
void spec_answer_deinit(SpecAnswer *answer);
/* Answers the prompt; options->on_logits is set by the function. Return: 0, or as generation_new() and
 * generation_step() with a text. */
int spec_answer_run(SpecAnswer *answer, Engine *engine, const TokenList *prompt, const GenerationOptions *options,
                    ErrText *err);
/* Compares an answer with plain decoding's. Return: 0, or SPEC_ANSWER_E_DIFFERS if a token or its logits differ. */
int spec_answer_compare(const SpecAnswer *answer, const SpecAnswer *plain, ErrText *err);
/* Compares an answer that was asked for fewer tokens. */
int spec_answer_compare_start(const SpecAnswer *answer, const SpecAnswer *plain, ErrText *err);

uint64_t spec_logits_hash(const float *logits, size_t n);

#endif
