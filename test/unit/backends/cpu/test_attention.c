// SPDX-License-Identifier: Apache-2.0
/* Tests of the row operators' attention: every build against plain loops of attention()'s SPEC, bit for bit, and these
 * loops against double. */
#include "base/min_max.h"
#include "test/unit/backends/cpu/row_ops_plain.h"
#include "test/unit/fixtures/patience.h"

enum {
    SCRATCH_GUARD = 16,
    ROWS_MAX = 48
};

/* Disables sanitizers in the plain loops: the loops take most of this program's time under a sanitizer and are not
 * under test. */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

/* 2^x as in the SPEC. */
UNWATCHED static float plain_exp2(float x) {
    static const float p[] = { 0x1.5bba14p-10f, 0x1.3cea88p-7f, 0x1.c6b752p-5f, 0x1.ebf9bcp-3f, 0x1.62e42ap-1f, 1 };
    float n, r, sum = p[0];

    x = MAX(x, -125);
    n = rintf(x);
    r = x - n;
    for (size_t i = 1; i < ARRAY_LEN(p); i++)
        sum = fmaf(sum, r, p[i]);
    return ldexpf(sum, (int)n);
}

UNWATCHED static float key_at(const KvHead *kv, size_t j, size_t d) {
    return f16_to_f32(kv_head_keys(kv, j / KV_BLOCK)[d * KV_BLOCK + j % KV_BLOCK]);
}

UNWATCHED static float value_at(const KvHead *kv, size_t j, size_t d) {
    return f16_to_f32(kv_head_values(kv, j / KV_BLOCK)[j % KV_BLOCK * kv->head_size + d]);
}

UNWATCHED static void plain_attention(const KvHead *kv, const AttentionRow *row, size_t n_group, float scale,
                                      float *out) {
    const float factor = scale * 0x1.715476p0f;

    for (size_t h = 0; h < n_group; h++, out += kv->head_size) {
        float sum[16] = { 0 }, max = -INFINITY, total;

        memset(out, 0, kv->head_size * sizeof(*out));
        for (size_t first = row->begin; first < row->end;) {
            const size_t block_end = (first / KV_BLOCK + 1) * KV_BLOCK, end = MIN(block_end, row->end);
            float weight[KV_BLOCK], new = max, shrink;

            for (size_t j = first; j < end; j++) {
                float score = 0;

                for (size_t d = 0; d < kv->head_size; d++) {
                    const float q = row->q[h * kv->head_size + d] * factor;

                    score = fmaf(q, key_at(kv, j, d), score);
                }
                weight[j - first] = score;
                new = MAX(score, new);
            }
            shrink = plain_exp2(max - new);
            max = new;
            for (size_t i = 0; i < 16; i++)
                sum[i] = sum[i] * shrink;
            for (size_t d = 0; d < kv->head_size; d++)
                out[d] = out[d] * shrink;
            for (size_t j = first; j < end; j++) {
                const float w = plain_exp2(weight[j - first] - max);

                sum[j % 16] = sum[j % 16] + w;
                for (size_t d = 0; d < kv->head_size; d++)
                    out[d] = fmaf(w, value_at(kv, j, d), out[d]);
            }
            first = end;
        }
        total = row->begin < row->end ? 1.0f / plain_tree(sum) : 0;
        for (size_t d = 0; d < kv->head_size; d++)
            out[d] = out[d] * total;
    }
}

/* Tolerance: rounding of scores of up to about 30 dominates: 30 x 2^-24 x a few, relative, in each weight; values are
 * up to 3. */
static const double tolerance = 2e-5;

