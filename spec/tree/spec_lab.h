// SPDX-License-Identifier: Apache-2.0
/* Switches of speculation that only the laboratory (tools/) and tests set. Whoever fills a SpecLab keeps it alive as
 * long as the generation; the product passes NULL. */
#ifndef COORDGEN_SPEC_SPEC_LAB_H
#define COORDGEN_SPEC_SPEC_LAB_H

#include <stdbool.h>

#include "spec/sources/draft_tree.h"

struct DraftPolicyOps;

/* A step whose rows all went on. Valid during the call. Thread: the one that computes. */
typedef struct SpecWatched {
    const DraftTree *tree;
    const float *log_shares; /* f32[n_rows]: the predictor's shares, as tree_pruning_scores() takes them */
    const uint16_t *path;    /* [n_path]: rows by which the text went, row 0 first, tokens past the end among them */
    uint32_t n_path;
} SpecWatched;

typedef void SpecWatchFn(void *arg, const SpecWatched *watched);

typedef struct SpecLab {
    const struct DraftPolicyOps *policy; /* grows trees instead of draft_rounds(); NULL: draft_rounds() does */
    bool chains;                         /* drafts are chains: the most probable token behind each */
    bool always;             /* as many drafts as there are rows for, whether or not they pay; passes cost nothing */
    bool no_bounds;          /* whatever pays by the measured times, however much it may lose */
    bool no_prompt;          /* the head does not run at rows of the prompt, for table and calibration */
    float pruning_threshold; /* of GENERATION_PRUNING_ALWAYS (tree_pruning.h), below 0; 0: the control's highest */
    SpecWatchFn *on_watched; /* called in GENERATION_PRUNING_WATCHED */
    void *on_watched_arg;
} SpecLab;

/* The lab's switches; all off for NULL. */
static inline const SpecLab *spec_lab_of(const SpecLab *lab) {
    static const SpecLab none;

    return lab ? lab : &none;
}

#endif
