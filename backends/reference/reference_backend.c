/*
 * The reference device: weights dequantized to float32, plain loops, a float32 KV cache. It is slow and it is the
 * yardstick: what it gives is held against an independent float64 implementation, and the int8 path is judged beside
 * it. Nothing here is shared with the kernels of the cpu device.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/cleanup.h"
#include "quant/ggml_type.h"

#define LANES 16 /* partial sums of a dot product: the compiler may vectorise the loop without changing a bit */

struct BackendLinear {
    size_t n, k;
    uint32_t type;
    size_t row_bytes;
    const uint8_t *data; /* in the mapped model file */
    float *bias;         /* [n] or NULL */
};

typedef struct ReferenceBackend {
    Backend backend;
    AccountedBlock rows; /* f32[n_threads][width]: one dequantized weight row a thread */
    size_t width;
    AccountedBlock scores; /* f32[n_threads][n_positions] */
    size_t n_positions;
} ReferenceBackend;

static ReferenceBackend *reference(Backend *backend) {
    return (ReferenceBackend *)backend;
}

static float dot(const float *a, const float *b, size_t n) {
    float partial[LANES] = { 0 }, sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            partial[lane] += a[i + lane] * b[i + lane];
    for (; i < n; i++)
        partial[i % LANES] += a[i] * b[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += partial[lane];
    return sum;
}

static Backend *reference_free(Backend *backend) {
    accounted_block_deinit(&reference(backend)->rows);
    accounted_block_deinit(&reference(backend)->scores);
    free(backend);
    return NULL;
}

static const char *reference_kernel(const Backend *backend) {
    return "float32 loops";
}

static int reserve_block(Backend *backend, AccountedBlock *block, size_t values, ErrText *err) {
    size_t n_threads = worker_pool_n_threads(backend->pool), len_bytes = n_threads * values * sizeof(float);

    if (block->len_bytes >= len_bytes)
        return 0;
    accounted_block_deinit(block);
    if (accounted_block_init(block, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes))
        return err_set(err, BACKEND_E_MEMORY, "no memory for %zu bytes of scratch", len_bytes);
    return 0;
}

static int reference_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    reference(backend)->width = shape->width;
    return reserve_block(backend, &reference(backend)->rows, shape->width, err);
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
        return err_set(err, -ENOMEM, "out of memory");
    linear->n = source->n;
    linear->k = source->k;
    linear->type = source->type;
    linear->row_bytes = source->k / block_values * block_bytes;
    linear->data = source->data;
    if (source->bias) {
        linear->bias = malloc(source->n * sizeof(float));
        if (!linear->bias)
            return err_set(err, -ENOMEM, "out of memory");
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

/* Each weight row is dequantized once and meets all rows of the call. */
static void linear_outputs(void *arg, size_t begin, size_t end, unsigned int worker) {
    const LinearLoop *loop = arg;
    const BackendLinear *linear = loop->linear;
    float *w = (float *)loop->reference->rows.data + worker * loop->reference->width;

    for (size_t o = begin; o < end; o++) {
        ggml_dequantize(linear->type, linear->data + o * linear->row_bytes, w, linear->k);
        for (size_t r = 0; r < loop->rows; r++) {
            float y = dot(loop->x + r * linear->k, w, linear->k);

            loop->y[r * linear->n + o] = linear->bias ? y + linear->bias[o] : y;
        }
    }
}

static void reference_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x,
                             size_t rows, float *const *y) {
    for (size_t i = 0; i < n; i++) {
        LinearLoop loop = { .reference = reference(backend), .linear = linears[i], .x = x, .rows = rows, .y = y[i] };

        worker_pool_run(backend->pool, linear_outputs, &loop, linears[i]->n, 16);
    }
}

static void reference_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                            float factor, float *y) {
    for (size_t r = 0; r < rows; r++, y += embedding->k) {
        ggml_dequantize(embedding->type, embedding->data + tokens[r] * embedding->row_bytes, y, embedding->k);
        for (size_t i = 0; factor != 1 && i < embedding->k; i++)
            y[i] *= factor;
    }
}