static void check_against_double(const KvHead *kv, const AttentionRow *row, size_t n_group, float scale,
                                 const float *actual) {
    const size_t n = row->end - row->begin;
    _cleanup_(freep) double *weights = malloc((n + 1) * sizeof(*weights));

    assert_non_null(weights);
    for (size_t h = 0; h < n_group; h++, actual += kv->head_size) {
        double total = 0, max = -INFINITY;

        for (size_t j = 0; j < n; j++) {
            weights[j] = 0;
            for (size_t d = 0; d < kv->head_size; d++)
                weights[j] += (double)row->q[h * kv->head_size + d] * (double)key_at(kv, row->begin + j, d);
            weights[j] *= (double)scale;
            max = fmax(max, weights[j]);
        }
        for (size_t j = 0; j < n; j++)
            total += weights[j] = exp(weights[j] - max);
        for (size_t d = 0; d < kv->head_size; d++) {
            double exact = 0;

            for (size_t j = 0; j < n; j++)
                exact += weights[j] / total * (double)value_at(kv, row->begin + j, d);
            if (!(fabs((double)actual[d] - exact) < tolerance))
                fail_msg("[%zu, %zu) head %zu: [%zu] is %.9g, in double %.9g", row->begin, row->end, h, d,
                         (double)actual[d], exact);
        }
    }
}

typedef struct Fixture {
    KvHead kv;
    size_t n_group, n_rows;
    float scale;
    AttentionRow rows[ROWS_MAX];
    uint16_t *cache;
    void **blocks;
    float *q, *out, *expected, *scratch;
} Fixture;

static void fixture_deinit(Fixture *fixture) {
    free(fixture->cache);
    free(fixture->blocks);
    free(fixture->q);
    free(fixture->out);
    free(fixture->expected);
    free(fixture->scratch);
}

/* Makes rows of ranges [n_rows][2]. Content that no row reads, beside the head and around the ranges, is NaN. */
static void fixture_init(Fixture *fixture, size_t head_size, size_t n_group, size_t n_rows, const size_t (*ranges)[2]) {
    const size_t block = head_size * KV_BLOCK, stride = 4 * block, n_q = n_group * head_size;
    size_t begin = SIZE_MAX, end = 0, n_blocks;

    for (size_t r = 0; r < n_rows; r++) {
        begin = MIN(ranges[r][0], begin);
        end = MAX(ranges[r][1], end);
    }
    n_blocks = end / KV_BLOCK + 1;
    *fixture = (Fixture){
        .n_group = n_group,
        .n_rows = n_rows,
        .scale = head_size > 256 ? 0.02f : 0.1f,
        .cache = malloc(n_blocks * stride * sizeof(uint16_t)),
        .blocks = calloc(n_blocks, sizeof(void *)),
        .q = malloc(n_rows * n_q * sizeof(float)),
        .out = malloc((n_rows * n_q + 1) * sizeof(float)),
        .expected = malloc(n_rows * n_q * sizeof(float)),
        .scratch = aligned_alloc(64, (attention_scratch_floats(n_rows * n_group, head_size) + SCRATCH_GUARD + 15) / 16 *
                                         16 * sizeof(float)),
    };
    assert_true(fixture->cache && fixture->blocks && fixture->q && fixture->out && fixture->expected &&
                fixture->scratch);
    assert_true(n_rows <= ROWS_MAX);
    fixture->kv = (KvHead){ fixture->blocks, block, 3 * block, head_size, 0 };
    for (size_t i = 0; i < n_blocks * stride; i++)
        fixture->cache[i] = 0x7e00;
    for (size_t i = 0; i < n_blocks; i++) /* the place of a block does not matter */
        fixture->blocks[i] = fixture->cache + (i % 2 ? i : n_blocks - 1 - (n_blocks - 1) % 2 - i) * stride;
    for (size_t j = begin; j < end; j++)
        for (size_t d = 0; d < head_size; d++) {
            kv_head_keys(&fixture->kv, j / KV_BLOCK)[d * KV_BLOCK + j % KV_BLOCK] = f32_to_f16(draw_float(2));
            kv_head_values(&fixture->kv, j / KV_BLOCK)[j % KV_BLOCK * head_size + d] = f32_to_f16(draw_float(3));
        }
    fill(fixture->q, n_rows * n_q, 2);
    for (size_t r = 0; r < n_rows; r++) {
        fixture->rows[r] = (AttentionRow){ fixture->q + r * n_q, fixture->out + r * n_q, ranges[r][0], ranges[r][1] };
        plain_attention(&fixture->kv, &fixture->rows[r], n_group, fixture->scale, fixture->expected + r * n_q);
    }
}

