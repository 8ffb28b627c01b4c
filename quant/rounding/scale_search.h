// SPDX-License-Identifier: Apache-2.0
/* Chooses the scale of an output channel at a given width: by its largest weight, or by least squares. */
#ifndef COORDGEN_QUANT_SCALE_SEARCH_H
#define COORDGEN_QUANT_SCALE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* A channel whose largest weight is below this counts as a channel of zeros, with scale 0. */
#define SCALE_SEARCH_WEIGHT_MIN 0x1p-100f

/* Both functions take w f32[n] and bits 1..8, and return false, with nothing written, if a value is not finite. */

/* Sets *scalep = max |w| / largest level. */
bool scale_of_largest(const float *w, size_t n, Grid grid, int bits, float *scalep);
/* Minimizes the sum of (w - scale * level)^2. */
bool scale_search(const float *w, size_t n, Grid grid, int bits, float *scalep);

#endif
