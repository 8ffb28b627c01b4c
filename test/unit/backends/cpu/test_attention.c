// SPDX-License-Identifier: Apache-2.0
/* Tests of attention's operators: every build against the contract in plain C (attention_plain.h), bit for bit, and
 * the contract against attention in double. */
#include "test/unit/backends/cpu/attention_fixture.h"
#include "test/unit/fixtures/patience.h"

static const size_t head_sizes[] = { 16, 32, 48, 64, 80, 96, 112, 128, 192, 256 };

/* Bounds of relative errors: of a row-head's outputs, and of all outputs together. Levels of 8 bits make errors of 0.5
 * to 2.7 %. */
static const double row_error = 0.06, mean_error = 0.03;

/* Checks every build, with groups of row-heads of several sizes. */
static void check_builds(AttentionFixture *fixture) {
    static const size_t groups[] = { SIZE_MAX, 1, 2, 5, 9 };

    attention_fixture_expect(fixture);
    EACH_ATTENTION (ops)
        for (size_t i = 0; i < ARRAY_LEN(groups); i += patience_is_short() ? 3 : 1) {
            attention_fixture_check(fixture, ops, MIN(ops->group, groups[i]), i % 2, (Garbage)(i % _GARBAGE_N));
            if (groups[i] < SIZE_MAX && groups[i] >= fixture->n_row_heads)
                break;
        }
}

/* Checks also that the errors of levels are the only ones. */
static void check_near(AttentionFixture *fixture) {
    check_builds(fixture);
    assert_true(attention_fixture_near(fixture, row_error) < mean_error);
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

/* Magnitudes of rows; the greatest does not overflow within a head of 1,024. Zero, and numbers around the least row
 * that is not zero. */
static const float magnitudes[] = { 1, 0, 1e-42f, 1e-30f, 0x1p-61f, 0x1p-60f, 0x1p-58f, 1e-3f, 1e6f, 1e30f, 3e34f };

static float magnitude_at(size_t i) {
    return magnitudes[i * 7 % ARRAY_LEN(magnitudes)];
}

/* Compares a cache block with the plain levels of positions [first, first + n); all else has the bytes of `before`. */
static void check_stored(const AttentionFixture *fixture, const AttentionOps *ops, const uint8_t *before, size_t first,
                         size_t n) {
    const size_t head_size = fixture->head_size, plane_bytes = KV_BLOCK * kv_row_bytes(head_size),
                 n_bytes = (fixture->n_parts + 1) * 4 * plane_bytes;
    const PlainKv *plain = &fixture->plain;
    uint8_t *expected = test_alloc(n_bytes);

    memcpy(expected, before, n_bytes);
    for (size_t i = first; i < first + n; i++) {
        const size_t at = i % KV_BLOCK;
        uint8_t *block = expected + ((uint8_t *)fixture->blocks[i / KV_BLOCK] - fixture->memory),
                *keys = block + plane_bytes, *values = block + 3 * plane_bytes;

        for (size_t d = 0; d < head_size; d++) {
            keys[d / 4 * KV_BLOCK * 4 + at * 4 + d % 4] = (uint8_t)(plain->keys[i * head_size + d] + ops->key_bias);
            values[at / 4 * head_size * 4 + d * 4 + at % 4] = (uint8_t)plain->values[i * head_size + d];
        }
        memcpy(keys + KV_BLOCK * head_size + at * sizeof(float), &plain->key_scales[i], sizeof(float));
        memcpy(values + KV_BLOCK * head_size + at * sizeof(float), &plain->value_scales[i], sizeof(float));
    }
    for (size_t i = 0; i < n_bytes; i++)
        if (fixture->memory[i] != expected[i])
            fail_msg("%s, head of %zu, positions [%zu, %zu): byte %zu of the head's %zu is %d, expected %d", ops->name,
                     head_size, first, first + n, i % (4 * plane_bytes), 4 * plane_bytes, fixture->memory[i],
                     expected[i]);
    free(expected);
}

/* Any position, any number of positions, rows apart from each other; other positions and heads stay. */
static void check_store(size_t head_size, bool is_balanced) {
    enum {
        POSITIONS = 3 * KV_BLOCK
    };
    const size_t stride = 2 * head_size + 16, step = patience_is_short() ? 3 : 1;
    AttentionFixture fixture;
    float *k, *v;
    uint8_t *before;
    size_t n_bytes, round = 0;

    attention_fixture_init(&fixture, head_size, 1, 1, POSITIONS, 0);
    if (is_balanced)
        attention_fixture_balance_keys(&fixture);
    n_bytes = (fixture.n_parts + 1) * 4 * KV_BLOCK * kv_row_bytes(head_size);
    before = test_alloc(n_bytes);
    k = test_alloc(POSITIONS * stride * sizeof(*k));
    v = test_alloc(POSITIONS * stride * sizeof(*v));
    for (size_t i = 0; i < POSITIONS * head_size; i++) {
        fixture.k[i] *= magnitude_at(i / head_size);
        fixture.v[i] *= magnitude_at(i / head_size + 5);
    }
    attention_fixture_expect(&fixture);
    for (size_t i = 0; i < POSITIONS; i++) {
        memcpy(k + i * stride, fixture.k + i * head_size, head_size * sizeof(*k));
        memcpy(v + i * stride, fixture.v + i * head_size, head_size * sizeof(*v));
    }
    EACH_ATTENTION (ops)
        for (size_t first = 0; first < POSITIONS; first += first < 9 ? step : 29)
            for (size_t n = 0; first + n <= POSITIONS; n += n < 9 ? step : 57, round++) {
                const size_t plane_bytes = KV_BLOCK * kv_row_bytes(head_size);
                const KvHead kv = { fixture.blocks, plane_bytes, 3 * plane_bytes, head_size };

                fill_garbage(before, n_bytes, (Garbage)(round % _GARBAGE_N));
                memcpy(fixture.memory, before, n_bytes);
                ops->store(&kv, first, k + first * stride, v + first * stride, attention_fixture_balance(&fixture),
                           stride, n);
                check_stored(&fixture, ops, before, first, n);
            }
    free(before);
    free(k);
    free(v);
    attention_fixture_deinit(&fixture);
}

static void test_attention_store(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 4 : 1)
        check_store(head_sizes[i], i % 2);
    check_store(64, true);
    check_store(512, false);
    check_store(KV_HEAD_SIZE_MAX, true);
}

