// SPDX-License-Identifier: Apache-2.0
/* The reference device dequantizes weights to float32 at every use, multiplies in float loops (float_loops.h) and keeps
 * a float32 KV cache. Its results are compared with an independent float64 implementation, and the int8 path is
 * compared with them. The device shares nothing with the kernels of the cpu device. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/reference/float_loops.h"
#include "base/cleanup.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "quant/format/ggml_type.h"

#define PANEL 16         /* weight rows dequantized at a time: they stay in the second-level cache */
#define KV_POSITIONS 64  /* positions in a cache block */
#define VALUES_EACH 4096 /* values per range of an elementwise operator: fewer are not worth waking a thread */

struct BackendLinear {
    size_t n, k;
    uint32_t type;
    size_t row_bytes;
    const uint8_t *data; /* in the mapped model file */
    float *bias;         /* [n] or NULL */
};

typedef struct ReferenceBackend {
    Backend backend;
    const FloatLoops *loops;
    AccountedBlock panels; /* f32[n_threads][PANEL][width]: dequantized weight rows */
    size_t width;
    AccountedBlock scores; /* f32[n_threads][n_positions] */
    size_t n_positions;
} ReferenceBackend;

static ReferenceBackend *reference(Backend *backend) {
    return (ReferenceBackend *)backend;
}

static Backend *reference_free(Backend *backend) {
    accounted_block_deinit(&reference(backend)->panels);
    accounted_block_deinit(&reference(backend)->scores);
    free(backend);
    return NULL;
}

static const char *reference_kernel(const Backend *backend) {
    return ((const ReferenceBackend *)backend)->loops->name;
}

static int reserve_block(Backend *backend, AccountedBlock *block, size_t values, ErrText *err) {
    size_t n_threads = worker_pool_n_threads(backend->pool), len_bytes = n_threads * values * sizeof(float);
    int r;

    if (block->len_bytes >= len_bytes)
        return 0;
    accounted_block_deinit(block);
    r = accounted_block_init(block, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes);
    return r ? account_refused(err, BACKEND_E_MEMORY, r, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes,
                               "the scratch of operators")
             : 0;
}

static int reference_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    reference(backend)->width = shape->width;
    return reserve_block(backend, &reference(backend)->panels, PANEL * shape->width, err);
}

static int reference_reserve_positions(Backend *backend, size_t n_positions, ErrText *err) {
    int r;

    if (n_positions <= reference(backend)->n_positions)
        return 0;
    reference(backend)->n_positions = 0;
    r = reserve_block(backend, &reference(backend)->scores, n_positions, err);
    if (!r)
        reference(backend)->n_positions = n_positions;
    return r;
}

static BackendLinear *reference_linear_free(BackendLinear *linear) {
    if (linear) {
        free(linear->bias);
        free(linear);
    }
    return NULL;
}
DEFINE_CLEANUP(BackendLinear, reference_linear_free)

static int reference_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    _cleanup_(reference_linear_freep) BackendLinear *linear = NULL;
    uint32_t block_values, block_bytes;

    if (!ggml_type_dequantizable(source->type) || !ggml_type_block(source->type, &block_values, &block_bytes))
        return err_set(err, BACKEND_E_WEIGHTS,
                       "tensor '%s' has type %s: the reference device reads source GGUF files, not packages",
                       source->name, ggml_type_name(source->type) ? ggml_type_name(source->type) : "?");
    linear = calloc(1, sizeof(*linear));
    if (!linear)
        return err_no_memory(err);
    linear->n = source->n;
    linear->k = source->k;
    linear->type = source->type;
    linear->row_bytes = source->k / block_values * block_bytes;
    linear->data = source->data;
    if (source->bias) {
        linear->bias = malloc(source->n * sizeof(float));
        if (!linear->bias)
            return err_no_memory(err);
        memcpy(linear->bias, source->bias, source->n * sizeof(float));
    }
    *linearp = steal(&linear);
    return 0;
}

typedef struct LinearLoop {
    ReferenceBackend *reference;
    const BackendLinear *linear;
    const float *x;
    size_t rows;
    float *y;
} LinearLoop;

