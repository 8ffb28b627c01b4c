// SPDX-License-Identifier: Apache-2.0
/* The lesser and the greater of two values, and a value kept within bounds. An argument is evaluated twice, so it has
 * no side effects. */
#ifndef COORDGEN_BASE_MIN_MAX_H
#define COORDGEN_BASE_MIN_MAX_H

#undef MIN
#undef MAX
#undef CLAMP
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CLAMP(x, low, high) ((x) < (low) ? (low) : MIN(x, high))

#endif
