// SPDX-License-Identifier: Apache-2.0
/* The verb `divergence`, over divergence.h. */
#include <math.h>
#include <string.h>

#include "importer/check/divergence.h"
#include "base/strings/json_text.h"
#include "tools/eval/eval.h"

/* Opens the other model: a .gguf in float32 on the reference device, a package on the cpu device. */
static int open_against(EvalModel *model, const EvalOptions *options, ErrText *err) {
    EvalModelOptions against = options->model;
    size_t len = strlen(options->text.against);

    against.path = options->text.against;
    against.recipe_option = NULL; /* the recipe is the model's */
    against.engine.load.device =
        len > 4 && !strcmp(options->text.against + len - 4, ".cgm") ? ENGINE_DEVICE_CPU : ENGINE_DEVICE_REFERENCE;
    return eval_model_open(model, &against, err);
}

static void print_window(void *arg, size_t window, size_t n_windows, double nats_so_far) {
    (void)arg;
    printf("window %zu of %zu: %.6f nats so far\n", window + 1, n_windows, nats_so_far);
    fflush(stdout);
}

static int print_report(const EvalOptions *options, const EvalModel *model, const Divergence *result) {
    const int status = isfinite(result->nats) ? EVAL_OK : EVAL_OUTSIDE;
    json_t *report;

    if (options->json.is_wanted) {
        report = eval_report_add(
            eval_report_new(options, model, "divergence"),
            json_pack("{s:b, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ok", isfinite(result->nats),
                      "file", json_text(options->file), "against", json_text(options->text.against), "windows",
                      (int)result->n_windows, "rows", (int)result->n_rows, "nats", eval_json_real(result->nats),
                      "nats_standard_error", eval_json_real(result->nats_error), "same_top",
                      eval_json_real(result->same_top), "perplexity", eval_json_real(exp(result->loss)),
                      "against_perplexity", eval_json_real(exp(result->other_loss)), "loss_change",
                      eval_json_real(result->loss_change), "loss_change_standard_error",
                      eval_json_real(result->loss_change_error)));
        return eval_print_json(options, report, status);
    }
    printf("divergence %.6f +- %.6f nats from %s over %zu tokens of %zu windows (%s, %s)\n", result->nats,
           result->nats_error, options->text.against, result->n_rows, result->n_windows,
           engine_info(model->engine)->device, engine_info(model->engine)->kernel);
    printf("same most probable token: %.2f %%\n", 100 * result->same_top);
    printf("perplexity %.4f, there %.4f: %+.2f %% +- %.2f (standard errors of the windows)\n", exp(result->loss),
           exp(result->other_loss), 100 * expm1(result->loss_change), 100 * result->loss_change_error);
    return status;
}

int eval_divergence(const EvalOptions *options) {
    _cleanup_(eval_model_close) EvalModel model = { 0 }, against = { 0 };
    _cleanup_(text_windows_deinit) TextWindows windows = { 0 };
    Divergence result;
    ErrText err = { 0 };

    if (!options->text.against)
        return eval_fail(options, "divergence needs --against FILE: the .gguf that %s was made of, or another package",
                         options->model.path);
    if (eval_model_open(&model, &options->model, &err) || open_against(&against, options, &err) ||
        text_windows_init(&windows, model.engine, options->file, options->text.window, options->text.windows, &err) ||
        divergence_measure(&result, model.engine, against.engine, &windows,
                           options->json.is_wanted ? NULL : print_window, NULL, &err))
        return eval_fail(options, "%s", err.text);
    return print_report(options, &model, &result);
}