/* Each weight row is dequantized once and multiplied with all rows of the call. */
static void linear_outputs(void *arg, size_t begin, size_t end, unsigned int worker) {
    const LinearLoop *loop = arg;
    const BackendLinear *linear = loop->linear;
    const FloatLoops *loops = loop->reference->loops;
    float *panel = (float *)loop->reference->panels.data + worker * PANEL * loop->reference->width;

    for (size_t o = begin; o < end; o += PANEL) {
        size_t n = MIN(end - o, PANEL);

        for (size_t i = 0; i < n; i++)
            ggml_dequantize(linear->type, linear->data + (o + i) * linear->row_bytes, panel + i * linear->k, linear->k);
        loops->products(loop->x, linear->k, loop->rows, panel, linear->k, n, linear->k, loop->y + o, linear->n);
        for (size_t r = 0; linear->bias && r < loop->rows; r++)
            for (size_t i = o; i < o + n; i++)
                loop->y[r * linear->n + i] += linear->bias[i];
    }
}

static int reference_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                            size_t rows, const LinearOutput *out, ErrText *err) {
    assert(!in->norm && !in->stream && !out->gate); /* the device's table says that it does not fuse */
    for (size_t i = 0; i < n; i++) {
        LinearLoop loop = {
            .reference = reference(backend), .linear = linears[i], .x = in->x, .rows = rows, .y = out->y[i]
        };

        worker_pool_run(backend->pool, linear_outputs, &loop, linears[i]->n, PANEL);
    }
    return 0;
}

static void reference_shadow_counts(const Backend *backend, ShadowCounts *counts) {
    *counts = (ShadowCounts){ 0 };
}

static void reference_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                            float factor, float *y) {
    for (size_t r = 0; r < rows; r++, y += embedding->k) {
        ggml_dequantize(embedding->type, embedding->data + tokens[r] * embedding->row_bytes, y, embedding->k);
        for (size_t i = 0; factor != 1 && i < embedding->k; i++)
            y[i] *= factor;
    }
}

/* Row-wise operators, whose rows are split over the pool. */
typedef struct RowLoop {
    const FloatLoops *loops;
    const float *x, *w, *bias, *cos, *sin;
    float *y;
    size_t n; /* values of a row */
    size_t n_heads, head_size, half;
    float eps;
    bool flag; /* neox, gelu */
} RowLoop;

static void run_rows(Backend *backend, WorkerFn *fn, RowLoop *loop, size_t rows) {
    size_t grain = VALUES_EACH / (loop->n ? loop->n : 1);

    loop->loops = reference(backend)->loops;
    worker_pool_run(backend->pool, fn, loop, rows, grain ? grain : 1);
}

static void norm_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RowLoop *loop = arg;

    for (size_t r = begin; r < end; r++) {
        const float *x = loop->x + r * loop->n;
        float *y = loop->y + r * loop->n, squares, scale;

        loop->loops->products(x, loop->n, 1, x, loop->n, 1, loop->n, &squares, 1);
        scale = 1.0f / sqrtf(squares / (float)loop->n + loop->eps);
        for (size_t i = 0; i < loop->n; i++)
            y[i] = x[i] * scale * loop->w[i];
    }
}

static void reference_norm(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n,
                           float *y) {
    RowLoop loop = { .x = x, .w = w, .eps = eps, .n = n, .y = y };

    run_rows(backend, norm_rows, &loop, rows);
}

static void layer_norm_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RowLoop *loop = arg;

    for (size_t r = begin; r < end; r++) {
        const float *x = loop->x + r * loop->n;
        float *y = loop->y + r * loop->n, squares, scale;
        double sum = 0;

        for (size_t i = 0; i < loop->n; i++)
            sum += (double)x[i];
        for (size_t i = 0; i < loop->n; i++)
            y[i] = x[i] - (float)(sum / (double)loop->n);
        loop->loops->products(y, loop->n, 1, y, loop->n, 1, loop->n, &squares, 1);
        scale = 1.0f / sqrtf(squares / (float)loop->n + loop->eps);
        for (size_t i = 0; i < loop->n; i++)
            y[i] = y[i] * scale * loop->w[i] + loop->bias[i];
    }
}

static void reference_layer_norm(Backend *backend, const float *x, const float *w, const float *bias, float eps,
                                 size_t rows, size_t n, float *y) {
    RowLoop loop = { .x = x, .w = w, .bias = bias, .eps = eps, .n = n, .y = y };

    run_rows(backend, layer_norm_rows, &loop, rows);
}

