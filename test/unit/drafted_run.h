// SPDX-License-Identifier: Apache-2.0
/* A generation with drafts, held against one without: what it gave, to the bit. */
#ifndef COORDGEN_TEST_UNIT_DRAFTED_RUN_H
#define COORDGEN_TEST_UNIT_DRAFTED_RUN_H

#include "engine/generation.h"

enum {
    GIVEN_MAX = 64 /* tokens of output */
};

typedef struct Given {
    size_t n_vocab;
    uint64_t logits; /* a hash */
    size_t n;
    uint32_t ids[GIVEN_MAX];
    GenerationEnd end;
    GenerationUsage usage;
    GenerationReport report;
} Given;

/* A text that repeats itself, so that there is something to draft. */
void given_prompt(uint32_t *prompt, size_t n, size_t n_vocab);
/* Of a user of whom nothing is known, without an end token. Begins given, which gets the logits. */
GenerationOptions given_options(Given *given, Engine *engine, uint32_t max_tokens, bool sampled,
                                const GenerationSpeculation *speculation);
/* Behind given_prompt(). */
Generation *given_begin(Engine *engine, size_t n_prompt, const GenerationOptions *options);
/* For generation_step() and turns; arg: Given. */
void given_take(void *arg, const char *delta, size_t len_bytes, const uint32_t *tokens, size_t n_tokens);
/* Takes the counts of a generation that has ended, and frees it. */
void given_end(Given *given, Generation *generation);
/* From here to its end, and that. */
void given_run(Given *given, Generation *generation);
/* Tokens, logits, end; and no step more or less than drafts explain. */
void given_check_same(const Given *given, const Given *plain);

#endif
