// SPDX-License-Identifier: Apache-2.0
/* The fields of a generation. generation_state.c has its life, generation_step.c its rows in a step, generation_text.c
 * the text that comes out. */
#ifndef COORDGEN_ENGINE_GENERATION_STATE_H
#define COORDGEN_ENGINE_GENERATION_STATE_H

#include "engine/constraint/answer_constraint.h"
#include "engine/draft/drafting.h"
#include "engine/draft/self_draft.h"
#include "engine/generation.h"
#include "engine/generation_sampling.h"
#include "engine/kv/sequence_state.h"
#include "engine/repetition_check.h"

/* How a generation's tokens become output. */
typedef struct GenerationText {
    char *stops; /* copies of the options' stop strings */
    Detokenizer detokenizer;
    StrBuf pending;             /* output text that may still turn out to begin a stop string */
    AnswerParts *parts;         /* splits the output; NULL: everything is text */
    AnswerPart part;            /* of the last piece */
    StrBuf unsplit;             /* text of one token on its way to parts */
    StrBuf reasoning;           /* thinking that this token has brought */
    RepetitionCheck repetition; /* of the output, if the options want that */
} GenerationText;

struct Generation {
    Engine *engine;
    Sequence *sequence;
    GenerationOptions options;
    TokenList tokens; /* prompt, then output */
    size_t n_prompt;
    size_t capacity_tokens; /* prompt and output together */
    uint64_t tree_bytes;    /* bytes of the kv account that its trees may take more */
    float *logits;          /* f32[n_vocab] */
    GenerationSampling sampling;
    AnswerConstraint *constraint; /* NULL: none */
    DraftModel self_draft;        /* first layers of the model that draft; without ops: none */
    Drafting *drafting;           /* NULL: no drafts */
    GenerationText text;
    Embedding *embedding; /* NULL: no vector is wanted */
    const float *vector;  /* of the embedding; NULL: not computed yet */
    GenerationUsage usage;
    DraftReport *report; /* the options' report, or own_report */
    DraftReport own_report;
    uint32_t n_undivided; /* decoding steps since one had rows of background prompts */
    double idle_rows;     /* its share of rows that the device computed in vain in its decoding steps */
    GenerationEnd end;
    Bill bill;
    _Atomic bool cancelled;
};

/* Whether the token ends the output, and is no part of it. */
bool generation_ends_with(const Generation *generation, uint32_t token);
/* Returns how many tokens may still come. */
static inline uint32_t generation_tokens_left(const Generation *generation) {
    const size_t room = generation->capacity_tokens - generation->tokens.n;
    const uint32_t max_tokens = generation->options.max_tokens;

    return max_tokens && max_tokens - generation->usage.n_output_tokens < room
               ? max_tokens - generation->usage.n_output_tokens
               : (uint32_t)room;
}
/* Keeps what was computed for later prompts; grows: more will be computed. */
void generation_keep(Generation *generation, bool grows);
/* Ends the generation; `token`: the one that the last text came with, or NULL. 0, -ENOMEM. */
int generation_finish(Generation *generation, GenerationEnd end, const uint32_t *token, GenerationDeltaFn *fn,
                      void *arg);
/* Translates an error of answer_constraint.h. */
int generation_constraint_error(int r);
/* Takes one sampled token: text, stop strings, limits. 0, GENERATION_E_COMPLEX, _DEAD_END, _MEMORY, -errno. */
int generation_take_token(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg);

#endif
