// SPDX-License-Identifier: Apache-2.0
/* The 12 bytes of 6-bit factors, expanded to 16 bytes with a few operations on 64-bit registers. */
#ifndef COORDGEN_BENCH_KQUANT_FACTORS_H
#define COORDGEN_BENCH_KQUANT_FACTORS_H

#include <stdint.h>
#include <string.h>

/* Unpacks one byte each: scales 0..3 and minima 0..3 into first, scales 4..7 and minima 4..7 into second.
 * (Little-endian machines.) */
static inline void kquant_factors(const uint8_t packed[12], uint64_t *first, uint64_t *second) {
    uint64_t low;
    uint32_t high;

    memcpy(&low, packed, sizeof(low));
    memcpy(&high, packed + 8, sizeof(high));
    *first = low & 0x3f3f3f3f3f3f3f3fu;
    *second = (low >> 2 & 0x3030303030303030u) | (high & 0x0f0f0f0fu) | (uint64_t)(high >> 4 & 0x0f0f0f0fu) << 32;
}

#endif