/* Queries of every magnitude: levels, zeros behind them, factors and starts; other row-heads stay. */
static void check_queries(size_t head_size, bool is_balanced) {
    enum {
        N = 2 * ARRAY_LEN(magnitudes)
    };
    const size_t levels_bytes = attention_levels_bytes(head_size);
    const float factor = 0.177f;
    AttentionFixture fixture;
    AttentionQueries *queries = &fixture.queries;

    attention_fixture_init(&fixture, head_size, 1, N, 1, 0);
    if (is_balanced)
        attention_fixture_balance_keys(&fixture);
    for (size_t i = 0; i < N * head_size; i++)
        fixture.q[i] *= magnitude_at(i / head_size);
    EACH_ATTENTION (ops)
        for (size_t first = 0; first < N; first += 5)
            for (size_t n = 0; first + n <= N; n += n < 4 ? 1 : 7) {
                memset(queries->levels, 0x55, N * levels_bytes);
                memset(queries->factors, 0x55, N * sizeof(float));
                memset(queries->starts, 0x55, N * sizeof(int32_t));
                ops->queries(queries, first, fixture.q + first * head_size, n, attention_fixture_balance(&fixture),
                             factor);
                for (size_t i = 0; i < N; i++) {
                    const bool is_made = i >= first && i < first + n;
                    int8_t levels[PLAIN_HEAD_MAX + ATTENTION_LEVELS_ALIGN];
                    float expected;
                    int32_t start = 0;

                    memset(levels, is_made ? 0 : 0x55, sizeof(levels));
                    memset(&expected, 0x55, sizeof(expected));
                    if (is_made)
                        expected = plain_query(fixture.q + i * head_size, attention_fixture_balance(&fixture),
                                               head_size, factor, levels);
                    for (size_t d = 0; d < head_size; d++)
                        start -= ops->key_bias * levels[d];
                    attention_fixture_same(&fixture, ops, "factor", i, &queries->factors[i], &expected, 1);
                    assert_memory_equal(queries->levels + i * levels_bytes, levels, levels_bytes);
                    assert_int_equal(queries->starts[i], is_made ? start : 0x55555555);
                }
            }
    attention_fixture_deinit(&fixture);
}

