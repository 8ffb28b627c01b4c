// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdarg.h>

#include "base/strings/json_text.h"
#include "tools/eval/eval.h"

int eval_fail(const EvalOptions *options, const char *format, ...) {
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (options->json.is_wanted)
        (void)eval_print_json(options, json_pack("{s:b, s:o}", "ok", 0, "error", json_text(text)), EVAL_OUTSIDE);
    fprintf(stderr, "coordgen-eval: %s\n", text);
    return EVAL_OUTSIDE;
}

int eval_print_json(const EvalOptions *options, json_t *report, int status) {
    if (!report) {
        fprintf(stderr, "coordgen-eval: out of memory for the report\n");
        return EVAL_OUTSIDE;
    }
    (void)json_dumpf(report, stdout, options->json.flags); /* standard_output_end() reports errors */
    putchar('\n');
    json_decref(report);
    return status;
}

json_t *eval_report_add(json_t *report, json_t *more) {
    int r = report && more ? json_object_update(report, more) : -1;

    json_decref(more);
    if (!r)
        return report;
    json_decref(report);
    return NULL;
}

json_t *eval_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *eval_report_new(const EvalOptions *options, const EvalModel *model, const char *verb) {
    const EngineInfo *info = engine_info(model->engine);

    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:i}", "verb", verb, "model", json_text(options->model.path), "device",
                     info->device, "kernel", info->kernel, "isa", isa_name(options->model.engine.load.isa), "threads",
                     (int)worker_pool_n_threads(model->pool));
}
