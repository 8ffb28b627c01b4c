// SPDX-License-Identifier: Apache-2.0
/* The verbs `mcq` and `cloze`, over mcq.h and cloze.h. */
#include <math.h>
#include <unistd.h>

#include "base/strings/json_text.h"
#include "tools/eval/eval.h"
#include "tools/eval/quality/cloze.h"
#include "tools/eval/quality/mcq.h"

#define ROWS_A_LINE 100 /* rows between two lines of the text report */

static void print_row(void *arg, size_t n_done, size_t n_rows, size_t n_right) {
    if (n_done % ROWS_A_LINE && n_done != n_rows)
        return;
    printf("%zu of %zu rows: accuracy so far %.2f %%\n", n_done, n_rows, 100 * (double)n_right / (double)n_done);
    fflush(stdout);
}

static void print_accuracy(size_t n_right, size_t n_rows, double accuracy, double standard_error) {
    printf("accuracy %.2f %%", 100 * accuracy);
    if (isfinite(standard_error))
        printf(" +- %.2f (standard error)", 100 * standard_error);
    printf(", %zu of %zu rows", n_right, n_rows);
}

static void print_device(const EvalModel *model, size_t n_merged, const char *what) {
    const EngineInfo *info = engine_info(model->engine);

    printf(" (%s, %s)\n", info->device, info->kernel);
    if (n_merged)
        printf("%zu %s with a token across the border between context and continuation\n", n_merged, what);
}

int eval_mcq(const EvalOptions *options) {
    _cleanup_(eval_model_close) EvalModel model = { 0 };
    _cleanup_(mcq_deinit) Mcq mcq = { 0 };
    McqOptions what = {
        .file = options->file,
        .limit = options->questions.limit,
        .normalise = options->questions.normalise,
        .with_rows = options->json.is_wanted,
        .on_row = options->json.is_wanted ? NULL : print_row,
    };
    ErrText err = { 0 };

    if (eval_model_open(&model, &options->model, &err) || mcq_measure(&mcq, model.engine, &what, &err))
        return eval_fail(options, "%s", err.text);
    if (options->json.is_wanted)
        return eval_print_json(
            options,
            eval_report_add(
                eval_report_new(options, &model, "mcq"),
                json_pack("{s:b, s:o, s:s, s:i, s:i, s:f, s:o, s:i, s:O}", "ok", 1, "file", json_text(options->file),
                          "normalise", mcq_normalise_name(options->questions.normalise), "n_rows", (int)mcq.n_rows,
                          "n_right", (int)mcq.n_right, "accuracy", mcq.accuracy, "standard_error",
                          eval_json_real(mcq.standard_error), "merged_borders", (int)mcq.n_merged, "rows", mcq.rows)),
            EVAL_OK);
    print_accuracy(mcq.n_right, mcq.n_rows, mcq.accuracy, mcq.standard_error);
    print_device(&model, mcq.n_merged, "choices");
    return EVAL_OK;
}

int eval_cloze(const EvalOptions *options) {
    _cleanup_(eval_model_close) EvalModel model = { 0 };
    _cleanup_(cloze_deinit) Cloze cloze = { 0 };
    ClozeOptions what = {
        .file = options->file,
        .limit = options->questions.limit,
        .with_rows = options->json.is_wanted,
        .on_row = options->json.is_wanted ? NULL : print_row,
    };
    ErrText err = { 0 };

    if (eval_model_open(&model, &options->model, &err) || cloze_measure(&cloze, model.engine, &what, &err))
        return eval_fail(options, "%s", err.text);
    if (options->json.is_wanted)
        return eval_print_json(options,
                               eval_report_add(eval_report_new(options, &model, "cloze"),
                                               json_pack("{s:b, s:o, s:i, s:i, s:f, s:o, s:o, s:i, s:O}", "ok", 1,
                                                         "file", json_text(options->file), "n_rows", (int)cloze.n_rows,
                                                         "n_right", (int)cloze.n_right, "accuracy", cloze.accuracy,
                                                         "standard_error", eval_json_real(cloze.standard_error),
                                                         "perplexity", eval_json_real(cloze.perplexity),
                                                         "merged_borders", (int)cloze.n_merged, "rows", cloze.rows)),
                               EVAL_OK);
    print_accuracy(cloze.n_right, cloze.n_rows, cloze.accuracy, cloze.standard_error);
    printf(", perplexity of the last word %.4f", cloze.perplexity);
    print_device(&model, cloze.n_merged, "rows");
    return EVAL_OK;
}
