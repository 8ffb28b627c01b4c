// SPDX-License-Identifier: Apache-2.0
#include "test/device/toy_device.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/format/ggml_type.h"

#define POSITIONS 64 /* positions in a cache block */

struct BackendLinear {
    LinearSource source; /* source whose data stays in place */
    size_t row_bytes;
    float bias[];
};

typedef struct ToyBackend {
    Backend backend;
    AccountedBlock row; /* f32[width]: one row of weights */
} ToyBackend;

static Backend *toy_free(Backend *backend) {
    accounted_block_deinit(&((ToyBackend *)backend)->row);
    free(backend);
    return NULL;
}

static const char *toy_kernel(const Backend *backend) {
    return "plain loops";
}

static int toy_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    AccountedBlock *row = &((ToyBackend *)backend)->row;

    accounted_block_deinit(row);
    if (accounted_block_init(row, backend->accounts, ACCOUNT_ACTIVATIONS, shape->width * sizeof(float)))
        return err_set(err, BACKEND_E_MEMORY, "no memory for a row of %zu weights", shape->width);
    return 0;
}

static int toy_reserve_positions(Backend *backend, size_t n_positions, ErrText *err) {
    return 0;
}

static BackendLinear *toy_linear_free(BackendLinear *linear) {
    free(linear);
    return NULL;
}

static int toy_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    uint32_t block_values, block_bytes;
    BackendLinear *linear;

    if (!ggml_type_dequantizable(source->type) || !ggml_type_block(source->type, &block_values, &block_bytes))
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s': the toy device reads source GGUF files", source->name);
    linear = calloc(1, sizeof(*linear) + source->n * sizeof(float));
    if (!linear)
        return err_no_memory(err);
    linear->source = *source;
    linear->row_bytes = source->k / block_values * block_bytes;
    if (source->bias)
        memcpy(linear->bias, source->bias, source->n * sizeof(float));
    *linearp = linear;
    return 0;
}

static void weights_of(const BackendLinear *linear, size_t output, float *row) {
    ggml_dequantize(linear->source.type, (const uint8_t *)linear->source.data + output * linear->row_bytes, row,
                    linear->source.k);
}

static float dot(const float *a, const float *b, size_t n) {
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static int toy_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                      size_t rows, const LinearOutput *out, ErrText *err) {
    float *w = ((ToyBackend *)backend)->row.data;

    for (size_t m = 0; m < n; m++)
        for (size_t o = 0; o < linears[m]->source.n; o++) {
            weights_of(linears[m], o, w);
            for (size_t r = 0; r < rows; r++)
                out->y[m][r * linears[m]->source.n + o] =
                    dot(in->x + r * linears[m]->source.k, w, linears[m]->source.k) + linears[m]->bias[o];
        }
    return 0;
}

static void toy_shadow_counts(const Backend *backend, ShadowCounts *counts) {
    *counts = (ShadowCounts){ 0 };
}

static void toy_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                      float factor, float *y) {
    for (size_t r = 0; r < rows; r++, y += embedding->source.k) {
        weights_of(embedding, tokens[r], y);
        for (size_t i = 0; i < embedding->source.k; i++)
            y[i] *= factor;
    }
}

static void toy_norm(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n, float *y) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        const float scale = 1 / sqrtf(dot(x, x, n) / (float)n + eps);

        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scale * w[i];
    }
}

static void toy_layer_norm(Backend *backend, const float *x, const float *w, const float *bias, float eps, size_t rows,
                           size_t n, float *y) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float mean = 0, squares = 0;

        for (size_t i = 0; i < n; i++)
            mean += x[i] / (float)n;
        for (size_t i = 0; i < n; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) / sqrtf(squares / (float)n + eps) * w[i] + bias[i];
    }
}

static void toy_rope(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                     size_t head_size, size_t n_rot, bool neox) {
    const size_t half = n_rot / 2;

    for (size_t r = 0; r < rows * n_heads; r++, x += head_size)
        for (size_t i = 0; i < half; i++) {
            float *a = &x[neox ? i : 2 * i], *b = &x[neox ? i + half : 2 * i + 1];
            const float c = cos[r / n_heads * half + i], s = sin[r / n_heads * half + i], was = *a;

            *a = was * c - *b * s;
            *b = was * s + *b * c;
        }
}

/* Returns the keys or values of a position: those of all heads, side by side. */
static float *cache_row(void *block, size_t offset_bytes, size_t position, size_t width) {
    return (float *)((uint8_t *)block + offset_bytes) + position * width;
}

static size_t toy_kv_row_bytes(size_t head_size) {
    return head_size * sizeof(float);
}

/* Returns the keys or values of a row of the batch. */
static float *kv_row(const AttentionCall *call, const BatchRow *row, size_t offset_bytes) {
    const BatchSequence *sequence = &call->batch->sequences[row->sequence];
    const bool in_place = row->slot == BATCH_IN_PLACE;

    return cache_row(in_place ? sequence->blocks[row->position / POSITIONS] : sequence->side, offset_bytes,
                     in_place ? row->position % POSITIONS : (size_t)row->slot,
                     call->kv.n_kv_heads * call->kv.head_size);
}