/* Runs the rows in calls of `batch` rows; every second row in place. */
static void check_batches(Fixture *fixture, const RowOps *ops, size_t batch) {
    const size_t n_q = fixture->n_group * fixture->kv.head_size;

    memcpy(fixture->out, fixture->q, fixture->n_rows * n_q * sizeof(float));
    fixture->out[fixture->n_rows * n_q] = untouched;
    for (size_t r = 0; r < fixture->n_rows; r++)
        fixture->rows[r].q = r % 2 ? fixture->rows[r].out : fixture->q + r * n_q;
    for (size_t first = 0, n; first < fixture->n_rows; first += n) {
        size_t n_floats;

        n = MIN(fixture->n_rows - first, batch);
        n_floats = attention_scratch_floats(n * fixture->n_group, fixture->kv.head_size);
        memset(fixture->scratch, 0xff, n_floats * sizeof(float)); /* NaN */
        for (size_t i = 0; i < SCRATCH_GUARD; i++)
            fixture->scratch[n_floats + i] = untouched;
        ops->attention(&fixture->kv, fixture->rows + first, n, fixture->n_group, fixture->scale, fixture->scratch);
        for (size_t i = 0; i < SCRATCH_GUARD; i++)
            assert_memory_equal(&fixture->scratch[n_floats + i], &untouched, sizeof(float));
    }
    check_row(ops, "attention", fixture->out, fixture->expected, fixture->n_rows * n_q);
    assert_memory_equal(&fixture->out[fixture->n_rows * n_q], &untouched, sizeof(float));
    for (size_t r = 0; r < fixture->n_rows; r++)
        fixture->rows[r].q = fixture->q + r * n_q;
}

static void check_rows(size_t head_size, size_t n_group, size_t n_rows, const size_t (*ranges)[2]) {
    static const size_t batches[] = { 1, 2, 3, 7, ROWS_MAX };
    Fixture fixture;

    fixture_init(&fixture, head_size, n_group, n_rows, ranges);
    EACH_BUILD (ops)
        for (size_t b = 0; b < ARRAY_LEN(batches); b++) {
            check_batches(&fixture, ops, batches[b]);
            if (batches[b] >= n_rows)
                break;
        }
    for (size_t r = 0; r < n_rows; r++)
        check_against_double(&fixture.kv, &fixture.rows[r], n_group, fixture.scale,
                             fixture.expected + r * n_group * head_size);
    fixture_deinit(&fixture);
}

static void check_range(size_t head_size, size_t n_group, size_t begin, size_t end) {
    check_rows(head_size, n_group, 1, (const size_t[][2]){ { begin, end } });
}

/* A single row: ranges begin and end all around blocks. */
static void test_row_ops_attention(void **state) {
    static const size_t heads[] = { 16, 48, 64, 80, 128, 256, 512 };

    for (size_t a = 0; a < ARRAY_LEN(heads); a++) {
        for (size_t n = 0; n <= 140; n += n < 20 ? 1 : n > 60 && n < 68 ? 1 : 7)
            check_range(heads[a], 1 + (a + n) % 9, n % 3 * 21, n % 3 * 21 + n);
        for (size_t begin = 61; begin <= 66; begin++)
            for (size_t n = 0; n <= 3; n++)
                check_range(heads[a], 1 + (begin + n) % 9, begin, begin + n);
    }
    check_range(64, 3, 5, 5);
    check_range(64, 9, 0, 1000);
    check_range(256, 4, 700, 1212);
    check_range(128, 6, 0, 513);
}

static void test_row_ops_attention_long(void **state) {
    static const size_t late[][2] = { { 0, 8190 }, { 0, 8191 }, { 0, 8192 }, { 0, 8193 }, { 7681, 8193 } };

    check_rows(64, 3, ARRAY_LEN(late), late);
    check_range(256, 1, 0, 8192);
}

/* Heads wider than any model's. */
static void test_row_ops_attention_wide_head(void **state) {
    check_range(1040, 2, 1, 12);
    check_range(2048, 2, 60, 70);
}

