// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cpu_shadow.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "base/strings/printable.h"

enum {
    SHADOWS_MAX = 4,                        /* matrices of one call */
    BATCH_CHANNELS = 64,                    /* channels whose columns are in memory together */
    N_SLOTS = SHADOWS_MAX * BATCH_CHANNELS, /* cached columns: a batch always fits */
    OUTLIERS_A_ROW = 64,                    /* average room in a full call; further outliers are taken in later turns */
    BLOCK_OUTPUTS = 256,
    INLINE_PRODUCTS = 16384, /* number of products below which no worker is woken */
    PAGE_BYTES = 4096,
};

#define NOT_HOT UINT32_MAX

struct Shadow {
    uint64_t id;
    size_t n, k, stride;    /* stride: bytes from one hot column to the next */
    const float *scales;    /* [n] */
    int8_t *hot;            /* [n_hot][stride] */
    const uint32_t *places; /* [k]: index among the hot columns, or NOT_HOT */
    const ColumnFile *file; /* NULL: all columns are hot */
    uint64_t file_offset_bytes;
    char *name;
    AccountedBlock memory;
};

/* A cached column of a channel that is not hot. */
typedef struct ShadowSlot {
    uint64_t id; /* id of its matrix; 0: empty */
    uint32_t channel;
    uint64_t batch; /* last batch that used it */
    int8_t *column;
} ShadowSlot;

/* --- columns ------------------------------------------------------------------------------------------------------ */

Shadow *shadow_free(Shadow *shadow) {
    if (shadow) {
        accounted_block_deinit(&shadow->memory);
        free(shadow->name);
        free(shadow);
    }
    return NULL;
}
DEFINE_CLEANUP(Shadow, shadow_free)

static size_t align_64(size_t len_bytes) {
    return (len_bytes + 63) & ~(size_t)63;
}

static int check_source(const LinearSource *source, ErrText *err) {
    const LinearActivations *activations = &source->activations;

    if (!activations->columns && !activations->file)
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s' has shadow outliers, but no columns", source->name);
    if (activations->n_hot > source->k || (!activations->file && activations->n_hot != source->k))
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s': %zu hot channels of %zu", source->name, activations->n_hot,
                       source->k);
    for (size_t i = 0; i < activations->n_hot; i++)
        if (activations->hot[i] >= source->k || (i && activations->hot[i] <= activations->hot[i - 1]))
            return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s': hot channels must rise and be below %zu", source->name,
                           source->k);
    return 0;
}

/**
 * shadow_new() - allocate the hot columns of a matrix, and record where its other columns are
 * @source: activations.file outlives the shadow
 *
 * Memory: n_hot columns of n bytes, n scales, and 4 bytes for each of the k inputs, on the weights' account.
 */
int shadow_new(Shadow **shadowp, AccountTable *accounts, const LinearSource *source, uint64_t id, ErrText *err) {
    const LinearActivations *activations = &source->activations;
    _cleanup_(shadow_freep) Shadow *shadow = NULL;
    size_t n = source->n, k = source->k, stride = align_64(n), len_bytes;
    uint32_t *places;
    float *scales;
    int8_t *hot;
    int r;

    r = check_source(source, err);
    if (r)
        return r;
    shadow = calloc(1, sizeof(*shadow));
    if (!shadow)
        return err_no_memory(err);
    len_bytes = activations->n_hot * stride + align_64(n * sizeof(float)) + k * sizeof(uint32_t);
    r = accounted_block_init(&shadow->memory, accounts, ACCOUNT_WEIGHTS, len_bytes);
    if (r)
        return account_refused(err, BACKEND_E_MEMORY, r, accounts, ACCOUNT_WEIGHTS, len_bytes,
                               "hot columns of tensor '%s'", source->name);
    hot = shadow->memory.data;
    scales = (float *)(void *)(hot + activations->n_hot * stride);
    places = (uint32_t *)(void *)((uint8_t *)scales + align_64(n * sizeof(float)));
    shadow->name = strdup(source->name);
    if (!shadow->name)
        return err_no_memory(err);
    memcpy(scales, source->scales, n * sizeof(float));
    for (size_t c = 0; c < k; c++)
        places[c] = NOT_HOT;
    for (size_t i = 0; i < activations->n_hot; i++)
        places[activations->hot[i]] = (uint32_t)i;
    shadow->id = id;
    shadow->n = n;
    shadow->k = k;
    shadow->stride = stride;
    shadow->scales = scales;
    shadow->hot = hot;
    shadow->places = places;
    shadow->file = activations->file;
    shadow->file_offset_bytes = activations->file_offset_bytes;
    *shadowp = steal(&shadow);
    return 0;
}

