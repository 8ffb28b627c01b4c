// SPDX-License-Identifier: Apache-2.0
/* Trains the early-exit predictor of a package for a draft model: windows of text through both models, a map of each
 * layer that is measured by ridge regression, the layer that is worth most, its map refined, figures on what was held
 * out, and the file beside the package. */
#ifndef COORDGEN_TRAIN_EXIT_TRAINING_H
#define COORDGEN_TRAIN_EXIT_TRAINING_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/system/cpu.h"
#include "model/package/exit_map.h"
#include "tools/train/exit_set.h"
#include "tools/train/exit_trees.h"

enum {
    EXIT_TEXTS_MAX = 16,
    EXIT_WINDOW_MIN = 32,
    EXIT_WINDOW_MAX = 1024,
    EXIT_POLICIES = 3,
    EXIT_WINDOWS_MIN = 10, /* so that two are held out */
};

typedef struct ExitTrainingOptions {
    const char *model, *draft;         /* .gguf, which is imported on first use, or .cgm */
    const char *texts[EXIT_TEXTS_MAX]; /* [n_texts]; 0: the project's calibration text */
    size_t n_texts;
    const char *output;   /* NULL: PACKAGE.exit */
    uint32_t layer;       /* 0: the best of a few */
    uint32_t epochs;      /* of the refinement; 0: the ridge regression's map as it is */
    uint32_t windows;     /* at most */
    uint32_t window;      /* tokens of each, */
    uint32_t say;         /* of which the last ones are what the model says behind the others */
    unsigned int threads; /* 0: the processors */
    Isa isa;              /* of the kernels */
    uint32_t answers;     /* that the predictor is tried on in the end, of windows that are held out */
    bool keeps_work;      /* the work files stay */
    int progress_fd;      /* of a line of progress; -1: none */
} ExitTrainingOptions;

/* Of one layer, or of what came out. */
typedef struct ExitFigures {
    uint32_t layer;
    float quality[_EXIT_QUALITY_N];
    float kept_95_without_shadows; /* by q and the map among the candidates of a tree alone */
    PruningMix mix, mix_alone;     /* with shadows, and without */
    float worth;                   /* of rows times layers, what it saves beyond what q does; tiles aside */
} ExitFigures;

typedef struct ExitTrainingReport {
    char path[PATH_MAX];
    uint32_t n_windows, n_held_out, window;
    uint32_t n_layers;                           /* of the model */
    ExitFigures layers[EXIT_LAYERS_MAX];         /* by least squares, */
    ExitFigures refined_layers[EXIT_LAYERS_MAX]; /* and refined; all zero: another one was asked for */
    uint32_t n_measured;
    ExitFigures refined;                           /* the layer that was chosen; what is in the file */
    uint32_t n_trees;                              /* policies that answers were tried with */
    const DraftPolicyOps *policies[EXIT_POLICIES]; /* NULL: the product's own trees */
    ExitTrees trees[EXIT_POLICIES];
} ExitTrainingReport;

/* 0, -errno or another code, with a text. */
int exit_training_run(const ExitTrainingOptions *options, ExitTrainingReport *report, ErrText *err);

#endif
