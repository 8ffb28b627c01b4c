// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/device/device_timeline.h"

#include "base/clock.h"
#include "base/min_max.h"

enum {
    NOT_WRITTEN = 0xff, /* NaN in float16, bfloat16 and float32, a scale of NaN beside integers */
};

static size_t align_64(size_t n) {
    return (n + 63) / 64 * 64;
}

void kv_rig_open(KvRig *kv, DeviceSuite *suite, unsigned int n_threads, const KvShape *shape, size_t n_positions) {
    const BackendShape room = { .rows = KV_ROWS_MAX,
                                .width = shape->n_heads * shape->head_size,
                                .n_vocab = 1,
                                .n_heads = shape->n_heads,
                                .n_kv_heads = shape->n_kv_heads,
                                .head_size = shape->head_size };
    size_t plane_bytes, at = 64;

    *kv = (KvRig){ .shape = *shape, .q_width = room.width, .kv_width = shape->n_kv_heads * shape->head_size };
    rig_open(&kv->rig, suite, n_threads, &room);
    assert_int_equal(kv->rig.ops->reserve_positions(kv->rig.backend, n_positions, NULL), 0);
    kv->positions = kv->rig.ops->kv_block_positions;
    plane_bytes = align_64(kv_plane_bytes(kv));
    /* Alternates keys first and values first, with foreign bytes between layers and after the last. */
    for (size_t i = 0; i < KV_LAYERS; i++, at += 2 * plane_bytes + 64)
        kv->layers[i] = (KvLayer){ .k_offset_bytes = at + (i % 2 ? plane_bytes : 0),
                                   .v_offset_bytes = at + (i % 2 ? 0 : plane_bytes),
                                   .n_kv_heads = shape->n_kv_heads,
                                   .head_size = shape->head_size };
    kv->block_bytes = at;
}

void kv_rig_close(KvRig *kv) {
    rig_close(&kv->rig);
}

size_t kv_plane_bytes(const KvRig *kv) {
    return kv->positions * kv->shape.n_kv_heads * kv->rig.ops->kv_row_bytes(kv->shape.head_size);
}

void kv_rows_init(KvRows *rows, DeviceSuite *suite, const KvShape *shape, size_t n) {
    const size_t n_q = n * shape->n_heads * shape->head_size, n_kv = n * shape->n_kv_heads * shape->head_size;

    *rows = (KvRows){
        .n = n, .q = malloc(n_q * sizeof(float)), .k = malloc(n_kv * sizeof(float)), .v = malloc(n_kv * sizeof(float))
    };
    assert_true(rows->q && rows->k && rows->v);
    rig_fill(suite, rows->q, n_q);
    rig_fill(suite, rows->k, n_kv);
    rig_fill(suite, rows->v, n_kv);
}

void kv_rows_deinit(KvRows *rows) {
    free(rows->q);
    free(rows->k);
    free(rows->v);
}

static void *new_block(const KvRig *kv) {
    void *block = aligned_alloc(64, kv->block_bytes);

    assert_non_null(block);
    memset(block, NOT_WRITTEN, kv->block_bytes);
    return block;
}

void timeline_init(Timeline *timeline, const KvRig *kv, size_t capacity) {
    *timeline = (Timeline){ .n_blocks = (capacity + kv->positions - 1) / kv->positions,
                            .side = new_block(kv),
                            .k = malloc(capacity * kv->kv_width * sizeof(float)),
                            .v = malloc(capacity * kv->kv_width * sizeof(float)) };
    timeline->blocks = calloc(timeline->n_blocks, sizeof(*timeline->blocks));
    assert_true(timeline->blocks && timeline->k && timeline->v);
    for (size_t i = 0; i < timeline->n_blocks; i++)
        timeline->blocks[i] = new_block(kv);
}

void timeline_deinit(Timeline *timeline) {
    for (size_t i = timeline->n_shared; i < timeline->n_blocks; i++)
        free(timeline->blocks[i]);
    free(timeline->blocks);
    free(timeline->side);
    free(timeline->k);
    free(timeline->v);
}

