// SPDX-License-Identifier: Apache-2.0
/* Decides whether a generation prunes its trees at a middle layer, and how much: only where steps that were not pruned
 * show that the time saved is worth more than the tokens lost. Reads no clock. */
#ifndef COORDGEN_EXIT_CONTROL_H
#define COORDGEN_EXIT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    EXIT_THRESHOLDS = 6,
    EXIT_ROWS_MIN = 4 /* rows of the smallest tree that is worth a look */
};

/* Thresholds of tree_pruning(), falling: the first one prunes most. */
extern const float exit_thresholds[EXIT_THRESHOLDS];

typedef enum ExitChoice {
    EXIT_REST,  /* the predictor is not asked */
    EXIT_TRIAL, /* the predictor is asked, and all rows go on: so the loss can be seen */
    EXIT_PRUNE,
} ExitChoice;

/* What pruning by each threshold would have done to a step with all rows. */
typedef struct ExitTrial {
    float saved_ms[EXIT_THRESHOLDS];
    uint32_t n_lost[EXIT_THRESHOLDS]; /* tokens of the step that each threshold would have lost */
    float asked_ms;                   /* time of the predictor */
    float token_ms;                   /* time of a token; 0: not known, nothing is learned */
} ExitTrial;

/* Embedded; begins with exit_control_init(). */
typedef struct ExitControl {
    float saved_ms[EXIT_THRESHOLDS], lost_ms[EXIT_THRESHOLDS]; /* sums over trials; old trials count less */
    float asked_ms, n; /* sum over trials, and their number, both discounted alike */
    float token_ms;
    uint32_t n_since_trial, n_trials_left; /* trials before the next decision */
    uint64_t n_tokens, pause_until, pause_tokens;
    uint32_t best; /* index of the best threshold */
    bool is_on;
} ExitControl;

void exit_control_init(ExitControl *control);
ExitChoice exit_control_choose(const ExitControl *control);
/* Returns the index of the threshold that prunes. */
uint32_t exit_control_threshold(const ExitControl *control);
/* Learns from a step: after EXIT_TRIAL, after EXIT_PRUNE, and how many tokens any step emitted. */
void exit_control_tried(ExitControl *control, const ExitTrial *trial);
void exit_control_pruned(ExitControl *control);
void exit_control_emitted(ExitControl *control, uint32_t n_tokens);

#endif
