// SPDX-License-Identifier: Apache-2.0
/* Sequences with caches of their own, steps of several of them, and what attention is. */
#ifndef COORDGEN_TEST_DEVICE_DEVICE_TIMELINE_H
#define COORDGEN_TEST_DEVICE_DEVICE_TIMELINE_H

#include "test/device/device_rig.h"

enum {
    KV_LAYERS = 2,      /* in every block */
    KV_ROWS_MAX = 400,  /* of a step */
    KV_MEMBERS_MAX = 24 /* sequences of a step */
};

typedef struct KvShape {
    size_t n_heads, n_kv_heads, head_size, window;
    float scale, soft_cap; /* 0: none */
} KvShape;

/* A device that attends: the shape, and where the layers are in a block. */
typedef struct KvRig {
    Rig rig;
    KvShape shape;
    size_t q_width, kv_width, positions, block_bytes;
    bool is_f16; /* the KV type; of one that is not known here the device's own error says how far it may be */
    KvLayer layers[KV_LAYERS];
} KvRig;

void kv_rig_open(KvRig *kv, DeviceSuite *suite, unsigned int n_threads, const KvShape *shape, size_t n_positions);
void kv_rig_close(KvRig *kv);

/* Queries, keys and values of rows; then keys and values as the KV type has them, of rows that were in a step. */
typedef struct KvRows {
    size_t n;
    float *q, *k, *v;
    float *kept_k, *kept_v;
} KvRows;

void kv_rows_init(KvRows *rows, DeviceSuite *suite, const KvShape *shape, size_t n);
void kv_rows_deinit(KvRows *rows);

/* A sequence: its cache, and the keys and values of its positions as it keeps them. What was not written is NaN. */
typedef struct Timeline {
    void **blocks; /* [n_blocks] */
    void *side;
    size_t n_blocks, n_shared; /* the first blocks are somebody else's */
    size_t n;
    float *k, *v; /* f32[capacity][kv_width] */
} Timeline;

void timeline_init(Timeline *timeline, const KvRig *kv, size_t capacity);
void timeline_deinit(Timeline *timeline);
/* The rows index[n] are its next positions; in its cache they are already. */
void timeline_commit(Timeline *timeline, const KvRig *kv, const KvRows *rows, const size_t *index, size_t n);

/* Rows [first, first + n) of a sequence in a step. */
typedef struct Member {
    Timeline *timeline;
    const KvRows *rows;
    size_t first, n;
    const int16_t *parents; /* NULL: each follows the one before; of a tree: of rows `first` and behind */
    bool is_open; /* a tree that stays open: rows before `first` are of earlier steps, and have parents, too */
    float *out;   /* out: f32[n][q_width] */
} Member;

/* One step of a layer, in calls of so many rows; 0: in one. out of all members are made anew; the caller frees them. */
void members_run(KvRig *kv, Member *members, size_t n, size_t layer, size_t rows_a_call);
void members_free(Member *members, size_t n);
/* Holds the output of a member against the yardstick. */
void member_expect(const KvRig *kv, const Member *member, const char *what);
/* The rows of a chain become positions of the timeline, in steps of so many. out f32[n][q_width] or NULL. */
void timeline_append(Timeline *timeline, KvRig *kv, const KvRows *rows, size_t first, size_t n, size_t step,
                     size_t layer, float *out);
/* The way from a row of a tree up to its first one, top first; index[] of rows, how many. */
size_t member_way(const Member *member, size_t row, size_t *index);

#endif
