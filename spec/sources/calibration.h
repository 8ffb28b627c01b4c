// SPDX-License-Identifier: Apache-2.0
/* Drafts from the target's own predictions within the prompt (CoordGen's calibration): likely successors at every place
 * of the prompt, summed over the places where the same one or two tokens stand. Unlike the continuation table, the
 * calibration never changes after the prompt. */
#ifndef COORDGEN_SPEC_CALIBRATION_H
#define COORDGEN_SPEC_CALIBRATION_H

#include "spec/sources/context_map.h"

enum {
    CALIBRATION_TOP = 3, /* most successors of one place, and choices behind a node */
    CALIBRATION_DEPTH_MAX = 8,
    CALIBRATION_CONTEXTS_MAX = 1 << 16 /* most contexts of each kind */
};

extern const DrafterOps calibration_ops;

typedef struct Calibration Calibration;

/* 0, -ENOMEM, -errno of a hash's key. */
int calibration_new(AccountTable *accounts, Calibration **calibrationp);
void calibration_free(Calibration *calibration);
DEFINE_CLEANUP(Calibration, calibration_free)
/* Learns a place of the prompt, as continuation_table_observe() does. Of the first three tokens, those of at least 0.05
 * count. */
int calibration_observe(Calibration *calibration, uint32_t before, uint32_t token, const ContextTop *top, size_t n);

#endif
