// SPDX-License-Identifier: Apache-2.0
/* The verb `perplexity`, over perplexity.h, and the comparison with golden values. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/strings/json_text.h"
#include "tools/eval/eval.h"
#include "tools/eval/quality/perplexity_golden.h"

/* Relative tolerances of perplexity. The reference device has them for every window. A device of int8 has them for all
 * windows together, beside two standard errors: rounding to int8 moves a token's loss by 0.1 (rms) either way, so that
 * the mean of 4,080 tokens is off by 0.16 % by chance. */
#define TOLERANCE 1e-4
#define TOLERANCE_INT8 0.005

static void print_window(void *arg, size_t index, double mean_nll, double perplexity_so_far) {
    printf("window %zu: mean nll %.5f, perplexity so far %.4f\n", index, mean_nll, perplexity_so_far);
    fflush(stdout);
}

static json_t *shadow_json(const ShadowCounts *counts) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "rows", (json_int_t)counts->n_rows, "outliers",
                     (json_int_t)counts->n_outliers, "hot", (json_int_t)counts->n_hot, "columns_read",
                     (json_int_t)counts->n_columns_read, "columns_cached", (json_int_t)counts->n_columns_cached);
}

static void print_shadow(const ShadowCounts *counts) {
    if (counts->n_rows)
        printf("shadow outliers: %.3f in each of %" PRIu64 " rows of operators, %.1f %% in hot channels; %" PRIu64
               " columns read, %" PRIu64 " found again\n",
               (double)counts->n_outliers / (double)counts->n_rows, counts->n_rows,
               counts->n_outliers ? 100 * (double)counts->n_hot / (double)counts->n_outliers : 100.0,
               counts->n_columns_read, counts->n_columns_cached);
}

int eval_perplexity(const EvalOptions *options) {
    _cleanup_(eval_model_close) EvalModel model = { 0 };
    _cleanup_(perplexity_deinit) Perplexity run = { 0 };
    PerplexityOptions what = { .file = options->file,
                               .window = options->text.window,
                               .windows = options->text.windows };
    bool reference = options->model.engine.load.device == ENGINE_DEVICE_REFERENCE;
    double tolerance = options->limits.tolerance >= 0 ? options->limits.tolerance
                       : reference                    ? TOLERANCE
                                                      : TOLERANCE_INT8;
    GoldenDeviation deviation = { 0 };
    ShadowCounts shadow;
    ErrText err = { 0 };
    json_t *report, *means;
    bool ok = true;

    if (!options->json.is_wanted)
        what.on_window = print_window;
    if (eval_model_open(&model, &options->model, &err) || perplexity_measure(&run, model.engine, &what, &err))
        return eval_fail(options, "%s", err.text);
    engine_backend(model.engine)->ops->shadow_counts(engine_backend(model.engine), &shadow);
    if (!isfinite(run.value))
        ok = false;
    if (options->text.expect) {
        if (golden_deviation(&run, options->text.expect, options->text.name, &deviation, &err))
            return eval_fail(options, "%s", err.text);
        ok = ok && golden_deviation_is_within(&deviation, tolerance, reference);
    }
    if (options->json.is_wanted) {
        report = eval_report_new(options, &model, "perplexity");
        means = json_array();
        for (size_t i = 0; i < run.n_windows; i++)
            json_array_append_new(means, eval_json_real(run.means[i]));
        report = eval_report_add(report, json_pack("{s:b, s:o, s:o, s:i, s:i, s:i, s:b, s:o}", "ok", ok, "file",
                                                   json_text(options->file), "perplexity", eval_json_real(run.value),
                                                   "window", (int)run.window, "windows", (int)run.n_windows,
                                                   "scored_per_window", (int)run.n_scored, "bos_replaces_first",
                                                   run.bos_replaces_first, "window_mean_nll", means));
        if (shadow.n_rows)
            report = eval_report_add(report, json_pack("{s:o}", "shadow", shadow_json(&shadow)));
        if (options->text.expect)
            report = eval_report_add(
                report,
                json_pack("{s:f, s:o, s:o, s:o, s:{s:o, s:o}}", "tolerance", tolerance, "deviation",
                          eval_json_real(deviation.overall), "standard_error", eval_json_real(deviation.standard_error),
                          "limit", eval_json_real(golden_deviation_limit(&deviation, tolerance, reference)), "worst",
                          "deviation", eval_json_real(deviation.worst), "where", json_text(deviation.where)));
        return eval_print_json(options, report, ok ? EVAL_OK : EVAL_OUTSIDE);
    }
    printf("perplexity %.4f over %zu windows of %zu tokens, %zu scored in each (%s, %s)\n", run.value, run.n_windows,
           run.window, run.n_scored, engine_info(model.engine)->device, engine_info(model.engine)->kernel);
    print_shadow(&shadow);
    if (options->text.expect)
        printf("golden: %+.4f %%, standard error %.4f %%, limit %.4f %%; worst window %+.4f %%\n  at %s\n%s\n",
               100 * deviation.overall, 100 * deviation.standard_error,
               100 * golden_deviation_limit(&deviation, tolerance, reference), 100 * deviation.worst, deviation.where,
               ok ? "ok" : "OUTSIDE THE TOLERANCE");
    return ok ? EVAL_OK : EVAL_OUTSIDE;
}
