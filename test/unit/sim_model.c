// SPDX-License-Identifier: Apache-2.0
#include "test/unit/sim_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(true_) ((true_) ? (void)0 : abort())

uint32_t sim_mix(uint32_t a, uint32_t b) {
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;

    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

static float unit(uint32_t a, uint32_t b) {
    return ((float)(sim_mix(a, b) >> 8) + 0.5F) / 16777216.0F;
}

/* Contexts differ in how sure the next token is. */
static void logits_of(const SimModel *sim, uint32_t before, uint32_t last, float *logits) {
    const uint32_t context = sim_mix(sim_mix(sim->seed, before), last);
    const float sure = sim->sureness * (0.3F + 1.4F * unit(context, 1000));

    for (uint32_t i = 0; i < SIM_KINDS; i++)
        logits[i] = sure * -logf(-logf(unit(context, i)));
}

static void softmax(float *values) {
    float most = values[0], sum = 0;

    for (uint32_t i = 1; i < SIM_KINDS; i++)
        most = values[i] > most ? values[i] : most;
    for (uint32_t i = 0; i < SIM_KINDS; i++)
        sum += values[i] = expf(values[i] - most);
    for (uint32_t i = 0; i < SIM_KINDS; i++)
        values[i] /= sum;
}

void sim_target(const SimModel *sim, uint32_t before, uint32_t last, float *chances) {
    logits_of(sim, before, last, chances);
    softmax(chances);
}

void sim_draft(const SimModel *sim, uint32_t before, uint32_t last, float *chances) {
    const uint32_t context = sim_mix(sim_mix(sim->seed + 1, before), last);

    logits_of(sim, before, last, chances);
    for (uint32_t i = 0; i < SIM_KINDS; i++)
        chances[i] += sim->noise * -logf(-logf(unit(context, 500 + i)));
    softmax(chances);
}

uint32_t sim_greedy(const SimModel *sim, uint32_t before, uint32_t last) {
    float chances[SIM_KINDS];
    uint32_t best = 0;

    sim_target(sim, before, last, chances);
    for (uint32_t i = 1; i < SIM_KINDS; i++)
        best = chances[i] > chances[best] ? i : best;
    return best;
}

uint32_t sim_sample(const SimModel *sim, uint32_t before, uint32_t last, double at) {
    float chances[SIM_KINDS];
    uint32_t token = 0;

    sim_target(sim, before, last, chances);
    while (token + 1 < SIM_KINDS && at >= (double)chances[token])
        at -= (double)chances[token++];
    return token;
}

void sim_tops(const SimModel *sim, uint32_t before, uint32_t last, DraftModelTops *tops) {
    float chances[SIM_KINDS];

    sim_draft(sim, before, last, chances);
    tops->n = DRAFT_CHOICES_MAX;
    for (uint32_t i = 0; i < tops->n; i++) {
        uint32_t best = 0;

        for (uint32_t k = 1; k < SIM_KINDS; k++)
            best = chances[k] > chances[best] ? k : best;
        tops->tops[i] = (ContextTop){ best, chances[best] };
        chances[best] = -1;
    }
}

/* A text goes on as before: what the model has computed of it holds. */
static int sim_follow(void *self, const uint32_t *text, size_t n) {
    SimModel *sim = self;

    CHECK(n && n <= SIM_TEXT_MAX && n >= sim->n_text);
    CHECK(!memcmp(text, sim->text, sim->n_text * sizeof(*text)));
    memcpy(sim->text, text, n * sizeof(*text));
    sim->n_text = (uint32_t)n;
    sim->n_rows = 0;
    sim->n_follows++;
    return 0;
}

static int sim_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    SimModel *sim = self;

    CHECK(sim->n_text && n && sim->n_rows + n <= sim->ops.rows_max);
    if (++sim->n_passes == sim->fails_at)
        return -EIO;
    sim->n_computed += (uint32_t)n;
    sim->passes_by_rows[n]++;
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = sim->n_rows++;
        const int parent = rows[i].parent;
        uint32_t before;

        CHECK(row ? parent >= 0 && parent < (int)row : parent == -1 && rows[i].token == sim->text[sim->n_text - 1]);
        CHECK(rows[i].token < SIM_KINDS);
        for (uint32_t j = 0; j < row; j++) /* nothing is computed twice */
            CHECK(sim->rows[j].parent != parent || sim->rows[j].token != rows[i].token);
        sim->rows[row] = rows[i];
        before = row ? sim->rows[parent].token : sim->n_text > 1 ? sim->text[sim->n_text - 2] : 0;
        sim_tops(sim, before, rows[i].token, &tops[i]);
    }
    return 0;
}

static float sim_cost_ms(const void *self, uint32_t n_rows) {
    const SimModel *sim = self;
    const uint32_t tile = sim->tile ? sim->tile : 1;

    return sim->pass_ms > 0 ? sim->pass_ms + sim->row_ms * (float)((n_rows - 1) / tile * tile) : 0;
}

void sim_model_init(SimModel *sim, uint32_t seed, uint32_t rows_max) {
    memset(sim, 0, sizeof(*sim));
    *sim = (SimModel){ .seed = seed, .noise = 0.5F, .sureness = 4, .pass_ms = 10, .row_ms = 0.2F };
    sim->ops = (DraftModelOps){ sim_follow, sim_expand, sim_cost_ms, rows_max, false };
}

DraftModel sim_model(SimModel *sim) {
    return (DraftModel){ &sim->ops, sim };
}
