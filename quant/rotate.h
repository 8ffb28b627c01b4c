// SPDX-License-Identifier: Apache-2.0
/* Rotation of quantization: orthonormal Walsh-Hadamard transforms, of weights at import and of rows at run time.
 * Backends have SIMD versions that give the bits of these. */
#ifndef COORDGEN_QUANT_ROTATE_H
#define COORDGEN_QUANT_ROTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTATE_BLOCK_MIN 32
#define ROTATE_BLOCK_MAX 512
/* Largest of 512, 256, 128, 64, 32 that divides k; 0 when none does (then nothing is rotated). */
uint32_t rotate_block_size(size_t k);
/* Whether k inputs can be rotated by blocks of this size; 0: not at all. */
bool rotate_block_fits(uint32_t block, uint64_t k);
/* float32 of 1 / sqrt(n) for n values that are mixed. */
float rotate_factor(uint32_t n);
/* x[n] = H x[n] by blocks, in natural (Hadamard) order, its own inverse up to rounding. n is a multiple of block, a
 * power of two up to 512; 0 changes nothing. */
void rotate_row(float *x, size_t n, uint32_t block);

#endif
