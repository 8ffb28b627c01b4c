// SPDX-License-Identifier: Apache-2.0
#include "quant/smoothing.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"
#include "quant/bit_allocation.h"
#include "quant/format/grid.h"
#include "quant/relative_error.h"
#include "quant/rounding/round.h"
#include "quant/rounding/scale_search.h"

/* --- factors ------------------------------------------------------------------------------------------------------ */

void smoothing_maxima(const float *x, size_t rows, size_t k, float *maxima) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < k; i++) {
            float magnitude = fabsf(x[r * k + i]);

            maxima[i] = MAX(magnitude, maxima[i]);
        }
}

void smoothing_share_heads(float *maxima, size_t n_heads, size_t n_kv_heads, size_t head_size) {
    const size_t group = n_heads / n_kv_heads;

    assert(n_heads % n_kv_heads == 0);
    for (size_t kv = 0; kv < n_kv_heads; kv++) {
        float *heads = maxima + kv * group * head_size;

        for (size_t h = 1; h < group; h++)
            for (size_t i = 0; i < head_size; i++)
                heads[i] = MAX(heads[h * head_size + i], heads[i]);
        for (size_t h = 1; h < group; h++)
            memcpy(heads + h * head_size, heads, head_size * sizeof(*heads));
    }
}

#define LN_2 0.6931471805599453

/* log2_of() and its inverse are accurate to about 1e-16. The C library's functions may differ between machines in the
 * last bit, and a package's bytes must not. */
static double log2_of(double x) {
    int exponent;
    double m = frexp(x, &exponent), z, z2, term, sum = 0;

    if (m < 0.7071067811865476) {
        m *= 2;
        exponent--;
    }
    z = (m - 1) / (m + 1); /* ln m = 2 atanh z, |z| below 0.172 */
    z2 = z * z;
    term = z;
    for (int i = 1; i <= 21; i += 2, term *= z2)
        sum += term / i;
    return exponent + 2 * sum / LN_2;
}

static double exp2_of(double x) {
    const double whole = floor(x + 0.5), r = (x - whole) * LN_2; /* |r| below 0.347 */
    double sum = 1;

    for (int i = 15; i >= 1; i--)
        sum = 1 + r / i * sum;
    return ldexp(sum, (int)whole);
}

/**
 * smoothing_factors() - compute (S / geometric mean of S)^alpha
 * @maxima:  f32[k] S: the largest magnitude of every channel
 * @alpha:   0..1; 0 makes all factors 1
 * @factors: out: f32[k], within 1024^-alpha .. 1024^alpha
 *
 * The mean is over channels with S above 0; a channel that was always 0 keeps the factor 1. The paper does not
 * normalise S; without that, a norm's weights would drift from layer to layer for no gain.
 */
void smoothing_factors(const float *maxima, size_t k, double alpha, float *factors) {
    const double most = log2_of(SMOOTHING_RATIO_MAX);
    double sum = 0, mean;
    size_t n = 0;

    for (size_t i = 0; i < k; i++)
        if (maxima[i] > 0) {
            sum += log2_of((double)maxima[i]);
            n++;
        }
    mean = n ? sum / (double)n : 0;
    for (size_t i = 0; i < k; i++) {
        double ratio = maxima[i] > 0 ? log2_of((double)maxima[i]) - mean : 0;

        ratio = ratio > most ? most : MAX(-most, ratio);
        factors[i] = (float)exp2_of(alpha * ratio);
    }
}

/* --- the error of a choice of factors ----------------------------------------------------------------------------- */

/* A sampled channel of a linear. */
typedef struct TrialChannel {
    const float *w; /* f32[k] */
    int8_t bits;
    double peak; /* of the smoothed weights */
} TrialChannel;

typedef struct Trial {
    const SmoothingGroup *group;
    const float *factors;
    WorkerPool *pool;
    size_t n_rows, n_channels; /* sampled rows; sampled channels of all linears, one linear after the other */
    size_t starts[8];          /* [n_linears + 1]: the first channel of a linear */
    TrialChannel *channels;    /* [n_channels] */
    double *outputs;           /* f64[n_channels][n_rows], without quantization */
    double *errors;            /* f64[n_channels][n_rows]: squares */
    int8_t *q;                 /* int8[n_rows][k] */
    float *row_scales;         /* [n_rows] */
    float *w_scratch;          /* f32[threads][k] */
    int8_t *q_scratch;         /* int8[threads][k] */
    int8_t *bad;               /* [threads]: the thread met a value that is not finite */
} Trial;

