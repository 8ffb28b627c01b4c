// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "importer/importer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "importer/import_private.h"
#include "text/tokenizer/tokenizer.h"

const char *import_stage_name(ImportStage stage) {
    static const char *const names[] = { "hashing", "waiting", "measuring", "resuming", "converting", "writing" };

    return names[stage];
}

ImportOptions import_options_default(void) {
    ImportOptions options = { .method = NULL };

    (void)quant_recipe_named(&options.recipe, NULL); /* the default is there */
    return options;
}

/* --- for methods -------------------------------------------------------------------------------------------------- */

bool import_options_cancelled(const ImportOptions *options) {
    return options->cancelled && atomic_load_explicit(options->cancelled, memory_order_relaxed);
}

bool import_is_cancelled(const ImportModel *model) {
    return import_options_cancelled(model->options);
}

void import_report(Import *import) {
    const ImportOptions *options = &import->options;

    if (options->progress)
        options->progress(options->progress_arg, &import->progress);
}

void import_report_part(const ImportModel *model, double done) {
    Import *import = (Import *)model; /* its first member; methods see it as const */
    double part = done < 0 ? 0 : done > 1 ? 1 : done;

    import->progress.done_bytes = import->part_begin_bytes + (uint64_t)(part * (double)import->part_bytes);
    import_report(import);
}

void import_report_stage(Import *import, ImportStage stage, uint64_t begin_bytes, uint64_t part_bytes,
                         uint64_t total_bytes) {
    import->part_begin_bytes = begin_bytes;
    import->part_bytes = part_bytes;
    import->progress.stage = stage;
    import->progress.total_bytes = total_bytes;
    import_report_part(&import->model, 0);
}

/* --- what lies at the output path --------------------------------------------------------------------------------- */

/* Of a package that is there; linears that share an input count once. */
static void report_operators(ImportReport *report, const Package *package) {
    const Hparams *hparams = package_hparams(package);
    char name[GGUF_TENSOR_NAME_MAX];
    PackageLinear linear;

    for (uint32_t layer = 0; package_quant(package)->static_activations && layer < hparams->n_layers; layer++)
        for (size_t i = 0; i < hparams->arch->n_ops; i++) {
            const ArchOp *op = &hparams->arch->ops[i];

            if (op->kind != OP_LINEAR ||
                package_linear(package, tensor_name(op->w[0], (int)layer, name, sizeof(name)), &linear, NULL))
                continue;
            report->n_operators++;
            report->n_shadows += linear.activations.shadow;
            report->n_shadow_inputs += linear.activations.shadow ? linear.k : 0;
            report->n_hot += linear.activations.n_hot;
        }
}

/* Whether its bytes are those that were written. One whose checksums cannot be compared passes. */
static bool is_undamaged(const Package *package) {
    ErrText why = { "" };
    const int r = package_checksum_verify(package_fd(package), gguf_path(package_file(package)), NULL, NULL, &why);

    if (r == PACKAGE_CHECKSUM_E_DAMAGED)
        log_warn(TOPIC_MODEL, "%s", why.text);
    return r != PACKAGE_CHECKSUM_E_DAMAGED;
}

static bool already_imported(Import *import) {
    _cleanup_(package_freep) Package *package = NULL;
    ImportReport *report = &import->report;

    if (package_open(&package, import->out_path, NULL) ||
        strcmp(package_source_sha256(package), report->source_sha256) ||
        !import_settings_match(package_quant(package), &import->options.recipe, import->calibration.sha256) ||
        (import->options.checks_package && !is_undamaged(package)))
        return false;
    report->package_bytes = gguf_len_bytes(package_file(package));
    report->n_linears = package_n_linears(package);
    report->bits = (double)package_quant(package)->bits;
    report_operators(report, package);
    return true;
}

/* A file that someone named is replaced only when it is a package of some version; the cache's files are ours. */
static int check_replaceable(const char *path, const ImportSource *source, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    struct stat st;

    if (stat(path, &st) < 0)
        return 0;
    for (size_t i = 0; i < source->n_parts; i++)
        if (st.st_dev == source->sts[i].st_dev && st.st_ino == source->sts[i].st_ino)
            return err_set(err, IMPORT_E_EXISTS, "%s: the output is the source itself: name another file", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, IMPORT_E_EXISTS, "%s: exists and is not a regular file: name another file", path);
    if (gguf_open(&file, path, NULL) || !package_is(file))
        return err_set(err, IMPORT_E_EXISTS, "%s: exists and is not a model package: remove it or name another file",
                       path);
    return 0;
}