void timeline_commit(Timeline *timeline, const KvRig *kv, const KvRows *rows, const size_t *index, size_t n) {
    const size_t width = kv->kv_width;

    for (size_t i = 0; i < n; i++, timeline->n++) {
        memcpy(timeline->k + timeline->n * width, rows->k + index[i] * width, width * sizeof(float));
        memcpy(timeline->v + timeline->n * width, rows->v + index[i] * width, width * sizeof(float));
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void add_member(Batch *batch, const Member *member) {
    const Timeline *timeline = member->timeline;

    if (member->is_open)
        batch_add_open_tree(batch, timeline->blocks, timeline->side, timeline->n, member->parents, member->first,
                            member->n);
    else if (member->parents)
        batch_add_tree(batch, timeline->blocks, timeline->side, timeline->n, member->parents, member->n);
    else
        batch_add_chain(batch, timeline->blocks, timeline->n, member->n);
}

/* Checks that bytes outside the layer's planes are unchanged. */
static void same_beside(const KvRig *kv, const uint8_t *before, const void *block, size_t layer) {
    const KvLayer *at = &kv->layers[layer];
    const size_t begin = MIN(at->k_offset_bytes, at->v_offset_bytes), plane_bytes = align_64(kv_plane_bytes(kv)),
                 end = begin + 2 * plane_bytes;

    if (memcmp(before, block, begin) != 0 ||
        memcmp(before + end, (const uint8_t *)block + end, kv->block_bytes - end) != 0)
        fail_msg("a block of the cache was written beside the planes of the layer");
}

/* Checks that attention together with the device's queue gives the bits of the processors alone.
 * out f32[rows][q_width]; q: the queries. */
static void same_joint(KvRig *kv, const AttentionCall *call, const float *q, const float *out) {
    const size_t n = call->rows.n * kv->q_width;
    GUARDED joint = guarded_copy(q, n);
    AttentionCall other = *call;
    const uint64_t start_ns = clock_now_ns();
    BackendJointTime time;

    if (!kv->rig.ops->attention_joint)
        return;
    other.q = joint;
    kv->rig.ops->attention_joint(kv->rig.backend, &other, &time);
    guarded_check(joint, "joint attention");
    kv_same_rows(kv, joint, out, call->rows.n, "joint attention");
    assert_true(time.wait_ns + time.queue_ns <= clock_now_ns() - start_ns);
}

/* Runs rows of the batch. */
static void run_call(KvRig *kv, const Batch *batch, const KvRows *rows, size_t layer, BatchRange range, float *out) {
    const BackendOps *ops = kv->rig.ops;
    const size_t q_width = kv->q_width, width = kv->kv_width, first = range.first, n = range.n;
    GUARDED q = guarded_copy(rows->q + first * q_width, n * q_width);
    GUARDED k = guarded_copy(rows->k + first * width, n * width);
    GUARDED v = guarded_copy(rows->v + first * width, n * width);
    const BatchSequence *sequence = &batch->sequences[batch->rows[first].sequence];
    void *block = sequence->blocks[batch->rows[first].position / kv->positions];
    _cleanup_(freep) uint8_t *before = malloc(kv->block_bytes), *stored = malloc(kv->block_bytes);
    const AttentionCall call = { .batch = batch,
                                 .rows = range,
                                 .kv = kv->layers[layer],
                                 .q = q,
                                 .k = k,
                                 .v = v,
                                 .n_heads = kv->shape.n_heads,
                                 .window = kv->shape.window,
                                 .scale = kv->shape.scale,
                                 .balance = kv->balance,
                                 .soft_cap = kv->shape.soft_cap };

    assert_true(before && stored);
    memcpy(before, block, kv->block_bytes);
    ops->kv_store(kv->rig.backend, &call);
    same_beside(kv, before, block, layer);
    memcpy(stored, block, kv->block_bytes);
    ops->attention(kv->rig.backend, &call);
    same_joint(kv, &call, rows->q + first * q_width, q);
    if (memcmp(stored, block, kv->block_bytes) != 0)
        fail_msg("attention has written to a block of the cache");
    guarded_check(q, "attention");
    assert_memory_equal(k, rows->k + first * width, n * width * sizeof(*k));
    assert_memory_equal(v, rows->v + first * width, n * width * sizeof(*v));
    memcpy(out + first * q_width, q, n * q_width * sizeof(*q));
}

/* Collects the rows of all members, in the order of the batch. */
static void gather(const KvRig *kv, const Member *members, size_t n, KvRows *all) {
    for (size_t m = 0; m < n; m++) {
        const Member *member = &members[m];

        memcpy(all->q + all->n * kv->q_width, member->rows->q + member->first * kv->q_width,
               member->n * kv->q_width * sizeof(float));
        memcpy(all->k + all->n * kv->kv_width, member->rows->k + member->first * kv->kv_width,
               member->n * kv->kv_width * sizeof(float));
        memcpy(all->v + all->n * kv->kv_width, member->rows->v + member->first * kv->kv_width,
               member->n * kv->kv_width * sizeof(float));
        all->n += member->n;
    }
}

void members_run(KvRig *kv, Member *members, size_t n, size_t layer, size_t rows_a_call) {
    size_t n_rows = 0, n_earlier = 0;
    BatchSequence sequences[KV_MEMBERS_MAX];
    Batch batch = { .sequences = sequences };
    _cleanup_(kv_rows_deinit) KvRows all = { 0 };
    _cleanup_(freep) float *out = NULL;

    for (size_t m = 0; m < n; m++) {
        n_rows += members[m].n;
        n_earlier += members[m].is_open ? members[m].first : 0;
    }
    assert_true(n <= KV_MEMBERS_MAX && n_rows <= KV_ROWS_MAX);
    all.q = malloc(n_rows * kv->q_width * sizeof(float));
    all.k = malloc(n_rows * kv->kv_width * sizeof(float));
    all.v = malloc(n_rows * kv->kv_width * sizeof(float));
    out = malloc(n_rows * kv->q_width * sizeof(float));
    batch.rows = calloc(n_rows + n_earlier, sizeof(*batch.rows));
    assert_true(all.q && all.k && all.v && out && batch.rows);
    batch.earlier.first = n_rows;
    for (size_t m = 0; m < n; m++)
        add_member(&batch, &members[m]);
    gather(kv, members, n, &all);
    assert_int_equal(batch.n_rows, n_rows);
    for (size_t first = 0, rows; first < n_rows; first += rows) {
        rows = rows_a_call && rows_a_call < n_rows - first ? rows_a_call : n_rows - first;
        run_call(kv, &batch, &all, layer, (BatchRange){ first, rows }, out);
    }
    for (size_t m = 0, first = 0; m < n; first += members[m++].n) {
        members[m].out = malloc(members[m].n * kv->q_width * sizeof(float));
        assert_non_null(members[m].out);
        memcpy(members[m].out, out + first * kv->q_width, members[m].n * kv->q_width * sizeof(float));
    }
    free(batch.rows);
}

void members_free(Member *members, size_t n) {
    for (size_t m = 0; m < n; m++) {
        free(members[m].out);
        members[m].out = NULL;
    }
}

void timeline_append(Timeline *timeline, KvRig *kv, const KvRows *rows, size_t first, size_t n, size_t step,
                     size_t layer, float *out) {
    for (size_t at = 0, some; at < n; at += some) {
        Member member = { timeline, rows, .first = first + at, .n = some = MIN(n - at, step) };
        size_t index[KV_ROWS_MAX];

        members_run(kv, &member, 1, layer, 0);
        for (size_t i = 0; i < some; i++)
            index[i] = first + at + i;
        timeline_commit(timeline, kv, rows, index, some);
        if (out)
            memcpy(out + at * kv->q_width, member.out, some * kv->q_width * sizeof(float));
        members_free(&member, 1);
    }
}

void timeline_store(Timeline *timeline, const KvRig *kv, const KvRows *rows, size_t layer) {
    for (size_t first = 0, n; first < rows->n; first += n) {
        const size_t n_left = rows->n - first;
        BatchRow batch_rows[KV_ROWS_MAX];
        BatchSequence sequence;
        Batch batch = { .rows = batch_rows, .sequences = &sequence };
        size_t index[KV_ROWS_MAX];
        AttentionCall call;

        n = MIN(n_left, KV_ROWS_MAX);
        batch_add_chain(&batch, timeline->blocks, timeline->n, n);
        call = (AttentionCall){ .batch = &batch,
                                .rows = { 0, n },
                                .kv = kv->layers[layer],
                                .k = rows->k + first * kv->kv_width,
                                .v = rows->v + first * kv->kv_width,
                                .n_heads = kv->shape.n_heads,
                                .balance = kv->balance };
        kv->rig.ops->kv_store(kv->rig.backend, &call);
        for (size_t i = 0; i < n; i++)
            index[i] = first + i;
        timeline_commit(timeline, kv, rows, index, n);
    }
}

/* --- expected attention
 * --------------------------------------------------------------------------------------------- */

/* Returns the parent; -1: the row is the first of its tree or chain. */
static ptrdiff_t parent_of(const Member *member, size_t row) {
    if (member->is_open)
        return member->parents[row];
    if (member->parents)
        return member->parents[row - member->first] < 0 ? -1
                                                        : member->parents[row - member->first] + (int)member->first;
    return row > member->first ? (ptrdiff_t)row - 1 : -1;
}

size_t member_way(const Member *member, size_t row, size_t *index) {
    size_t n = 1;

    for (size_t at = row; parent_of(member, at) >= 0; at = (size_t)parent_of(member, at))
        n++;
    for (size_t i = n; i-- > 0; row = (size_t)parent_of(member, row))
        index[i] = row;
    return n;
}

/* Computes one query against all keys of its path; returns the greatest |value|. */
static double attend(const KvRig *kv, const Member *member, size_t row, size_t head, double *out) {
    const KvShape *shape = &kv->shape;
    const size_t hd = shape->head_size, at = head / (shape->n_heads / shape->n_kv_heads) * hd;
    const float *q = member->rows->q + row * kv->q_width + head * hd;
    size_t way[KV_ROWS_MAX];
    const size_t before = member->timeline->n, n = before + member_way(member, row, way),
                 first = shape->window && n > shape->window ? n - shape->window : 0;
    _cleanup_(freep) double *scores = malloc(n * sizeof(*scores));
    double max = -INFINITY, sum = 0, greatest = 0;

    assert_non_null(scores);
    for (size_t p = first; p < n; p++) {
        const float *k =
            (p < before ? member->timeline->k + p * kv->kv_width : member->rows->k + way[p - before] * kv->kv_width) +
            at;

        scores[p] = 0;
        for (size_t i = 0; i < hd; i++)
            scores[p] += (double)q[i] * (double)k[i];
        scores[p] *= (double)shape->scale;
        if (shape->soft_cap > 0)
            scores[p] = (double)shape->soft_cap * tanh(scores[p] / (double)shape->soft_cap);
        max = MAX(scores[p], max);
    }
    memset(out, 0, hd * sizeof(*out));
    for (size_t p = first; p < n; p++) {
        const float *v =
            (p < before ? member->timeline->v + p * kv->kv_width : member->rows->v + way[p - before] * kv->kv_width) +
            at;
        const double weight = exp(scores[p] - max);

        sum += weight;
        for (size_t i = 0; i < hd; i++) {
            out[i] += weight * (double)v[i];
            greatest = MAX(fabs((double)v[i]), greatest);
        }
    }
    for (size_t i = 0; i < hd; i++)
        out[i] /= sum;
    return greatest;
}

void member_expect(const KvRig *kv, const Member *member, const char *what) {
    const RowCase c = { .what = what };
    const size_t hd = kv->shape.head_size;
    double *exact = malloc(hd * sizeof(*exact));

    assert_non_null(exact);
    for (size_t r = 0; r < member->n; r++)
        for (size_t head = 0; head < kv->shape.n_heads; head++) {
            const double greatest = attend(kv, member, member->first + r, head, exact);

            for (size_t i = 0; i < hd; i++)
                rig_near(&c, r, head * hd + i, (double)member->out[r * kv->q_width + head * hd + i], exact[i],
                         kv->rig.suite->dut->attention_error * greatest);
        }
    free(exact);
}

void kv_same_rows(const KvRig *kv, const float *actual, const float *expected, size_t n, const char *what) {
    for (size_t i = 0; i < n * kv->q_width; i++)
        if (memcmp(&actual[i], &expected[i], sizeof(*actual)) != 0)
            fail_msg("%s: value %zu of row %zu is %a, not %a", what, i % kv->q_width, i / kv->q_width,
                     (double)actual[i], (double)expected[i]);
}
