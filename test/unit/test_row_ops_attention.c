/* Attention of the row operators: every build against plain loops bit for bit, and those against double. */
#include "test/unit/row_ops_plain.h"

static void plain_attention(const AttentionRow *row, float *weights) {
    size_t n = row->end - row->begin;

    for (size_t h = 0; h < row->n_group; h++) {
        float sum[16] = { 0 }, max = -INFINITY, total;

        for (size_t j = 0; j < n; j++) {
            float key[2 * N_MAX], score;

            for (size_t d = 0; d < row->head_size; d++)
                key[d] = f16_to_f32(row->k[(row->begin + j) * row->kv_stride + d]);
            score = plain_dot(row->q + h * row->head_size, key, row->head_size);
            weights[j] = score * row->scale;
            max = weights[j] > max ? weights[j] : max;
        }
        for (size_t j = 0; j < n; j++) {
            weights[j] = plain_exp(weights[j] - max);
            sum[j % 16] = sum[j % 16] + weights[j];
        }
        total = n ? 1.0f / plain_tree(sum) : 0;
        for (size_t d = 0; d < row->head_size; d++) {
            float out = 0;

            for (size_t j = 0; j < n; j++) {
                float weight = weights[j] * total,
                      product = weight * f16_to_f32(row->v[(row->begin + j) * row->kv_stride + d]);

                out = out + product;
            }
            row->out[h * row->head_size + d] = out;
        }
    }
}

typedef struct AttentionCase {
    size_t head_size, n_group, begin, end;
} AttentionCase;

static void check_attention(const AttentionCase *c) {
    const size_t n = c->end - c->begin, stride = c->head_size * 2 + 16;
    _cleanup_(freep) uint16_t *k = malloc((c->end + 1) * stride * sizeof(*k)),
                              *v = malloc((c->end + 1) * stride * sizeof(*v));
    _cleanup_(freep) float *q = malloc(c->n_group * c->head_size * sizeof(*q));
    _cleanup_(freep) float *out = malloc((c->n_group * c->head_size + 1) * sizeof(*out));
    _cleanup_(freep) float *expected = malloc(c->n_group * c->head_size * sizeof(*expected));
    _cleanup_(freep) float *scores = malloc((c->n_group * n + 1) * sizeof(*scores));
    AttentionRow row = { .q = q,
                         .k = k,
                         .v = v,
                         .kv_stride = stride,
                         .begin = c->begin,
                         .end = c->end,
                         .n_group = c->n_group,
                         .head_size = c->head_size,
                         .scale = 0.25f,
                         .scores = scores,
                         .out = expected };

    assert_true(k && v && q && out && expected && scores);
    for (size_t i = 0; i < (c->end + 1) * stride; i++) { /* what stands outside the range would poison the result */
        bool inside = i / stride >= c->begin && i / stride < c->end && i % stride < c->head_size;

        k[i] = inside ? f32_to_f16(draw_float(2)) : 0x7e00;
        v[i] = inside ? f32_to_f16(draw_float(3)) : 0x7e00;
    }
    fill(q, c->n_group * c->head_size, 2);
    plain_attention(&row, scores);
    EACH_BUILD(ops) {
        row.out = out;
        out[c->n_group * c->head_size] = scores[c->n_group * n] = untouched;
        ops->attention(&row);
        check_row(ops, "attention", out, expected, c->n_group * c->head_size);
        assert_memory_equal(&out[c->n_group * c->head_size], &untouched, sizeof(float));
        assert_memory_equal(&scores[c->n_group * n], &untouched, sizeof(float));
        memcpy(out, q, c->n_group * c->head_size * sizeof(*out));
        row.q = out;
        ops->attention(&row);
        row.q = q;
        check_row(ops, "attention in place", out, expected, c->n_group * c->head_size);
    }
    for (size_t h = 0; h < c->n_group; h++) { /* against double */
        double total = 0, max = -INFINITY;
        _cleanup_(freep) double *weights = malloc((n + 1) * sizeof(*weights));

        assert_non_null(weights);
        for (size_t j = 0; j < n; j++) {
            weights[j] = 0;
            for (size_t d = 0; d < c->head_size; d++)
                weights[j] +=
                    (double)q[h * c->head_size + d] * (double)f16_to_f32(k[(c->begin + j) * stride + d]) * 0.25;
            max = fmax(max, weights[j]);
        }
        for (size_t j = 0; j < n; j++)
            total += weights[j] = exp(weights[j] - max);
        for (size_t d = 0; d < c->head_size; d++) {
            double exact = 0;

            for (size_t j = 0; j < n; j++)
                exact += weights[j] / total * (double)f16_to_f32(v[(c->begin + j) * stride + d]);
            assert_true(fabs((double)expected[h * c->head_size + d] - exact) < 1e-4);
        }
    }
}

static void test_row_ops_attention(void **state) {
    static const size_t heads[] = { 16, 48, 64, 80, 128, 256, 512 };
    static const AttentionCase more[] = {
        { 64, 3, 0, 0 }, { 64, 3, 5, 5 }, { 64, 9, 0, 1000 }, { 256, 4, 700, 1212 }, { 128, 6, 0, 513 }
    };

    for (size_t a = 0; a < ARRAY_LEN(heads); a++)
        for (size_t n = 1; n <= 70; n += n < 20 ? 1 : 7)
            check_attention(&(AttentionCase){ heads[a], 1 + (a + n) % 4, n % 3 * 7, n % 3 * 7 + n });
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        check_attention(&more[i]);
}

