// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/calibration.h"

#include "base/min_max.h"

enum {
    KEPT = 8 /* successors of a context: a ninth takes the place of the least one, and its sum begins anew */
};

typedef struct Successors {
    uint32_t tokens[KEPT];
    float weights[KEPT]; /* 0: free */
    uint32_t n_places;
} Successors;

struct Calibration {
    ContextMap *pairs, *singles;
    DraftCursor end; /* cursor of the text; c: as context_follow(), above that the depth, which is 0 */
};

enum {
    DEPTH_SHIFT = 2
};

static const float probability_min = 0.05F;

int calibration_new(AccountTable *accounts, Calibration **calibrationp) {
    _cleanup_(calibration_freep) Calibration *calibration = calloc(1, sizeof(*calibration));
    int r;

    if (!calibration)
        return -ENOMEM;
    r = context_map_new(accounts, sizeof(Successors), CALIBRATION_CONTEXTS_MAX, &calibration->pairs);
    if (r < 0)
        return r;
    r = context_map_new(accounts, sizeof(Successors), CALIBRATION_CONTEXTS_MAX, &calibration->singles);
    if (r < 0)
        return r;
    *calibrationp = steal(&calibration);
    return 0;
}

void calibration_free(Calibration *calibration) {
    if (!calibration)
        return;
    context_map_free(calibration->pairs);
    context_map_free(calibration->singles);
    free(calibration);
}

static void add_weight(Successors *successors, uint32_t token, float weight) {
    uint32_t least = 0;

    for (uint32_t i = 0; i < KEPT; i++) {
        if (successors->weights[i] > 0 && successors->tokens[i] == token) {
            successors->weights[i] += weight;
            return;
        }
        if (successors->weights[i] < successors->weights[least])
            least = i;
    }
    successors->tokens[least] = token;
    successors->weights[least] = weight;
}

static int add_place(ContextMap *map, uint64_t key, const ContextTop *top, size_t n) {
    Successors *successors;
    void *value;
    int r = context_map_put(map, key, &value);

    if (r)
        return r;
    successors = value;
    successors->n_places++;
    for (size_t i = 0; i < n && i < CALIBRATION_TOP; i++)
        if (top[i].probability >= probability_min)
            add_weight(successors, top[i].token, top[i].probability);
    return 0;
}

int calibration_observe(Calibration *calibration, uint32_t before, uint32_t token, const ContextTop *top, size_t n) {
    int r = add_place(calibration->singles, token, top, n);

    if (r || before == CONTEXT_NO_TOKEN)
        return r;
    return add_place(calibration->pairs, context_pair(before, token), top, n);
}

static float calibration_prior(uint16_t bucket, uint16_t rank) {
    float typical = context_class_typical(bucket % CONTEXT_CLASSES), most = 1 / (float)(1 + rank);

    return MIN(typical, most) * (bucket < CONTEXT_CLASSES ? 0.5F : 0.75F);
}

static int calibration_append(void *drafter, const uint32_t *tokens, size_t n) {
    Calibration *calibration = drafter;

    for (size_t i = 0; i < n; i++)
        calibration->end = context_follow(calibration->end, tokens[i]);
    return 0;
}

static DraftCursor calibration_root(const void *drafter) {
    const Calibration *calibration = drafter;

    return calibration->end;
}

static DraftCursor calibration_follow(const void *drafter, DraftCursor at, uint32_t token) {
    DraftCursor next = context_follow(at, token);

    (void)drafter;
    next.c |= ((at.c >> DEPTH_SHIFT) + 1) << DEPTH_SHIFT;
    return next;
}

/* Lists the heaviest successors, of equal ones the first to come. */
static size_t heaviest(const Successors *successors, uint32_t *order, size_t max) {
    size_t n = 0;

    for (uint32_t i = 0; i < KEPT; i++) {
        size_t at = n;

        if (successors->weights[i] <= 0)
            continue;
        while (at && successors->weights[i] > successors->weights[order[at - 1]])
            at--;
        if (at >= max)
            continue;
        n = n < max ? n + 1 : max;
        for (size_t j = n - 1; j > at; j--)
            order[j] = order[j - 1];
        order[at] = i;
    }
    return n;
}

/* Returns the pair's successors, or those of its second token if the prompt does not have the pair. */
static size_t calibration_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const Calibration *calibration = drafter;
    uint32_t known = at.c & CONTEXT_KNOWN_MASK, order[CALIBRATION_TOP];
    const Successors *successors = NULL;
    uint16_t first_bucket = CONTEXT_CLASSES;
    size_t n;

    if (!known || at.c >> DEPTH_SHIFT >= CALIBRATION_DEPTH_MAX)
        return 0;
    if (known == 2)
        successors = context_map_find(calibration->pairs, context_pair(at.a, at.b));
    if (!successors) {
        successors = context_map_find(calibration->singles, at.b);
        first_bucket = 0;
    }
    if (!successors)
        return 0;
    n = heaviest(successors, order, MIN(max, CALIBRATION_TOP));
    for (size_t i = 0; i < n; i++)
        choices[i] = (DraftChoice){
            .token = successors->tokens[order[i]],
            .bucket =
                (uint16_t)(first_bucket + context_class(successors->weights[order[i]] / (float)successors->n_places)),
            .rank = (uint16_t)i,
            .of_prompt = true,
            .next = calibration_follow(drafter, at, successors->tokens[order[i]]),
        };
    return n;
}

static void calibration_self_free(void *self) {
    calibration_free(self);
}

const DrafterOps calibration_ops = {
    .prior = calibration_prior,
    .append = calibration_append,
    .root = calibration_root,
    .choices = calibration_choices,
    .follow = calibration_follow,
    .free = calibration_self_free,
};
