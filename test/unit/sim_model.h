// SPDX-License-Identifier: Apache-2.0
/* A target and a draft model that are tables: what they say behind two tokens follows from a seed, so that a test knows
 * every distribution. The draft model checks what it is asked. */
#ifndef COORDGEN_TEST_SIM_MODEL_H
#define COORDGEN_TEST_SIM_MODEL_H

#include "spec/sources/draft_model.h"
#include "spec/tree/draft_tree.h"

enum {
    SIM_KINDS = 24, /* of tokens */
    SIM_ROWS_MAX = 512,
    SIM_TEXT_MAX = 1 << 16
};

typedef struct SimModel {
    uint32_t seed;
    float noise;           /* of the draft's logits beside the target's; 0: they are one */
    float sureness;        /* of the target: 1 even-tempered, 8 mostly certain */
    float pass_ms, row_ms; /* a pass, and a row of it more; 0: nothing is measured */
    uint32_t tile;         /* rows up to a multiple of it cost alike; 0: 1 */
    uint32_t fails_at;     /* the pass that fails, from 1; 0: none */
    DraftModelOps ops;
    uint32_t n_text, n_rows;
    uint32_t text[SIM_TEXT_MAX];
    DraftModelRow rows[SIM_ROWS_MAX];
    uint32_t n_follows, n_passes, n_computed; /* text that was read counts as computed */
    uint32_t passes_by_rows[SIM_ROWS_MAX + 1];
} SimModel;

uint32_t sim_mix(uint32_t a, uint32_t b);
/* rows_max: of a tree. */
void sim_model_init(SimModel *sim, uint32_t seed, uint32_t rows_max);
DraftModel sim_model(SimModel *sim);
/* f32[SIM_KINDS], sums to 1, of the token behind `before` and `last`. */
void sim_target(const SimModel *sim, uint32_t before, uint32_t last, float *chances);
void sim_draft(const SimModel *sim, uint32_t before, uint32_t last, float *chances);
/* The target's token by a number within [0, 1). */
uint32_t sim_sample(const SimModel *sim, uint32_t before, uint32_t last, double at);
uint32_t sim_greedy(const SimModel *sim, uint32_t before, uint32_t last);
/* The draft's choices behind a path, as the model gives them. */
void sim_tops(const SimModel *sim, uint32_t before, uint32_t last, DraftModelTops *tops);

#endif
