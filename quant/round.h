/* Rounding of one output channel to symmetric int8. */
#ifndef COORDGEN_QUANT_ROUND_H
#define COORDGEN_QUANT_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* q[n] in -127..127 and *scalep = amax / 127, x ~ q * scale; false (and nothing written) when a value is not finite. */
bool round_channel_int8(const float *x, size_t n, int8_t *q, float *scalep);

#endif