static void rope_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RowLoop *loop = arg;

    for (size_t r = begin; r < end; r++) {
        const float *cos = loop->cos + r * loop->half, *sin = loop->sin + r * loop->half;
        float *x = loop->y + r * loop->n;

        for (size_t h = 0; h < loop->n_heads; h++, x += loop->head_size)
            for (size_t i = 0; i < loop->half; i++) {
                float *a = loop->flag ? x + i : x + 2 * i, *b = loop->flag ? x + i + loop->half : a + 1;
                float a0 = *a, b0 = *b;

                *a = a0 * cos[i] - b0 * sin[i];
                *b = a0 * sin[i] + b0 * cos[i];
            }
    }
}

static void reference_rope(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                           size_t head_size, size_t n_rot, bool neox) {
    RowLoop loop = {
        .y = x,
        .cos = cos,
        .sin = sin,
        .n = n_heads * head_size,
        .n_heads = n_heads,
        .head_size = head_size,
        .half = n_rot / 2,
        .flag = neox,
    };

    run_rows(backend, rope_rows, &loop, rows);
}

typedef struct AttentionLoop {
    ReferenceBackend *reference;
    const AttentionCall *call;
} AttentionLoop;

/* Returns the keys or values of one position of a block. */
static float *block_row(void *block, size_t offset_bytes, size_t position, size_t width) {
    return (float *)((uint8_t *)block + offset_bytes) + position * width;
}

/* The positions [first, last] that a row reads. Positions from `side` on belong to its ancestors in the side block. */
typedef struct RowPath {
    const BatchSequence *sequence;
    size_t first, last, side;
    int16_t slots[BATCH_SLOTS_MAX];
} RowPath;

static RowPath row_path(const AttentionCall *call, size_t index) {
    const BatchRow *rows = call->batch->rows;
    const size_t last = rows[index].position;
    RowPath path = { .sequence = &call->batch->sequences[rows[index].sequence],
                     .first = call->window && last >= call->window ? last + 1 - call->window : 0,
                     .last = last,
                     .side = last + 1 - batch_side_rows(call->batch, index) };

    for (size_t at = index; rows[at].slot != BATCH_IN_PLACE; at = rows[at].parent)
        path.slots[rows[at].position - path.side] = rows[at].slot;
    return path;
}

/* Returns the keys or values of a position on the path, and the number of contiguous positions from there. */
static float *path_row(const AttentionCall *call, const RowPath *path, size_t offset_bytes, size_t position,
                       size_t *n_positionsp) {
    const size_t width = call->kv.n_kv_heads * call->kv.head_size, in_block = position % KV_POSITIONS;
    size_t end = position - in_block + KV_POSITIONS;

    if (position >= path->side) {
        *n_positionsp = 1;
        return block_row(path->sequence->side, offset_bytes, (size_t)path->slots[position - path->side], width);
    }
    end = MIN(end, path->side);
    *n_positionsp = end - position;
    return block_row(path->sequence->blocks[position / KV_POSITIONS], offset_bytes, in_block, width);
}

/* Attends for a range of loop indices: row * n_heads + head. */
static void attention_heads(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionLoop *loop = arg;
    const AttentionCall *call = loop->call;
    const FloatLoops *loops = loop->reference->loops;
    float *scores = (float *)loop->reference->scores.data + worker * loop->reference->n_positions;
    size_t hd = call->kv.head_size, stride = call->kv.n_kv_heads * hd, group = call->n_heads / call->kv.n_kv_heads;

    for (size_t index = begin; index < end; index++) {
        const RowPath path = row_path(call, call->rows.first + index / call->n_heads);
        const size_t kv_head = index % call->n_heads / group, first = path.first, last = path.last,
                     n = last + 1 - first;
        float *q = call->q + index * hd, max = -INFINITY, sum = 0;

        for (size_t at = first, step; at <= last; at += step) {
            const float *keys = path_row(call, &path, call->kv.k_offset_bytes, at, &step) + kv_head * hd;

            loops->products(q, hd, 1, keys, stride, step, hd, scores + (at - first), step);
        }
        for (size_t j = 0; j < n; j++) {
            scores[j] *= call->scale;
            if (call->soft_cap > 0)
                scores[j] = call->soft_cap * tanhf(scores[j] / call->soft_cap);
            max = MAX(scores[j], max);
        }
        for (size_t j = 0; j < n; j++) {
            scores[j] = expf(scores[j] - max);
            sum += scores[j];
        }
        for (size_t j = 0; j < n; j++)
            scores[j] /= sum;
        for (size_t at = first, step; at <= last; at += step) {
            const float *values = path_row(call, &path, call->kv.v_offset_bytes, at, &step) + kv_head * hd;

            loops->mix(scores + (at - first), step, values, stride, hd, at == first, q);
        }
    }
}