static void test_attention_queries(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 3 : 1)
        check_queries(head_sizes[i], i % 2);
    check_queries(512, true);
    check_queries(KV_HEAD_SIZE_MAX, false);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void check_range(size_t head_size, size_t n_heads, size_t begin, size_t end) {
    AttentionFixture fixture;

    attention_fixture_init(&fixture, head_size, n_heads, 1, MAX(end, 1), 0);
    if (end % 2)
        attention_fixture_balance_keys(&fixture);
    attention_fixture_read(&fixture, 0, begin, end);
    check_near(&fixture);
    attention_fixture_deinit(&fixture);
}

/* A single row: ranges begin and end all around the blocks, also empty ones. */
static void test_attention_ranges(void **state) {
    static const size_t borders[] = { 0, 1, 63, 64, 65, 127, 192, 255, 256, 257, 300, 511, 512, 520 };

    for (size_t b = 0; b < ARRAY_LEN(borders); b++)
        for (size_t e = b; e < ARRAY_LEN(borders); e += patience_is_short() ? 4 : 1)
            check_range(head_sizes[(b * 5 + e) % ARRAY_LEN(head_sizes)], 1 + (b * 3 + e) % 16, borders[b], borders[e]);
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 3 : 1) {
        check_range(head_sizes[i], 1, 0, 256);
        check_range(head_sizes[i], 1 + i, 100, 357);
        check_range(head_sizes[i], 16 - i, 0, 17);
    }
    check_range(512, 2, 60, 70);
    check_range(KV_HEAD_SIZE_MAX, 3, 1, 12);
}

/* Rows of a chain, each with one position more than the row before. window 0: all positions. */
static void check_chain(size_t head_size, size_t n_heads, size_t n_rows, size_t first, size_t window, float soft_cap) {
    AttentionFixture fixture;

    attention_fixture_init(&fixture, head_size, n_heads, n_rows, first + n_rows, 0);
    if (n_rows % 2)
        attention_fixture_balance_keys(&fixture);
    fixture.soft_cap = soft_cap;
    for (size_t r = 0; r < n_rows; r++) {
        const size_t end = first + r + 1;

        attention_fixture_read(&fixture, r, window && end > window ? end - window : 0, end);
    }
    check_near(&fixture);
    attention_fixture_deinit(&fixture);
}

/* Several rows of one chain: prompts, windows, soft caps, 1 to 16 heads. */
static void test_attention_chains(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 3 : 1) {
        const size_t head_size = head_sizes[i];

        check_chain(head_size, 1 + i, 20, 0, 0, 0);
        check_chain(head_size, 16 - i, 9, 250, 0, i % 2 ? 5 : 0);
        check_chain(head_size, 1 + i % 4, 33, 230, 100, i % 2 ? 0 : 0.7f);
        check_chain(head_size, 2, 6, 60, 1, 0);
    }
    for (size_t n_heads = 1; n_heads <= 16; n_heads += patience_is_short() ? 5 : 1)
        check_chain(64, n_heads, 7, 255, 64, n_heads % 3 ? 0 : 50);
}

/* Rows with positions of their own, some with none. */
static void test_attention_masks(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 3 : 1) {
        AttentionFixture fixture;

        attention_fixture_init(&fixture, head_sizes[i], 1 + i % 3, 8, 300 + 17 * i, 0);
        if (i % 2)
            attention_fixture_balance_keys(&fixture);
        for (size_t r = 0; r < 8; r++)
            for (size_t p = 0; p < fixture.n_positions; p++)
                fixture.reads[r * fixture.n_places + p] = r && draw() % (1 + r * r) == 0;
        check_near(&fixture);
        attention_fixture_deinit(&fixture);
    }
}