/* Rows in one call, each with its own range, have the bits of single rows. */
static void test_row_ops_attention_rows(void **state) {
    static const size_t apart[][2] = { { 0, 1 },     { 199, 200 }, { 63, 66 },   { 50, 50 },  { 127, 131 },
                                       { 2, 190 },   { 64, 128 },  { 130, 190 }, { 0, 64 },   { 190, 190 },
                                       { 188, 189 }, { 10, 30 },   { 20, 40 },   { 128, 129 } };
    static const size_t head_sizes[] = { 16, 64, 80, 128, 256 };
    size_t causal[ROWS_MAX][2], window[ROWS_MAX][2], late[ROWS_MAX][2];

    for (size_t r = 0; r < ROWS_MAX; r++) {
        causal[r][0] = 0;
        causal[r][1] = 91 + r;
        window[r][0] = 29 + r;
        window[r][1] = 129 + r;
        late[r][0] = 0;
        late[r][1] = 215 + r; /* all rows read three blocks as a whole */
    }
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i++)
        for (size_t n_group = 1; n_group <= 9; n_group += patience_is_short() ? 4 : 1) {
            const size_t n_rows = head_sizes[i] == 64 ? 1 + n_group * 47 % ROWS_MAX : 2 + n_group % 5;

            check_rows(head_sizes[i], n_group, n_rows, causal);
            check_rows(head_sizes[i], n_group, n_rows, window);
            check_rows(head_sizes[i], n_group, n_rows, late);
            check_rows(head_sizes[i], n_group, ARRAY_LEN(apart), apart);
        }
}

/* A row with one position has weight 1: its values come out unchanged. Tests all 65536 halves and both ways of reading:
 * one row is a tile, eight are more. */
static void test_row_ops_attention_f16_values(void **state) {
    enum {
        HEAD = 1024,
        ROWS = 8
    };
    _cleanup_(freep) uint16_t *block = calloc(2 * KV_BLOCK * HEAD, sizeof(*block));
    _cleanup_(freep) float *scratch = aligned_alloc(64, attention_scratch_floats(ROWS, HEAD) * sizeof(*scratch));
    const KvHead kv = { (void *[]){ block }, 0, KV_BLOCK * HEAD, HEAD, 0 };
    uint16_t *v = block + KV_BLOCK * HEAD;
    static float q[HEAD], out[ROWS * HEAD];

    assert_true(block && scratch);
    EACH_BUILD (ops)
        for (uint32_t first = 0; first < 65536; first += HEAD)
            for (size_t n_rows = 1; n_rows <= ROWS; n_rows += ROWS - 1) {
                AttentionRow rows[ROWS];

                for (size_t r = 0; r < n_rows; r++)
                    rows[r] = (AttentionRow){ q, out + r * HEAD, 0, 1 };
                for (uint32_t i = 0; i < HEAD; i++)
                    v[i] = (uint16_t)(first + i);
                ops->attention(&kv, rows, n_rows, 1, 1, scratch);
                for (size_t i = 0; i < n_rows * HEAD; i++) {
                    const float expected = f16_to_f32(v[i % HEAD]) + 0.0f; /* a sum that starts at +0 */

                    check_row(ops, "value of f16", &out[i], &expected, 1);
                }
            }
}

/* Scores of every size, so that the maximum rises and weights come close to 2^-125. */
static void test_row_ops_attention_scores(void **state) {
    static const size_t ranges[][2] = { { 0, 200 }, { 3, 130 }, { 64, 192 } };
    static const float scales[] = { 0, 1e-30f, 1, 8, -8, 1e30f };
    const size_t n_q = 2 * 64;
    Fixture fixture;

    fixture_init(&fixture, 64, 2, ARRAY_LEN(ranges), ranges);
    for (size_t s = 0; s < ARRAY_LEN(scales); s++) {
        fixture.scale = scales[s];
        for (size_t r = 0; r < ARRAY_LEN(ranges); r++)
            plain_attention(&fixture.kv, &fixture.rows[r], 2, scales[s], fixture.expected + r * n_q);
        EACH_BUILD (ops)
            for (size_t batch = 1; batch <= 3; batch += 2)
                check_batches(&fixture, ops, batch);
    }
    fixture_deinit(&fixture);
}

