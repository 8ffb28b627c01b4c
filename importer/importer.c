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
#include "importer/files/import_cache.h"
#include "importer/import_settings.h"
#include "importer/import_work.h"
#include "model/package/package.h"
#include "model/package/package_checksum.h"
#include "text/tokenizer/tokenizer.h"

ImportOptions import_options_default(void) {
    ImportOptions options = { .method = NULL };

    (void)quant_recipe_named(&options.recipe, NULL); /* the default recipe always exists */
    return options;
}

/* An import beside its caller's side of it: the options, and the report that is returned at the end. */
typedef struct ImportRun {
    ImportOptions options;
    Import import;
    ImportReport report;
} ImportRun;

/* --- what lies at the output path --------------------------------------------------------------------------------- */

/* Counts the operators of a package that is there; linears that share an input count once. */
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

/* Whether the package's bytes are those that were written. A package whose checksums cannot be compared passes. */
static bool is_undamaged(const Package *package) {
    ErrText why = { 0 };
    const int r = package_checksum_verify(package_fd(package), gguf_path(package_file(package)), NULL, NULL, &why);

    if (r == PACKAGE_CHECKSUM_E_DAMAGED)
        log_warn(TOPIC_MODEL, "%s", why.text);
    return r != PACKAGE_CHECKSUM_E_DAMAGED;
}

static bool already_imported(ImportRun *run) {
    _cleanup_(package_freep) Package *package = NULL;
    const Import *import = &run->import;
    ImportReport *report = &run->report;

    if (package_open(&package, import->out_path, NULL) ||
        strcmp(package_source_sha256(package), import->source_sha256) ||
        !import_settings_match(package_quant(package), &import->recipe, import->calibration.sha256) ||
        (run->options.checks_package && !is_undamaged(package)))
        return false;
    report->package_bytes = gguf_len_bytes(package_file(package));
    report->n_linears = package_n_linears(package);
    report->bits = (double)package_quant(package)->bits;
    report_operators(report, package);
    return true;
}

/* Refuses to replace a file that someone named, unless it is a package of some version. Files of the cache are ours. */
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

static int choose_path(ImportRun *run, const char *out_path, ErrText *err) {
    const ImportOptions *options = &run->options;
    Import *import = &run->import;
    const char *calibration_sha256 = options->calibration_path ? import->calibration.sha256 : NULL;
    char *path = run->report.path;

    import->out_path = path;
    if (!out_path && options->model_dir)
        return import_model_path(path, import->source.path, &options->recipe, calibration_sha256, options->model_dir,
                                 err);
    if (out_path) {
        if (snprintf(path, PATH_MAX, "%s", out_path) >= PATH_MAX)
            return err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", out_path);
        return 0;
    }
    return import_default_path(path, import->source.path, import->source_sha256, &options->recipe, calibration_sha256,
                               options->cache_dir, err);
}

/* Takes the settings, and loads the text to calibrate on if they need one. */
static int take_options(ImportRun *run, const char *source_path, const ImportOptions *options, ErrText *err) {
    const QuantRecipe *recipe = &options->recipe;
    Import *import = &run->import;
    int r = quant_recipe_check(recipe, err);

    run->options = *options;
    import->recipe = *recipe;
    import->method = options->method ? options->method : &import_method_plain;
    import->n_threads = options->n_threads;
    import->monitor = (ImportMonitor){ .source_path = source_path,
                                       .cancelled = options->cancelled,
                                       .fn = options->progress,
                                       .arg = options->progress_arg };
    if (r || !quant_recipe_needs_calibration(recipe))
        return r;
    if (import->method == &import_method_plain)
        return err_set(err, IMPORT_E_UNSUPPORTED,
                       "recipe %s as it is set needs calibration, which this program does not have: take the recipe "
                       "int8, or switch smoothing, compensation, static activations and the allocation by model off",
                       recipe->name);
    r = calibration_load(&import->calibration, options->calibration_path, err);
    return r > 0 ? IMPORT_E_CALIBRATION : r;
}

/* Reads the peak of this program from /proc: getrusage() may report that of the process that started it. */
static uint64_t peak_bytes(void) {
    _cleanup_(freep) char *text = NULL;
    const char *line;
    size_t len_bytes;

    if (file_slurp("/proc/self/status", 65536, &text, &len_bytes, NULL))
        return 0;
    line = strstr(text, "\nVmHWM:");
    return line ? (uint64_t)strtoull(line + strlen("\nVmHWM:"), NULL, 10) * 1024 : 0;
}

static void fill_report(ImportRun *run, uint64_t begin_ns) {
    const Import *import = &run->import;
    const QuantRecipe *recipe = &import->recipe;
    ImportReport *report = &run->report;

    memcpy(report->source_sha256, import->source_sha256, sizeof(report->source_sha256));
    report->source_bytes = import_source_len_bytes(&import->source);
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

static void run_deinit(ImportRun *run) {
    Import *import = &run->import;

    import_journal_free(import->journal);
    import_part_deinit(&import->part);
    import_plan_deinit(&import->plan);
    import_source_deinit(&import->source);
    calibration_deinit(&import->calibration);
}

#define IMPORT_RUN_NULL ((ImportRun){ .import = { .source = IMPORT_SOURCE_NULL, .part.fd = -1 } })

/* Takes the settings, opens the source and chooses the path. */
static int run_open(ImportRun *run, const char *source_path, const char *out_path, const ImportOptions *options,
                    ErrText *err) {
    Import *import = &run->import;
    int r;

    if (out_path && !*out_path)
        return err_set(err, -EINVAL, "the path of the package is empty: name a file");
    r = take_options(run, source_path, options, err);
    if (!r)
        r = import_source_open(&import->source, source_path, options->source_fd, err);
    if (r)
        return r;
    r = import_source_identify(&import->source, options->cache_dir, &import->monitor, import->source_sha256,
                               &run->report.hash_remembered, err);
    return r ? r : choose_path(run, out_path, err);
}

/* Refuses a source whose tokenizer cannot be built, before the work: its package would be of no use. */
static int check_tokenizer(const ImportSource *source, ErrText *err) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    int r;

    r = tokenizer_new(&tokenizer, source->file, err);
    return r == TOKENIZER_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED : r > 0 ? IMPORT_E_CORRUPT : r ? err_trace(r) : 0;
}