/* Trees behind n_before positions. Rows have slots in random order, and read their ancestors' slots. */
static void check_tree(size_t head_size, size_t n_heads, size_t n_before, size_t n_slots, size_t window) {
    AttentionFixture fixture;
    size_t parents[KV_BLOCK], slots[KV_BLOCK];

    attention_fixture_init(&fixture, head_size, n_heads, n_slots, n_before, n_slots);
    if (n_slots % 2)
        attention_fixture_balance_keys(&fixture);
    for (size_t r = 0; r < n_slots; r++) {
        const size_t other = draw() % (r + 1);

        slots[r] = slots[other];
        slots[other] = r;
    }
    for (size_t r = 0; r < n_slots; r++) {
        bool *reads = fixture.reads + r * fixture.n_places;
        size_t position;

        parents[r] = !r ? SIZE_MAX : draw() % 3 ? r - 1 : draw() % r;
        position = r ? fixture.positions[slots[parents[r]]] + 1 : n_before;
        fixture.positions[slots[r]] = position;
        attention_fixture_read(&fixture, r, MIN(n_before, window && position >= window ? position + 1 - window : 0),
                               n_before);
        for (size_t at = r; at != SIZE_MAX; at = parents[at])
            reads[n_before + slots[at]] = !window || fixture.positions[slots[at]] + window > position;
    }
    check_near(&fixture);
    attention_fixture_deinit(&fixture);
}

static void test_attention_trees(void **state) {
    static const size_t befores[] = { 0, 1, 60, 64, 200, 250, 256, 500 };

    for (size_t i = 0; i < ARRAY_LEN(befores); i += patience_is_short() ? 5 : 1) {
        check_tree(head_sizes[i], 1 + i % 3, befores[i], 31, i % 2 ? 0 : 40);
        check_tree(64, 1 + i, befores[i], 1 + 7 * i, 0);
        check_tree(80, 2, befores[i], KV_BLOCK, i % 3 ? 0 : 3);
    }
}

/* More positions than a sum of int32 could hold for a whole row. */
static void test_attention_long(void **state) {
    check_range(patience_is_short() ? 16 : 32, patience_is_short() ? 1 : 3, 0, 66600);
    check_chain(16, 2, 3, 8190, 4096, 0);
    if (patience_is_short())
        return;
    check_range(128, 1, 60000, 66312);
    check_chain(64, 2, 3, 8190, 0, 0);
}

/* --- extremes ----------------------------------------------------------------------------------------------------- */

/* Keys, values and queries of all magnitudes beside each other, rows of zeros among them: scores from zero to overflow.
 * Values are also tiny everywhere, where weights reach their greatest factor. */
static void test_attention_magnitudes(void **state) {
    static const float scales[] = { 0, 1e-30f, 1, -1, 1e30f };

    for (size_t i = 0; i < 4 * ARRAY_LEN(scales); i += patience_is_short() ? 3 : 1) {
        AttentionFixture fixture;

        attention_fixture_init(&fixture, head_sizes[i % ARRAY_LEN(head_sizes)], 1 + i % 2, 5, 300, 0);
        if (i % 3 == 1)
            attention_fixture_balance_keys(&fixture);
        fixture.scale = scales[i % ARRAY_LEN(scales)];
        fixture.soft_cap = i % 4 == 3 ? 20 : 0;
        for (size_t p = 0; p < fixture.n_places * fixture.head_size; p++) {
            const size_t at = p / fixture.head_size;

            fixture.k[p] *= i % 4 ? magnitude_at(at) : magnitudes[i / 4];
            fixture.v[p] *= i % 7 == 2 ? 0x1p-60f : magnitude_at(at + at / 11 + 3);
        }
        for (size_t p = 0; p < fixture.n_row_heads * fixture.head_size; p++)
            fixture.q[p] *= magnitude_at(p / fixture.head_size);
        for (size_t r = 0; r < 5; r++)
            attention_fixture_read(&fixture, r, r * 3, 300 - 60 * r);
        check_builds(&fixture);
        attention_fixture_deinit(&fixture);
    }
}