static void reference_norm(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n,
                           float *y) {
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float scale = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);

        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scale * w[i];
    }
}

static void reference_rope(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                           size_t head_size, size_t n_rot, bool neox) {
    size_t half = n_rot / 2;

    for (size_t r = 0; r < rows; r++, cos += half, sin += half)
        for (size_t h = 0; h < n_heads; h++, x += head_size)
            for (size_t i = 0; i < half; i++) {
                float *a = neox ? x + i : x + 2 * i, *b = neox ? x + i + half : a + 1;
                float a0 = *a, b0 = *b;

                *a = a0 * cos[i] - b0 * sin[i];
                *b = a0 * sin[i] + b0 * cos[i];
            }
}

typedef struct AttentionLoop {
    ReferenceBackend *reference;
    const AttentionCall *call;
} AttentionLoop;

/* Index of the loop: row * n_heads + head. */
static void attention_heads(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionLoop *loop = arg;
    const AttentionCall *call = loop->call;
    float *scores = (float *)loop->reference->scores.data + worker * loop->reference->n_positions;
    size_t hd = call->head_size, stride = call->n_kv_heads * hd, group = call->n_heads / call->n_kv_heads;

    for (size_t index = begin; index < end; index++) {
        size_t last = call->position + index / call->n_heads, head = index % call->n_heads;
        size_t first = call->window && last >= call->window ? last + 1 - call->window : 0;
        const float *k = (const float *)call->k_cache + head / group * hd;
        const float *v = (const float *)call->v_cache + head / group * hd;
        float *q = call->q + index * hd, max = -INFINITY, sum = 0;

        for (size_t j = first; j <= last; j++) {
            scores[j] = dot(q, k + j * stride, hd) * call->scale;
            max = fmaxf(max, scores[j]);
        }
        for (size_t j = first; j <= last; j++) {
            scores[j] = expf(scores[j] - max);
            sum += scores[j];
        }
        memset(q, 0, hd * sizeof(*q));
        for (size_t j = first; j <= last; j++)
            for (size_t i = 0; i < hd; i++)
                q[i] += scores[j] / sum * v[j * stride + i];
    }
}

static void reference_attention(Backend *backend, const AttentionCall *call) {
    AttentionLoop loop = { .reference = reference(backend), .call = call };
    size_t width = call->n_kv_heads * call->head_size, n_values = call->rows * width;

    assert(call->position + call->rows <= loop.reference->n_positions);
    memcpy((float *)call->k_cache + call->position * width, call->k, n_values * sizeof(float));
    memcpy((float *)call->v_cache + call->position * width, call->v, n_values * sizeof(float));
    worker_pool_run(backend->pool, attention_heads, &loop, call->rows * call->n_heads, 1);
}

static void reference_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    for (size_t i = 0; i < rows * n; i++) {
        float a = gate[i];

        if (gelu)
            gate[i] = 0.5f * a * (1.0f + tanhf(0.79788456080286536f * (a + 0.044715f * a * a * a))) * up[i];
        else
            gate[i] = a / (1.0f + expf(-a)) * up[i];
    }
}

static void reference_add(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    for (size_t i = 0; i < rows * n; i++)
        x[i] += y[i];
}

static const BackendOps reference_ops = {
    .name = "reference",
    .kv_type = "f32",
    .kv_element_bytes = sizeof(float),
    .free = reference_free,
    .kernel = reference_kernel,
    .reserve = reference_reserve,
    .reserve_positions = reference_reserve_positions,
    .linear_new = reference_linear_new,
    .linear_free = reference_linear_free,
    .linear = reference_linear,
    .embed = reference_embed,
    .norm = reference_norm,
    .rope = reference_rope,
    .attention = reference_attention,
    .gated = reference_gated,
    .add = reference_add,
};

int backend_reference_new(Backend **backendp, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    ReferenceBackend *made = calloc(1, sizeof(*made));

    if (!made)
        return err_set(err, -ENOMEM, "out of memory");
    made->backend = (Backend){ .ops = &reference_ops, .pool = pool, .accounts = accounts };
    *backendp = &made->backend;
    return 0;
}
