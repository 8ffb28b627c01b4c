// SPDX-License-Identifier: Apache-2.0
/* Switches of speculation that only the laboratory (tools/) and tests set. Whoever fills a SpecLab keeps it alive as
 * long as the generation; the product passes NULL. */
#ifndef COORDGEN_SPEC_SPEC_LAB_H
#define COORDGEN_SPEC_SPEC_LAB_H

#include <stdbool.h>

#include "base/err.h"
#include "spec/tree/draft_growth.h"

struct DraftPolicyOps;

/* A step of a generation before its verification. Tree and costs stay valid until took(), sources during the call. */
typedef struct TreeHookStep {
    const DraftTree *tree;
    DraftSources sources; /* sources of the tree */
    DraftCosts costs;     /* times of steps in this step's company */
    uint32_t prompt_rows; /* rows of others' prompts in the step */
} TreeHookStep;

/* Verification of a step. */
typedef struct TreeHookResult {
    const uint16_t *path; /* [n_path]: rows by which the text went, row 0 first; numbers of the tree that remains */
    uint32_t n_path;
    uint32_t n_emitted; /* tokens of the path that became output */
    float token_ms;     /* average duration for a token of the generation; 0: not known */
} TreeHookResult;

/* Functions that may end rows of a generation's trees behind a middle layer of their verification. A row that ends
 * only shortens what the step accepts, because the output stays the model's own. Thread: the one that computes. */
typedef struct TreeHookOps {
    void *(*begin)(void *arg); /* begins a generation; NULL: there is no memory, and trees stay whole */
    void (*end)(void *self);   /* ends the generation */
    /* Returns the number of layers behind which look() is called in this step, 1..n_layers - 1; 0: no look. */
    uint32_t (*ask)(void *self, const TreeHookStep *step);
    /* Takes the hidden states f32[n_rows][n_embd] of the tree's rows. Return: the number of rows[] that go on, rising,
     * row 0 first, each with its parent; 0: all go on; -errno with a text. */
    int (*look)(void *self, const float *hidden, uint16_t *rows, ErrText *err);
    /* Takes what a step gave, whether or not ask() wanted a look. The tree has lost the rows that ended. */
    void (*took)(void *self, const TreeHookResult *result);
} TreeHookOps;

typedef struct SpecLab {
    const struct DraftPolicyOps *policy; /* grows trees instead of draft_rounds(); NULL: draft_rounds() does */
    bool chains;                         /* drafts are chains: the most probable token behind each */
    bool always;             /* as many drafts as there are rows for, whether or not they pay; passes cost nothing */
    bool no_bounds;          /* whatever pays by the measured times, however much it may lose */
    bool no_prompt;          /* the head does not run at rows of the prompt, for table and calibration */
    const TreeHookOps *hook; /* ends rows of trees (tools/exit); NULL: trees stay whole */
    void *hook_arg;          /* of hook->begin() */
} SpecLab;

/* The lab's switches; all off for NULL. */
static inline const SpecLab *spec_lab_of(const SpecLab *lab) {
    static const SpecLab none;

    return lab ? lab : &none;
}

#endif
