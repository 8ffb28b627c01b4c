// SPDX-License-Identifier: Apache-2.0
/* Recorded bits of the number contract: fixed inputs, and a hash of each operator's output. The other tests compare the
 * kernels of one machine with each other; this one compares machines, compilers and architectures. A hash changes only
 * together with the contract itself, and existing packages and sessions change then, too. */
#include "test/unit/backends/cpu/attention_fixture.h"

#include "backends/cpu/int8/int8_product.h"
#include "backends/numeric/exp_row.h"
#include "backends/numeric/rope_table.h"
#include "engine/sampling/sampler.h"
#include "quant/bit_allocation.h"
#include "quant/relative_error.h"
#include "quant/rotate.h"
#include "quant/rounding/round.h"
#include "quant/rounding/scale_search.h"
#include "quant/smoothing.h"
#include "test/unit/fixtures/golden_hash.h"

static void expect_hash(const char *build, const char *what, uint64_t hash, uint64_t expected) {
    if (hash != expected)
        fail_msg("%s, %s: 0x%016llx, expected 0x%016llx", build, what, (unsigned long long)hash,
                 (unsigned long long)expected);
}

static float x[N_MAX], y[N_MAX], out[N_MAX];

/* Returns the same numbers in every test and for every build. */
static void inputs(float range) {
    row_ops_seed = 77;
    fill(x, N_MAX, range);
    fill(y, N_MAX, 2);
}

static void test_golden_bits_sums(void **state) {
    EACH_BUILD (ops) {
        uint64_t dots = HASH_START, norms = HASH_START;

        inputs(5);
        for (size_t n = 1; n <= N_MAX; n += 31) {
            float sum = ops->dot(x, y, n);

            dots = hash_of(dots, &sum, sizeof(sum));
            ops->rms_norm(x, y, 1e-5f, n, out);
            norms = hash_of(norms, out, n * sizeof(*out));
        }
        expect_hash(ops->name, "dot", dots, 0x255c934aa53bbe8d);
        expect_hash(ops->name, "rms_norm", norms, 0xadad050d5cfe85dc);
    }
}

/* The exponential of all magnitudes of both signs, and of values with subnormal results. */
static void test_golden_bits_exp(void **state) {
    for (size_t b = 0; b < exp_row_n(); b++) {
        const ExpRow *build = exp_row_at(b);
        uint64_t hash = HASH_START;

        if (build->need & ~cpu_features())
            continue;

        row_ops_seed = 78;
        for (int round = 0; round < 200; round++) {
            for (size_t i = 0; i < N_MAX; i++) {
                const uint32_t bits = draw();

                x[i] = round % 2 ? draw_float(105) : f32_from_bits((bits & 0x7f800000) == 0x7f800000 ? 0 : bits);
            }
            build->exp(x, N_MAX, out);
            hash = hash_of(hash, out, sizeof(out));
        }
        expect_hash(build->name, "exp", hash, 0x97e2cb9e382da866);
    }
}

static void test_golden_bits_gates(void **state) {
    EACH_BUILD (ops) {
        inputs(20);
        ops->silu_mul(x, y, N_MAX, out);
        expect_hash(ops->name, "silu_mul", hash_of(HASH_START, out, sizeof(out)), 0x164e7e76047290c2);
        ops->gelu_mul(x, y, N_MAX, out);
        expect_hash(ops->name, "gelu_mul", hash_of(HASH_START, out, sizeof(out)), 0x9e7e532ef0a41f80);
    }
}

/* Cosine and sine of far positions, and heads rotated by them. */
static void test_golden_bits_rope(void **state) {
    const RopeParams params = { .base = 500000, .position_scale = 1 / 3.0, .n_rot = 128 };
    uint64_t tables = HASH_START;
    float cos_row[64], sin_row[64];
    double freqs[64];

    rope_frequencies(&params, freqs);
    tables = hash_of(tables, freqs, sizeof(freqs));
    for (size_t position = 0; position < 1 << 20; position += 4999) {
        rope_row(freqs, 64, position, cos_row, sin_row);
        tables = hash_of(hash_of(tables, cos_row, sizeof(cos_row)), sin_row, sizeof(sin_row));
    }
    expect_hash("every build", "rope_row", tables, 0xce85c8543d2fb7fb);
    EACH_BUILD (ops) {
        inputs(4);
        for (size_t i = 0; i + 256 <= N_MAX; i += 256) {
            ops->rope_neox(x + i, cos_row, sin_row, 128);
            ops->rope_norm(x + i + 128, cos_row, sin_row, 128);
        }
        expect_hash(ops->name, "rope", hash_of(HASH_START, x, sizeof(x)), 0x99736790c62caf47);
    }
}