/* Reads a column of the file. code: the error code for a failure. */
static int read_column(const Shadow *shadow, uint32_t channel, int8_t *column, int code, ErrText *err) {
    int r =
        file_read_exact(shadow->file->fd, column, shadow->n, shadow->file_offset_bytes + (uint64_t)channel * shadow->n);

    return r ? err_set(err, code,
                       "tensor '%s': the weights of input %" PRIu32 " cannot be read: %s: the package was changed "
                       "while it was in use: import the model again, then load it again",
                       shadow->name, channel, r == FILE_E_SHORT ? "the file is too short" : strerror(-r))
             : 0;
}

/* Columns of a file are read, not mapped, so that a truncated file is an error. */
int shadow_fill(Shadow *shadow, const LinearSource *source, ErrText *err) {
    const LinearActivations *activations = &source->activations;

    for (size_t i = 0; i < activations->n_hot; i++) {
        int8_t *column = shadow->hot + i * shadow->stride;
        int r = 0;

        if (shadow->file)
            r = read_column(shadow, activations->hot[i], column, BACKEND_E_WEIGHTS, err);
        else
            memcpy(column, activations->columns + activations->hot[i] * shadow->n, shadow->n);
        if (r)
            return r;
    }
    return 0;
}

/* Returns the slot that has a column, or NULL. */
static ShadowSlot *slot_of(const ShadowScratch *scratch, const Shadow *shadow, uint32_t channel) {
    for (size_t i = 0; i < N_SLOTS; i++)
        if (scratch->slots[i].id == shadow->id && scratch->slots[i].channel == channel)
            return &scratch->slots[i];
    return NULL;
}

/* Returns the slot of a column, filled. Columns of the current batch stay; others are replaced in turn. */
static int cold_column(ShadowScratch *scratch, const Shadow *shadow, uint32_t channel, const int8_t **columnp,
                       ErrText *err) {
    ShadowSlot *slot = slot_of(scratch, shadow, channel);
    int r;

    if (slot) {
        slot->batch = scratch->batch;
        scratch->counts.n_columns_cached++;
        *columnp = slot->column;
        return 0;
    }
    do {
        slot = &scratch->slots[scratch->next_slot];
        scratch->next_slot = (scratch->next_slot + 1) % N_SLOTS;
    } while (slot->id && slot->batch == scratch->batch);
    slot->id = 0; /* the content is invalid if the read fails */
    r = read_column(shadow, channel, slot->column, BACKEND_E_READ, err);
    if (r) {
        err_prefix(err, "%.*s", UTF8_PREFIX(shadow->file->path, 200));
        return r;
    }
    *slot = (ShadowSlot){ shadow->id, channel, scratch->batch, slot->column };
    scratch->counts.n_columns_read++;
    *columnp = slot->column;
    return 0;
}

/* --- scratch ------------------------------------------------------------------------------------------------------ */

void shadow_deinit(ShadowScratch *scratch) {
    accounted_block_deinit(&scratch->lists);
    accounted_block_deinit(&scratch->columns);
    free(scratch->slots);
    scratch->slots = NULL;
}

static int reserve_block(AccountedBlock *block, AccountTable *accounts, AccountId id, size_t len_bytes, ErrText *err) {
    int r;

    accounted_block_deinit(block);
    r = accounted_block_init(block, accounts, id, len_bytes);
    return r ? account_refused(err, BACKEND_E_MEMORY, r, accounts, id, len_bytes, "shadow outliers") : 0;
}

/* Reserves at least one row of outliers only, so that every turn takes a row. */
static int reserve_lists(ShadowScratch *scratch, AccountTable *accounts, size_t max_rows, size_t width, ErrText *err) {
    size_t capacity = MAX(width, max_rows * OUTLIERS_A_ROW);
    uint32_t *at;
    int r;

    scratch->max_rows = 0;
    r = reserve_block(&scratch->lists, accounts, ACCOUNT_ACTIVATIONS,
                      7 * capacity * sizeof(uint32_t) + (width + 1) * sizeof(uint32_t) + max_rows, err);
    if (r)
        return r;
    at = scratch->lists.data;
    scratch->found_channels = at;
    scratch->found_rows = at + capacity;
    scratch->channels = at + 2 * capacity;
    scratch->rows = at + 3 * capacity;
    scratch->found_rests = (float *)(void *)(at + 4 * capacity);
    scratch->rests = (float *)(void *)(at + 5 * capacity);
    scratch->starts = at + 6 * capacity;
    scratch->is_waiting = (uint8_t *)(scratch->starts + width + 1);
    scratch->capacity = capacity;
    scratch->width = width;
    scratch->max_rows = max_rows;
    return 0;
}

