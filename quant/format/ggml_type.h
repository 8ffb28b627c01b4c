// SPDX-License-Identifier: Apache-2.0
/* Element types of GGUF tensors: block sizes and dequantization to float32 (GGUF v3 / ggml block formats). */
#ifndef COORDGEN_QUANT_GGML_TYPE_H
#define COORDGEN_QUANT_GGML_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Type numbers of the file format. */
typedef enum GgmlType {
    GGML_F32 = 0,
    GGML_F16 = 1,
    GGML_Q4_0 = 2,
    GGML_Q4_1 = 3,
    GGML_Q5_0 = 6,
    GGML_Q5_1 = 7,
    GGML_Q8_0 = 8,
    GGML_Q2_K = 10,
    GGML_Q3_K = 11,
    GGML_Q4_K = 12,
    GGML_Q5_K = 13,
    GGML_Q6_K = 14,
    GGML_Q8_K = 15,
    GGML_I8 = 24,
    GGML_I16 = 25,
    GGML_I32 = 26,
    GGML_I64 = 27,
    GGML_F64 = 28,
    GGML_BF16 = 30,
} GgmlType;

/* Returns a name as "Q4_K", or NULL for a number that the format does not define. */
const char *ggml_type_name(uint32_t type);
/* Gets the values and bytes of one block; false for a type of unknown layout. */
bool ggml_type_block(uint32_t type, uint32_t *block_valuesp, uint32_t *block_bytesp);
/* Whether ggml_dequantize() takes the type: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K. */
bool ggml_type_dequantizable(uint32_t type);
/* Converts n values (a multiple of the block's) from src into f32 dst[n]. The type must be dequantizable. */
void ggml_dequantize(uint32_t type, const void *src, float *dst, size_t n);

#endif
