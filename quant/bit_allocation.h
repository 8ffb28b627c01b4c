// SPDX-License-Identifier: Apache-2.0
/* Where a budget of bits goes: over the channels of one tensor (EdgeFlow, Algorithm 1), or over groups of weights of
 * the whole model by measured errors. Both give widths of 1..8 and the same answer everywhere. */
#ifndef COORDGEN_QUANT_BIT_ALLOCATION_H
#define COORDGEN_QUANT_BIT_ALLOCATION_H

#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Weights that get one width: a tensor, a block of 16 channels, a channel. */
typedef struct BitGroup {
    uint64_t n_weights;          /* above 0 */
    double error[GRID_BITS_MAX]; /* [bits - 1]: what the group adds to the loss at that width; finite, any unit that is
                                  * the same for all groups */
} BitGroup;

/* Algorithm 1. peaks[n]: relative_error_peak() of every channel; bits[n]: out. 0; -EINVAL: n is 0, average_bits is not
 * in 1..8, a peak is negative or not finite; -ENOMEM. */
int bit_allocation_tensor(const double *peaks, size_t n, double average_bits, int8_t *bits);
/* Least sum of errors with at most average_bits a weight; every width in min_bits..max_bits. 0; -EINVAL: widths that
 * are not 1 <= min_bits <= average_bits, min_bits <= max_bits <= 8, or a bad group; -ENOMEM. */
int bit_allocation_model(const BitGroup *groups, size_t n, double average_bits, int min_bits, int max_bits,
                         int8_t *bits);

#endif