/* Rows together, each with its own range, have the bits of rows alone. */
static void check_attention_rows(size_t head_size, size_t n_group, size_t n_rows, const size_t (*ranges)[2]) {
    enum {
        POSITIONS = 400
    };
    const size_t stride = head_size * 2, n_q = n_group * head_size;
    _cleanup_(freep) uint16_t *k = malloc(POSITIONS * stride * sizeof(*k)),
                              *v = malloc(POSITIONS * stride * sizeof(*v));
    _cleanup_(freep) float *q = malloc(n_rows * n_q * sizeof(*q)), *out = malloc(n_rows * n_q * sizeof(*out));
    _cleanup_(freep) float *expected = malloc(n_rows * n_q * sizeof(*expected));
    _cleanup_(freep) float *scores = malloc(n_rows * n_group * POSITIONS * sizeof(*scores));
    AttentionRow rows[16];

    assert_true(k && v && q && out && expected && scores && n_rows <= ARRAY_LEN(rows));
    for (size_t i = 0; i < POSITIONS * stride; i++) {
        k[i] = f32_to_f16(draw_float(2));
        v[i] = f32_to_f16(draw_float(3));
    }
    fill(q, n_rows * n_q, 2);
    for (size_t r = 0; r < n_rows; r++) {
        rows[r] = (AttentionRow){ .q = q + r * n_q,
                                  .k = k,
                                  .v = v,
                                  .kv_stride = stride,
                                  .begin = ranges[r][0],
                                  .end = ranges[r][1],
                                  .n_group = n_group,
                                  .head_size = head_size,
                                  .scale = 0.25f,
                                  .scores = scores + r * n_group * POSITIONS,
                                  .out = expected + r * n_q };
        plain_attention(&rows[r], rows[r].scores);
        rows[r].out = out + r * n_q;
    }
    EACH_BUILD(ops) {
        memcpy(out, q, n_rows * n_q * sizeof(*out));
        for (size_t r = 0; r < n_rows; r++)
            rows[r].q = r % 2 ? rows[r].out : q + r * n_q; /* some in place */
        ops->attention_rows(rows, n_rows);
        check_row(ops, "attention_rows", out, expected, n_rows * n_q);
    }
}

static void test_row_ops_attention_rows(void **state) {
    static const size_t causal[][2] = { { 0, 95 }, { 0, 96 },  { 0, 97 },  { 0, 98 },
                                        { 0, 99 }, { 0, 100 }, { 0, 101 }, { 0, 102 } };
    static const size_t window[][2] = { { 130, 301 }, { 131, 302 }, { 132, 303 }, { 133, 304 }, { 134, 305 } };
    static const size_t apart[][2] = { { 0, 1 }, { 399, 400 }, { 63, 66 }, { 50, 50 }, { 127, 131 }, { 2, 390 } };
    static const size_t head_sizes[] = { 16, 64, 80, 128, 256, 1040 };

    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i++)
        for (size_t n_group = 1; n_group <= 9; n_group++) {
            check_attention_rows(head_sizes[i], n_group, 1 + n_group % ARRAY_LEN(causal), causal);
            check_attention_rows(head_sizes[i], n_group, ARRAY_LEN(window), window);
            check_attention_rows(head_sizes[i], n_group, ARRAY_LEN(apart), apart);
        }
}

/* Heads wider than what is expanded at once. */
static void test_row_ops_attention_wide_head(void **state) {
    check_attention(&(AttentionCase){ 1040, 2, 1, 12 });
    check_attention(&(AttentionCase){ 2048, 2, 0, 9 });
}

/* A row with one position has weight 1: its values come out as they are. All 65536 halves, by both ways of reading. */
static void test_row_ops_attention_f16_values(void **state) {
    enum {
        HEAD = 1024
    };
    uint16_t k[HEAD] = { 0 }, v[HEAD];
    float q[HEAD] = { 0 }, score, out[HEAD];

    EACH_BUILD(ops)
    for (uint32_t first = 0; first < 65536; first += HEAD) {
        AttentionRow row = { .q = q,
                             .k = k,
                             .v = v,
                             .kv_stride = HEAD,
                             .end = 1,
                             .n_group = 1,
                             .head_size = HEAD,
                             .scale = 1,
                             .scores = &score,
                             .out = out };

        for (uint32_t i = 0; i < HEAD; i++)
            v[i] = (uint16_t)(first + i);
        ops->attention(&row);
        for (uint32_t i = 0; i < HEAD; i++) {
            float expected = f16_to_f32(v[i]) + 0.0f; /* a sum that starts at +0 */

            check_row(ops, "value of f16", &out[i], &expected, 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_ops_attention_f16_values),
        cmocka_unit_test(test_row_ops_attention),
        cmocka_unit_test(test_row_ops_attention_wide_head),
        cmocka_unit_test(test_row_ops_attention_rows),
    };

    row_ops_begin(20240610);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
