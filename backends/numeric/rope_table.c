// SPDX-License-Identifier: Apache-2.0
#include "backends/numeric/rope_table.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/min_max.h"

/* This file uses only additions, products, quotients and exact scaling of doubles, in one written order. Every machine
 * and every libm therefore gives the same table. A Pair is an unevaluated sum hi + lo of about 106 bits. */
typedef struct Pair {
    double hi, lo;
} Pair;

static const Pair pair_ln2 = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };
static const Pair pair_half_pi = { 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54 };

/* a + b, exact (Knuth). */
static Pair two_sum(double a, double b) {
    double sum = a + b, b_used = sum - a;

    return (Pair){ sum, (a - (sum - b_used)) + (b - b_used) };
}

/* a b, exact (Dekker): each factor is split into halves of 26 bits; |a|, |b| < 2^970. */
static Pair two_product(double a, double b) {
    double a_shifted = a * 134217729, b_shifted = b * 134217729; /* 2^27 + 1 */
    double a_high = a_shifted - (a_shifted - a), b_high = b_shifted - (b_shifted - b), product = a * b;
    double a_low = a - a_high, b_low = b - b_high;

    return (Pair){ product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low };
}

static Pair pair_add(Pair a, Pair b) {
    Pair hi = two_sum(a.hi, b.hi), lo = two_sum(a.lo, b.lo), sum = two_sum(hi.hi, hi.lo + lo.hi);

    return two_sum(sum.hi, sum.lo + lo.lo);
}

