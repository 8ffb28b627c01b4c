// SPDX-License-Identifier: Apache-2.0
/* Whether a generation prunes its trees at a middle layer, and how much: only where steps that were not pruned show
 * that the time saved is worth more than the tokens lost. It reads no clock. */
#ifndef COORDGEN_SPEC_EXIT_CONTROL_H
#define COORDGEN_SPEC_EXIT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    EXIT_THRESHOLDS = 6,
    EXIT_ROWS_MIN = 4 /* of a tree that is worth a look */
};

/* Of tree_pruning(), falling: the first one prunes most. */
extern const float exit_thresholds[EXIT_THRESHOLDS];

typedef enum ExitChoice {
    EXIT_REST,  /* the predictor is not asked */
    EXIT_TRIAL, /* it is, and all rows go on: so what would be lost is seen */
    EXIT_PRUNE,
} ExitChoice;

/* What pruning would have done to a step with all rows, by thresholds. */
typedef struct ExitTrial {
    float saved_ms[EXIT_THRESHOLDS];
    uint32_t n_lost[EXIT_THRESHOLDS]; /* of its tokens */
    float asked_ms;                   /* that the predictor took */
    float token_ms;                   /* that a token takes; 0: not known, nothing is learned */
} ExitTrial;

/* Embedded; begins with exit_control_init(). */
typedef struct ExitControl {
    float saved_ms[EXIT_THRESHOLDS], lost_ms[EXIT_THRESHOLDS]; /* sums over trials, of which old ones count less */
    float asked_ms, n;                                         /* likewise; trials */
    float token_ms;
    uint32_t n_since_trial, n_trials_left; /* before it is decided again */
    uint64_t n_tokens, pause_until, pause_tokens;
    uint32_t best; /* threshold */
    bool is_on;
} ExitControl;

void exit_control_init(ExitControl *control);
ExitChoice exit_control_choose(const ExitControl *control);
/* Index of the threshold that it prunes with. */
uint32_t exit_control_threshold(const ExitControl *control);
/* By steps, after EXIT_TRIAL and EXIT_PRUNE. */
void exit_control_tried(ExitControl *control, const ExitTrial *trial);
void exit_control_pruned(ExitControl *control);
void exit_control_emitted(ExitControl *control, uint32_t n_tokens);

#endif