/* Scores and value scales on both sides of the limits within which builds leave checks out: units of 512, weights of
 * 2^60, and 2^40 times the greatest value. Some scores are far below the others, with far greater values. Some values
 * are far smaller. */
static void test_attention_limits(void **state) {
    static const float scores[] = { 3, 100, -350, 360, 500, -508, 515, -1100 };
    static const int exponents[] = { -62, -56, -50, -42, -30, -13, 0, 25 };
    enum {
        HEAD = 32,
        ROWS = 2,
        POSITIONS = 300
    };

    for (size_t i = 0; i < ARRAY_LEN(scores) * ARRAY_LEN(exponents); i += patience_is_short() ? 5 : 1) {
        const float score = scores[i % ARRAY_LEN(scores)];
        AttentionFixture fixture;

        attention_fixture_init(&fixture, HEAD, 2, ROWS, POSITIONS, 0);
        fixture.scale = 1;
        for (size_t p = 0; p < POSITIONS; p++)
            for (size_t d = 0; d < HEAD; d++) {
                float *k = &fixture.k[p * HEAD + d], *v = &fixture.v[p * HEAD + d];

                *k = (1 + *k * 0.02f) * (p % 7 == 3 ? 0.8f : 1);
                *v = ldexpf(*v, exponents[i / ARRAY_LEN(scores)] + (p % 7 == 3 ? 64 : p % 5 ? 0 : -(int)(p % 64)));
            }
        for (size_t d = 0; d < ROWS * 2 * HEAD; d++)
            fixture.q[d] = score / (HEAD * 1.4427f) + fixture.q[d] * 0.5f;
        for (size_t r = 0; r < ROWS; r++)
            attention_fixture_read(&fixture, r, r * 70, POSITIONS - 50 * r);
        check_builds(&fixture);
        attention_fixture_deinit(&fixture);
    }
}

/* Scores that rise and fall by hundreds between blocks, so that sums shrink below the least float. */
static void test_attention_steps(void **state) {
    for (size_t i = 0; i < 6; i++) {
        AttentionFixture fixture;

        attention_fixture_init(&fixture, 32, 2, 2, 4 * ATTENTION_BLOCK, 0);
        fixture.scale = 1;
        for (size_t p = 0; p < fixture.n_places; p++)
            for (size_t d = 0; d < 32; d++) {
                const size_t block = p / ATTENTION_BLOCK;

                fixture.k[p * 32 + d] = draw_float(0.1f) + (float)(i < 3 ? block : 3 - block) * (float)(i % 3 + 1) * 4;
            }
        for (size_t d = 0; d < 4 * 32; d++)
            fixture.q[d] = 1;
        attention_fixture_read(&fixture, 0, 0, 4 * ATTENTION_BLOCK);
        attention_fixture_read(&fixture, 1, 100, 900);
        check_near(&fixture);
        attention_fixture_deinit(&fixture);
    }
}