enum {
    N_LANES = 16,
    N_LINEARS_MAX = ARRAY_LEN(((Trial *)NULL)->starts) - 1
};

static void trial_deinit(Trial *trial) {
    free(trial->channels);
    free(trial->outputs);
    free(trial->errors);
    free(trial->q);
    free(trial->row_scales);
    free(trial->w_scratch);
    free(trial->q_scratch);
    free(trial->bad);
}

static const float *trial_row(const Trial *trial, size_t r) {
    return trial->group->x + r * trial->group->rows / trial->n_rows * trial->group->k;
}

static double dot(const float *a, const float *b, size_t n) {
    double lanes[N_LANES] = { 0 };

    for (size_t i = 0; i < n; i += N_LANES)
        for (size_t j = 0; j < N_LANES && i + j < n; j++)
            lanes[j] += (double)a[i + j] * (double)b[i + j];
    for (size_t j = 1; j < N_LANES; j++)
        lanes[0] += lanes[j];
    return lanes[0];
}

static int32_t dot_int8(const int8_t *a, const int8_t *b, size_t n) {
    int32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void compute_outputs(void *arg, size_t begin, size_t end, unsigned int worker) {
    Trial *trial = arg;

    for (size_t c = begin; c < end; c++)
        for (size_t r = 0; r < trial->n_rows; r++) {
            double y = dot(trial_row(trial, r), trial->channels[c].w, trial->group->k);

            trial->outputs[c * trial->n_rows + r] = y;
            trial->bad[worker] |= !isfinite(y);
        }
}

static int trial_init(Trial *trial, const SmoothingGroup *group, WorkerPool *pool) {
    const size_t n_threads = worker_pool_n_threads(pool);

    if (!group->rows || !group->k || group->k > SMOOTHING_INPUTS_MAX || !group->n_linears ||
        group->n_linears > N_LINEARS_MAX)
        return err_raise(-EINVAL);
    trial->group = group;
    trial->pool = pool;
    trial->n_rows = MIN(group->rows, SMOOTHING_ROWS);
    for (size_t l = 0; l < group->n_linears; l++) {
        const size_t n = group->linears[l].n;

        if (!n)
            return err_raise(-EINVAL);
        trial->starts[l + 1] = trial->starts[l] + MIN(n, SMOOTHING_CHANNELS);
    }
    trial->n_channels = trial->starts[group->n_linears];
    trial->channels = calloc(trial->n_channels, sizeof(*trial->channels));
    trial->outputs = calloc(trial->n_channels * trial->n_rows, sizeof(*trial->outputs));
    trial->errors = calloc(trial->n_channels * trial->n_rows, sizeof(*trial->errors));
    trial->q = calloc(trial->n_rows, group->k);
    trial->row_scales = calloc(trial->n_rows, sizeof(*trial->row_scales));
    trial->w_scratch = calloc(n_threads * group->k, sizeof(*trial->w_scratch));
    trial->q_scratch = calloc(n_threads, group->k);
    trial->bad = calloc(n_threads, 1);
    if (!trial->channels || !trial->outputs || !trial->errors || !trial->q || !trial->row_scales || !trial->w_scratch ||
        !trial->q_scratch || !trial->bad)
        return err_raise(-ENOMEM);
    for (size_t l = 0; l < group->n_linears; l++) {
        const SmoothingLinear *linear = &group->linears[l];
        const size_t n_taken = trial->starts[l + 1] - trial->starts[l];

        for (size_t i = 0; i < n_taken; i++) {
            const size_t channel = i * linear->n / n_taken;

            trial->channels[trial->starts[l] + i] = (TrialChannel){
                .w = linear->w + channel * group->k,
                .bits = linear->bits ? linear->bits[channel] : 0,
            };
            if (linear->bits && (linear->bits[channel] < GRID_BITS_MIN || linear->bits[channel] > GRID_BITS_MAX))
                return err_raise(-EINVAL);
        }
    }
    worker_pool_run(pool, compute_outputs, trial, trial->n_channels, 1);
    return 0;
}

static void quantize_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    Trial *trial = arg;
    const size_t k = trial->group->k;
    float *x = trial->w_scratch + worker * k;

    for (size_t r = begin; r < end; r++) {
        memcpy(x, trial_row(trial, r), k * sizeof(*x));
        smoothing_divide(x, k, trial->factors);
        trial->bad[worker] |= !round_channel_int8(x, k, trial->q + r * k, &trial->row_scales[r]);
    }
}

