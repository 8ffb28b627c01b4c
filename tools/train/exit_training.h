// SPDX-License-Identifier: Apache-2.0
/* Trains the early-exit predictor of a package for a draft model. Windows of text go through both models, ridge
 * regression maps each measured layer, the layer worth most is refined, figures come from held-out windows, and the
 * file goes beside the package. */
#ifndef COORDGEN_TRAIN_EXIT_TRAINING_H
#define COORDGEN_TRAIN_EXIT_TRAINING_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/system/cpu.h"
#include "tools/exit/exit_map.h"
#include "tools/train/exit_set.h"
#include "tools/train/exit_trees.h"

enum {
    EXIT_TEXTS_MAX = 16,
    EXIT_WINDOW_MIN = 32,
    EXIT_WINDOW_MAX = 1024,
    EXIT_POLICIES = 3,
    EXIT_WINDOWS_MIN = 10, /* two of them are held out */
};

typedef struct ExitTrainingOptions {
    const char *model, *draft;         /* .gguf, which is imported on first use, or .cgm */
    const char *texts[EXIT_TEXTS_MAX]; /* [n_texts]; 0: the project's calibration text */
    size_t n_texts;
    const char *output;   /* NULL: PACKAGE.exit */
    uint32_t layer;       /* 0: the best of a few */
    uint32_t epochs;      /* epochs of refinement; 0: the ridge regression's map stays */
    uint32_t windows;     /* at most */
    uint32_t window;      /* tokens of each, */
    uint32_t say;         /* tokens at the end of a window that the model itself says */
    unsigned int threads; /* 0: the processors */
    Isa isa;              /* instruction set of the kernels */
    uint32_t answers;     /* held-out windows to answer in the end, with the predictor and without */
    bool keeps_work;      /* the work files stay */
    int progress_fd;      /* file descriptor for a line of progress; -1: none */
} ExitTrainingOptions;

/* Figures of one layer, or of the result. */
typedef struct ExitFigures {
    uint32_t layer;
    float quality[_EXIT_QUALITY_N];
    float kept_95_without_shadows; /* share kept by q and the map among the candidates of a tree alone */
    PruningMix mix, mix_alone;     /* with shadows, and without */
    float worth;                   /* share of rows times layers saved beyond what q saves, without rounding to tiles */
} ExitFigures;

typedef struct ExitTrainingReport {
    char path[PATH_MAX];
    uint32_t n_windows, n_held_out, window;
    uint32_t n_layers;                           /* layers of the model */
    ExitFigures layers[EXIT_LAYERS_MAX];         /* by least squares, */
    ExitFigures refined_layers[EXIT_LAYERS_MAX]; /* the layers refined; all zero: another one was asked for */
    uint32_t n_measured;
    ExitFigures refined;                           /* the layer that was chosen; what is in the file */
    uint32_t n_trees;                              /* number of policies that answered */
    const DraftPolicyOps *policies[EXIT_POLICIES]; /* NULL: the product's own trees */
    ExitTrees trees[EXIT_POLICIES];
} ExitTrainingReport;

/* Runs the training. Return: 0, -errno or another code, with a text. */
int exit_training_run(const ExitTrainingOptions *options, ExitTrainingReport *report, ErrText *err);

#endif