/* Sums of blocks with all distances of units, added one after the other. */
static void test_attention_add(void **state) {
    static const float distances[] = { 0,   0,    1,   -1,   3,   -7,   23,  -23,  64,  -64,  100,      -100,
                                       125, -125, 126, -126, 127, -127, 128, -128, 300, -300, -INFINITY };
    enum {
        HEAD = 32,
        N = 200
    };
    float units[N] = { 0 }, value_units[N], unit_totals[N], normalizer_totals[N] = { 0 }, out[N * HEAD];
    static float output_totals[N * HEAD];
    static int32_t normalizers[N], outputs[N * HEAD];
    static PlainTotals expected[N];
    const AttentionSums sums = { units, value_units, normalizers, outputs };
    const AttentionTotals totals = { unit_totals, normalizer_totals, output_totals };

    EACH_ATTENTION (ops) {
        memset(normalizer_totals, 0, sizeof(normalizer_totals));
        memset(output_totals, 0, sizeof(output_totals));
        for (size_t i = 0; i < N; i++) {
            plain_begin(&expected[i]);
            unit_totals[i] = -INFINITY;
        }
        for (size_t block = 0; block < 50; block++) {
            for (size_t i = 0; i < N; i++) {
                const float at = expected[i].unit == -INFINITY ? draw_float(100) : expected[i].unit;

                units[i] = ceilf(at + distances[draw() % (ARRAY_LEN(distances) - !!(i % 9))]);
                value_units[i] = units[i] + ceilf(draw_float(70));
                normalizers[i] = (int32_t)(draw() >> (2 + draw() % 30));
                for (size_t d = 0; d < HEAD; d++)
                    outputs[i * HEAD + d] = (int32_t)draw() >> (1 + draw() % 30);
            }
            ops->add(&sums, N, HEAD, &totals);
            for (size_t i = 0; i < N; i++) {
                PlainSums plain = { units[i], value_units[i], normalizers[i], { 0 } };

                memcpy(plain.outputs, outputs + i * HEAD, HEAD * sizeof(*outputs));
                plain_add(&expected[i], &plain, HEAD);
                assert_true(unit_totals[i] == expected[i].unit);
                assert_true(same_value(normalizer_totals[i], expected[i].normalizer));
                for (size_t d = 0; d < HEAD; d++)
                    if (!same_value(output_totals[i * HEAD + d], expected[i].outputs[d]))
                        fail_msg("%s, block %zu: %a, expected %a", ops->name, block,
                                 (double)output_totals[i * HEAD + d], (double)expected[i].outputs[d]);
            }
        }
        ops->end(&totals, N, HEAD, out);
        for (size_t i = 0; i < N; i++) {
            float row[HEAD];

            plain_end(&expected[i], HEAD, row);
            for (size_t d = 0; d < HEAD; d++)
                assert_true(same_value(out[i * HEAD + d], row[d]));
        }
    }
}

/* Sums come close to their bounds: equal scores, all levels 127 or -127, and scales just below a power of two. */
static void test_attention_greatest_sums(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 3 : 1) { /* 3: equal levels */
        const size_t head_size = head_sizes[i];
        AttentionFixture fixture;
        int32_t greatest = 0;

        attention_fixture_init(&fixture, head_size, 3, 1, ATTENTION_BLOCK, 0);
        memset(fixture.k, 0, fixture.n_places * head_size * sizeof(float));
        for (size_t p = 0; p < fixture.n_places; p++)
            for (size_t d = 0; d < head_size; d++)
                fixture.v[p * head_size + d] = i % 2 ? -126.9f * 2 : 126.9f * 2;
        for (size_t p = 0; p < fixture.n_places; p++) {
            plain_turn(fixture.v + p * head_size, head_size);
            if (i == 3) /* equal keys and queries of levels 127 */
                memcpy(fixture.k + p * head_size, fixture.v, head_size * sizeof(float));
        }
        if (i == 3)
            memcpy(fixture.q, fixture.v, head_size * sizeof(float));
        attention_fixture_read(&fixture, 0, 0, ATTENTION_BLOCK);
        check_builds(&fixture);
        for (size_t d = 0; d < head_size; d++)
            greatest = MAX(abs(fixture.expected_sums[0].outputs[d]), greatest);
        assert_true(i == 3 || greatest > 126 * ATTENTION_BLOCK * (PLAIN_WEIGHT_TOP - 100));
        attention_fixture_deinit(&fixture);
    }
}

