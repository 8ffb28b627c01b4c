// SPDX-License-Identifier: Apache-2.0
/* Tests of dequantization: hand-computed blocks, double-precision formulas written independently, and the values of
 * gguf-py. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/f16.h"
#include "base/min_max.h"
#include "quant/format/ggml_type.h"

#define N 4096

/* SplitMix64: gives the random blocks of the script that made the golden values. */
static uint64_t split_mix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t fnv(const void *data, size_t len_bytes) {
    const uint8_t *s = data;
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len_bytes; i++)
        hash = (hash ^ s[i]) * 0x100000001b3u;
    return hash;
}

/* Byte of a block whose bit 6 is the top bit of a scale's exponent; cleared, so that every value is finite. */
static const struct {
    uint32_t type;
    int exponent_byte[2];
    uint64_t hash; /* hash of the f32 bytes of 4096 values: gguf-py 0.19, gguf.quants.dequantize() */
    uint32_t first, second, last;
} golden[] = {
    { GGML_F32, { 3, -1 }, 0xcb3fe006003c3b1c, 0x89025cc1, 0x910a2dec, 0x306a09af },
    { GGML_F16, { 1, -1 }, 0xcc240d9f1e14595e, 0x3ad9c000, 0x3b92e000, 0xb84d8000 },
    { GGML_BF16, { 1, -1 }, 0x5616e5cd0b1b5af1, 0xaaea0000, 0x879f0000, 0x8ec70000 },
    { GGML_Q4_0, { 1, -1 }, 0xedf0eae102104293, 0x3b5dec00, 0xbabe3800, 0xbc86b800 },
    { GGML_Q4_1, { 1, 3 }, 0x8cbe76ad316cda10, 0xbc4d2a00, 0xbc508f00, 0x40860348 },
    { GGML_Q5_0, { 1, -1 }, 0x85226599eac06b95, 0xbae99800, 0x3a8c2800, 0xbe100000 },
    { GGML_Q5_1, { 1, 3 }, 0x20e2d4c54abcf36e, 0x3e8a1800, 0x403f2b00, 0x3d1e9f00 },
    { GGML_Q8_0, { 1, -1 }, 0x91c8679f48e6b6cd, 0x3f75e000, 0xbf10e400, 0xbc97a100 },
    { GGML_Q4_K, { 1, 3 }, 0xb872b16c10c174e5, 0x41e45c9c, 0x41e4bcce, 0xc053dc38 },
    { GGML_Q5_K, { 1, 3 }, 0x4356659a21ef0fbc, 0xc1b58340, 0xc201c520, 0x41538f70 },
    { GGML_Q6_K, { 209, -1 }, 0x73db2a1edeb39e44, 0xbe16012c, 0xbe31c880, 0x4512b180 },
};

static void random_blocks(size_t row, uint8_t *blocks, size_t len_bytes, uint32_t block_bytes) {
    uint64_t state = golden[row].type + 1;

    for (size_t i = 0; i < len_bytes; i += 8) {
        uint64_t value = split_mix(&state);

        memcpy(blocks + i, &value, MIN(len_bytes - i, 8));
    }
    for (size_t b = 0; b < len_bytes / block_bytes; b++)
        for (size_t i = 0; i < 2; i++)
            if (golden[row].exponent_byte[i] >= 0)
                blocks[b * block_bytes + (size_t)golden[row].exponent_byte[i]] &= 0xbf;
}

static void test_ggml_type_golden(void **state) {
    static uint8_t blocks[4 * N];
    static float y[N];

    for (size_t row = 0; row < ARRAY_LEN(golden); row++) {
        uint32_t block_values, block_bytes;

        assert_true(ggml_type_dequantizable(golden[row].type));
        assert_true(ggml_type_block(golden[row].type, &block_values, &block_bytes));
        random_blocks(row, blocks, N / block_values * block_bytes, block_bytes);
        ggml_dequantize(golden[row].type, blocks, y, N);
        assert_int_equal(f32_to_bits(y[0]), golden[row].first);
        assert_int_equal(f32_to_bits(y[1]), golden[row].second);
        assert_int_equal(f32_to_bits(y[N - 1]), golden[row].last);
        assert_true(fnv(y, sizeof(y)) == golden[row].hash);
    }
}

/* --- values by element, in double, from the format's table
 * ---------------------------------------------------------- */

static double half_at(const uint8_t *p) {
    uint32_t h = (uint32_t)p[0] | (uint32_t)p[1] << 8, exponent = h >> 10 & 31, fraction = h & 1023;
    double value = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);

    return h & 0x8000 ? -value : value;
}

