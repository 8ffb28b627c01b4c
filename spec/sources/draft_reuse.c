// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/draft_reuse.h"

#include <stdbool.h>
#include <string.h>

#include "base/min_max.h"

enum {
    RUNS_MAX = DRAFT_REUSE_STEPS_MAX, /* at most one run a step */
    AT_ROOT = UINT32_MAX,             /* value of a cursor's a; other values: a is run + 1, b the run's next token */
};

/* tokens[0] comes before what the target agreed with */
typedef struct Run {
    uint32_t tokens[DRAFT_REUSE_TOKENS_MAX];
    uint32_t n;         /* at least 2 */
    bool next_to_error; /* tokens[0] is the wrong token itself */
    uint8_t age;
} Run;

struct DraftReuse {
    Run runs[RUNS_MAX]; /* runs, the newest first */
    uint32_t n;
};

typedef enum Kind {
    KIND_INSIDE,
    KIND_SYNONYM,
    KIND_MISSING,
    KIND_FAR, /* the run does not begin at the wrong token */
    _KIND_N
} Kind;

int draft_reuse_new(DraftReuse **reusep) {
    DraftReuse *reuse = calloc(1, sizeof(*reuse));

    if (!reuse)
        return -ENOMEM;
    *reusep = reuse;
    return 0;
}

void draft_reuse_free(DraftReuse *reuse) {
    free(reuse);
}

/* Lists the rows of the deepest chain behind a row, without that row; of several chains the first in the order of
 * rows. */
static uint32_t deepest(const DraftTree *tree, uint32_t from, uint32_t *path) {
    uint32_t depths[DRAFT_ROWS_MAX] = { 0 }, best = from, n;

    for (uint32_t row = from + 1; row < tree->n_rows; row++) {
        uint32_t parent = (uint32_t)tree->parents[row];

        if (parent != from && !depths[parent])
            continue;
        depths[row] = depths[parent] + 1;
        if (depths[row] > depths[best])
            best = row;
    }
    n = depths[best];
    for (uint32_t i = n; i; i--, best = (uint32_t)tree->parents[best])
        path[i - 1] = best;
    return n;
}

/* Finds the longest stretch of the path, without its first row, at which the target's choice is the row's token; of
 * several the first. Returns its length. */
static uint32_t longest_agreement(const DraftTree *tree, const uint32_t *path, uint32_t n, const uint32_t *top_of_rows,
                                  uint32_t *startp) {
    uint32_t best = 0, len = 0;

    for (uint32_t i = 1; i < n; i++) {
        len = top_of_rows[path[i - 1]] == tree->tokens[path[i]] ? len + 1 : 0;
        if (len > best) {
            best = len;
            *startp = i + 1 - len;
        }
    }
    return best;
}

static void grow_older(DraftReuse *reuse) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < reuse->n; i++) {
        reuse->runs[i].age++;
        if (reuse->runs[i].age < DRAFT_REUSE_STEPS_MAX)
            reuse->runs[n++] = reuse->runs[i];
    }
    reuse->n = n;
}

/* Makes room by dropping the oldest runs. */
static void add_run(DraftReuse *reuse, const Run *run) {
    uint32_t n_tokens = run->n, kept = 0;

    while (kept < reuse->n && kept + 1 < RUNS_MAX && n_tokens + reuse->runs[kept].n <= DRAFT_REUSE_TOKENS_MAX)
        n_tokens += reuse->runs[kept++].n;
    memmove(&reuse->runs[1], &reuse->runs[0], kept * sizeof(*reuse->runs));
    reuse->runs[0] = *run;
    reuse->n = kept + 1;
}

