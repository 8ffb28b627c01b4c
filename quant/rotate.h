// SPDX-License-Identifier: Apache-2.0
/* Rotates weights at import, and rows at run time, by orthonormal Walsh-Hadamard transforms before quantization. SIMD
 * versions of the backends give the same bits. */
#ifndef COORDGEN_QUANT_ROTATE_H
#define COORDGEN_QUANT_ROTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTATE_BLOCK_MIN 32
#define ROTATE_BLOCK_MAX 512
/* Returns the largest of 512, 256, 128, 64, 32 that divides k; 0, for no rotation, if none does. */
uint32_t rotate_block_size(size_t k);
/* Whether k inputs can be rotated by blocks of this size; block 0, for no rotation, always fits. */
bool rotate_block_fits(uint32_t block, uint64_t k);
/* Returns 1 / sqrt(n) in float32, for blocks of n values. */
float rotate_factor(uint32_t n);
/* Computes x[n] = H x[n] by blocks, in natural (Hadamard) order; its own inverse up to rounding. n is a multiple of
 * block, a power of two up to 512; block 0 changes nothing. */
void rotate_row(float *x, size_t n, uint32_t block);

#endif