static float *smooth_channel(const Trial *trial, size_t c, unsigned int worker) {
    const size_t k = trial->group->k;
    float *w = trial->w_scratch + worker * k;

    for (size_t i = 0; i < k; i++)
        w[i] = trial->channels[c].w[i] * trial->factors[i];
    return w;
}

static void find_peaks(void *arg, size_t begin, size_t end, unsigned int worker) {
    Trial *trial = arg;

    for (size_t c = begin; c < end; c++)
        trial->bad[worker] |=
            !relative_error_peak(smooth_channel(trial, c, worker), trial->group->k, &trial->channels[c].peak);
}

static int allocate(Trial *trial, size_t l) {
    const size_t n = trial->starts[l + 1] - trial->starts[l];
    TrialChannel *channels = trial->channels + trial->starts[l];
    double peaks[SMOOTHING_CHANNELS] = { 0 };
    int8_t bits[SMOOTHING_CHANNELS];
    int r;

    for (size_t i = 0; i < n; i++)
        peaks[i] = channels[i].peak;
    r = bit_allocation_tensor(peaks, n, trial->group->average_bits, bits);
    if (r)
        return err_trace(r);
    for (size_t i = 0; i < n; i++)
        channels[i].bits = bits[i];
    return 0;
}

/* Computes products as the cpu device does: exact in int32, then one multiplication by row scale x channel scale. */
static void compute_errors(void *arg, size_t begin, size_t end, unsigned int worker) {
    Trial *trial = arg;
    const size_t k = trial->group->k;
    int8_t *q = trial->q_scratch + worker * k;

    for (size_t c = begin; c < end; c++) {
        const float *w = smooth_channel(trial, c, worker);
        const int bits = trial->channels[c].bits;
        float scale = 0;

        trial->bad[worker] |=
            !(trial->group->search_scales ? scale_search : scale_of_largest)(w, k, trial->group->grid, bits, &scale);
        round_channel(w, k, trial->group->grid, bits, scale, q);
        for (size_t r = 0; r < trial->n_rows; r++) {
            float y = (float)dot_int8(trial->q + r * k, q, k) * (trial->row_scales[r] * scale);
            double e = (double)y - trial->outputs[c * trial->n_rows + r];

            trial->errors[c * trial->n_rows + r] = e * e;
        }
    }
}

/* Returns the mean over linears and rows of |error|^2 / |output|^2, both over the sampled channels. */
static double mean_error(const Trial *trial) {
    double sum = 0;
    size_t n = 0;

    for (size_t l = 0; l < trial->group->n_linears; l++)
        for (size_t r = 0; r < trial->n_rows; r++) {
            double error = 0, output = 0;

            for (size_t c = trial->starts[l]; c < trial->starts[l + 1]; c++) {
                const double y = trial->outputs[c * trial->n_rows + r];

                error += trial->errors[c * trial->n_rows + r];
                output += y * y;
            }
            if (output > 0) {
                sum += error / output;
                n++;
            }
        }
    return n ? sum / (double)n : 0;
}

