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
#define ROTATE_ACROSS_MAX 16
#define ROTATE_ACROSS_RUN 16 /* values k / across apart are mixed in runs of a multiple of so many */

/* How the inputs of a product are rotated. All zero: not at all. */
typedef struct Rotation {
    uint32_t block;  /* first within blocks: a power of two, 32..512, that divides k */
    uint32_t across; /* then between them, values k / across apart: a power of two, 2..16; 0: not */
} Rotation;

/* Of k inputs, as the importer rotates them; wide: across blocks too, where there are several and k allows it. */
Rotation rotation_for(size_t k, bool wide);
/* Whether k inputs can be rotated so. */
bool rotation_fits(Rotation rotation, uint64_t k);
static inline bool rotation_equal(Rotation a, Rotation b) {
    return a.block == b.block && a.across == b.across;
}

/* x[n] = R x[n], and x[n] = R^T x[n], which is the inverse. A rotation that is none changes nothing. */
void rotation_apply(float *x, size_t n, Rotation rotation);
void rotation_undo(float *x, size_t n, Rotation rotation);

/* Its two parts, each its own inverse up to rounding. */
/* Largest of 512, 256, 128, 64, 32 that divides k; 0 when none does (then nothing is rotated). */
uint32_t rotate_block_size(size_t k);
/* float32 of 1 / sqrt(n) for n values that are mixed. */
float rotate_factor(uint32_t n);
/* x[n] = H x[n] by blocks, in natural (Hadamard) order; n is a multiple of block, a power of two up to 512. */
void rotate_row(float *x, size_t n, uint32_t block);
/* The same of each `across` values that are n / across apart. */
void rotate_across(float *x, size_t n, uint32_t across);

#endif
