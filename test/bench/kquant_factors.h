// SPDX-License-Identifier: Apache-2.0
/* The 12 bytes of 6-bit factors, spread to 16 bytes with a few operations on 64-bit registers. */
#ifndef COORDGEN_BENCH_KQUANT_FACTORS_H
#define COORDGEN_BENCH_KQUANT_FACTORS_H

#include <stdint.h>
#include <string.h>

/* first: scales 0..3, minima 0..3; second: scales 4..7, minima 4..7; a byte each. (Little-endian machines.) */
static inline void kquant_factors(const uint8_t packed[12], uint64_t *first, uint64_t *second) {
    uint64_t low;
    uint32_t high;

    memcpy(&low, packed, sizeof(low));
    memcpy(&high, packed + 8, sizeof(high));
    *first = low & 0x3f3f3f3f3f3f3f3fu;
    *second = (low >> 2 & 0x3030303030303030u) | (high & 0x0f0f0f0fu) | (uint64_t)(high >> 4 & 0x0f0f0f0fu) << 32;
}

#endif