static int trial_run(Trial *trial, const float *factors, double *errorp) {
    double error;

    trial->factors = factors;
    worker_pool_run(trial->pool, quantize_rows, trial, trial->n_rows, 1);
    worker_pool_run(trial->pool, find_peaks, trial, trial->n_channels, 1);
    for (unsigned int i = 0; i < worker_pool_n_threads(trial->pool); i++)
        if (trial->bad[i])
            return SMOOTHING_E_NOT_FINITE;
    for (size_t l = 0; l < trial->group->n_linears; l++)
        if (!trial->group->linears[l].bits) {
            int r = allocate(trial, l);

            if (r)
                return r;
        }
    worker_pool_run(trial->pool, compute_errors, trial, trial->n_channels, 1);
    error = mean_error(trial);
    if (!isfinite(error))
        return SMOOTHING_E_NOT_FINITE;
    *errorp = error;
    return 0;
}

/**
 * smoothing_error() - measure the relative squared error of a group of linears, quantized with some factors
 * @group:   rows and k above 0, k at most SMOOTHING_INPUTS_MAX, 1..7 linears; average_bits 1..8 if a linear has no
 *         widths
 * @factors: f32[group->k], positive
 * @errorp:  out: mean over linears and rows of |y - y'|^2 / |y|^2
 *
 * y' has weights at their widths and int8 activations with one scale per row, as the cpu device computes it. A row
 * counts by its relative error, because the next norm removes its magnitude; otherwise the few rows with huge
 * activations would decide alone. SMOOTHING_ROWS rows and SMOOTHING_CHANNELS channels of a linear bound the cost. The
 * bits are the same for any number of threads and any instruction set: threads share channels and rows, never a sum.
 *
 * Return: 0, SMOOTHING_E_NOT_FINITE, -EINVAL, -ENOMEM.
 */
int smoothing_error(const SmoothingGroup *group, const float *factors, WorkerPool *pool, double *errorp) {
    _cleanup_(trial_deinit) Trial trial = { 0 };
    int r = trial_init(&trial, group, pool);

    return r ? r : trial_run(&trial, factors, errorp);
}

/**
 * smoothing_search() - find the alpha of a group of linears with the least error
 * @group:   as for smoothing_error(), with the maxima of its input over all calibration rows
 * @alphap:  out: 0, 1/20, ..., 1; the smallest among equal errors
 * @factors: out: f32[group->k], smoothing_factors() of that alpha
 *
 * alpha 0 means no smoothing, so on the sampled rows the answer is never worse than none.
 *
 * Return: as smoothing_error(); nothing is written unless 0 is returned.
 */
int smoothing_search(const SmoothingGroup *group, WorkerPool *pool, double *alphap, float *factors) {
    _cleanup_(trial_deinit) Trial trial = { 0 };
    _cleanup_(freep) float *tried = NULL;
    double best = INFINITY, best_alpha = 0;
    int r = trial_init(&trial, group, pool);

    if (r)
        return r;
    tried = malloc(group->k * sizeof(*tried));
    if (!tried)
        return err_raise(-ENOMEM);
    for (int step = 0; step <= SMOOTHING_ALPHA_STEPS; step++) {
        const double alpha = (double)step / SMOOTHING_ALPHA_STEPS;
        double error;

        smoothing_factors(group->maxima, group->k, alpha, tried);
        r = trial_run(&trial, tried, &error);
        if (r)
            return r;
        if (error < best) {
            best = error;
            best_alpha = alpha;
        }
    }
    smoothing_factors(group->maxima, group->k, best_alpha, factors);
    *alphap = best_alpha;
    return 0;
}

/* --- folding ------------------------------------------------------------------------------------------------------ */

void smoothing_multiply_columns(float *w, size_t n, size_t k, const float *factors) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            w[i * k + j] *= factors[j];
}

void smoothing_divide_columns(float *x, size_t rows, size_t k, const float *factors) {
    for (size_t r = 0; r < rows; r++)
        smoothing_divide(x + r * k, k, factors);
}

void smoothing_divide(float *v, size_t n, const float *factors) {
    for (size_t i = 0; i < n; i++)
        v[i] /= factors[i];
}

void smoothing_value_factors(const float *factors, size_t n_heads, size_t n_kv_heads, size_t head_size,
                             float *value_factors) {
    const size_t group = n_heads / n_kv_heads;

    assert(n_heads % n_kv_heads == 0);
    for (size_t kv = 0; kv < n_kv_heads; kv++)
        memcpy(value_factors + kv * head_size, factors + kv * group * head_size, head_size * sizeof(*factors));
}
