// SPDX-License-Identifier: Apache-2.0
/* Allocates a budget of bits over the channels of one tensor (EdgeFlow, Algorithm 1), or over groups of weights of the
 * whole model by measured errors. Both give widths of 1..8, and the same answer on every machine. */
#ifndef COORDGEN_QUANT_BIT_ALLOCATION_H
#define COORDGEN_QUANT_BIT_ALLOCATION_H

#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Weights that share one width: a tensor, a block of 16 channels, or a channel. */
typedef struct BitGroup {
    uint64_t n_weights;          /* above 0 */
    double error[GRID_BITS_MAX]; /* [bits - 1]: the group's part of the loss at that width; finite, in one unit for all
                                  * groups */
} BitGroup;

/* Runs Algorithm 1. peaks[n]: relative_error_peak() of every channel; bits[n]: out. 0; -EINVAL: n is 0, average_bits
 * is not in 1..8, or a peak is negative or not finite; -ENOMEM. */
int bit_allocation_tensor(const double *peaks, size_t n, double average_bits, int8_t *bits);
/* Minimizes the sum of errors with at most average_bits per weight and widths in min_bits..max_bits. 0; -EINVAL: not
 * 1 <= min_bits <= average_bits, not min_bits <= max_bits <= 8, or a bad group; -ENOMEM. */
int bit_allocation_model(const BitGroup *groups, size_t n, double average_bits, int min_bits, int max_bits,
                         int8_t *bits);

#endif
