// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/progress.h"
#include "importer/importer.h"
#include "importer/methods/import_method.h"
#include "model/package/package.h"
#include "tools/eval/eval.h"
#include "weights/image/weights_image.h"

/* Tells whether the file is a package already. */
static int is_package(const char *path, bool *yesp, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r = gguf_open(&file, path, err);

    if (!r)
        *yesp = gguf_key(file, PACKAGE_KEY_FORMAT_VERSION) != NULL;
    return r;
}

static void show_import(void *arg, const ImportProgress *progress) {
    progress_update(arg, import_stage_name(progress->stage), progress->done_bytes, progress->total_bytes);
}

int eval_import(const EvalModelOptions *options, const QuantRecipe *recipe, const char *cache_dir, ImportReport *report,
                ErrText *err) {
    ImportOptions import = {
        .recipe = *recipe,
        .method = quant_recipe_needs_calibration(recipe) ? &import_method_calibrated : NULL,
        .calibration_path = options->calibration,
        .n_threads = options->engine.load.threads,
        .cache_dir = cache_dir,
    };
    Progress progress;
    int r;

    progress_init(&progress, STDERR_FILENO);
    if (progress.terminal) { /* without a terminal, programs read the output */
        import.progress = show_import;
        import.progress_arg = &progress;
    }
    r = import_run(options->path, NULL, &import, report, err);
    progress_end(&progress);
    return r;
}

int eval_package_path(const EvalModelOptions *options, char **pathp, ErrText *err) {
    ImportReport report;
    bool package = false;
    char *path;
    int r;

    r = is_package(options->path, &package, err);
    if (!r && package && options->recipe_option)
        return err_set(err, -EINVAL, "%s is a package, whose weights are as they are: %s is for a .gguf", options->path,
                       options->recipe_option);
    if (!r && !package)
        r = eval_import(options, &options->recipe, NULL, &report, err);
    if (r)
        return r;
    path = strdup(package ? options->path : report.path);
    if (!path)
        return err_no_memory(err);
    *pathp = path;
    return 0;
}

/* Names the image where coordgend would have it for a package that an import has made. */
static int place_image(const char *package, char image[PATH_MAX], ErrText *err) {
    _cleanup_(freep) char *path = realpath(package, NULL), *folder = path ? strdup(path) : NULL;
    char *slash = folder ? strrchr(folder, '/') : NULL;

    if (!slash)
        return err_set(err, -errno, "%s: %s", package, strerror(errno));
    *slash = 0;
    if (weights_image_path(image, PATH_MAX, folder, path))
        return err_set(err, -ENAMETOOLONG, "%s: no room for an image beside it: its path is too long", package);
    return 0;
}

int eval_engine_open(Engine **enginep, const EvalModelOptions *options, WorkerPool *pool, AccountTable *accounts,
                     ErrText *err) {
    _cleanup_(freep) char *package = NULL;
    EngineOptions engine = options->engine;
    char image[PATH_MAX];
    bool wants_image;
    int r;

    engine.path = options->path;
    engine.pool = pool;
    engine.accounts = accounts;
    if (engine_device(engine.load.device)->reads_packages) {
        r = eval_package_path(options, &package, err);
        if (r)
            return r;
        engine.path = package;
        wants_image = engine.load.weights.memory.is_set || engine_device(engine.load.device)->has_graphs;
        if (wants_image && (r = place_image(package, image, err)))
            return r;
        engine.image_path = wants_image ? image : NULL;
    }
    return engine_new(enginep, &engine, err);
}

int eval_model_open(EvalModel *model, const EvalModelOptions *options, ErrText *err) {
    int r;

    account_table_init(&model->accounts);
    r = worker_pool_new(&model->pool, load_options_threads(&options->engine.load));
    if (r)
        return err_set(err, r, "cannot start the worker threads: %s", strerror(-r));
    r = eval_engine_open(&model->engine, options, model->pool, &model->accounts, err);
    if (r)
        eval_model_close(model);
    return r;
}

void eval_model_close(EvalModel *model) {
    model->engine = engine_free(model->engine);
    model->pool = worker_pool_free(model->pool);
}
