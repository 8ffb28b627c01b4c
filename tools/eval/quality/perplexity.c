// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/quality/perplexity.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "importer/check/scorer.h"
#include "importer/check/text_windows.h"

void perplexity_deinit(Perplexity *result) {
    free(result->means);
    result->means = NULL;
}

static int score_window(double *meanp, Scorer *scorer, const TextWindows *windows, size_t index, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    Score score = SCORE_NONE;
    int r;

    r = sequence_new(&sequence, scorer->engine, windows->len, err);
    if (r)
        return r;
    r = scorer_append(scorer, sequence, windows->ids + index * windows->len, 0, windows->len - 1, windows->len / 2,
                      &score, err);
    if (r)
        err_prefix(err, "window %zu", index);
    *meanp = -score.log_likelihood / (double)windows->n_scored;
    return r;
}

int perplexity_measure(Perplexity *result, Engine *engine, const PerplexityOptions *options, ErrText *err) {
    _cleanup_(text_windows_deinit) TextWindows windows = { 0 };
    _cleanup_(perplexity_deinit) Perplexity made = { 0 };
    _cleanup_(scorer_deinit) Scorer scorer = { 0 };
    double sum = 0;
    int r;

    r = text_windows_init(&windows, engine, options->file, options->window, options->windows, err);
    if (!r)
        r = scorer_init(&scorer, engine, err);
    if (r)
        return r;
    made = (Perplexity){
        .means = calloc(windows.n, sizeof(*made.means)),
        .n_windows = windows.n,
        .window = windows.len,
        .n_scored = windows.n_scored,
        .bos_replaces_first = windows.bos_replaces_first,
    };
    if (!made.means)
        return err_no_memory(err);
    for (size_t i = 0; i < made.n_windows; i++) {
        r = score_window(&made.means[i], &scorer, &windows, i, err);
        if (r)
            return r;
        sum += made.means[i];
        if (options->on_window)
            options->on_window(options->arg, i, made.means[i], exp(sum / (double)(i + 1)));
    }
    made.value = exp(sum / (double)made.n_windows);
    *result = made;
    made.means = NULL;
    return 0;
}
