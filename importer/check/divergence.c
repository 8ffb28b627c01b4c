// SPDX-License-Identifier: Apache-2.0
#include "importer/check/divergence.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/min_max.h"
#include "importer/check/scorer.h"
#include "importer/check/window_mean.h"

/* logit rows of each model at a time: their memory is rows x vocabulary */
#define ROWS 64

double divergence_of_row(const float *logits, const float *other, size_t n, bool *same_topp) {
    double all = log_sum_exp(logits, n), other_all = log_sum_exp(other, n), sum = 0;
    size_t top = 0, other_top = 0;

    for (size_t i = 0; i < n; i++) {
        double other_log = (double)other[i] - other_all;

        sum += exp(other_log) * (other_log - ((double)logits[i] - all));
        top = logits[i] > logits[top] ? i : top;
        other_top = other[i] > other[other_top] ? i : other_top;
    }
    *same_topp = top == other_top;
    return sum;
}

typedef struct Side {
    Engine *engine;
    Sequence *sequence;
    float *logits; /* f32[ROWS][n_vocab] */
} Side;

static int side_forward(Side *side, const uint32_t *ids, size_t rows, size_t n_scored, ErrText *err) {
    int r = engine_forward(side->engine, side->sequence, ids, rows, n_scored, side->logits, err);

    return r ? scorer_forward_failed(r, err) : 0;
}

/* Sums over the rows of one window. */
typedef struct WindowSums {
    double nats, loss, other_loss;
    size_t n_same;
} WindowSums;

static void add_rows(WindowSums *sums, const Side *side, const Side *other, const uint32_t *next, size_t n) {
    size_t n_vocab = engine_info(side->engine)->n_vocab;

    for (size_t i = 0; i < n; i++) {
        const float *logits = side->logits + i * n_vocab, *other_logits = other->logits + i * n_vocab;
        bool same;

        sums->nats += divergence_of_row(logits, other_logits, n_vocab, &same);
        sums->loss += log_sum_exp(logits, n_vocab) - (double)logits[next[i]];
        sums->other_loss += log_sum_exp(other_logits, n_vocab) - (double)other_logits[next[i]];
        sums->n_same += same;
    }
}

static int measure_window(WindowSums *sums, Side *side, Side *other, const uint32_t *ids, size_t len, ErrText *err) {
    size_t chunk = engine_chunk_tokens(side->engine);
    int r;

    if (chunk > engine_chunk_tokens(other->engine))
        chunk = engine_chunk_tokens(other->engine);
    for (size_t from = 0, rows; from < len - 1; from += rows) {
        size_t n_plain = from < len / 2 ? len / 2 - from : 0, n_scored;

        rows = MIN(len - 1 - from, chunk);
        n_plain = MIN(n_plain, rows);
        n_scored = MIN(rows - n_plain, ROWS);
        rows = n_plain + n_scored;
        if ((r = side_forward(side, ids + from, rows, n_scored, err)) ||
            (r = side_forward(other, ids + from, rows, n_scored, err)))
            return r;
        add_rows(sums, side, other, ids + from + n_plain + 1, n_scored);
    }
    return 0;
}

static int side_init(Side *side, size_t len, ErrText *err) {
    side->logits = malloc(ROWS * (size_t)engine_info(side->engine)->n_vocab * sizeof(*side->logits));
    return side->logits ? sequence_new(&side->sequence, side->engine, len, err)
                        : err_set(err, -ENOMEM, "no memory for %d rows of logits", ROWS);
}

static void side_deinit(Side *side) {
    sequence_free(side->sequence);
    free(side->logits);
}

int divergence_measure(Divergence *result, Engine *engine, Engine *other, const TextWindows *windows,
                       DivergenceProgressFn *progress, void *arg, ErrText *err) {
    _cleanup_(side_deinit) Side one = { .engine = engine }, two = { .engine = other };
    WindowMean nats = { 0 }, change = { 0 }, loss = { 0 }, other_loss = { 0 };
    double per_row = 1 / (double)windows->n_scored, n = (double)windows->n;
    size_t n_same = 0;
    int r;

    if (engine_info(engine)->n_vocab != engine_info(other)->n_vocab)
        return err_set(err, -EINVAL, "%s has a vocabulary of %u tokens and %s one of %u: take two forms of one model",
                       engine_info(engine)->name, engine_info(engine)->n_vocab, engine_info(other)->name,
                       engine_info(other)->n_vocab);
    if (windows->len > engine_info(other)->n_context)
        return err_set(err, -EINVAL, "windows of %zu tokens, but %s has %u positions", windows->len,
                       engine_info(other)->name, engine_info(other)->n_context);
    if ((r = side_init(&one, windows->len, err)) || (r = side_init(&two, windows->len, err)))
        return r;
    for (size_t i = 0; i < windows->n; i++) {
        WindowSums sums = { 0 };

        sequence_rewind(one.sequence, 0);
        sequence_rewind(two.sequence, 0);
        r = measure_window(&sums, &one, &two, windows->ids + i * windows->len, windows->len, err);
        if (r) {
            err_prefix(err, "window %zu", i);
            return r;
        }
        window_mean_add(&nats, sums.nats * per_row);
        window_mean_add(&loss, sums.loss * per_row);
        window_mean_add(&other_loss, sums.other_loss * per_row);
        window_mean_add(&change, (sums.loss - sums.other_loss) * per_row);
        n_same += sums.n_same;
        if (progress)
            progress(arg, i, windows->n, nats.sum / (double)(i + 1));
    }
    *result = (Divergence){
        .n_windows = windows->n,
        .n_rows = windows->n * windows->n_scored,
        .nats = nats.sum / n,
        .nats_error = window_mean_error(&nats, windows->n),
        .same_top = (double)n_same * per_row / n,
        .loss = loss.sum / n,
        .other_loss = other_loss.sum / n,
        .loss_change = change.sum / n,
        .loss_change_error = window_mean_error(&change, windows->n),
    };
    return 0;
}