static int reserve_slots(ShadowScratch *scratch, AccountTable *accounts, size_t n_outputs, ErrText *err) {
    size_t column_bytes = align_64(n_outputs);
    int r;

    if (!scratch->slots)
        scratch->slots = calloc(N_SLOTS, sizeof(*scratch->slots));
    if (!scratch->slots)
        return err_no_memory(err);
    scratch->column_bytes = 0;
    r = reserve_block(&scratch->columns, accounts, ACCOUNT_CACHE, N_SLOTS * column_bytes, err);
    if (r)
        return r;
    for (size_t i = 0; i < N_SLOTS; i++)
        scratch->slots[i] = (ShadowSlot){ .column = (int8_t *)scratch->columns.data + i * column_bytes };
    scratch->column_bytes = column_bytes;
    return 0;
}

int shadow_reserve(ShadowScratch *scratch, AccountTable *accounts, size_t max_rows, size_t width, size_t n_outputs,
                   ErrText *err) {
    int r = 0;

    if (max_rows > scratch->max_rows || width > scratch->width)
        r = reserve_lists(scratch, accounts, MAX(max_rows, scratch->max_rows), MAX(width, scratch->width), err);
    if (!r && n_outputs > scratch->column_bytes)
        r = reserve_slots(scratch, accounts, n_outputs, err);
    return r;
}

/* --- outliers ----------------------------------------------------------------------------------------------------- */

void shadow_begin_call(ShadowScratch *scratch, size_t rows) {
    assert(rows <= scratch->max_rows);
    memset(scratch->is_waiting, 1, rows);
    scratch->counts.n_rows += rows;
}

void shadow_begin(ShadowScratch *scratch) {
    atomic_store_explicit(&scratch->n_found, 0, memory_order_relaxed);
}

void shadow_take_row(ShadowScratch *scratch, const RowOps *row_ops, size_t row, const float *x, size_t n, float scale,
                     size_t n_outliers) {
    size_t at = atomic_load_explicit(&scratch->n_found, memory_order_relaxed);

    assert(n <= scratch->width && n_outliers <= n);
    do {
        if (n_outliers > scratch->capacity - at)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&scratch->n_found, &at, at + n_outliers, memory_order_relaxed,
                                                    memory_order_relaxed));
    scratch->is_waiting[row] = 0;
    if (!n_outliers)
        return;
    row_ops->outliers(x, n, scale, scratch->found_channels + at, scratch->found_rests + at);
    for (size_t i = at; i < at + n_outliers; i++)
        scratch->found_rows[i] = (uint32_t)row;
}

/* Threads record rows in any order. Sums are taken by channel, and a row has each channel once, so that the order of
 * rows does not affect them. */
static void sort_by_channel(ShadowScratch *scratch, size_t n_found, size_t k) {
    uint32_t *starts = scratch->starts, sum = 0;

    memset(starts, 0, (k + 1) * sizeof(*starts));
    for (size_t i = 0; i < n_found; i++)
        starts[scratch->found_channels[i]]++;
    for (size_t c = 0; c <= k; c++) {
        uint32_t n = starts[c];

        starts[c] = sum;
        sum += n;
    }
    for (size_t i = 0; i < n_found; i++) {
        uint32_t at = starts[scratch->found_channels[i]]++;

        scratch->channels[at] = scratch->found_channels[i];
        scratch->rows[at] = scratch->found_rows[i];
        scratch->rests[at] = scratch->found_rests[i];
    }
}

static void advise(const Shadow *shadow, uint64_t begin, uint64_t end) {
    if (begin < end)
        (void)posix_fadvise(shadow->file->fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_WILLNEED);
}

/* Asks the system to read the turn's columns together, beside the product, instead of one by one after it. If the
 * system does not, columns are read on demand. Columns of a long prompt lie close together; one call per run of pages
 * covers them, including pages that are in the page cache already. */
static void read_ahead(const ShadowScratch *scratch, const Shadow *shadow, size_t n_found) {
    uint64_t begin = 0, end = 0;

    for (size_t i = 0; i < n_found; i++) {
        const uint32_t channel = scratch->channels[i];
        const uint64_t at = shadow->file_offset_bytes + (uint64_t)channel * shadow->n;

        if ((i && channel == scratch->channels[i - 1]) || shadow->places[channel] != NOT_HOT ||
            slot_of(scratch, shadow, channel))
            continue;
        if (!end || at > end + PAGE_BYTES) {
            advise(shadow, begin, end);
            begin = at;
        }
        end = at + shadow->n;
    }
    advise(shadow, begin, end);
}

