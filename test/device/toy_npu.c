// SPDX-License-Identifier: Apache-2.0
#include "test/device/toy_npu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/borrowed_ops.h"
#include "quant/format/ggml_type.h"

struct BackendLinear {
    size_t n, k;
    AccountedBlock weights; /* f32[n][k] */
    float bias[];
};

static Backend *toy_npu_free(Backend *backend) {
    backend_free(backend->host);
    free(backend);
    return NULL;
}

static const char *toy_npu_kernel(const Backend *backend) {
    return "one product after the other";
}

static BackendLinear *toy_npu_linear_free(BackendLinear *linear) {
    if (linear)
        accounted_block_deinit(&linear->weights);
    free(linear);
    return NULL;
}

/* Weights are copied to the NPU's memory in its own form. */
static int toy_npu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    const size_t n_weights = source->n * source->k;
    BackendLinear *linear;

    if (!ggml_type_dequantizable(source->type))
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s': this NPU reads source GGUF files", source->name);
    linear = calloc(1, sizeof(*linear) + source->n * sizeof(float));
    if (!linear ||
        accounted_block_init(&linear->weights, backend->accounts, ACCOUNT_WEIGHTS, n_weights * sizeof(float))) {
        free(linear);
        return err_set(err, BACKEND_E_MEMORY, "tensor '%s': no memory for it", source->name);
    }
    linear->n = source->n;
    linear->k = source->k;
    ggml_dequantize(source->type, source->data, linear->weights.data, n_weights);
    if (source->bias)
        memcpy(linear->bias, source->bias, source->n * sizeof(float));
    *linearp = linear;
    return 0;
}

static int toy_npu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                          size_t rows, const LinearOutput *out, ErrText *err) {
    for (size_t m = 0; m < n; m++)
        for (size_t i = 0; i < rows * linears[m]->n; i++) {
            const size_t k = linears[m]->k, o = i % linears[m]->n;
            const float *x = in->x + i / linears[m]->n * k, *w = (const float *)linears[m]->weights.data + o * k;
            float sum = 0;

            for (size_t j = 0; j < k; j++)
                sum += x[j] * w[j];
            out->y[m][i] = sum + linears[m]->bias[o];
        }
    return 0;
}

static void toy_npu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                          float factor, float *y) {
    const float *weights = embedding->weights.data;

    for (size_t i = 0, k = embedding->k; i < rows * k; i++)
        y[i] = weights[tokens[i / k] * k + i % k] * factor;
}

static size_t toy_npu_kv_row_bytes(size_t head_size) {
    return head_size * sizeof(float);
}

static const BackendOps ops = { .name = "toy-npu",
                                .kv_type = "f32",
                                .kv_row_bytes = toy_npu_kv_row_bytes,
                                .kv_block_positions = 64,
                                .free = toy_npu_free,
                                .kernel = toy_npu_kernel,
                                .reserve = borrowed_reserve,
                                .linear_new = toy_npu_linear_new,
                                .linear_free = toy_npu_linear_free,
                                .linear = toy_npu_linear,
                                .embed = toy_npu_embed,
                                .shadow_counts = borrowed_shadow_counts,
                                BORROWED_OPERATORS };

static int toy_npu_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    Backend *host, *made;
    int r = backend_reference_new(&host, cpu, pool, accounts, err);

    if (r)
        return r;
    made = calloc(1, sizeof(*made));
    if (!made) {
        backend_free(host);
        return err_no_memory(err);
    }
    *made = (Backend){ .ops = &ops, .pool = pool, .accounts = accounts, .host = host };
    *backendp = made;
    return 0;
}

const DeviceUnderTest toy_npu_device = { .name = "toy-npu",
                                         .device = { "toy-npu", false, toy_npu_new, false },
                                         .takes = DEVICE_TAKES_SOURCE,
                                         .product_error = 2e-6,
                                         .row_error = 1e-6,
                                         .attention_error = 1e-5 };
