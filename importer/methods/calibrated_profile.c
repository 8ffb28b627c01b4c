// SPDX-License-Identifier: Apache-2.0
#include "importer/methods/calibrated_profile.h"

/* Static activations (llm.npu 3.3): profiles the inputs of every operator on the calibration text, in the model at 8
 * bits with dynamic rows. The profile gives an operator's scale, the importance of its outliers, whether it keeps a
 * shadow, and its hot channels. All counts are integers, so that their sums do not depend on threads. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/min_max.h"
#include "importer/methods/calibrated_round.h"
#include "importer/methods/calibrated_smooth.h"
#include "quant/format/grid.h"
#include "quant/rotate.h"

/* An operator with a shadow has its threshold above this share of its values. The first token of every window makes
 * rows some hundred times as large as others. Rotation spreads them over all channels, so that they are up to 1 in 512
 * values. A higher share puts the threshold among them, and all other rows round to almost nothing (smollm2-135m,
 * mobile, rotated: perplexity 29.49 at 0.995, 29.57 at 0.999, 33.71 at 0.9999). */
#define INLIER_SHARE 0.995

/* The hot channels together have this share of the outliers (the paper: 80 %), most frequent channels first. */
#define HOT_SHARE 0.8

/* Bins of |x| by the highest bits of its float32: 9 bits of the fraction, a resolution of 0.2 %. */
enum {
    BIN_SHIFT = 14,
    N_BINS = 0x7f800000 >> BIN_SHIFT,
    THRESHOLDS_AN_OCTAVE = 8, /* thresholds that are tried for a clipped operator */
    OCTAVES = 10,
};

typedef struct Profile {
    Calibrated *calibrated;
    const ImportLayer *layer;
    float **vectors;
    unsigned int n_threads;
    uint32_t (*bins)[N_BINS];    /* [n_threads] */
    uint32_t *counts;            /* [n_threads][most inputs of an operator] */
    float *rows;                 /* [n_threads][most inputs of an operator]: the row that a worker rotates */
    float *clipped_scales;       /* [n_operators]: the scale without a shadow */
    size_t n_inputs_max, n_done; /* operators */
} Profile;

static void profile_deinit(Profile *profile) {
    free(profile->bins);
    free(profile->counts);
    free(profile->rows);
    free(profile->clipped_scales);
}

static int out_of_memory(const Profile *profile, ErrText *err) {
    return err_set(err, -ENOMEM, "%s: out of memory for the profile of its activations",
                   profile->calibrated->model->source_path);
}

/* --- one operator ------------------------------------------------------------------------------------------------- */

typedef struct ProfileLoop {
    Profile *profile;
    const float *x, *factors; /* factors NULL: not smoothed */
    size_t k;
    uint32_t rotation_block;
    float threshold; /* 0: bins are filled; otherwise outliers are counted */
    _Atomic bool not_finite;
} ProfileLoop;

static const float *prepare_row(const ProfileLoop *loop, size_t row, float *to) {
    memcpy(to, loop->x + row * loop->k, loop->k * sizeof(*to));
    for (size_t c = 0; loop->factors && c < loop->k; c++)
        to[c] /= loop->factors[c];
    rotate_row(to, loop->k, loop->rotation_block);
    return to;
}

static void profile_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    ProfileLoop *loop = arg;
    Profile *profile = loop->profile;
    uint32_t *bins = profile->bins[worker], *counts = profile->counts + worker * profile->n_inputs_max;

    for (size_t row = begin; row < end; row++) {
        const float *x = prepare_row(loop, row, profile->rows + worker * profile->n_inputs_max);

        for (size_t c = 0; c < loop->k; c++) {
            float size = fabsf(x[c]);
            uint32_t bits;

            if (loop->threshold > 0) {
                counts[c] += size > loop->threshold;
                continue;
            }
            if (!isfinite(size)) {
                atomic_store(&loop->not_finite, true);
                return;
            }
            memcpy(&bits, &size, sizeof(bits));
            bins[bits >> BIN_SHIFT]++;
        }
    }
}

/* Upper end of a bin: no value in it is larger. */
static float bin_end(size_t bin) {
    uint32_t bits = (uint32_t)(bin + 1) << BIN_SHIFT;
    float end;

    bits -= 1;
    memcpy(&end, &bits, sizeof(end));
    return end;
}

