// SPDX-License-Identifier: Apache-2.0
/* Sequences with caches of their own, steps of several sequences, and the expected results of attention. */
#ifndef COORDGEN_TEST_DEVICE_DEVICE_TIMELINE_H
#define COORDGEN_TEST_DEVICE_DEVICE_TIMELINE_H

#include "test/device/device_rig.h"

enum {
    KV_LAYERS = 2,      /* in every block */
    KV_ROWS_MAX = 400,  /* rows of a step */
    KV_MEMBERS_MAX = 24 /* sequences of a step */
};

typedef struct KvShape {
    size_t n_heads, n_kv_heads, head_size, window;
    float scale, soft_cap; /* 0: no cap */
} KvShape;

/* A device under test for attention: the shape, and the layers' offsets in a block. */
typedef struct KvRig {
    Rig rig;
    KvShape shape;
    size_t q_width, kv_width, positions, block_bytes;
    const float *balance; /* AttentionCall.balance, or NULL */
    KvLayer layers[KV_LAYERS];
} KvRig;

void kv_rig_open(KvRig *kv, DeviceSuite *suite, unsigned int n_threads, const KvShape *shape, size_t n_positions);
void kv_rig_close(KvRig *kv);
/* Returns the bytes of a block's keys, or its values, in one layer. */
size_t kv_plane_bytes(const KvRig *kv);

/* Queries, keys and values of rows. */
typedef struct KvRows {
    size_t n;
    float *q, *k, *v;
} KvRows;

void kv_rows_init(KvRows *rows, DeviceSuite *suite, const KvShape *shape, size_t n);
void kv_rows_deinit(KvRows *rows);

/* A sequence: its cache, and the keys and values of its positions. Unwritten content is NaN. */
typedef struct Timeline {
    void **blocks; /* [n_blocks] */
    void *side;
    size_t n_blocks, n_shared; /* the first n_shared blocks belong to another sequence */
    size_t n;
    float *k, *v; /* f32[capacity][kv_width] */
} Timeline;

void timeline_init(Timeline *timeline, const KvRig *kv, size_t capacity);
void timeline_deinit(Timeline *timeline);
/* Makes rows index[n], which are in the cache already, the next positions. */
void timeline_commit(Timeline *timeline, const KvRig *kv, const KvRows *rows, const size_t *index, size_t n);

/* Rows [first, first + n) of a sequence in a step. */
typedef struct Member {
    Timeline *timeline;
    const KvRows *rows;
    size_t first, n;
    const int16_t *parents; /* NULL: each row follows the one before; tree: parents of rows from `first` on */
    bool is_open; /* a tree that stays open: rows before `first` belong to earlier steps and have parents too */
    float *out;   /* out: f32[n][q_width] */
} Member;

/* Runs one step of a layer, in calls of `rows_a_call` rows; 0: in one call. Allocates each member's out; the caller
 * frees it. */
void members_run(KvRig *kv, Member *members, size_t n, size_t layer, size_t rows_a_call);
void members_free(Member *members, size_t n);
/* Compares the output of a member with the expected one. */
void member_expect(const KvRig *kv, const Member *member, const char *what);
/* Compares n rows of outputs, bit for bit. */
void kv_same_rows(const KvRig *kv, const float *actual, const float *expected, size_t n, const char *what);
/* Appends the rows of a chain to the timeline, in steps of `step` rows. out f32[n][q_width] or NULL. */
void timeline_append(Timeline *timeline, KvRig *kv, const KvRows *rows, size_t first, size_t n, size_t step,
                     size_t layer, float *out);
/* Appends the rows of a chain, but only stores their keys and values. */
void timeline_store(Timeline *timeline, const KvRig *kv, const KvRows *rows, size_t layer);
/* Lists the path from a tree's first row to a row: indices of rows in index[]; returns how many. */
size_t member_way(const Member *member, size_t row, size_t *index);

#endif
