/* Rotation of quantization: an orthonormal Walsh-Hadamard transform by blocks, of weights at import and of rows at run
 * time. Backends have SIMD versions that give the bits of this one. */
#ifndef COORDGEN_QUANT_ROTATE_H
#define COORDGEN_QUANT_ROTATE_H

#include <stddef.h>
#include <stdint.h>

#define ROTATE_BLOCK_MAX 512

/* Largest of 512, 256, 128, 64, 32 that divides k; 0 when none does (then nothing is rotated). */
uint32_t rotate_block_size(size_t k);
/* float32 of 1 / sqrt(block). */
float rotate_factor(uint32_t block);
/* x[n] = H x[n] by blocks, in natural (Hadamard) order; n is a multiple of block, a power of two up to 512. */
void rotate_row(float *x, size_t n, uint32_t block);

#endif
