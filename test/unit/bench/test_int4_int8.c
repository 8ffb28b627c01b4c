// SPDX-License-Identifier: Apache-2.0
/* The INT4/INT8 baseline of the benches: bytes where its header says, and exact products of every build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "test/bench/int4_int8.h"

enum {
    N = 19
};

static uint32_t seed = 20240607;

static uint32_t draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

typedef struct Case {
    size_t k, k_padded;
    int8_t *q, *x, bits[N];
    uint8_t *rows, *x_unsigned;
    uint64_t offsets[N + 1];
    int32_t sums[N];
    float scales[N];
    Int4Int8Matrix matrix;
    Int4Int8Input input;
} Case;

/* extreme: largest levels and activations only. */
static void case_init(Case *c, size_t k, bool extreme) {
    *c = (Case){ .k = k, .k_padded = (k + 63) / 64 * 64 };
    c->q = malloc(N * k);
    c->x = aligned_alloc(64, c->k_padded);
    c->x_unsigned = aligned_alloc(64, c->k_padded);
    assert_true(c->q && c->x && c->x_unsigned);
    for (size_t o = 0; o < N; o++) {
        c->bits[o] = (int8_t)(o % 8 + 1);
        c->scales[o] = (float)(draw() % 1000 + 1) * 3e-5f;
        for (size_t i = 0; i < k; i++) {
            const int lowest = c->bits[o] == 8 ? 1 : 0, codes = (1 << c->bits[o]) - lowest;

            c->q[o * k + i] = (int8_t)grid_level(GRID_UNIFORM, lowest + (int)(draw() % (uint32_t)codes), c->bits[o]);
            if (extreme)
                c->q[o * k + i] =
                    (int8_t)(o < N / 2 ? grid_max(GRID_UNIFORM, c->bits[o]) : -grid_max(GRID_UNIFORM, c->bits[o]));
        }
    }
    memset(c->x, 0, c->k_padded);
    c->input = (Int4Int8Input){ c->x, c->x_unsigned, 0, 0.0173f };
    for (size_t i = 0; i < k; i++) {
        c->x[i] = (int8_t)(extreme ? 127 : (int)(draw() % 255) - 127);
        c->input.sum += c->x[i];
    }
    for (size_t i = 0; i < c->k_padded; i++)
        c->x_unsigned[i] = (uint8_t)(c->x[i] + 128);
    int4_int8_layout(c->bits, N, k, c->offsets);
    c->rows = aligned_alloc(64, (c->offsets[N] + 63) / 64 * 64);
    assert_non_null(c->rows);
    memset(c->rows, 0xa5, c->offsets[N]);
    int4_int8_pack(c->q, c->bits, N, k, c->offsets, c->rows, c->sums);
    c->matrix = (Int4Int8Matrix){ N, k, c->k_padded, c->bits, c->offsets, c->rows, c->sums, c->scales };
}

static void case_deinit(Case *c) {
    free(c->q);
    free(c->x);
    free(c->x_unsigned);
    free(c->rows);
}

static void test_int4_int8_places(void **state) {
    Case c;

    case_init(&c, 70, false);
    for (size_t o = 0; o < N; o++) {
        const uint8_t *row = c.rows + c.offsets[o];

        assert_int_equal(c.offsets[o + 1] - c.offsets[o], c.bits[o] <= 4 ? 64 : 128);
        for (size_t i = 0; i < 128; i++) {
            const int8_t q = i < c.k ? c.q[o * c.k + i] : 0;

            if (c.bits[o] > 4)
                assert_int_equal((int8_t)row[i], q);
            else
                assert_int_equal(row[i / 2] >> i % 2 * 4 & 15, i < c.k ? (q + (1 << c.bits[o]) - 1) / 2 : 0);
        }
    }
    case_deinit(&c);
}

static void check_builds(const Case *c) {
    for (size_t build = 0; build < int4_int8_n(); build++) {
        const Int4Int8Ops *ops = int4_int8_at(build);
        const float untouched = -1.0625e30f;
        float y[N + 1];

        if (ops->need & ~cpu_features())
            continue;
        for (size_t part = 0; part < 2; part++) {
            const size_t begin = part ? 3 : 0, end = part ? N - 2 : N;

            for (size_t o = 0; o <= N; o++)
                y[o] = untouched;
            ops->product(&c->matrix, &c->input, begin, end, y);
            for (size_t o = 0; o <= N; o++) {
                float expected = untouched;

                if (o >= begin && o < end) {
                    int64_t sum = 0;

                    for (size_t i = 0; i < c->k; i++)
                        sum += (int64_t)c->x[i] * c->q[o * c->k + i];
                    expected = (float)sum * (c->input.scale * c->scales[o]);
                }
                if (memcmp(&y[o], &expected, sizeof(expected)))
                    fail_msg("%s: k=%zu channel %zu of %d bits is %a, expected %a", ops->name, c->k, o,
                             o < N ? c->bits[o] : 0, (double)y[o], (double)expected);
            }
        }
    }
}

static void test_int4_int8_product(void **state) {
    static const size_t sizes[] = { 1, 2, 31, 63, 64, 65, 127, 128, 129, 192, 256, 320, 576, 1536 };

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (int extreme = 0; extreme < 2; extreme++) {
            Case c;

            case_init(&c, sizes[s], extreme);
            check_builds(&c);
            case_deinit(&c);
        }
}

static void test_int4_int8_expand(void **state) {
    static const size_t sizes[] = { 1, 31, 64, 65, 129, 576 };

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (size_t build = 0; build < int4_int8_n(); build++) {
            const Int4Int8Ops *ops = int4_int8_at(build);
            _cleanup_(freep) int8_t *q = NULL;
            Case c;

            if (ops->need & ~cpu_features())
                continue;
            case_init(&c, sizes[s], false);
            q = aligned_alloc(64, c.k_padded + 64);
            assert_non_null(q);
            for (size_t o = 0; o < N; o++) {
                memset(q, 0x33, c.k_padded + 64);
                ops->expand(&c.matrix, o, q);
                assert_memory_equal(q, c.q + o * c.k, c.k);
                for (size_t i = c.k_padded; i < c.k_padded + 64; i++)
                    assert_int_equal(q[i], 0x33);
            }
            case_deinit(&c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int4_int8_places),
        cmocka_unit_test(test_int4_int8_product),
        cmocka_unit_test(test_int4_int8_expand),
    };

    for (size_t i = 0; i < int4_int8_n(); i++)
        printf("%s: %s\n", int4_int8_at(i)->name,
               int4_int8_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