static Pair pair_mul(Pair a, Pair b) {
    Pair product = two_product(a.hi, b.hi);

    return two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

static Pair pair_div(Pair a, Pair b) {
    double first = a.hi / b.hi, second;
    Pair product = pair_mul(b, (Pair){ first, 0 }), rest = pair_add(a, (Pair){ -product.hi, -product.lo });

    second = rest.hi / b.hi;
    product = pair_mul(b, (Pair){ second, 0 });
    rest = pair_add(rest, (Pair){ -product.hi, -product.lo });
    return pair_add(two_sum(first, second), (Pair){ rest.hi / b.hi, 0 });
}

static double double_from_bits(uint64_t bits) {
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* 2^n as a factor, -1022 <= n <= 1023. */
static double power_of_two(int n) {
    return double_from_bits((uint64_t)(n + 1023) << 52);
}

/* Nearest integer of |x| < 2^51: the shifted sum has no fraction bits. */
static double nearest(double x) {
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* ln x for a normal x > 0: x = 2^e m with m near 1, ln m = 2 atanh((m - 1) / (m + 1)). */
static Pair pair_log(double x) {
    uint64_t bits;
    int exponent;
    double m;
    Pair s, square, power, sum;

    memcpy(&bits, &x, sizeof(bits));
    exponent = (int)(bits >> 52) - 1023;
    m = double_from_bits((bits & 0xfffffffffffff) | (uint64_t)1023 << 52);
    if (m > 1.4142135623730951) {
        m = m / 2;
        exponent++;
    }
    s = pair_div(two_sum(m, -1), two_sum(m, 1)); /* |s| < 0.172: each term gains 5 bits */
    square = pair_mul(s, s);
    power = sum = s;
    for (int k = 3; k < 50; k += 2) {
        power = pair_mul(power, square);
        sum = pair_add(sum, pair_div(power, (Pair){ k, 0 }));
    }
    return pair_add(pair_mul(pair_ln2, (Pair){ exponent, 0 }), (Pair){ 2 * sum.hi, 2 * sum.lo });
}

/* exp x, |x| < 700: x = n ln 2 + r, with a series for exp r. */
static Pair pair_exp(Pair x) {
    double n = nearest(x.hi / pair_ln2.hi), factor = power_of_two((int)n);
    Pair r = pair_add(x, pair_mul(pair_ln2, (Pair){ -n, 0 })), term = { 1, 0 }, sum = { 1, 0 };

    for (int k = 1; k < 30; k++) {
        term = pair_div(pair_mul(term, r), (Pair){ k, 0 });
        sum = pair_add(sum, term);
    }
    return (Pair){ sum.hi * factor, sum.lo * factor };
}

double rope_log(double x) {
    return pair_log(x).hi;
}

/* Returns the frequency of pair i, times scale. */
static double frequency(const RopeParams *params, Pair log_base, size_t i, double scale) {
    Pair exponent = pair_div((Pair){ -2.0 * (double)i, 0 }, (Pair){ (double)params->n_rot, 0 });
    Pair freq = pair_mul(pair_exp(pair_mul(log_base, exponent)), (Pair){ scale, 0 });

    if (params->divisors)
        freq = pair_div(freq, (Pair){ params->divisors[i], 0 });
    return freq.hi;
}

/**
 * rope_frequencies() - angle by position of each rotated pair
 * @params:  base and position_scale are normal, finite and > 0 with |ln base| < 700 (the model reader sees to it)
 * @freqs:   out: f64[n_rot / 2], within one unit of the last place of the true value
 */
void rope_frequencies(const RopeParams *params, double *freqs) {
    Pair log_base = pair_log(params->base);

    for (size_t i = 0; i < params->n_rot / 2; i++)
        freqs[i] = frequency(params, log_base, i, params->position_scale);
}

/* Returns the (real) index of the pair that makes `turns` turns within the original context. */
static double yarn_pair(const RopeParams *params, const RopeYarn *yarn, double turns) {
    const double two_pi = 4 * pair_half_pi.hi;

    return (double)params->n_rot * rope_log(yarn->original / (turns * two_pi)) / (2 * rope_log(params->base));
}

/**
 * rope_yarn_frequencies() - frequencies of YaRN, arXiv:2309.00071, as in llama.cpp
 * @params: as above, and base > 1
 * @yarn:   share within 0..1, the others normal and > 0
 *
 * With p(turns) = n_rot ln(original / (2 pi turns)) / (2 ln base), first = max(0, floor(p(fast))) and last =
 * min(n_rot - 1, ceil(p(slow))), pair i is scaled by position_scale (1 - s) + s, s = share (1 - t), t = (i - first) /
 * (last - first) within 0..1, in float64.
 */
void rope_yarn_frequencies(const RopeParams *params, const RopeYarn *yarn, double *freqs) {
    const Pair log_base = pair_log(params->base);
    const double end = (double)(params->n_rot - 1), fast = floor(yarn_pair(params, yarn, yarn->fast)),
                 slow = ceil(yarn_pair(params, yarn, yarn->slow)), first = MAX(fast, 0), last = MIN(slow, end),
                 width = MAX(last - first, 0.001);

    for (size_t i = 0; i < params->n_rot / 2; i++) {
        const double at = ((double)i - first) / width, share = yarn->share * (1 - (at < 0 ? 0 : MIN(1, at)));

        freqs[i] = frequency(params, log_base, i, params->position_scale * (1 - share) + share);
    }
}

/* sin and cos of |r| <= pi / 4 by their series, to about 2^-52. */
static double series_sin(double r) {
    double z = r * r, sum = -1.0 / 1307674368000;

    sum = sum * z + 1.0 / 6227020800;
    sum = sum * z - 1.0 / 39916800;
    sum = sum * z + 1.0 / 362880;
    sum = sum * z - 1.0 / 5040;
    sum = sum * z + 1.0 / 120;
    sum = sum * z - 1.0 / 6;
    return r + r * (z * sum);
}

static double series_cos(double r) {
    double z = r * r, sum = 1.0 / 20922789888000;

    sum = sum * z - 1.0 / 87178291200;
    sum = sum * z + 1.0 / 479001600;
    sum = sum * z - 1.0 / 3628800;
    sum = sum * z + 1.0 / 40320;
    sum = sum * z - 1.0 / 720;
    sum = sum * z + 1.0 / 24;
    sum = sum * z - 0.5;
    return 1 + z * sum;
}

/**
 * rope_row() - cos and sin of one position
 * @freqs:  f64[n] of rope_frequencies()
 * @cos:    out: f32[n]; @sin: out: f32[n]
 *
 * The angle position x freq is computed exactly and reduced by multiples of pi / 2 in 106 bits, so that even results
 * near zero are accurate. For positions below 2^20 the error of both is at most 1/2 + 2^-20 units of the last place.
 * Angles of 2^50 and more, which no sane model has, give cos 1 and sin 0.
 */
void rope_row(const double *freqs, size_t n, size_t position, float *cos, float *sin) {
    for (size_t i = 0; i < n; i++) {
        Pair angle = two_product((double)position, freqs[i]), r;
        double turns, s, c;

        if (!(angle.hi < 0x1p50 && angle.hi > -0x1p50)) {
            cos[i] = 1;
            sin[i] = 0;
            continue;
        }
        turns = nearest(angle.hi / pair_half_pi.hi);
        r = pair_add(angle, pair_mul(pair_half_pi, (Pair){ -turns, 0 }));
        s = series_sin(r.hi);
        c = series_cos(r.hi);
        switch ((int64_t)turns & 3) {
        case 0:
            cos[i] = (float)c;
            sin[i] = (float)s;
            break;
        case 1:
            cos[i] = (float)-s;
            sin[i] = (float)c;
            break;
        case 2:
            cos[i] = (float)-c;
            sin[i] = (float)-s;
            break;
        default:
            cos[i] = (float)s;
            sin[i] = (float)-c;
            break;
        }
    }
}
