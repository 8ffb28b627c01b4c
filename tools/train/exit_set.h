// SPDX-License-Identifier: Apache-2.0
/* The training set of an early-exit predictor in a work file: windows of text with hidden states of some layers and the
 * likely tokens of draft and target at each position. Windows are appended whole; a killed run goes on after the last
 * whole one. */
#ifndef COORDGEN_TRAIN_EXIT_SET_H
#define COORDGEN_TRAIN_EXIT_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/files/file_io.h"

enum {
    EXIT_CHOICES = 8,    /* candidates of the draft at a position */
    EXIT_LAYERS_MAX = 4, /* measured layers, at most */
    EXIT_HELD_OUT = 5,   /* every fifth window is held out */
};

/* Next tokens at one position. */
typedef struct ExitSample {
    uint32_t n, best; /* n: candidates; best: the target's most probable token */
    uint32_t tokens[EXIT_CHOICES];
    float q[EXIT_CHOICES]; /* the draft's shares among all tokens */
    float p[EXIT_CHOICES]; /* the target's shares among these tokens alone */
} ExitSample;

/* Two sets of one shape and fingerprint have the same windows. */
typedef struct ExitSetShape {
    char fingerprint[SHA256_HEX_BYTES]; /* fingerprint of models, texts and settings */
    uint32_t n_embd, window_tokens, n_windows;
    uint32_t n_layers, layers[EXIT_LAYERS_MAX];
} ExitSetShape;

/* A window in memory. States have mean square 1. */
typedef struct ExitWindow {
    ExitSample *samples;            /* [window_tokens] */
    float *states[EXIT_LAYERS_MAX]; /* f32[window_tokens][n_embd] each, of layers[i] */
    float *last;                    /* f32[window_tokens][n_embd], of the last layer */
} ExitWindow;

typedef struct ExitSet ExitSet;

/* Opens or begins the file; drops windows that are not whole and those of another set. Return: 0 or -errno, with a
 * text. */
int exit_set_open(ExitSet **setp, const char *path, const ExitSetShape *shape, ErrText *err);
ExitSet *exit_set_free(ExitSet *set); /* the file stays */
DEFINE_CLEANUP(ExitSet, exit_set_free)
const ExitSetShape *exit_set_shape(const ExitSet *set);
uint32_t exit_set_n(const ExitSet *set); /* windows that are there */
int exit_set_append(ExitSet *set, const ExitWindow *window, ErrText *err);
int exit_set_read(ExitSet *set, uint32_t index, ExitWindow *window, ErrText *err);
size_t exit_set_window_bytes(const ExitSetShape *shape);

int exit_window_init(ExitWindow *window, const ExitSetShape *shape); /* 0, -ENOMEM */
void exit_window_deinit(ExitWindow *window);

static inline int exit_window_is_held_out(uint32_t index) {
    return index % EXIT_HELD_OUT == EXIT_HELD_OUT - 1;
}

#endif