static float scale_of(float threshold) {
    float scale = threshold / 127.0f;

    return scale < LINEAR_SCALE_MIN ? LINEAR_SCALE_MIN : MIN(LINEAR_SCALE_MAX, scale);
}

/* Finds the end of the first bin up to which `share` of all values lie. */
static float threshold_of(const uint32_t *bins, uint64_t n, double share) {
    uint64_t below = 0;

    for (size_t bin = 0; bin < N_BINS; bin++) {
        below += bins[bin];
        if ((double)below >= share * (double)n)
            return bin_end(bin);
    }
    return 0;
}

/* Squared error of clipping at the threshold and of rounding below it; a value that rounds to 0 loses its whole
 * square. */
static double clipping_error(const uint32_t *bins, double threshold) {
    double scale = threshold / 127, rounding = scale * scale / 12, error = 0;

    for (size_t bin = 0; bin < N_BINS; bin++) {
        double x, lost;

        if (!bins[bin])
            continue;
        x = (double)bin_end(bin);
        lost = x > threshold ? (x - threshold) * (x - threshold) : x < scale / 2 ? x * x : rounding;
        error += (double)bins[bin] * lost;
    }
    return error;
}

/* Finds the threshold of least squared error, from the largest value down. */
static float clipped_threshold(const uint32_t *bins, float largest) {
    double best = (double)largest, least = clipping_error(bins, best);

    for (int i = 1; i <= OCTAVES * THRESHOLDS_AN_OCTAVE; i++) {
        double threshold = ldexp((double)largest, -i / THRESHOLDS_AN_OCTAVE) *
                           (1 - 0.5 * (i % THRESHOLDS_AN_OCTAVE) / THRESHOLDS_AN_OCTAVE);
        double error = clipping_error(bins, threshold);

        if (error < least) {
            best = threshold;
            least = error;
        }
    }
    return (float)best;
}

typedef struct ChannelCount {
    uint32_t channel, n;
} ChannelCount;

static int most_first(const void *a, const void *b) {
    const ChannelCount *of_a = a, *of_b = b;

    return of_a->n != of_b->n ? (of_a->n < of_b->n ? 1 : -1) : of_a->channel < of_b->channel ? -1 : 1;
}

/* Chooses channels by falling number of outliers until they have HOT_SHARE of them, at most `percent` of all. 100 %
 * makes all channels hot and thus switches reading on demand off: other texts have outliers in channels that have none
 * in this text. */
static int choose_hot(const Profile *profile, const ImportOperator *operator, const uint32_t * counts, double percent,
                      ErrText *err) {
    _cleanup_(freep) ChannelCount *channels = malloc(operator->k * sizeof(*channels));
    size_t n_most = (size_t)floor(percent / 100 * (double)operator->k);
    uint64_t n = 0, n_hot = 0;

    if (!channels)
        return out_of_memory(profile, err);
    if (percent >= 100) {
        memset(operator->is_hot, 1, operator->k);
        return 0;
    }
    for (size_t c = 0; c < operator->k; c++) {
        channels[c] = (ChannelCount){ (uint32_t)c, counts[c] };
        n += counts[c];
    }
    qsort(channels, operator->k, sizeof(*channels), most_first);
    memset(operator->is_hot, 0, operator->k);
    for (size_t i = 0; i < n_most && channels[i].n && (double)n_hot < HOT_SHARE * (double)n; i++) {
        operator->is_hot[channels[i].channel] = 1;
        n_hot += channels[i].n;
    }
    return 0;
}

/* Adds the workers' counts to the first one's. */
static void add_up(uint32_t *counts, size_t n, size_t stride, unsigned int n_threads) {
    for (unsigned int worker = 1; worker < n_threads; worker++)
        for (size_t i = 0; i < n; i++)
            counts[i] += counts[worker * stride + i];
}

