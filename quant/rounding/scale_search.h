// SPDX-License-Identifier: Apache-2.0
/* Scale of one output channel at a given width: of its largest weight, or by least squares. */
#ifndef COORDGEN_QUANT_SCALE_SEARCH_H
#define COORDGEN_QUANT_SCALE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* A channel whose largest weight is below this is one of zeros: its scale is 0. */
#define SCALE_SEARCH_WEIGHT_MIN 0x1p-100f

/* Both: w f32[n]; bits 1..8; false, and nothing written, when a value is not finite. */

/* *scalep = max |w| / largest level. */
bool scale_of_largest(const float *w, size_t n, Grid grid, int bits, float *scalep);
/* Least sum of (w - scale * level)^2. */
bool scale_search(const float *w, size_t n, Grid grid, int bits, float *scalep);

#endif
