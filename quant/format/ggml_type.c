// SPDX-License-Identifier: Apache-2.0
#include "quant/format/ggml_type.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/f16.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF data is read in place: little-endian hosts only");

#define BLOCK 32
#define SUPER_BLOCK 256

/* Names and layouts by type number (gguf-py constants.py, GGML_QUANT_SIZES). An empty row is a number that the format
 * never used or gave up. A type with a layout can be listed; ggml_type_dequantizable() accepts fewer types. */
static const struct {
    const char *name;
    uint32_t block_values;
    uint32_t block_bytes;
} type_table[] = {
    [GGML_F32] = { "F32", 1, 4 },
    [GGML_F16] = { "F16", 1, 2 },
    [GGML_Q4_0] = { "Q4_0", BLOCK, 18 },
    [GGML_Q4_1] = { "Q4_1", BLOCK, 20 },
    [4] = { "Q4_2", 0, 0 }, /* removed from the format in 2023 */
    [5] = { "Q4_3", 0, 0 },
    [GGML_Q5_0] = { "Q5_0", BLOCK, 22 },
    [GGML_Q5_1] = { "Q5_1", BLOCK, 24 },
    [GGML_Q8_0] = { "Q8_0", BLOCK, 34 },
    [9] = { "Q8_1", 0, 0 }, /* an activation type inside ggml, never in a file; its size changed over time */
    [GGML_Q2_K] = { "Q2_K", SUPER_BLOCK, 84 },
    [GGML_Q3_K] = { "Q3_K", SUPER_BLOCK, 110 },
    [GGML_Q4_K] = { "Q4_K", SUPER_BLOCK, 144 },
    [GGML_Q5_K] = { "Q5_K", SUPER_BLOCK, 176 },
    [GGML_Q6_K] = { "Q6_K", SUPER_BLOCK, 210 },
    [GGML_Q8_K] = { "Q8_K", SUPER_BLOCK, 292 },
    [16] = { "IQ2_XXS", SUPER_BLOCK, 66 },
    [17] = { "IQ2_XS", SUPER_BLOCK, 74 },
    [18] = { "IQ3_XXS", SUPER_BLOCK, 98 },
    [19] = { "IQ1_S", SUPER_BLOCK, 50 },
    [20] = { "IQ4_NL", BLOCK, 18 },
    [21] = { "IQ3_S", SUPER_BLOCK, 110 },
    [22] = { "IQ2_S", SUPER_BLOCK, 82 },
    [23] = { "IQ4_XS", SUPER_BLOCK, 136 },
    [GGML_I8] = { "I8", 1, 1 },
    [GGML_I16] = { "I16", 1, 2 },
    [GGML_I32] = { "I32", 1, 4 },
    [GGML_I64] = { "I64", 1, 8 },
    [GGML_F64] = { "F64", 1, 8 },
    [29] = { "IQ1_M", SUPER_BLOCK, 56 },
    [GGML_BF16] = { "BF16", 1, 2 },
    [31] = { "Q4_0_4_4", 0, 0 }, /* removed: repacked at load instead */
    [32] = { "Q4_0_4_8", 0, 0 },
    [33] = { "Q4_0_8_8", 0, 0 },
    [34] = { "TQ1_0", SUPER_BLOCK, 54 },
    [35] = { "TQ2_0", SUPER_BLOCK, 66 },
    [36] = { "IQ4_NL_4_4", 0, 0 },
    [37] = { "IQ4_NL_4_8", 0, 0 },
    [38] = { "IQ4_NL_8_8", 0, 0 },
    [39] = { "MXFP4", BLOCK, 17 },
    [40] = { "NVFP4", 64, 36 },
    [41] = { "Q1_0", 128, 18 },
};

const char *ggml_type_name(uint32_t type) {
    return type < ARRAY_LEN(type_table) ? type_table[type].name : NULL;
}

bool ggml_type_block(uint32_t type, uint32_t *block_valuesp, uint32_t *block_bytesp) {
    if (type >= ARRAY_LEN(type_table) || !type_table[type].block_values)
        return false;
    *block_valuesp = type_table[type].block_values;
    *block_bytesp = type_table[type].block_bytes;
    return true;
}

static inline uint16_t load_u16(const uint8_t *src) {
    uint16_t value;

    memcpy(&value, src, sizeof(value));
    return value;
}

static inline uint64_t load_u64(const uint8_t *src) {
    uint64_t value;

    memcpy(&value, src, sizeof(value));
    return value;
}

/* --- plain values ------------------------------------------------------------------------------------------------- */