void draft_reuse_learn(DraftReuse *reuse, const DraftTree *tree, const uint32_t *accepted, uint32_t n_accepted,
                       const uint32_t *top_of_rows) {
    uint32_t path[DRAFT_ROWS_MAX], n, start = 0, len;
    Run run = { 0 };

    grow_older(reuse);
    if (!top_of_rows)
        return;
    n = deepest(tree, n_accepted ? accepted[n_accepted - 1] : 0, path);
    len = longest_agreement(tree, path, n, top_of_rows, &start);
    if (!len)
        return;
    run.next_to_error = start == 1;
    for (uint32_t i = start - 1; i < start + len && run.n < DRAFT_REUSE_TOKENS_MAX; i++)
        run.tokens[run.n++] = tree->tokens[path[i]];
    add_run(reuse, &run);
}

static uint16_t bucket_of(Kind kind, uint8_t age) {
    return (uint16_t)(kind * DRAFT_REUSE_STEPS_MAX + age);
}

static float reuse_prior(uint16_t bucket, uint16_t rank) {
    static const float first[_KIND_N] = {
        [KIND_INSIDE] = 0.7F, [KIND_SYNONYM] = 0.3F, [KIND_MISSING] = 0.2F, [KIND_FAR] = 0.1F
    };
    uint16_t kind = bucket / DRAFT_REUSE_STEPS_MAX, age = bucket % DRAFT_REUSE_STEPS_MAX;

    return kind < _KIND_N ? first[kind] / (float)((1 + age) * (1 + rank)) : 0.001F;
}

static int reuse_append(void *drafter, const uint32_t *tokens, size_t n) {
    (void)drafter;
    (void)tokens;
    (void)n;
    return 0;
}

static DraftCursor reuse_root(const void *drafter) {
    (void)drafter;
    return (DraftCursor){ .a = AT_ROOT };
}

static size_t add(DraftChoice *choices, size_t n, size_t max, uint32_t token, uint16_t bucket, DraftCursor next) {
    for (size_t i = 0; i < n; i++)
        if (choices[i].token == token)
            return n;
    if (n == max)
        return n;
    choices[n] = (DraftChoice){ .token = token, .bucket = bucket, .rank = (uint16_t)n, .next = next };
    return n + 1;
}

static size_t reuse_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const DraftReuse *reuse = drafter;
    size_t n = 0;

    max = MIN(max, DRAFT_CHOICES_MAX);
    if (at.a && at.a != AT_ROOT) {
        const Run *run = &reuse->runs[at.a - 1];

        if (at.b < run->n)
            n = add(choices, n, max, run->tokens[at.b], bucket_of(KIND_INSIDE, run->age),
                    (DraftCursor){ .a = at.a, .b = at.b + 1 });
        return n;
    }
    for (uint32_t i = 0; at.a == AT_ROOT && i < reuse->n; i++) {
        const Run *run = &reuse->runs[i];

        n = add(choices, n, max, run->tokens[1], bucket_of(run->next_to_error ? KIND_SYNONYM : KIND_FAR, run->age),
                (DraftCursor){ .a = i + 1, .b = 2 });
        if (run->next_to_error)
            n = add(choices, n, max, run->tokens[0], bucket_of(KIND_MISSING, run->age),
                    (DraftCursor){ .a = i + 1, .b = 1 });
    }
    return n;
}

/* The run goes on wherever another source's draft comes to the token before it. */
static DraftCursor reuse_follow(const void *drafter, DraftCursor at, uint32_t token) {
    const DraftReuse *reuse = drafter;
    DraftChoice choices[DRAFT_CHOICES_MAX];
    size_t n = reuse_choices(drafter, at, choices, DRAFT_CHOICES_MAX);

    for (size_t i = 0; i < n; i++)
        if (choices[i].token == token)
            return choices[i].next;
    for (uint32_t i = 0; i < reuse->n; i++)
        if (reuse->runs[i].tokens[0] == token)
            return (DraftCursor){ .a = i + 1, .b = 1 };
    return (DraftCursor){ 0 };
}

static void reuse_self_free(void *self) {
    draft_reuse_free(self);
}

const DrafterOps draft_reuse_ops = {
    .prior = reuse_prior,
    .append = reuse_append,
    .root = reuse_root,
    .choices = reuse_choices,
    .follow = reuse_follow,
    .free = reuse_self_free,
};
