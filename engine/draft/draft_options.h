// SPDX-License-Identifier: Apache-2.0
/* Speculation of one generation: what it may do, and a report of what it brought. */
#ifndef COORDGEN_ENGINE_DRAFT_OPTIONS_H
#define COORDGEN_ENGINE_DRAFT_OPTIONS_H

#include "spec/control/prompt_rule.h"
#include "spec/sources/draft_model.h"
#include "spec/sources/history.h"
#include "spec/speculator.h"

/* Whether the early-exit predictor (engine/step/early_exit.h) ends tree rows that it judges wrong at its middle layer.
 * The output is the same. */
typedef enum GenerationPruning {
    GENERATION_PRUNING_OFF,
    GENERATION_PRUNING_CONTROLLED, /* where measurements show that pruning pays */
    GENERATION_PRUNING_ALWAYS,     /* as much as possible, whether or not it pays (laboratory) */
    GENERATION_PRUNING_WATCHED,    /* the predictor is asked, no row ends, and EngineLab.on_watched is called */
} GenerationPruning;

/* A step whose rows all went through: the predictor's shares, and the rows along which the text went (path[n_path], row
 * 0 first; the path may go on behind the end of the generation). Valid during the call. Thread: the one that
 * computes. */
typedef struct GenerationWatched {
    const DraftTree *tree;
    const float *log_shares; /* f32[n_rows], as tree_pruning_scores() wants them */
    const uint16_t *path;
    uint32_t n_path;
} GenerationWatched;

typedef void GenerationWatchFn(void *arg, const GenerationWatched *watched);

/* Switches that only laboratory programs and tests fill. All zero: the product. */
typedef struct EngineLab {
    bool chains;    /* chains instead of trees: the most probable token behind each */
    bool always;    /* as many drafts as there are rows for, whether or not they pay */
    bool no_bounds; /* what pays by the measured durations, without the controls that bound losses */
    bool no_prompt; /* table and calibration do not learn from the prompt: the head does not run at its rows */
    GenerationWatchFn *on_watched; /* of GENERATION_PRUNING_WATCHED; may be NULL */
    void *on_watched_arg;
} EngineLab;

/* How a generation speculates: a step computes several tokens, from drafts, and the output is the same to the bit. All
 * zero: without drafts. */
typedef struct GenerationSpeculation {
    uint32_t sources; /* bits 1 << SpeculationSource */
    SpeculationPolicy policy;
    uint32_t rows_max;   /* of this generation in a step, the last token's included; 0: DRAFT_ROWS_MAX */
    bool head_on_demand; /* the head runs only at rows where the text goes, one after the other, unless a source wants
                          * the likely tokens at all rows */
    GenerationPruning pruning;
    float pruning_threshold; /* of GENERATION_PRUNING_ALWAYS (tree_pruning.h), below 0; 0: the highest that the control
                              * tries */
    History *history;     /* earlier texts of the user, for the source of that name; may be freed before the generation;
                       * NULL: none. Thread: the one that computes */
    DraftModel model;     /* draft model of this generation alone, which it outlives; without ops: none. Thread: the one
                       * that computes */
    uint32_t self_layers; /* without a draft model: number of the model's first layers that draft for it; 0: none
                           * (engine/draft/self_draft.h) */
    EngineLab lab;
} GenerationSpeculation;

/* What drafts have brought so far. */
typedef struct GenerationReport {
    uint32_t sources; /* that are on, as bits */
    SpeculatorCounts counts;
    uint64_t n_steps;         /* that decoded, without the one that ends the prompt */
    uint64_t n_verifications; /* of them, with drafts */
    uint64_t n_rows;          /* of all of them: what they computed for this generation */
    uint64_t n_rows_idle;     /* what the device computed beside these, up to whole tiles */
    uint64_t draft_ns;        /* growing trees and learning from them, without the draft model's time */
    uint64_t n_model_passes;  /* of the draft model, behind the text */
    uint64_t n_model_rows;    /* that these computed */
    uint64_t model_ns;        /* they, and reading the text and its prompt */
    uint64_t head_ns;         /* output projection of these rows, in a shared step their share of it, and sampling */
    uint64_t step_ns;         /* these steps as a whole */
    PromptRuleChoice prompt;  /* whether it learned from its prompt, and why */
    PromptRuleChoice model;   /* whether its draft model read the prompt, likewise */
    uint64_t n_exit_trials;   /* steps in which the predictor was asked, and all rows went on */
    uint64_t n_exit_steps;    /* in which rows ended at its layer */
    uint64_t n_exit_rows;     /* that did; of n_rows */
    uint64_t exit_ns;         /* that asking it took */
    uint64_t n_prompt_rows;   /* of the prompt, whose logits were computed to learn from */
    uint64_t prompt_head_ns;  /* for them */
} GenerationReport;

#endif