static void dequantize_f32(const uint8_t *restrict src, float *restrict dst, size_t n) {
    memcpy(dst, src, n * sizeof(*dst));
}

static void dequantize_f16(const uint8_t *restrict src, float *restrict dst, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_to_f32(load_u16(src + 2 * i));
}

static void dequantize_bf16(const uint8_t *restrict src, float *restrict dst, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = bf16_to_f32(load_u16(src + 2 * i));
}

/* --- blocks of 32: element j is the low nibble of qs[j], element j + 16 the high one ------------------------------ */

/* Spreads bit i of bits to byte i: 16 if it is set. The additions carry into the byte's own bit 7 only. */
static inline uint64_t spread_fifth(uint8_t bits) {
    uint64_t one_a_byte = bits * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);

    return ((one_a_byte + UINT64_C(0x7f7f7f7f7f7f7f7f)) & UINT64_C(0x8080808080808080)) >> 3;
}

/* Dequantizes blocks of d, a min (if has_min), fifth bits qh (if any; bit e belongs to element e), and qs. The flags
 * are constants in every caller, so each type gets its own loop without branches and variable shifts, which the
 * compiler can vectorise. */
static inline __attribute__((always_inline)) void dequantize_32(const uint8_t *restrict src, float *restrict dst,
                                                                size_t n, bool has_min, bool has_fifth) {
    const uint64_t nibbles = UINT64_C(0x0f0f0f0f0f0f0f0f);

    for (size_t b = 0; b < n / BLOCK; b++, dst += BLOCK) {
        float d = f16_to_f32(load_u16(src)), m = has_min ? f16_to_f32(load_u16(src + 2)) : 0;
        const uint8_t *qh = src + 2 + 2 * has_min, *qs = has_fifth ? qh + 4 : qh;
        uint64_t eights[4]; /* codes, eight per word */
        const uint8_t *codes = (const uint8_t *)eights;

        for (size_t i = 0; i < 2; i++) {
            uint64_t bytes = load_u64(qs + 8 * i);

            eights[i] = (bytes & nibbles) | (has_fifth ? spread_fifth(qh[i]) : 0);
            eights[i + 2] = (bytes >> 4 & nibbles) | (has_fifth ? spread_fifth(qh[i + 2]) : 0);
        }
        for (size_t j = 0; j < BLOCK; j++)
            dst[j] = has_min ? (float)codes[j] * d + m : (float)(codes[j] - (has_fifth ? 16 : 8)) * d;
        src = qs + 16;
    }
}

static void dequantize_q4_0(const uint8_t *restrict src, float *restrict dst, size_t n) {
    dequantize_32(src, dst, n, false, false);
}

static void dequantize_q4_1(const uint8_t *restrict src, float *restrict dst, size_t n) {
    dequantize_32(src, dst, n, true, false);
}

static void dequantize_q5_0(const uint8_t *restrict src, float *restrict dst, size_t n) {
    dequantize_32(src, dst, n, false, true);
}

static void dequantize_q5_1(const uint8_t *restrict src, float *restrict dst, size_t n) {
    dequantize_32(src, dst, n, true, true);
}

static void dequantize_q8_0(const uint8_t *restrict src, float *restrict dst, size_t n) {
    for (size_t b = 0; b < n / BLOCK; b++, src += 34, dst += BLOCK) {
        float d = f16_to_f32(load_u16(src));

        for (size_t j = 0; j < BLOCK; j++)
            dst[j] = (float)(int8_t)src[2 + j] * d;
    }
}

/* --- super-blocks of 256 ------------------------------------------------------------------------------------------ */

/* Reads the 6-bit scale and min of sub-block s: low bits of q[s] and q[s + 4] for s < 4, nibbles and high bits for
 * others. */
static void k_scale_min(const uint8_t *q, size_t s, uint8_t *scalep, uint8_t *minp) {
    if (s < 4) {
        *scalep = q[s] & 63;
        *minp = q[s + 4] & 63;
    } else {
        *scalep = (uint8_t)((q[s + 4] & 15) | (q[s - 4] >> 6) << 4);
        *minp = (uint8_t)((q[s + 4] >> 4) | (q[s] >> 6) << 4);
    }
}

/* Dequantizes Q4_K and Q5_K. Sub-blocks 2c and 2c + 1 share 32 bytes of qs: low nibbles and high nibbles. Bit s of
 * qh[l] is the fifth bit (Q5_K) of element l of sub-block s. */