static void toy_kv_store(Backend *backend, const AttentionCall *call) {
    const size_t width = call->kv.n_kv_heads * call->kv.head_size;

    for (size_t r = 0; r < call->rows.n; r++) {
        const BatchRow *row = &call->batch->rows[call->rows.first + r];

        memcpy(kv_row(call, row, call->kv.k_offset_bytes), call->k + r * width, width * sizeof(float));
        memcpy(kv_row(call, row, call->kv.v_offset_bytes), call->v + r * width, width * sizeof(float));
    }
}

/* Goes from the last position to the first: along the parents as long as rows have slots, then down the cache. Sums are
 * scaled down when a greater score comes. */
static void attend(const AttentionCall *call, const BatchRow *row, size_t kv_head, float *q) {
    const size_t hd = call->kv.head_size, last = row->position;
    float out[1024] = { 0 }, max = -INFINITY, sum = 0;

    for (size_t seen = 0; seen <= last && (!call->window || seen < call->window); seen++) {
        const BatchRow at =
            row->slot == BATCH_IN_PLACE
                ? (BatchRow){ .position = (uint32_t)(last - seen), .sequence = row->sequence, .slot = BATCH_IN_PLACE }
                : *row;
        const float plain = dot(q, kv_row(call, &at, call->kv.k_offset_bytes) + kv_head * hd, hd) * call->scale;
        const float score = call->soft_cap > 0 ? call->soft_cap * tanhf(plain / call->soft_cap) : plain;
        const float *v = kv_row(call, &at, call->kv.v_offset_bytes) + kv_head * hd;
        const float most = MAX(score, max), shrink = expf(max - most), weight = expf(score - most);

        for (size_t i = 0; i < hd; i++)
            out[i] = out[i] * shrink + v[i] * weight;
        sum = sum * shrink + weight;
        max = most;
        if (row->slot != BATCH_IN_PLACE)
            row = &call->batch->rows[row->parent];
    }
    for (size_t i = 0; i < hd; i++)
        q[i] = out[i] / sum;
}

static void toy_attention(Backend *backend, const AttentionCall *call) {
    for (size_t i = 0; i < call->rows.n * call->n_heads; i++)
        attend(call, &call->batch->rows[call->rows.first + i / call->n_heads],
               i % call->n_heads / (call->n_heads / call->kv.n_kv_heads), call->q + i * call->kv.head_size);
}

static void toy_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    const size_t width = layer->n_kv_heads * layer->head_size,
                 offsets[] = { layer->k_offset_bytes, layer->v_offset_bytes };

    for (size_t i = 0; i < 2 * n_moves; i++) {
        const KvMove *move = &moves[i / 2];

        memcpy(cache_row(move->to, offsets[i % 2], move->to_position, width),
               cache_row(move->from, offsets[i % 2], move->from_position, width), width * sizeof(float));
    }
}

static void toy_activate(Backend *backend, float *x, size_t rows, size_t n, bool gelu) {
    for (size_t i = 0; i < rows * n; i++) {
        const float a = x[i];

        x[i] = gelu ? 0.5f * a * (1 + tanhf(0.79788456f * (a + 0.044715f * a * a * a))) : a / (1 + expf(-a));
    }
}

static void toy_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    toy_activate(backend, gate, rows, n, gelu);
    for (size_t i = 0; i < rows * n; i++)
        gate[i] *= up[i];
}

static void toy_add(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    for (size_t i = 0; i < rows * n; i++)
        x[i] += y[i];
}

static const BackendOps ops = {
    .name = "toy",
    .kv_type = "f32",
    .kv_row_bytes = toy_kv_row_bytes,
    .kv_block_positions = POSITIONS,
    .free = toy_free,
    .kernel = toy_kernel,
    .reserve = toy_reserve,
    .reserve_positions = toy_reserve_positions,
    .linear_new = toy_linear_new,
    .linear_free = toy_linear_free,
    .linear = toy_linear,
    .shadow_counts = toy_shadow_counts,
    .embed = toy_embed,
    .norm = toy_norm,
    .layer_norm = toy_layer_norm,
    .rope = toy_rope,
    .kv_store = toy_kv_store,
    .attention = toy_attention,
    .kv_move = toy_kv_move,
    .gated = toy_gated,
    .activate = toy_activate,
    .add = toy_add,
};

const BackendOps *toy_ops(void) {
    return &ops;
}

int toy_device_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    ToyBackend *made = calloc(1, sizeof(*made));

    if (!made)
        return err_no_memory(err);
    made->backend = (Backend){ .ops = &ops, .pool = pool, .accounts = accounts };
    *backendp = &made->backend;
    return 0;
}

const DeviceUnderTest toy_device = {
    .name = "toy",
    .device = { "toy", false, toy_device_new, false },
    .takes = DEVICE_TAKES_SOURCE,
    .product_error = 2e-6,
    .row_error = 1e-6,
    .attention_error = 1e-5,
    .keeps_source = true,
};
