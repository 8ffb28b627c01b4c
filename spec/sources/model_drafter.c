// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/model_drafter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "spec/sources/draft_tree.h"

enum {
    CAPACITY_MIN = 1024, /* capacity of the text, in tokens */
    CAPACITY_MAX = 1 << 28,
    CATCH_UP_ROWS = 64, /* rows of a pass over text that went on without the model */
};

/* share of a pass of fewer rows that a further row takes, where nothing better is known */
static const float row_share = 0.02F;

typedef struct Row {
    DraftModelRow row;
    int16_t first_child, next_sibling; /* MODEL_NOWHERE: none */
    DraftModelTops tops;
} Row;

struct ModelDrafter {
    AccountTable *accounts;
    DraftModel model;
    AccountedBlock block; /* memory of the text */
    uint32_t *text;       /* [capacity] */
    size_t n, capacity;   /* capacity: a power of two, or 0 */
    size_t n_followed;    /* tokens of the text when the model last followed it; 0: never */
    uint32_t pass_rows;   /* most rows that a pass has had */
    uint32_t n_rows;
    Row rows[MODEL_ROWS_MAX]; /* rows behind the text of n_followed tokens; row 0 is the last of them */
};

int model_drafter_new(AccountTable *accounts, DraftModel model, ModelDrafter **drafterp) {
    ModelDrafter *drafter = malloc(sizeof(*drafter));

    assert(model.ops);
    if (!drafter)
        return -ENOMEM;
    drafter->accounts = accounts;
    drafter->model = model;
    drafter->block = (AccountedBlock){ 0 };
    drafter->text = NULL;
    drafter->n = drafter->capacity = drafter->n_followed = 0;
    drafter->pass_rows = drafter->n_rows = 0;
    *drafterp = drafter;
    return 0;
}

void model_drafter_free(ModelDrafter *drafter) {
    if (!drafter)
        return;
    accounted_block_deinit(&drafter->block);
    free(drafter);
}

/* --- the text ----------------------------------------------------------------------------------------------------- */

static int make_room(ModelDrafter *drafter, size_t n) {
    size_t capacity = drafter->capacity ? drafter->capacity : CAPACITY_MIN;
    AccountedBlock block, old = drafter->block;
    int r;

    while (capacity - drafter->n < n && capacity < CAPACITY_MAX)
        capacity *= 2;
    if (capacity - drafter->n < n)
        return DRAFTER_E_MEMORY;
    if (capacity == drafter->capacity)
        return 0;
    r = accounted_block_init(&block, drafter->accounts, ACCOUNT_DRAFTDB, capacity * sizeof(*drafter->text));
    if (r)
        return r < 0 ? r : DRAFTER_E_MEMORY;
    if (drafter->n)
        memcpy(block.data, drafter->text, drafter->n * sizeof(*drafter->text));
    drafter->block = block;
    drafter->text = block.data;
    drafter->capacity = capacity;
    accounted_block_deinit(&old);
    return 0;
}

/* Appends to the text. The rows stay: those that the text went through need not be computed again. */
static int model_append(void *self, const uint32_t *tokens, size_t n) {
    ModelDrafter *drafter = self;
    int r = make_room(drafter, n);

    if (r)
        return r;
    memcpy(drafter->text + drafter->n, tokens, n * sizeof(*tokens));
    drafter->n += n;
    return 0;
}

size_t model_drafter_n_behind(const ModelDrafter *drafter) {
    size_t known = drafter->n_followed ? drafter->n_followed - 1 : 0;
    int row = drafter->n_rows ? 0 : MODEL_NOWHERE;

    if (drafter->model.ops->has_text)
        return 0;
    while (row != MODEL_NOWHERE && known + 1 < drafter->n) {
        known++;
        row = model_drafter_child(drafter, row, drafter->text[known]);
    }
    return drafter->n ? drafter->n - 1 - known : 0;
}

/* Lets the model follow n tokens of the text, behind which there are no rows yet. */
static int follow_to(ModelDrafter *drafter, size_t n) {
    int r = drafter->model.ops->follow(drafter->model.self, drafter->text, n);

    drafter->n_rows = 0;
    if (r != -EBUSY)
        drafter->n_followed = r ? 0 : n;
    return r;
}

