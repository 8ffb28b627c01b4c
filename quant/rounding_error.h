/* Error of rounding a channel at a given scale: the inner loop of the scale search. One source for every instruction
 * set (rounding_error_impl.h), the same bits from each. */
#ifndef COORDGEN_QUANT_ROUNDING_ERROR_H
#define COORDGEN_QUANT_ROUNDING_ERROR_H

#include <stddef.h>
#include <stdint.h>

/* Sums over a channel, in units of the distance of two levels: t = |w| / distance, r = that of the nearest level, each
 * term times its importance when there is one. */
typedef struct RoundingSums {
    double error; /* (t - r)^2 */
    double tr;    /* t r; 0 unless asked for */
    double rr;    /* r^2; 0 unless asked for */
} RoundingSums;

/* w f32[n], finite. importance f32[n], finite, not negative, each times `factor`; or NULL. bits 1..8; inverse
 * 1 / scale. products: fill tr and rr too. */
typedef void RoundingError(const float *w, const float *importance, float factor, size_t n, int bits, float inverse,
                           int products, RoundingSums *sums);

typedef struct RoundingErrorKernel {
    const char *name;
    uint32_t need; /* CPU_* bits */
    RoundingError *fn;
} RoundingErrorKernel;

/* Best build for these CPU_* bits. */
RoundingError *rounding_error_select(uint32_t cpu);
size_t rounding_error_n(void);
const RoundingErrorKernel *rounding_error_at(size_t index);

#endif