static inline __attribute__((always_inline)) void dequantize_q45_k(const uint8_t *restrict src, float *restrict dst,
                                                                   size_t n, bool has_fifth) {
    for (size_t b = 0; b < n / SUPER_BLOCK; b++, dst += SUPER_BLOCK) {
        float d = f16_to_f32(load_u16(src)), dmin = f16_to_f32(load_u16(src + 2));
        const uint8_t *qh = src + 16, *qs = has_fifth ? qh + 32 : qh;

        for (size_t c = 0; c < 4; c++, qs += 32) {
            uint8_t scale[2], min[2];
            float d0, d1, m0, m1;

            k_scale_min(src + 4, 2 * c, &scale[0], &min[0]);
            k_scale_min(src + 4, 2 * c + 1, &scale[1], &min[1]);
            d0 = d * (float)scale[0];
            d1 = d * (float)scale[1];
            m0 = dmin * (float)min[0];
            m1 = dmin * (float)min[1];
            for (size_t l = 0; l < 32; l++) {
                int low = qs[l] & 15, high = qs[l] >> 4;

                if (has_fifth) {
                    low |= (qh[l] >> (2 * c) & 1) << 4;
                    high |= (qh[l] >> (2 * c + 1) & 1) << 4;
                }
                dst[64 * c + l] = d0 * (float)low - m0;
                dst[64 * c + 32 + l] = d1 * (float)high - m1;
            }
        }
        src = qs;
    }
}

static void dequantize_q4_k(const uint8_t *restrict src, float *restrict dst, size_t n) {
    dequantize_q45_k(src, dst, n, false);
}

static void dequantize_q5_k(const uint8_t *restrict src, float *restrict dst, size_t n) {
    dequantize_q45_k(src, dst, n, true);
}

/* Dequantizes Q6_K: two halves of 128; value l + 32 t of a half has its low nibble in ql and its two high bits in
 * qh[l] >> 2t. */
static void dequantize_q6_k(const uint8_t *restrict src, float *restrict dst, size_t n) {
    for (size_t b = 0; b < n / SUPER_BLOCK; b++, src += 210, dst += SUPER_BLOCK) {
        float d = f16_to_f32(load_u16(src + 208));

        for (size_t h = 0; h < 2; h++) {
            const uint8_t *ql = src + 64 * h, *qh = src + 128 + 32 * h, *scales = src + 192 + 8 * h;
            float scale[8];

            for (size_t i = 0; i < 8; i++)
                scale[i] = d * (float)(int8_t)scales[i];
            for (size_t i = 0; i < 2; i++) {
                for (size_t l = 16 * i; l < 16 * i + 16; l++) {
                    float *y = dst + 128 * h + l;

                    y[0] = scale[i] * (float)(((ql[l] & 15) | (qh[l] & 3) << 4) - 32);
                    y[32] = scale[i + 2] * (float)(((ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4) - 32);
                    y[64] = scale[i + 4] * (float)(((ql[l] >> 4) | (qh[l] >> 4 & 3) << 4) - 32);
                    y[96] = scale[i + 6] * (float)(((ql[l + 32] >> 4) | (qh[l] >> 6 & 3) << 4) - 32);
                }
            }
        }
    }
}

typedef void Dequantize(const uint8_t *restrict src, float *restrict dst, size_t n);

static Dequantize *const dequantize_table[] = {
    [GGML_F32] = dequantize_f32,   [GGML_F16] = dequantize_f16,   [GGML_BF16] = dequantize_bf16,
    [GGML_Q4_0] = dequantize_q4_0, [GGML_Q4_1] = dequantize_q4_1, [GGML_Q5_0] = dequantize_q5_0,
    [GGML_Q5_1] = dequantize_q5_1, [GGML_Q8_0] = dequantize_q8_0, [GGML_Q4_K] = dequantize_q4_k,
    [GGML_Q5_K] = dequantize_q5_k, [GGML_Q6_K] = dequantize_q6_k,
};

bool ggml_type_dequantizable(uint32_t type) {
    return type < ARRAY_LEN(dequantize_table) && dequantize_table[type];
}

/**
 * ggml_dequantize() - convert n values of a quantized tensor to float32
 * @type: a type that ggml_type_dequantizable() accepts
 * @src:  n / block_values blocks, any alignment
 * @dst:  f32[n], not inside src
 * @n:    a multiple of the type's block_values
 *
 * The float32 arithmetic has the order of ggml's reference: the products d * scale and dmin * min first, then times
 * the integer, then minus the min. No operation is fused, so every machine gives the same bits. Thread: any.
 */
void ggml_dequantize(uint32_t type, const void *src, float *dst, size_t n) {
    assert(ggml_type_dequantizable(type));
    assert(n % type_table[type].block_values == 0);
    dequantize_table[type](src, dst, n);
}