static void test_golden_bits_quantize(void **state) {
    EACH_BUILD (ops) {
        uint64_t rotated = HASH_START, quantized = HASH_START;
        int8_t q[N_MAX];

        for (size_t block = 32; block <= 512; block *= 2) {
            float scale;

            inputs(3);
            ops->hadamard(x, N_MAX, block, x);
            rotated = hash_of(rotated, x, sizeof(x));
            memset(q, 0, sizeof(q));
            scale = ops->quantize(x, N_MAX - block / 2, ops->amax(x, N_MAX - block / 2), 64, q);
            quantized = hash_of(hash_of(quantized, q, sizeof(q)), &scale, sizeof(scale));
        }
        expect_hash(ops->name, "hadamard", rotated, 0xd4cbc3fe47eaecce);
        expect_hash(ops->name, "quantize", quantized, 0xed4eddcd756db499);
    }
}

/* Levels and scales of keys and values, and outputs of rows with windows, soft caps and balance. */
static void test_golden_bits_attention(void **state) {
    enum {
        HEAD = 80,
        HEADS = 3,
        ROWS = 30,
        POSITIONS = 600
    };

    EACH_ATTENTION (ops) {
        uint64_t stored = HASH_START, hash = HASH_START;

        for (int i = 0; i < 4; i++) {
            AttentionFixture fixture;

            row_ops_seed = 77;
            attention_fixture_init(&fixture, HEAD, HEADS, ROWS, POSITIONS, 0);
            fixture.soft_cap = i == 1 ? 2 : 0;
            if (i == 2)
                attention_fixture_balance_keys(&fixture);
            for (size_t r = 0; r < ROWS; r++)
                attention_fixture_read(&fixture, r, i == 3 ? 19 * r : 0, 1 + 20 * r);
            attention_fixture_run(&fixture, ops, ops->group, false, GARBAGE_NAN);
            for (size_t p = 0; p < POSITIONS; p++) {
                int8_t levels[2 * HEAD];
                float scales[2];

                attention_fixture_stored(&fixture, ops, p, levels, scales);
                stored = hash_of(hash_of(stored, levels, sizeof(levels)), scales, sizeof(scales));
            }
            hash = hash_of(hash, fixture.out, (size_t)ROWS * HEADS * HEAD * sizeof(float));
            attention_fixture_deinit(&fixture);
        }
        expect_hash(ops->name, "keys and values", stored, 0xcc713df452b384dd);
        expect_hash(ops->name, "attention", hash, 0xfa83315786db7809);
    }
}

static void test_golden_bits_products(void **state) {
    enum {
        N = 40,
        K = 200,
        ROWS = 7,
        BLOCKS = 3,
        TILES = 4
    };
    static _Alignas(64) int8_t tiles[BLOCKS * TILES * INT8_TILE_BYTES], rows[ROWS * TILES * INT8_TILE_INPUTS];
    uint8_t shifted[sizeof(rows)];
    int32_t sums[BLOCKS * INT8_TILE_OUTPUTS];
    int8_t w[N * K];

    row_ops_seed = 79;
    for (size_t i = 0; i < sizeof(w); i++)
        w[i] = (int8_t)((int)(draw() % 255) - 127);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < K; i++)
            rows[r * TILES * INT8_TILE_INPUTS + i] = (int8_t)((int)(draw() % 255) - 127);
    int8_rows_shift(rows, sizeof(shifted), shifted);
    inputs(0.01f);
    int8_weights_layout(w, N, K, 0, BLOCKS, tiles, sums);
    for (size_t i = 0; i < int8_product_n_kernels(); i++) {
        const Int8ProductKernel *kernel = int8_product_kernel_at(i);
        const Int8Weights weights = {
            .n = N, .k = K, .k_tiles = TILES, .n_blocks = BLOCKS, .tiles = tiles, .sums = sums, .scales = x, .bias = y
        };
        const size_t tile_rows = int8_tile_rows(kernel, ROWS), stride_bytes = TILES * INT8_TILE_INPUTS;
        _Alignas(64) int8_t laid_out[(ROWS + INT8_TILE_ROWS) * TILES * INT8_TILE_INPUTS];
        _cleanup_(freep) void *scratch = aligned_alloc(64, kernel->scratch_bytes + 64);
        const Int8Rows in = {
            .rows = ROWS,
            .tile_rows = tile_rows,
            .stride_bytes = stride_bytes,
            .x = laid_out,
            .scales = x + N_MAX / 2,
            .shifted = shifted,
        };

        if (kernel->need & ~cpu_features())
            continue;
        for (size_t r = 0; r < ROWS; r++)
            for (size_t piece = 0; piece < TILES; piece++)
                memcpy(laid_out + int8_rows_piece(&in, r, piece), rows + r * stride_bytes + piece * INT8_TILE_INPUTS,
                       INT8_TILE_INPUTS);
        kernel->fn(&weights, &in, 0, BLOCKS, out, N, scratch);
        expect_hash(kernel->name, "products", hash_of(HASH_START, out, (size_t)ROWS * N * sizeof(*out)),
                    0x32df9d8077c037d9);
    }
}