/* Non-finite keys, values and queries affect only the rows that read them. */
static void test_row_ops_attention_hostile(void **state) {
    static const size_t ranges[][2] = { { 0, 100 }, { 0, 40 }, { 41, 100 }, { 30, 70 }, { 90, 90 } };
    static const uint16_t halves[] = { 0x7e00, 0xfe00, 0x7c00, 0xfc00, 0x7c01 };
    static const float floats[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX };
    const size_t n_q = 2 * 64;
    Fixture fixture;

    fixture_init(&fixture, 64, 2, ARRAY_LEN(ranges), ranges);
    EACH_BUILD (ops)
        for (size_t i = 0; i < 3 * ARRAY_LEN(halves); i++) {
            uint16_t *half = i % 3 == 0 ? &kv_head_keys(&fixture.kv, 0)[5 * KV_BLOCK + 40]
                                        : &kv_head_values(&fixture.kv, 0)[40 * 64 + 5],
                     kept = *half;
            const float kept_q = fixture.q[n_q * 3 + 7];

            if (i % 3 == 2)
                fixture.q[n_q * 3 + 7] = floats[i / 3];
            else
                *half = halves[i / 3];
            memset(fixture.scratch, 0xff, attention_scratch_floats(2 * ARRAY_LEN(ranges), 64) * sizeof(float));
            ops->attention(&fixture.kv, fixture.rows, ARRAY_LEN(ranges), 2, fixture.scale, fixture.scratch);
            check_row(ops, "row before", fixture.out + n_q, fixture.expected + n_q, n_q);
            check_row(ops, "row after", fixture.out + 2 * n_q, fixture.expected + 2 * n_q, n_q);
            check_row(ops, "empty row", fixture.out + 4 * n_q, fixture.expected + 4 * n_q, n_q);
            *half = kept;
            fixture.q[n_q * 3 + 7] = kept_q;
        }
    fixture_deinit(&fixture);
}

/* Any position, any number of positions; the blocks' other positions and heads stay unchanged. */
static void test_row_ops_kv_store(void **state) {
    enum {
        HEAD = 48,
        POSITIONS = 3 * KV_BLOCK,
        BLOCK = HEAD * KV_BLOCK,
        STRIDE = 2 * HEAD + 1
    };
    static uint16_t cache[3][4 * BLOCK], expected[3][4 * BLOCK];
    static float x[POSITIONS * STRIDE], y[POSITIONS * STRIDE];
    const KvHead kv = { (void *[]){ cache[1], cache[2], cache[0] }, BLOCK, 3 * BLOCK, HEAD, 0 };

    fill(x, ARRAY_LEN(x), 3);
    fill(y, ARRAY_LEN(y), 1e5f); /* some past 65504 */
    EACH_BUILD (ops)
        for (size_t first = 0; first < POSITIONS; first += first < 20 ? 1 : 13)
            for (size_t n = 0; first + n <= POSITIONS; n += n < 18 ? 1 : 31) {
                memset(cache, 0x55, sizeof(cache));
                memset(expected, 0x55, sizeof(expected));
                for (size_t j = 0; j < n; j++)
                    for (size_t d = 0; d < HEAD; d++) {
                        const size_t at = (first + j) % KV_BLOCK;
                        uint16_t *block = expected[((first + j) / KV_BLOCK + 1) % 3];

                        ops->to_f16(&x[j * STRIDE + d], 1, &block[BLOCK + d * KV_BLOCK + at]);
                        ops->to_f16(&y[j * STRIDE + d], 1, &block[3 * BLOCK + at * HEAD + d]);
                    }
                ops->kv_store(&kv, first, x, y, STRIDE, n);
                assert_memory_equal(cache, expected, sizeof(cache));
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_ops_kv_store),         cmocka_unit_test(test_row_ops_attention_f16_values),
        cmocka_unit_test(test_row_ops_attention),        cmocka_unit_test(test_row_ops_attention_wide_head),
        cmocka_unit_test(test_row_ops_attention_rows),   cmocka_unit_test(test_row_ops_attention_long),
        cmocka_unit_test(test_row_ops_attention_scores), cmocka_unit_test(test_row_ops_attention_hostile),
    };

    row_ops_begin(20240610);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