void shadow_sort(ShadowScratch *scratch, const Shadow *const *shadows, size_t n) {
    const size_t n_found = atomic_load_explicit(&scratch->n_found, memory_order_relaxed);

    sort_by_channel(scratch, n_found, shadows[0]->k);
    for (size_t i = 0; i < n; i++)
        read_ahead(scratch, shadows[i], n_found);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct AddLoop {
    const ShadowScratch *scratch;
    const RowOps *row_ops;
    const Shadow *const *shadows;
    size_t n;
    float *const *y;
    size_t begin, end; /* range of the sorted outliers */
    const int8_t *columns[BATCH_CHANNELS][SHADOWS_MAX];
} AddLoop;

/* Adds outputs [first, first + n) of one matrix: every sum in rising order of channels. */
static void add_block(const AddLoop *loop, size_t matrix, size_t first, size_t n) {
    const ShadowScratch *scratch = loop->scratch;
    const Shadow *shadow = loop->shadows[matrix];
    size_t channel = 0;

    for (size_t i = loop->begin; i < loop->end; i++) {
        channel += i > loop->begin && scratch->channels[i] != scratch->channels[i - 1];
        loop->row_ops->add_column(scratch->rests[i], loop->columns[channel][matrix] + first, shadow->scales + first, n,
                                  loop->y[matrix] + scratch->rows[i] * shadow->n + first);
    }
}

static void add_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AddLoop *loop = arg;
    size_t at = 0;

    for (size_t matrix = 0; matrix < loop->n; matrix++)
        for (size_t first = 0; first < loop->shadows[matrix]->n; first += BLOCK_OUTPUTS, at++) {
            size_t left = loop->shadows[matrix]->n - first;

            if (at >= begin && at < end)
                add_block(loop, matrix, first, MIN(left, BLOCK_OUTPUTS));
        }
}

/* Gathers the columns of the next channels. loop->end moves past their outliers. */
static int gather_batch(ShadowScratch *scratch, AddLoop *loop, size_t n_found, ErrText *err) {
    size_t n_channels = 0;

    scratch->batch++;
    for (loop->end = loop->begin; loop->end < n_found && n_channels < BATCH_CHANNELS; n_channels++) {
        uint32_t channel = scratch->channels[loop->end];
        size_t n_outliers = 0;

        while (loop->end < n_found && scratch->channels[loop->end] == channel) {
            loop->end++;
            n_outliers++;
        }
        if (loop->shadows[0]->places[channel] != NOT_HOT)
            scratch->counts.n_hot += n_outliers;
        for (size_t i = 0; i < loop->n; i++) {
            const Shadow *shadow = loop->shadows[i];
            uint32_t place = shadow->places[channel];
            int r = 0;

            if (place != NOT_HOT)
                loop->columns[n_channels][i] = shadow->hot + place * shadow->stride;
            else
                r = cold_column(scratch, shadow, channel, &loop->columns[n_channels][i], err);
            if (r)
                return r;
        }
    }
    return 0;
}

/**
 * shadow_add() - y[i][row][o] += rest * (scales[o] * w[o][channel]), for the outliers of a row by rising channels
 *
 * Every multiplication and addition is rounded. The rows of a call are independent, so the bits depend neither on which
 * rows were taken together nor on how channels are batched.
 *
 * Thread: the computing one. It copies columns that are not hot, and waits for them if shadow_sort() asked for them too
 * late.
 * Return: 0, BACKEND_E_READ.
 */
int shadow_add(ShadowScratch *scratch, const RowOps *row_ops, WorkerPool *pool, const Shadow *const *shadows, size_t n,
               size_t rows, float *const *y, bool *againp, ErrText *err) {
    size_t n_found = atomic_load_explicit(&scratch->n_found, memory_order_relaxed), n_blocks = 0, n_outputs = 0;
    AddLoop loop = { .scratch = scratch, .row_ops = row_ops, .shadows = shadows, .n = n, .y = y };
    int r;

    assert(n <= SHADOWS_MAX);
    *againp = memchr(scratch->is_waiting, 1, rows) != NULL;
    if (!n_found)
        return 0;
    for (size_t i = 0; i < n; i++) {
        n_blocks += (shadows[i]->n + BLOCK_OUTPUTS - 1) / BLOCK_OUTPUTS;
        n_outputs += shadows[i]->n;
    }
    scratch->counts.n_outliers += n_found;
    for (; loop.begin < n_found; loop.begin = loop.end) {
        r = gather_batch(scratch, &loop, n_found, err);
        if (r)
            return r;
        if ((loop.end - loop.begin) * n_outputs < INLINE_PRODUCTS)
            add_blocks(&loop, 0, n_blocks, 0);
        else
            worker_pool_run(pool, add_blocks, &loop, n_blocks, 1);
    }
    return 0;
}