static size_t reference_kv_row_bytes(size_t head_size) {
    return head_size * sizeof(float);
}

static void reference_kv_store(Backend *backend, const AttentionCall *call) {
    const size_t width = call->kv.n_kv_heads * call->kv.head_size;

    for (size_t r = 0; r < call->rows.n; r++) {
        const BatchRow *row = &call->batch->rows[call->rows.first + r];
        const BatchSequence *sequence = &call->batch->sequences[row->sequence];
        const bool in_place = row->slot == BATCH_IN_PLACE;
        void *block = in_place ? sequence->blocks[row->position / KV_POSITIONS] : sequence->side;
        const size_t at = in_place ? row->position % KV_POSITIONS : (size_t)row->slot;

        memcpy(block_row(block, call->kv.k_offset_bytes, at, width), call->k + r * width, width * sizeof(float));
        memcpy(block_row(block, call->kv.v_offset_bytes, at, width), call->v + r * width, width * sizeof(float));
    }
}

static void reference_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    const size_t width = layer->n_kv_heads * layer->head_size,
                 offsets[] = { layer->k_offset_bytes, layer->v_offset_bytes };

    for (size_t i = 0; i < n_moves; i++)
        for (size_t plane = 0; plane < ARRAY_LEN(offsets); plane++)
            memcpy(block_row(moves[i].to, offsets[plane], moves[i].to_position, width),
                   block_row(moves[i].from, offsets[plane], moves[i].from_position, width), width * sizeof(float));
}

static void reference_attention(Backend *backend, const AttentionCall *call) {
    AttentionLoop loop = { .reference = reference(backend), .call = call };

    for (size_t r = 0; r < call->rows.n; r++)
        assert(call->batch->rows[call->rows.first + r].position < loop.reference->n_positions);
    worker_pool_run(backend->pool, attention_heads, &loop, call->rows.n * call->n_heads, 1);
}

static float activation(float a, bool gelu) {
    return gelu ? 0.5f * a * (1.0f + tanhf(0.79788456080286536f * (a + 0.044715f * a * a * a))) : a / (1.0f + expf(-a));
}

static void gated_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RowLoop *loop = arg;

    for (size_t i = begin * loop->n; i < end * loop->n; i++)
        loop->y[i] = activation(loop->y[i], loop->flag) * loop->x[i];
}

static void activate_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RowLoop *loop = arg;

    for (size_t i = begin * loop->n; i < end * loop->n; i++)
        loop->y[i] = activation(loop->y[i], loop->flag);
}

static void reference_activate(Backend *backend, float *x, size_t rows, size_t n, bool gelu) {
    RowLoop loop = { .y = x, .n = n, .flag = gelu };

    run_rows(backend, activate_rows, &loop, rows);
}

static void reference_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    RowLoop loop = { .y = gate, .x = up, .n = n, .flag = gelu };

    run_rows(backend, gated_rows, &loop, rows);
}

static void add_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RowLoop *loop = arg;

    for (size_t i = begin * loop->n; i < end * loop->n; i++)
        loop->y[i] += loop->x[i];
}

static void reference_add(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    RowLoop loop = { .y = x, .x = y, .n = n };

    run_rows(backend, add_rows, &loop, rows);
}

static const BackendOps reference_ops = {
    .name = "reference",
    .kv_type = "f32",
    .kv_row_bytes = reference_kv_row_bytes,
    .kv_block_positions = KV_POSITIONS,
    .free = reference_free,
    .kernel = reference_kernel,
    .reserve = reference_reserve,
    .reserve_positions = reference_reserve_positions,
    .linear_new = reference_linear_new,
    .linear_free = reference_linear_free,
    .linear = reference_linear,
    .shadow_counts = reference_shadow_counts,
    .embed = reference_embed,
    .norm = reference_norm,
    .layer_norm = reference_layer_norm,
    .rope = reference_rope,
    .kv_store = reference_kv_store,
    .attention = reference_attention,
    .kv_move = reference_kv_move,
    .gated = reference_gated,
    .activate = reference_activate,
    .add = reference_add,
};

int backend_reference_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    ReferenceBackend *made = calloc(1, sizeof(*made));

    if (!made)
        return err_no_memory(err);
    made->backend = (Backend){ .ops = &reference_ops, .pool = pool, .accounts = accounts };
    made->loops = float_loops_select(cpu);
    *backendp = &made->backend;
    return 0;
}