static int profile_input(Profile *profile, ImportOperator *operator, const float * x, size_t rows,
                         uint32_t rotation_block, const float *factors, ErrText *err) {
    const ImportModel *model = profile->calibrated->model;
    ProfileLoop loop = {
        .profile = profile, .x = x, .factors = factors, .k = operator->k, .rotation_block = rotation_block
    };
    uint64_t n = (uint64_t)rows * operator->k;
    float threshold, largest;

    memset(profile->bins, 0, profile->n_threads * sizeof(*profile->bins));
    memset(profile->counts, 0, profile->n_threads * profile->n_inputs_max * sizeof(*profile->counts));
    worker_pool_run(model->pool, profile_rows, &loop, rows, 16);
    if (loop.not_finite)
        return err_set(err, IMPORT_E_CORRUPT,
                       "%s: layer %d: the inputs of '%s' on the calibration text hold a value that is not finite: the "
                       "file is damaged, download it again",
                       model->source_path, operator->layer, tensor_role_name(operator->op->w[0]));
    add_up(profile->bins[0], N_BINS, N_BINS, profile->n_threads);
    largest = threshold_of(profile->bins[0], n, 1);
    threshold = threshold_of(profile->bins[0], n, INLIER_SHARE);
    operator->scale = scale_of(threshold);
    operator->importance = fminf(largest / operator->scale, FLT_MAX);
    profile->clipped_scales[operator - model->operators] = scale_of(clipped_threshold(profile->bins[0], largest));
    loop.threshold = 127.0f * operator->scale; /* computed as the device does */
    worker_pool_run(model->pool, profile_rows, &loop, rows, 16);
    add_up(profile->counts, operator->k, profile->n_inputs_max, profile->n_threads);
    return choose_hot(profile, operator, profile->counts, model->recipe->hot_percent, err);
}

/* --- the walk ----------------------------------------------------------------------------------------------------- */

/* Rounds the linear to 8 bits, so that the walk goes on. */
static int plain_linear(Profile *profile, const ImportLinear *linear, const float *w, BackendLinear **linearp,
                        ErrText *err) {
    Calibrated *calibrated = profile->calibrated;
    _cleanup_(freep) float *scales = malloc(linear->n * sizeof(*scales));
    _cleanup_(freep) int8_t *q = malloc(linear->n * linear->k);
    _cleanup_(freep) int8_t *bits = malloc(linear->n);
    CalibratedRounding rounding = { linear, NULL, w, bits, q, scales, NULL };
    int r;

    if (!scales || !q || !bits)
        return out_of_memory(profile, err);
    memset(bits, GRID_BITS_MAX, linear->n);
    r = calibrated_round(calibrated, &rounding, err);
    return r ? r : calibrated_linear_new(calibrated, linearp, linear, q, scales, profile->vectors, err);
}

static ImportOperator *operator_of(const Profile *profile, const ArchOp *op) {
    const ImportModel *model = profile->calibrated->model;

    for (size_t i = 0; i < model->n_operators; i++)
        if (model->operators[i].layer == profile->layer->layer && model->operators[i].op == op)
            return &model->operators[i];
    return NULL;
}

static int profile_weights(Profile *profile, const ArchOp *op, const float *x, size_t rows, size_t k, float *const *w,
                           ErrText *err) {
    Calibrated *calibrated = profile->calibrated;
    _cleanup_(freep) float *factors = NULL;
    int r = 0;

    if (calibrated->model->recipe->smooth) {
        factors = malloc(k * sizeof(*factors));
        r = factors ? calibrated_smoothing(calibrated, profile->layer, op, x, rows, k, w, false, factors, err)
                    : out_of_memory(profile, err);
    }
    return r ? r
             : profile_input(profile, operator_of(profile, op), x, rows,
                             import_linear_of(profile->layer, op->w[0])->rotation_block, factors, err);
}

static int profile_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                      ErrText *err) {
    Profile *profile = arg;
    const ImportModel *model = profile->calibrated->model;
    float *w[OP_WEIGHTS_MAX] = { 0 };
    int r;

    r = import_monitor_check(model->monitor, err);
    if (r)
        return r;
    r = calibrated_read(profile->calibrated, profile->layer, op, w, err);
    if (!r)
        r = profile_weights(profile, op, x, rows, k, w, err);
    for (size_t i = 0; i < op->n && !r; i++)
        r = plain_linear(profile, import_linear_of(profile->layer, op->w[i]), w[i], &linears[op->w[i]], err);
    for (size_t i = 0; i < op->n; i++)
        free(w[i]);
    import_monitor_part(model->monitor, (double)++profile->n_done / (double)model->n_operators);
    return r;
}