/* Returns the ms that reading n tokens of the text takes, pass by pass; 0 where no pass was measured. */
static float catch_up_ms(const ModelDrafter *drafter, size_t n) {
    const float whole = n >= CATCH_UP_ROWS ? model_drafter_cost_ms(drafter, CATCH_UP_ROWS, 0) : 0;
    const uint32_t rest = (uint32_t)(n % CATCH_UP_ROWS);

    return whole * (float)(n / CATCH_UP_ROWS) + (rest ? model_drafter_cost_ms(drafter, rest, 0) : 0);
}

size_t model_drafter_affords(const ModelDrafter *drafter, float ms, float *cost_msp) {
    size_t n = model_drafter_n_behind(drafter);

    while (n && catch_up_ms(drafter, n) > ms)
        n = n > CATCH_UP_ROWS ? (n - 1) / CATCH_UP_ROWS * CATCH_UP_ROWS : n - 1;
    *cost_msp = n ? catch_up_ms(drafter, n) : 0;
    return n;
}

int model_drafter_follow(ModelDrafter *drafter, size_t most) {
    const size_t behind = model_drafter_n_behind(drafter), n = MIN(behind, most);
    int r;

    assert(drafter->n);
    if (n < behind && !n)
        return MODEL_DRAFTER_E_BEHIND;
    r = follow_to(drafter, drafter->n - behind + n);
    return r ? r : n < behind ? MODEL_DRAFTER_E_BEHIND : 0;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Takes over likely tokens; probabilities from another module are clamped to [0, 1]. */
static void take_tops(Row *row, const DraftModelTops *tops) {
    row->tops.n = MIN(tops->n, DRAFT_CHOICES_MAX);
    for (uint32_t i = 0; i < row->tops.n; i++) {
        const float probability = tops->tops[i].probability;

        row->tops.tops[i] = tops->tops[i];
        row->tops.tops[i].probability = probability > 1 ? 1 : MAX(probability, 0);
    }
}

int model_drafter_expand(ModelDrafter *drafter, const DraftModelRow *rows, size_t n) {
    DraftModelTops tops[MODEL_ROWS_MAX];
    int r;

    assert(n && n <= model_drafter_n_left(drafter) && drafter->n_followed == drafter->n);
    r = drafter->model.ops->expand(drafter->model.self, rows, n, tops);
    if (r)
        return r;
    for (size_t i = 0; i < n; i++) {
        const int16_t at = (int16_t)drafter->n_rows;
        Row *row = &drafter->rows[drafter->n_rows++];

        assert(rows[i].parent < at && (rows[i].parent == MODEL_NOWHERE) == (at == 0));
        *row = (Row){ .row = rows[i], .first_child = MODEL_NOWHERE, .next_sibling = MODEL_NOWHERE };
        take_tops(row, &tops[i]);
        if (at) {
            row->next_sibling = drafter->rows[rows[i].parent].first_child;
            drafter->rows[rows[i].parent].first_child = at;
        }
    }
    drafter->pass_rows = n > drafter->pass_rows ? (uint32_t)n : drafter->pass_rows;
    return 0;
}

uint32_t model_drafter_n_rows(const ModelDrafter *drafter) {
    return drafter->n_rows;
}

uint32_t model_drafter_n_left(const ModelDrafter *drafter) {
    const uint32_t most = MIN(drafter->model.ops->rows_max, MODEL_ROWS_MAX);

    return most > drafter->n_rows ? most - drafter->n_rows : 0;
}

const DraftModelTops *model_drafter_tops(const ModelDrafter *drafter, uint32_t row) {
    assert(row < drafter->n_rows);
    return &drafter->rows[row].tops;
}

int model_drafter_child(const ModelDrafter *drafter, int row, uint32_t token) {
    int child = row == MODEL_NOWHERE ? MODEL_NOWHERE : drafter->rows[row].first_child;

    while (child != MODEL_NOWHERE && drafter->rows[child].row.token != token)
        child = drafter->rows[child].next_sibling;
    return child;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

uint32_t model_drafter_pass_rows(const ModelDrafter *drafter) {
    uint32_t known = drafter->pass_rows;

    for (uint32_t n = known + 1; n <= DRAFT_ROWS_MAX; n++)
        known = drafter->model.ops->cost_ms(drafter->model.self, n) > 0 ? n : known;
    return known ? 2 * known < MODEL_ROWS_MAX ? 2 * known : MODEL_ROWS_MAX : 1;
}

float model_drafter_cost_ms(const ModelDrafter *drafter, uint32_t n_rows, float guess_ms) {
    const DraftModelOps *ops = drafter->model.ops;
    float ms = ops->cost_ms(drafter->model.self, n_rows);
    uint32_t fewer = n_rows;

    while (!(ms > 0) && --fewer)
        ms = ops->cost_ms(drafter->model.self, fewer);
    if (fewer)
        return ms * (1 + row_share * (float)(n_rows - fewer));
    for (uint32_t more = n_rows + 1; !(ms > 0) && more <= DRAFT_ROWS_MAX; more++)
        ms = ops->cost_ms(drafter->model.self, more);
    return ms > 0 ? ms : guess_ms * (1 + row_share * (float)(n_rows - 1));
}

/* --- a source ----------------------------------------------------------------------------------------------------- */

/* Buckets are finer near 1, because the length of a chain depends on it: sixteen tokens of 0.97 come to 0.61, of 0.998
 * to 0.97. */
static const float bucket_from[DRAFT_BUCKETS] = { 0,    0.01F, 0.03F, 0.07F, 0.13F, 0.2F,  0.3F,  0.4F,
                                                  0.5F, 0.6F,  0.7F,  0.8F,  0.9F,  0.96F, 0.99F, 0.998F };

uint16_t model_drafter_bucket(float probability) {
    uint16_t bucket = 0;

    while (bucket + 1 < DRAFT_BUCKETS && probability >= bucket_from[bucket + 1])
        bucket++;
    return bucket;
}

/* A model of the same kind as the target is right about as often as it says. The second choice cannot have more than
 * half, the third not more than a third, and so on. */
static float model_prior(uint16_t bucket, uint16_t rank) {
    const float above = bucket + 1 < DRAFT_BUCKETS ? bucket_from[bucket + 1] : 1;
    const float typical = (bucket_from[bucket] + above) / 2, most = 1 / (float)(1 + rank);

    return MIN(typical, most);
}

/* A cursor's a is the row + 1; nowhere where the model has not computed yet. */
static DraftCursor cursor_of(int row) {
    return (DraftCursor){ .a = (uint32_t)(row + 1) };
}

static DraftCursor model_root(const void *self) {
    const ModelDrafter *drafter = self;

    return cursor_of(drafter->n_rows && drafter->n_followed == drafter->n ? 0 : MODEL_NOWHERE);
}

static DraftCursor model_follow(const void *self, DraftCursor at, uint32_t token) {
    return cursor_of(model_drafter_child(self, (int)at.a - 1, token));
}

static size_t model_choices(const void *self, DraftCursor at, DraftChoice *choices, size_t max) {
    const ModelDrafter *drafter = self;
    const DraftModelTops *tops = at.a ? model_drafter_tops(drafter, at.a - 1) : NULL;
    size_t n = 0;

    for (uint32_t i = 0; tops && i < tops->n && n < max; i++)
        choices[n++] = (DraftChoice){
            .token = tops->tops[i].token,
            .bucket = model_drafter_bucket(tops->tops[i].probability),
            .rank = (uint16_t)i,
            .next = model_follow(drafter, at, tops->tops[i].token),
        };
    return n;
}

static void model_self_free(void *self) {
    model_drafter_free(self);
}

const DrafterOps model_drafter_ops = {
    .prior = model_prior,
    .append = model_append,
    .root = model_root,
    .choices = model_choices,
    .follow = model_follow,
    .free = model_self_free,
};
