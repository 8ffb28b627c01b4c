// SPDX-License-Identifier: Apache-2.0
#include "importer/sensitivity/answer_gradient.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "importer/import_rows.h"
#include "importer/sensitivity/backward.h"
#include "quant/rotate.h"

enum {
    ANSWERS_AT_ONCE = 128, /* a vocabulary of 262144 makes 134 MB of them */
    PANEL_ROWS = 4096,     /* rows of the head that are in float at a time */
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

void answer_direction(float *logits, size_t n, uint64_t seed) {
    uint64_t signs = 0;
    double sum = 0, along = 0;
    float largest = logits[0];

    for (size_t i = 1; i < n; i++)
        largest = MAX(logits[i], largest);
    for (size_t i = 0; i < n; i++)
        sum += (double)(logits[i] = expf(logits[i] - largest));
    /* z = sqrt(p) s - p (sqrt(p) . s) for signs s. */
    for (size_t i = 0; i < n; i++) {
        double root = sqrt((double)logits[i] / sum);

        if (i % 64 == 0)
            signs = mix(mix(seed) ^ i);
        root = signs >> i % 64 & 1 ? root : -root;
        along += root;
        logits[i] = (float)root;
    }
    for (size_t i = 0; i < n; i++)
        logits[i] -= logits[i] * logits[i] * (float)along;
}

typedef struct DirectionLoop {
    float *logits;
    const size_t *rows;
    size_t n_vocab;
    float cap;     /* soft cap of the logits; 0: none */
    float *capped; /* f32[n_threads][n_vocab], with a cap */
} DirectionLoop;

/* Multiplies by the slope of the soft cap: at y = cap tanh(x / cap) it is 1 - (y / cap)^2. */
static void through_cap(float *direction, const float *capped, size_t n, float cap) {
    for (size_t i = 0; i < n; i++) {
        const float t = capped[i] / cap;

        direction[i] *= 1 - t * t;
    }
}

static void directions(void *arg, size_t begin, size_t end, unsigned int worker) {
    const DirectionLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        float *logits = loop->logits + i * loop->n_vocab;
        float *capped = loop->cap > 0 ? loop->capped + worker * loop->n_vocab : NULL;

        if (capped)
            memcpy(capped, logits, loop->n_vocab * sizeof(*capped));
        answer_direction(logits, loop->n_vocab, loop->rows[i]);
        if (capped)
            through_cap(logits, capped, loop->n_vocab, loop->cap);
    }
}

typedef struct PanelRows {
    float *w;
    size_t first, k;
} PanelRows;

static bool keep_row(void *arg, size_t row, float *w, unsigned int worker) {
    const PanelRows *panel = arg;

    memcpy(panel->w + (row - panel->first) * panel->k, w, panel->k * sizeof(*w));
    return true;
}

/* Copies columns [first, first + n) of the directions side by side. */
static void keep_columns(float *to, const float *directions, size_t rows, size_t n_vocab, size_t first, size_t n) {
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * n, directions + row * n_vocab + first, n * sizeof(*to));
}

/* Computes d f32[n][n_embd] = directions f32[n][n_vocab] times the head, one panel of the head at a time. */
static int through_head(Calibrated *calibrated, const float *directions, size_t n, float *d, ErrText *err) {
    const ImportModel *model = calibrated->model;
    const ImportLayer *outside = &model->layers[0];
    const ImportLinear *head = import_linear_of(outside, ROLE_OUTPUT);
    _cleanup_(freep) float *w = NULL, *columns = NULL;
    int r = 0;

    if (!head)
        head = import_linear_of(outside, ROLE_TOKEN_EMBD);
    w = malloc(PANEL_ROWS * head->k * sizeof(*w));
    columns = malloc(n * PANEL_ROWS * sizeof(*columns));
    if (!w || !columns)
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", model->source_path, head->source->name);
    memset(d, 0, n * head->k * sizeof(*d));
    for (size_t first = 0; first < head->n && !r; first += PANEL_ROWS) {
        size_t n_panel = MIN(head->n - first, PANEL_ROWS);
        PanelRows panel = { w, first, head->k };

        r = import_each_row(model, head, first, first + n_panel, keep_row, &panel, err);
        keep_columns(columns, directions, n, head->n, first, n_panel);
        if (!r)
            backward_linear(columns, w, n, n_panel, head->k, d, model->pool);
    }
    for (size_t row = 0; row < n; row++)
        rotate_row(d + row * head->k, head->k, head->rotation_block);
    return r;
}

static void gather_rows(float *to, const float *from, const size_t *rows, size_t n, size_t width) {
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * width, from + rows[i] * width, width * sizeof(*to));
}

/**
 * answer_gradient() - compute the gradient of a random direction of every answer, at the stream behind the last layer
 *
 * The signs of different answers are independent. A weight has a part in many answers; the square of its summed
 * gradient is on average the sum of the squares. Memory: 128 answers, and 4096 rows of the head in float.
 *
 * Return: 0, IMPORT_E_CORRUPT, IMPORT_E_CANCELLED, IMPORT_E_CHANGED, -errno.
 */
int answer_gradient(Calibrated *calibrated, LayerWalk *walk, const size_t *rows, size_t n, float *d_stream,
                    ErrText *err) {
    const Hparams *hparams = &calibrated->model->hparams;
    size_t width = hparams->n_embd, most = MIN(n, ANSWERS_AT_ONCE);
    _cleanup_(freep) float *logits = malloc(most * hparams->n_vocab * sizeof(*logits));
    _cleanup_(freep) float *x = malloc(most * width * sizeof(*x));
    _cleanup_(freep) float *d = malloc(most * width * sizeof(*d));

    _cleanup_(freep) float *capped =
        hparams->logit_cap > 0
            ? malloc(worker_pool_n_threads(calibrated->model->pool) * hparams->n_vocab * sizeof(*capped))
            : NULL;

    if (!logits || !x || !d || (hparams->logit_cap > 0 && !capped))
        return err_set(err, -ENOMEM, "%s: out of memory for %zu answers", calibrated->model->source_path, most);
    memset(d_stream, 0, layer_walk_n_rows(walk) * width * sizeof(*d_stream));
    for (size_t first = 0; first < n; first += most) {
        size_t n_now = MIN(n - first, most);
        DirectionLoop loop = { logits, rows + first, hparams->n_vocab, hparams->logit_cap, capped };
        int r = layer_walk_logits(walk, calibrated->outside, calibrated->head, rows + first, n_now, logits, err);

        if (r)
            return r;
        worker_pool_run(calibrated->model->pool, directions, &loop, n_now, 1);
        r = through_head(calibrated, logits, n_now, d, err);
        if (r)
            return r;
        gather_rows(x, layer_walk_stream(walk), rows + first, n_now, width);
        (hparams->arch->norm == NORM_LAYER ? backward_layer_norm : backward_norm)(
            x, calibrated->outside[ROLE_OUTPUT_NORM], hparams->norm_eps, n_now, width, d, calibrated->model->pool);
        for (size_t i = 0; i < n_now; i++)
            memcpy(d_stream + rows[first + i] * width, d + i * width, width * sizeof(*d));
    }
    return 0;
}