/* Channels as the importer makes them. */
static void test_golden_bits_weights(void **state) {
    uint64_t rotated = HASH_START, rounded = HASH_START;
    uint64_t searched[_GRID_N] = { HASH_START, HASH_START };
    int8_t q[N_MAX];
    float scale;

    for (size_t channel = 0; channel < 20; channel++) {
        row_ops_seed = 80 + channel;
        for (size_t i = 0; i < N_MAX; i++)
            x[i] = draw_float(1) + draw_float(1) + draw_float(1);
        rotate_row(x, N_MAX, 32u << channel % 5);
        rotated = hash_of(rotated, x, sizeof(x));
        assert_true(round_channel_int8(x, N_MAX, q, &scale));
        rounded = hash_of(hash_of(rounded, q, sizeof(q)), &scale, sizeof(scale));
        for (int bits = 1; bits <= 8; bits++)
            for (Grid grid = GRID_UNIFORM; grid < _GRID_N; grid++) {
                assert_true(scale_search(x, N_MAX, grid, bits, &scale));
                round_channel(x, N_MAX, grid, bits, scale, q);
                searched[grid] = hash_of(hash_of(searched[grid], q, sizeof(q)), &scale, sizeof(scale));
            }
    }
    expect_hash("every build", "rotate_row", rotated, 0xc2831eb95f1d48cd);
    expect_hash("every build", "round_channel_int8", rounded, 0x15a2d65ebff03af4);
    expect_hash("every build", "scale_search", searched[GRID_UNIFORM], 0xb2905108b4858d14);
    expect_hash("every build", "scale_search, normal grid", searched[GRID_NORMAL], 0xa7a976a1f0be4dee);
}

/* Widths, factors and alpha that the edgeflow recipe chooses for inputs of which some channels are large. */
static void test_golden_bits_smoothing(void **state) {
    enum {
        N_CHANNELS = 40
    };
    static float w[N_CHANNELS * N_MAX], rows[N_CHANNELS * N_MAX], maxima[N_MAX], factors[N_MAX];
    const SmoothingLinear linear = { w, N_CHANNELS, NULL };
    SmoothingGroup group = { rows, N_CHANNELS, N_MAX, maxima, &linear, 1, 5, GRID_UNIFORM, false };
    uint64_t peaks = HASH_START, widths = HASH_START, smoothed = HASH_START;
    double peak[N_CHANNELS], alpha, error;
    int8_t bits[N_CHANNELS];
    WorkerPool *pool;

    row_ops_seed = 79;
    fill(w, N_CHANNELS * N_MAX, 2);
    fill(rows, N_CHANNELS * N_MAX, 2);
    for (size_t i = 0; i < N_CHANNELS * N_MAX; i++)
        rows[i] *= i % N_MAX % 37 == 3 ? 40 : 1;
    for (size_t i = 0; i < N_CHANNELS; i++)
        assert_true(relative_error_peak(w + i * N_MAX, N_MAX, &peak[i]));
    peaks = hash_of(peaks, peak, sizeof(peak));
    for (double average = 1; average <= 8; average += 0.375) {
        assert_int_equal(bit_allocation_tensor(peak, N_CHANNELS, average, bits), 0);
        widths = hash_of(widths, bits, sizeof(bits));
    }
    smoothing_maxima(rows, N_CHANNELS, N_MAX, maxima);
    assert_int_equal(worker_pool_new(&pool, 2), 0);
    for (; group.average_bits <= 8; group.average_bits += 0.75) {
        assert_int_equal(smoothing_search(&group, pool, &alpha, factors), 0);
        assert_true(alpha > 0);
        assert_int_equal(smoothing_error(&group, factors, pool, &error), 0);
        smoothed = hash_of(hash_of(smoothed, factors, sizeof(factors)), &error, sizeof(error));
    }
    worker_pool_free(pool);
    expect_hash("every build", "relative_error_peak", peaks, 0xf2193fa125a549d3);
    expect_hash("every build", "bit_allocation_tensor", widths, 0x0fb167e7566d80c2);
    expect_hash("every build", "smoothing_search", smoothed, 0x00714d2df6ba05a4);
}

static void test_golden_bits_sampler(void **state) {
    uint64_t hash = HASH_START;
    SamplerCandidate scratch[N_MAX];

    for (uint64_t position = 0; position < 200; position++) {
        const SamplerOptions options = { .temperature = 0.25f + (float)(position % 7) / 4,
                                         .top_k = position % 3 ? 40 : 0,
                                         .top_p = position % 4 ? 0.9f : 1,
                                         .min_p = position % 5 ? 0 : 0.02f,
                                         .repetition_penalty = 1,
                                         .seed = position / 9 };
        uint32_t picked;

        inputs(9);
        picked = sampler_pick(&options, x, N_MAX, NULL, 0, position, scratch);
        hash = hash_of(hash, &picked, sizeof(picked));
    }
    expect_hash("every build", "sampler_pick", hash, 0x9b97f1af919fa21d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bits_sums),      cmocka_unit_test(test_golden_bits_exp),
        cmocka_unit_test(test_golden_bits_gates),     cmocka_unit_test(test_golden_bits_rope),
        cmocka_unit_test(test_golden_bits_quantize),  cmocka_unit_test(test_golden_bits_attention),
        cmocka_unit_test(test_golden_bits_products),  cmocka_unit_test(test_golden_bits_weights),
        cmocka_unit_test(test_golden_bits_smoothing), cmocka_unit_test(test_golden_bits_sampler),
    };

    row_ops_begin(77);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