/* Numbers that are not finite affect only the row-heads that read them. */
static void test_attention_hostile(void **state) {
    static const float others[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX };
    static const size_t ranges[][2] = { { 0, 300 }, { 0, 40 }, { 41, 300 }, { 30, 70 }, { 90, 90 } };
    enum {
        HEADS = 2,
        HEAD = 64
    };
    AttentionFixture fixture;

    attention_fixture_init(&fixture, HEAD, HEADS, ARRAY_LEN(ranges), 300, 0);
    for (size_t r = 0; r < ARRAY_LEN(ranges); r++)
        attention_fixture_read(&fixture, r, ranges[r][0], ranges[r][1]);
    attention_fixture_expect(&fixture);
    EACH_ATTENTION (ops)
        for (size_t i = 0; i < 3 * ARRAY_LEN(others); i++) {
            float *x = i % 3 == 0   ? &fixture.k[40 * HEAD + 5]
                       : i % 3 == 1 ? &fixture.v[40 * HEAD + 5]
                                    : &fixture.q[3 * HEADS * HEAD + HEAD + 7];
            const float kept = *x;

            *x = others[i / 3];
            attention_fixture_run(&fixture, ops, MIN(ops->group, 1 + i), i % 2, GARBAGE_RANDOM);
            *x = kept;
            for (size_t at = 0; at < fixture.n_row_heads; at++) {
                const size_t row = at / HEADS;
                const bool is_affected = i % 3 == 2 ? at == 3 * HEADS + 1 : ranges[row][0] <= 40 && ranges[row][1] > 40;

                if (!is_affected)
                    attention_fixture_same(&fixture, ops, "output beside others", at, fixture.out + at * HEAD,
                                           fixture.expected + at * HEAD, HEAD);
            }
        }
    attention_fixture_deinit(&fixture);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

/* A moved position has its keys, values and scales at the new place; the others stay. */
static void test_attention_move(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i += patience_is_short() ? 3 : 1) {
        const size_t head_size = head_sizes[i];
        AttentionFixture fixture;

        attention_fixture_init(&fixture, head_size, 1, 1, KV_BLOCK, KV_BLOCK);
        attention_fixture_read(&fixture, 0, 0, KV_BLOCK);
        EACH_ATTENTION (ops)
            for (size_t to_at = 0; to_at < KV_BLOCK; to_at += 9) {
                const size_t from_at = draw() % KV_BLOCK, plane_bytes = KV_BLOCK * kv_row_bytes(head_size),
                             n_bytes = 4 * plane_bytes;
                const KvHead kv = { fixture.blocks, plane_bytes, 3 * plane_bytes, head_size };
                const KvBlock to = kv_block_at(&kv, fixture.blocks[0]), from = kv_block_at(&kv, fixture.side);
                uint8_t *moved = test_alloc(n_bytes), *side = test_alloc(n_bytes);

                attention_fixture_store(&fixture, ops, GARBAGE_RANDOM);
                memcpy(side, fixture.side, n_bytes);
                kv_block_move(&to, to_at, &from, from_at, head_size);
                assert_memory_equal(side, fixture.side, n_bytes);
                memcpy(moved, fixture.blocks[0], n_bytes);
                for (int is_value = 0; is_value < 2; is_value++) {
                    float *rows = is_value ? fixture.v : fixture.k;

                    memcpy(rows + to_at * head_size, rows + (KV_BLOCK + from_at) * head_size,
                           head_size * sizeof(float));
                }
                ops->store(&kv, 0, fixture.k, fixture.v, NULL, head_size, KV_BLOCK);
                assert_memory_equal(moved, fixture.blocks[0], n_bytes);
                free(moved);
                free(side);
            }
        attention_fixture_deinit(&fixture);
    }
}

static void test_attention_select(void **state) {
    const uint32_t all = CPU_ALL;

    assert_int_equal(attention_ops_at(attention_n_ops() - 1)->need, 0);
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        size_t i = 0;

        while (attention_ops_at(i)->need & ~sub)
            i++;
        assert_ptr_equal(attention_select(sub), attention_ops_at(i));
        if (sub == all)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_store),   cmocka_unit_test(test_attention_queries),
        cmocka_unit_test(test_attention_ranges),  cmocka_unit_test(test_attention_chains),
        cmocka_unit_test(test_attention_masks),   cmocka_unit_test(test_attention_trees),
        cmocka_unit_test(test_attention_long),    cmocka_unit_test(test_attention_magnitudes),
        cmocka_unit_test(test_attention_limits),  cmocka_unit_test(test_attention_steps),
        cmocka_unit_test(test_attention_add),     cmocka_unit_test(test_attention_greatest_sums),
        cmocka_unit_test(test_attention_hostile), cmocka_unit_test(test_attention_move),
        cmocka_unit_test(test_attention_select),
    };

    row_ops_begin(20240610);
    EACH_ATTENTION (ops)
        printf("%s: tested\n", ops->name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