static unsigned int nibble(const uint8_t *qs, unsigned int e) {
    return e < 16 ? qs[e] & 15u : qs[e - 16] >> 4;
}

static unsigned int fifth_bit(const uint8_t *qh, unsigned int e) {
    return (qh[e / 8] >> e % 8 & 1u) * 16;
}

/* Twelve bytes hold 8 scales and 8 mins of 6 bits: the low four bits of the last four pairs in bytes 8 to 11. */
static double six_bits(const uint8_t *q, unsigned int s, int is_min) {
    unsigned int at = is_min ? s + 4 : s;

    if (s < 4)
        return q[at] % 64;
    return (is_min ? q[s + 4] / 16 : q[s + 4] % 16) + 16 * (q[is_min ? s : s - 4] / 64);
}

static double reference(uint32_t type, const uint8_t *b, unsigned int e) {
    unsigned int sub = e / 32, l = e % 32, n;
    uint32_t bits;
    float f;

    switch (type) {
    case GGML_F32:
        memcpy(&f, b, 4);
        return f;
    case GGML_F16:
        return half_at(b);
    case GGML_BF16:
        bits = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 24;
        memcpy(&f, &bits, 4);
        return f;
    case GGML_Q4_0:
        return ((int)nibble(b + 2, e) - 8) * half_at(b);
    case GGML_Q4_1:
        return nibble(b + 4, e) * half_at(b) + half_at(b + 2);
    case GGML_Q5_0:
        return ((int)(nibble(b + 6, e) + fifth_bit(b + 2, e)) - 16) * half_at(b);
    case GGML_Q5_1:
        return (nibble(b + 8, e) + fifth_bit(b + 4, e)) * half_at(b) + half_at(b + 2);
    case GGML_Q8_0:
        return (int8_t)b[2 + e] * half_at(b);
    case GGML_Q4_K:
        n = b[16 + sub / 2 * 32 + l] >> (sub % 2 * 4) & 15u;
        return half_at(b) * six_bits(b + 4, sub, 0) * n - half_at(b + 2) * six_bits(b + 4, sub, 1);
    case GGML_Q5_K:
        n = (b[48 + sub / 2 * 32 + l] >> (sub % 2 * 4) & 15u) + (b[16 + l] >> sub & 1u) * 16;
        return half_at(b) * six_bits(b + 4, sub, 0) * n - half_at(b + 2) * six_bits(b + 4, sub, 1);
    default: {
        unsigned int h = e / 128, r = e % 128, t = r / 32, low = b[64 * h + r % 64] >> (r / 64 * 4) & 15u;
        unsigned int high = b[128 + 32 * h + r % 32] >> (2 * t) & 3u;

        return half_at(b + 208) * (int8_t)b[192 + e / 16] * ((int)(low + 16 * high) - 32);
    }
    }
}

static void test_ggml_type_double_formulas(void **state) {
    static uint8_t blocks[4 * N];
    static float y[N];

    for (size_t row = 0; row < ARRAY_LEN(golden); row++) {
        uint32_t type = golden[row].type, block_values, block_bytes;

        assert_true(ggml_type_block(type, &block_values, &block_bytes));
        random_blocks(row, blocks, N / block_values * block_bytes, block_bytes);
        ggml_dequantize(type, blocks, y, N);
        for (unsigned int i = 0; i < N; i++) {
            const uint8_t *b = blocks + i / block_values * block_bytes;
            double expected = reference(type, b, i % block_values), magnitude = fabs(expected);

            if (type == GGML_Q4_1 || type == GGML_Q5_1)
                magnitude += 2 * fabs(half_at(b + 2)); /* the sum may cancel */
            if (type == GGML_Q4_K || type == GGML_Q5_K)
                magnitude += 2 * fabs(half_at(b + 2)) * 63;
            if (fabs((double)y[i] - expected) > 3e-7 * magnitude)
                fail_msg("%s element %u: %a, expected %a", ggml_type_name(type), i, (double)y[i], expected);
        }
    }
}

/* --- by hand ------------------------------------------------------------------------------------------------------ */

static void put_half(uint8_t *p, float value) {
    uint16_t half = f32_to_f16(value);

    memcpy(p, &half, 2);
}

