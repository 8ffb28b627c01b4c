// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/files/file_io.h"
#include "model/json_text.h"
#include "tools/eval/eval.h"

#define LINES_FILE_MAX ((size_t)256 << 20)

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
                     info->device, "kernel", info->kernel, "isa", isa_name(options->model.engine.isa), "threads",
                     (int)worker_pool_n_threads(model->pool));
}

int eval_each_line(const char *path, EvalLineFn *fn, void *arg, ErrText *err) {
    _cleanup_(freep) char *data = NULL;
    size_t len_bytes, number = 0;
    char *line, *next;
    int r;

    r = file_slurp(path, LINES_FILE_MAX, &data, &len_bytes, err);
    if (r)
        return r;
    for (line = data; line < data + len_bytes; line = next) {
        json_error_t error;
        json_t *object;

        next = memchr(line, '\n', (size_t)(data + len_bytes - line));
        next = next ? next + 1 : data + len_bytes;
        number++;
        if (strspn(line, " \t\r\n") >= (size_t)(next - line))
            continue;
        object = json_loadb(line, (size_t)(next - line), JSON_ALLOW_NUL, &error);
        if (!json_is_object(object)) {
            json_decref(object);
            return err_set(err, -EINVAL, "%s:%zu: not a JSON object: %s", path, number, error.text);
        }
        r = fn(arg, object, number, err);
        json_decref(object);
        if (r) {
            err_prefix(err, "%s:%zu", path, number);
            return r;
        }
    }
    if (!number)
        return err_set(err, -EINVAL, "%s: the file is empty", path);
    return 0;
}

int eval_ids(const json_t *array, uint32_t n_vocab, uint32_t **idsp, size_t *np, ErrText *err) {
    size_t n = json_array_size(array);
    uint32_t *ids;

    if (!json_is_array(array))
        return err_set(err, -EINVAL, "'ids' is not an array of token ids");
    ids = malloc((n ? n : 1) * sizeof(*ids));
    if (!ids)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);

        if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= n_vocab) {
            free(ids);
            return err_set(err, -EINVAL, "token %zu is not an id below %u", i, n_vocab);
        }
        ids[i] = (uint32_t)json_integer_value(item);
    }
    *idsp = ids;
    *np = n;
    return 0;
}