static int profile_layer(Profile *profile, LayerWalk *walk, uint32_t layer, ErrText *err) {
    Calibrated *calibrated = profile->calibrated;
    BackendLinear *linears[_ROLE_N] = { 0 };
    float *vectors[_ROLE_N] = { 0 };
    int r;

    profile->layer = &calibrated->model->layers[1 + layer];
    profile->vectors = vectors;
    r = calibrated_vectors_read(calibrated, profile->layer, vectors, err);
    if (!r)
        r = layer_walk_layer(walk, layer, linears, vectors, profile_op, profile, err);
    calibrated_linears_free(calibrated, linears);
    calibrated_vectors_free(vectors);
    return r;
}

/* --- all operators ------------------------------------------------------------------------------------------------ */

typedef struct Ranked {
    float importance;
    size_t index;
} Ranked;

static int least_first(const void *a, const void *b) {
    const Ranked *of_a = a, *of_b = b;

    return of_a->importance != of_b->importance ? (of_a->importance < of_b->importance ? -1 : 1)
           : of_a->index < of_b->index          ? -1
                                                : 1;
}

/* Takes the shadow from the least important operators, which get the scale that clips best. */
static int prune(const Profile *profile, ErrText *err) {
    const ImportModel *model = profile->calibrated->model;
    _cleanup_(freep) Ranked *ranked = malloc(model->n_operators * sizeof(*ranked));
    size_t n_pruned = (size_t)floor(model->recipe->prune_percent / 100 * (double)model->n_operators);

    if (!ranked)
        return out_of_memory(profile, err);
    for (size_t i = 0; i < model->n_operators; i++)
        ranked[i] = (Ranked){ model->operators[i].importance, i };
    qsort(ranked, model->n_operators, sizeof(*ranked), least_first);
    for (size_t i = 0; i < model->n_operators; i++) {
        ImportOperator *operator= & model->operators[ranked[i].index];

        operator->shadow = i >= n_pruned;
        if (operator->shadow)
            continue;
        operator->scale = profile->clipped_scales[ranked[i].index];
        memset(operator->is_hot, 0, operator->k);
    }
    return 0;
}

static int profile_init(Profile *profile, ErrText *err) {
    const ImportModel *model = profile->calibrated->model;

    profile->n_threads = worker_pool_n_threads(model->pool);
    for (size_t i = 0; i < model->n_operators; i++)
        if (model->operators[i].k > profile->n_inputs_max)
            profile->n_inputs_max = model->operators[i].k;
    profile->bins = calloc(profile->n_threads, sizeof(*profile->bins));
    profile->counts = calloc(profile->n_threads * profile->n_inputs_max, sizeof(*profile->counts));
    profile->rows = calloc(profile->n_threads * profile->n_inputs_max, sizeof(*profile->rows));
    profile->clipped_scales = calloc(model->n_operators, sizeof(*profile->clipped_scales));
    return profile->bins && profile->counts && profile->rows && profile->clipped_scales ? 0
                                                                                        : out_of_memory(profile, err);
}

/**
 * calibrated_profile() - find scales, importance, shadows and hot channels of all operators
 *
 * Importance is the largest |x| in units of the scale that the operator has with a shadow (llm.npu 3.3). Smoothed
 * inputs are profiled with alphas that are judged at the average width.
 *
 * Time: one reading of the source and one forward pass of the calibration rows. Return: 0, IMPORT_E_CORRUPT,
 * IMPORT_E_CANCELLED, IMPORT_E_CHANGED, -errno.
 */
int calibrated_profile(Calibrated *calibrated, ErrText *err) {
    _cleanup_(profile_deinit) Profile profile = { .calibrated = calibrated };
    _cleanup_(layer_walk_freep) LayerWalk *walk = NULL;
    int r;

    r = profile_init(&profile, err);
    if (!r)
        r = calibrated_walk_new(calibrated, &walk, calibrated->n_windows, err);
    for (uint32_t i = 0; i < calibrated->model->hparams.n_layers && !r; i++)
        r = profile_layer(&profile, walk, i, err);
    return r ? r : prune(&profile, err);
}