static void test_ggml_type_by_hand_32(void **state) {
    uint8_t b[64] = { 0 };
    float y[32];

    put_half(b, 0.5f); /* Q4_0: d 0.5, element 0 = 3, element 16 = 15 */
    b[2] = 0xf3;
    ggml_dequantize(GGML_Q4_0, b, y, 32);
    assert_true(y[0] == -2.5f && y[16] == 3.5f && y[1] == -4.0f && y[31] == -4.0f);

    put_half(b + 2, -1.0f); /* Q4_1: d 0.5, m -1, element 15 = 9, element 31 = 4 */
    memset(b + 4, 0, 16);
    b[19] = 0x49;
    ggml_dequantize(GGML_Q4_1, b, y, 32);
    assert_true(y[15] == 3.5f && y[31] == 1.0f && y[0] == -1.0f);

    memset(b, 0, sizeof(b)); /* Q5_0: d 2, element 0 = 16 + 1, element 31 = 16 + 15 */
    put_half(b, 2.0f);
    b[2] = 0x01;
    b[5] = 0x80;
    b[6] = 0x01;
    b[21] = 0xf0;
    ggml_dequantize(GGML_Q5_0, b, y, 32);
    assert_true(y[0] == 2.0f && y[31] == 30.0f && y[1] == -32.0f);

    memset(b, 0, sizeof(b)); /* Q5_1: d 0.25, m 3, element 8 = 16 + 2 */
    put_half(b, 0.25f);
    put_half(b + 2, 3.0f);
    b[5] = 0x01;
    b[16] = 0x02;
    ggml_dequantize(GGML_Q5_1, b, y, 32);
    assert_true(y[8] == 7.5f && y[0] == 3.0f);

    memset(b, 0, sizeof(b)); /* Q8_0: d 0.125 */
    put_half(b, 0.125f);
    b[2] = 0x80;
    b[33] = 0x7f;
    ggml_dequantize(GGML_Q8_0, b, y, 32);
    assert_true(y[0] == -16.0f && y[31] == 15.875f && y[1] == 0.0f);
}

static void test_ggml_type_by_hand_256(void **state) {
    uint8_t b[256] = { 0 };
    float y[256];

    put_half(b, 0.5f); /* Q4_K: d 0.5, dmin 0.25; sub-block 0: scale 3, min 2; sub-block 5: scale 33, min 20 */
    put_half(b + 2, 0.25f);
    b[4 + 0] = 3;
    b[4 + 4] = 2;
    b[4 + 9] = (20 & 15) << 4 | (33 & 15);
    b[4 + 1] = (33 >> 4) << 6;
    b[4 + 5] = (20 >> 4) << 6;
    b[16] = 0x07;           /* sub-block 0, element 0 = 7 */
    b[16 + 64 + 31] = 0xc0; /* sub-block 5, element 31 = 12 */
    ggml_dequantize(GGML_Q4_K, b, y, 256);
    assert_true(y[0] == 10.0f && y[1] == -0.5f && y[191] == 193.0f && y[190] == -5.0f && y[64] == 0.0f);

    memset(b, 0, sizeof(b)); /* Q5_K: sub-block 7, element 3 = 16 + 1, scale 1, min 0 */
    put_half(b, 1.0f);
    b[4 + 11] = 1;
    b[16 + 3] = 0x80;
    b[48 + 96 + 3] = 0x10;
    ggml_dequantize(GGML_Q5_K, b, y, 256);
    assert_true(y[227] == 17.0f && y[226] == 0.0f);

    memset(b, 0, sizeof(b)); /* Q6_K: d 0.5; element 128 + 96 + 17 (t 3, i 1): low 5, high 2, scale -4 */
    put_half(b + 208, 0.5f);
    b[64 + 32 + 17] = 0x50;
    b[128 + 32 + 17] = 2 << 6;
    b[192 + 8 + 7] = (uint8_t)-4;
    ggml_dequantize(GGML_Q6_K, b, y, 256);
    assert_true(y[241] == -10.0f && y[240] == 64.0f && y[0] == 0.0f);
}

static void test_ggml_type_table(void **state) {
    uint32_t values, bytes;

    assert_string_equal(ggml_type_name(GGML_Q4_K), "Q4_K");
    assert_string_equal(ggml_type_name(16), "IQ2_XXS");
    assert_null(ggml_type_name(42));
    assert_null(ggml_type_name(UINT32_MAX));
    assert_true(ggml_type_block(GGML_Q3_K, &values, &bytes) && values == 256 && bytes == 110);
    assert_false(ggml_type_block(4, &values, &bytes)); /* known by name only */
    assert_false(ggml_type_block(1000, &values, &bytes));
    assert_false(ggml_type_dequantizable(GGML_Q2_K));
    assert_false(ggml_type_dequantizable(GGML_I8));
    assert_false(ggml_type_dequantizable(UINT32_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ggml_type_golden),     cmocka_unit_test(test_ggml_type_double_formulas),
        cmocka_unit_test(test_ggml_type_by_hand_32), cmocka_unit_test(test_ggml_type_by_hand_256),
        cmocka_unit_test(test_ggml_type_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