static int choose_path(Import *import, const char *out_path, ErrText *err) {
    const ImportOptions *options = &import->options;
    const char *calibration_sha256 = options->calibration_path ? import->calibration.sha256 : NULL;
    ImportReport *report = &import->report;

    import->out_path = report->path;
    if (!out_path && options->model_dir)
        return import_model_path(report->path, import->source.path, &options->recipe, calibration_sha256,
                                 options->model_dir, err);
    if (out_path) {
        if (snprintf(report->path, sizeof(report->path), "%s", out_path) >= (int)sizeof(report->path))
            return err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", out_path);
        return 0;
    }
    return import_default_path(report->path, import->source.path, report->source_sha256, &options->recipe,
                               calibration_sha256, options->cache_dir, err);
}

/* The settings, and the text to calibrate on when they need one. */
static int check_options(Import *import, const ImportOptions *options, ErrText *err) {
    const QuantRecipe *recipe = &options->recipe;
    int r = quant_recipe_check(recipe, err);

    import->options = *options;
    if (!options->method)
        import->options.method = &import_method_plain;
    if (r || !quant_recipe_needs_calibration(recipe))
        return r;
    if (import->options.method == &import_method_plain)
        return err_set(err, IMPORT_E_UNSUPPORTED,
                       "recipe %s as it is set needs calibration, which this program does not have: take the recipe "
                       "int8, or switch smoothing, compensation, static activations and the allocation by model off",
                       recipe->name);
    r = calibration_load(&import->calibration, options->calibration_path, err);
    return r > 0 ? IMPORT_E_CALIBRATION : r;
}

/* Of this program: what getrusage() says may be that of the process that started it. */
static uint64_t peak_bytes(void) {
    _cleanup_(freep) char *text = NULL;
    const char *line;
    size_t len_bytes;

    if (file_slurp("/proc/self/status", 65536, &text, &len_bytes, NULL))
        return 0;
    line = strstr(text, "\nVmHWM:");
    return line ? (uint64_t)strtoull(line + strlen("\nVmHWM:"), NULL, 10) * 1024 : 0;
}

static void fill_report(Import *import, uint64_t begin_ns) {
    const QuantRecipe *recipe = &import->options.recipe;
    ImportReport *report = &import->report;

    snprintf(report->recipe, sizeof(report->recipe), "%s", recipe->name);
    report->bits_asked = recipe->bits;
    report->embedding_bits = recipe->embedding_bits;
    report->n_layers = (size_t)import->source.hparams.n_layers + 1;
    if (!report->already_imported) {
        report->package_bytes = import->plan.package_bytes;
        report->n_linears = import->plan.n_linears;
        report->resumed_layers = import->n_resumed;
        report->bits = import->plan.bits_made;
        report->n_operators = import->plan.n_operators;
        for (size_t i = 0; i < import->plan.n_operators; i++) {
            const ImportOperator *operator= & import->plan.operators[i];

            report->n_shadows += operator->shadow;
            report->n_shadow_inputs += operator->shadow ? operator->k : 0;
            for (size_t c = 0; c < operator->k; c++)
                report->n_hot += operator->is_hot[c];
        }
    }
    report->peak_bytes = peak_bytes();
    report->seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
}

static void import_deinit(Import *import) {
    import_journal_free(import->journal);
    import_part_deinit(&import->part);
    import_plan_deinit(&import->plan);
    import_source_deinit(&import->source);
    calibration_deinit(&import->calibration);
}

#define IMPORT_NULL ((Import){ .source = IMPORT_SOURCE_NULL, .part.fd = -1 })

/* Source, settings and path. */
static int import_open(Import *import, const char *source_path, const char *out_path, const ImportOptions *options,
                       ErrText *err) {
    int r;

    if (out_path && !*out_path)
        return err_set(err, -EINVAL, "the path of the package is empty: name a file");
    r = check_options(import, options, err);
    if (!r)
        r = import_source_open(&import->source, source_path, options->source_fd, err);
    if (r)
        return r;
    import->report.source_bytes = import_source_len_bytes(&import->source);
    r = import_source_identify(&import->source, options, &import->report, err);
    return r ? r : choose_path(import, out_path, err);
}

