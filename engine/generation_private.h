// SPDX-License-Identifier: Apache-2.0
/* What the files of a generation share: generation.c has its life, generation_step.c its rows in a step,
 * generation_text.c the text that comes out. */
#ifndef COORDGEN_ENGINE_GENERATION_PRIVATE_H
#define COORDGEN_ENGINE_GENERATION_PRIVATE_H

#include "engine/draft/drafting.h"
#include "engine/draft/self_draft.h"
#include "engine/generation.h"
#include "engine/kv/sequence_state.h"
#include "engine/repetition_check.h"

struct Generation {
    Engine *engine;
    Sequence *sequence;
    GenerationOptions options;
    char *stop_texts;      /* the options' stop strings, copied */
    size_t stop_bytes_max; /* of the longest */
    TokenList tokens;      /* prompt, then output */
    size_t n_prompt;
    size_t capacity_tokens; /* prompt and output together */
    uint64_t tree_bytes;    /* what its trees may take of the kv account beside that */
    float *logits;          /* f32[n_vocab] */
    SamplerCandidate *candidates;
    DraftModel self_draft; /* of the sequence; without ops: none */
    Drafting *drafting;    /* NULL: no drafts */
    bool has_chains;       /* drafts are chains, for want of memory */
    Detokenizer detokenizer;
    StrBuf pending; /* output text that may still turn out to begin a stop string */
    GenerationUsage usage;
    uint32_t n_undivided;       /* its last steps without rows of background prompts; counted for other classes */
    double idle_rows;           /* of its decoding steps, its share of what the device computed beside their rows */
    RepetitionCheck repetition; /* of the output, where the options want that */
    GenerationEnd end;
    Bill bill;
    _Atomic bool cancelled;
};

/* What was computed is kept for later prompts; grows: more will be. */
void generation_keep(Generation *generation, bool grows);
/* Ends it; `token`: the one that the last text came with, or NULL. 0, -ENOMEM. */
int generation_finish(Generation *generation, GenerationEnd end, const uint32_t *token, GenerationDeltaFn *fn,
                      void *arg);
/* Takes one sampled token: text, stop strings, limits. 0, -ENOMEM. */
int generation_take_token(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg);

#endif