/* Makes the cache's folder or that of models, for which a full disk may have no room either. */
static int make_folder(const ImportRun *run, char folder[PATH_MAX], uint64_t least_bytes, ErrText *err) {
    const char *model_dir = run->options.model_dir;
    int r = import_cache_dir(folder, model_dir ? model_dir : run->options.cache_dir, err);

    return r ? r : import_full_error(file_make_dirs(folder, err), run->import.out_path, least_bytes, err);
}

static int make_package(ImportRun *run, const char *out_path, ErrText *err) {
    Import *import = &run->import;
    uint64_t least_bytes = 0;
    char folder[PATH_MAX];
    bool waited;
    int r;

    r = check_tokenizer(&import->source, err);
    if (!r && (out_path || run->options.model_dir))
        r = check_replaceable(import->out_path, &import->source, err);
    if (!r) /* before the part is made: the message of a full disk says how much is needed */
        r = import_plan_make(&import->plan, &import->source, &import->recipe, err);
    if (!r)
        least_bytes = import_plan_least_bytes(&import->plan, &import->recipe);
    if (!r && !out_path)
        r = make_folder(run, folder, least_bytes, err);
    if (!r)
        r = import_part_open(&import->part, import->out_path, least_bytes, &import->monitor, &waited, err);
    if (r)
        return r;
    if (waited && already_imported(run)) {
        run->report.already_imported = true;
        import_part_remove(&import->part);
        return 0;
    }
    if (!out_path)
        import_parts_clean(folder);
    return import_work(import, err);
}

/* Replaces an error of a source that was cut short by IMPORT_E_CHANGED, which caused it. An -ENOMEM gets a text that
 * names the limit of the process or the machine. */
static int import_error(const Import *import, int r, ErrText *err) {
    const ImportSource *source = &import->source;

    if (source->file && gguf_check_whole(source->file, NULL))
        return import_source_unchanged(source, err);
    return r == -ENOMEM && err ? account_refused_by_system(err) : r;
}

/**
 * import_run() - make a package of a GGUF file, or find the one that was made before
 * @source_path: read with read calls, except for the metadata, which is mapped (see gguf_open())
 * @out_path:    the package; an older one of another source or with other settings is replaced. Its folder must exist,
 *               and "" is refused at once. NULL: the default path, whose folder is made
 * @report:      out; filled only when 0 is returned
 *
 * The package appears under its name whole or not at all. Its bytes depend only on the source, its base name, the
 * settings and the calibration text. Time: some ms if the package is there and the source is remembered; one reading
 * of the source if it is not remembered.
 *
 * PATH.part and PATH.part.journal are the package in the making. A killed import leaves both, and so does one that is
 * cancelled after its first layer. The next import with the same settings checks them and resumes; one with other
 * settings begins anew. After any other error nothing is left. Files that a kill at the very end has left beside the
 * package are removed by the next import that finds them. In the cache folder, parts older than 7 days are removed.
 *
 * Thread: any, several at a time; of two imports to one path the second waits for the first.
 *
 * Return: 0, IMPORT_E_*, or -errno; the text names the file and the remedy.
 */
int import_run(const char *source_path, const char *out_path, const ImportOptions *options, ImportReport *report,
               ErrText *err) {
    _cleanup_(run_deinit) ImportRun run = IMPORT_RUN_NULL;
    uint64_t begin_ns = clock_now_ns();
    int r;

    r = run_open(&run, source_path, out_path, options, err);
    if (r)
        return import_error(&run.import, r, err);
    run.report.already_imported = already_imported(&run);
    if (run.report.already_imported)
        import_part_clear(run.import.out_path);
    else
        r = make_package(&run, out_path, err);
    if (r)
        return import_error(&run.import, r, err);
    fill_report(&run, begin_ns);
    *report = run.report;
    return 0;
}

int import_discard(const char *source_path, const char *out_path, const ImportOptions *options, char path[PATH_MAX],
                   bool *foundp, ErrText *err) {
    _cleanup_(run_deinit) ImportRun run = IMPORT_RUN_NULL;
    int r;

    r = run_open(&run, source_path, out_path, options, err);
    if (r)
        return r;
    memcpy(path, run.report.path, PATH_MAX);
    return import_left_discard(path, foundp, err);
}

int import_source_sha256(const char *source_path, const ImportOptions *options, char sha256[SHA256_HEX_BYTES],
                         ErrText *err) {
    _cleanup_(import_source_deinit) ImportSource source;
    ImportMonitor monitor = {
        .source_path = source_path,
        .cancelled = options->cancelled,
        .fn = options->progress,
        .arg = options->progress_arg,
    };
    char read[SHA256_HEX_BYTES];
    bool remembered;
    int r = import_source_open(&source, source_path, NULL, err);

    if (!r)
        r = import_source_identify(&source, options->cache_dir, &monitor, read, &remembered, err);
    if (!r)
        memcpy(sha256, read, sizeof(read));
    return r;
}