/* A package without a tokenizer is of no use: whether it can be built shows before the work, not at the first load. */
static int check_tokenizer(const ImportSource *source, ErrText *err) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    int r;

    r = tokenizer_new(&tokenizer, source->file, err);
    return r == TOKENIZER_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED : r > 0 ? IMPORT_E_CORRUPT : r ? err_trace(r) : 0;
}

/* The cache's folder or that of models, which a full disk may have no room for either. */
static int make_folder(const Import *import, char folder[PATH_MAX], ErrText *err) {
    const char *model_dir = import->options.model_dir;
    int r = import_cache_dir(folder, model_dir ? model_dir : import->options.cache_dir, err);

    return r ? r : import_full_error(file_make_dirs(folder, err), import, err);
}

static int make_package(Import *import, const char *out_path, ErrText *err) {
    const ImportOptions *options = &import->options;
    char folder[PATH_MAX];
    bool waited;
    int r;

    r = check_tokenizer(&import->source, err);
    if (!r && (out_path || options->model_dir))
        r = check_replaceable(import->out_path, &import->source, err);
    if (!r) /* before the part: where there is no room for that, it says how much is needed */
        r = import_plan_make(&import->plan, &import->source, &options->recipe, err);
    if (!r && !out_path)
        r = make_folder(import, folder, err);
    if (!r)
        r = import_part_open(&import->part, import->out_path, import, &waited, err);
    if (r)
        return r;
    if (waited && already_imported(import)) {
        import->report.already_imported = true;
        import_part_remove(&import->part);
        return 0;
    }
    if (!out_path)
        import_parts_clean(folder);
    return import_work(import, err);
}

/* What was wrong with a source that was cut short meanwhile is only that. Memory that was not there says which limit
 * of the process or the machine was met. */
static int import_error(const Import *import, int r, ErrText *err) {
    const ImportSource *source = &import->source;

    if (source->file && gguf_check_whole(source->file, NULL))
        return import_source_unchanged(source, err);
    return r == -ENOMEM && err ? account_refused_by_system(err) : r;
}

/**
 * import_run() - make a package of a GGUF file, or find the one that was made before
 * @source_path: read with read calls but for the metadata, which is mapped (see gguf_open())
 * @out_path:    the package, replaced when it is an older one of another source or with other settings; its folder must
 *               exist, and "" is refused at once. NULL: the default path, whose folder is made
 * @report:      out; filled only when 0 is returned
 *
 * The package appears under its name whole or not at all. Its bytes depend on the source, its base name, the settings
 * and the calibration text alone. Takes some ms when the package is there and the source is remembered, and one reading
 * of the source when it is not.
 *
 * PATH.part and PATH.part.journal are the package in the making. A killed import leaves both, a cancelled one when a
 * layer was finished: the next one with the same settings checks what is there and goes on; one with other settings
 * begins anew. After any other error nothing is left. What a kill at the very end has left beside the package goes with
 * the next import that finds it there. In the cache folder parts of 7 days are removed.
 *
 * Thread: any, several at a time; of two imports to one path the second waits for the first.
 *
 * Return: 0, IMPORT_E_*, or -errno; the text names the file and the remedy.
 */
int import_run(const char *source_path, const char *out_path, const ImportOptions *options, ImportReport *report,
               ErrText *err) {
    _cleanup_(import_deinit) Import import = IMPORT_NULL;
    uint64_t begin_ns = clock_now_ns();
    int r;

    r = import_open(&import, source_path, out_path, options, err);
    if (r)
        return import_error(&import, r, err);
    import.report.already_imported = already_imported(&import);
    if (import.report.already_imported)
        import_part_clear(import.out_path);
    else
        r = make_package(&import, out_path, err);
    if (r)
        return import_error(&import, r, err);
    fill_report(&import, begin_ns);
    *report = import.report;
    return 0;
}

int import_discard(const char *source_path, const char *out_path, const ImportOptions *options, char path[PATH_MAX],
                   bool *foundp, ErrText *err) {
    _cleanup_(import_deinit) Import import = IMPORT_NULL;
    int r;

    r = import_open(&import, source_path, out_path, options, err);
    if (r)
        return r;
    memcpy(path, import.report.path, PATH_MAX);
    return import_part_discard(path, foundp, err);
}
