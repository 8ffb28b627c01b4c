// SPDX-License-Identifier: Apache-2.0
/* One request answered in one mode: what came out, to the bit, and when. */
#ifndef COORDGEN_BENCH_SPEC_ANSWER_H
#define COORDGEN_BENCH_SPEC_ANSWER_H

#include "engine/generation.h"

enum {
    SPEC_ANSWER_E_DIFFERS = 1 /* two answers to one request do; the text says where */
};

/* Arrays have room for the options' max_tokens, and the hashes for an end token more. */
typedef struct SpecAnswer {
    uint32_t *tokens;  /* [n] */
    uint64_t *ends_ns; /* [n]: when the step that gave the token was over, since the beginning */
    uint64_t *hashes;  /* [n_hashes]: of the logits that each token, and the end token, was sampled from */
    size_t n, n_hashes;
    size_t n_prompt;
    size_t n_decoded;    /* by decoding steps: all but the first token, the end token among them */
    uint64_t prefill_ns; /* from the beginning to the first token */
    uint64_t total_ns;
    uint64_t draft_bytes; /* of the account draftdb, at most: its own */
    DraftReport report;
    uint64_t prompt_model_ns; /* of the report's model_ns: reading the prompt */
    WeightsRingCounts flash;  /* while it decoded */
} SpecAnswer;

/* 0 or -ENOMEM; deinit either way. */
int spec_answer_init(SpecAnswer *answer, size_t max_tokens);
void spec_answer_deinit(SpecAnswer *answer);
/* Anew; options->on_logits is the answer's. 0, or as generation_new() and generation_step() with a text. */
int spec_answer_run(SpecAnswer *answer, Engine *engine, const TokenList *prompt, const GenerationOptions *options,
                    ErrText *err);
/* 0, or SPEC_ANSWER_E_DIFFERS: in a token or in its logits. */
int spec_answer_compare(const SpecAnswer *answer, const SpecAnswer *plain, ErrText *err);
/* The same of an answer that fewer tokens were asked for. */
int spec_answer_compare_start(const SpecAnswer *answer, const SpecAnswer *plain, ErrText *err);

uint64_t spec_logits_hash(const float *logits, size_t n);

#endif
