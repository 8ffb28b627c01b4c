#define _GNU_SOURCE
#include "importer/importer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "importer/import_private.h"
#include "quant/grid.h"

#define TEMPORARY_TRIES 8
#define THREADS_MAX 64
#define BITS_STEPS 128 /* a budget of bytes is met to 1/128 bit */

const char *import_stage_name(ImportStage stage) {
    static const char *const names[] = { "hashing", "measuring", "converting", "writing" };

    return names[stage];
}

ImportOptions import_options_default(void) {
    ImportOptions options = { .method = NULL };

    (void)quant_recipe_named(&options.recipe, NULL); /* the default is there */
    return options;
}

/* --- for methods --------------------------------------------------------------------------------------------------- */

bool import_options_cancelled(const ImportOptions *options) {
    return options->cancelled && atomic_load_explicit(options->cancelled, memory_order_relaxed);
}

bool import_is_cancelled(const ImportModel *model) {
    return import_options_cancelled(model->options);
}

void import_report(Import *import) {
    const ImportOptions *options = import->model.options;

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

static bool already_imported(const Import *import, ImportReport *report) {
    _cleanup_(package_freep) Package *package = NULL;

    if (package_open(&package, import->out_path, NULL) ||
        strcmp(package_source_sha256(package), report->source_sha256) ||
        !import_settings_match(package_quant(package), &import->options.recipe, import->calibration.sha256))
        return false;
    report->package_bytes = gguf_len_bytes(package_file(package));
    report->n_linears = package_n_linears(package);
    report->bits = (double)package_quant(package)->bits;
    return true;
}

/* A file that someone named is replaced only when it is a package of some version; the cache's files are ours. */
static int check_replaceable(const char *path, const ImportSource *source, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    struct stat st;

    if (stat(path, &st) < 0)
        return 0;
    if (st.st_dev == source->st.st_dev && st.st_ino == source->st.st_ino)
        return err_set(err, IMPORT_E_EXISTS, "%s: the output is the source itself: name another file", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, IMPORT_E_EXISTS, "%s: exists and is not a regular file: name another file", path);
    if (gguf_open(&file, path, NULL) || !package_is(file))
        return err_set(err, IMPORT_E_EXISTS, "%s: exists and is not a model package: remove it or name another file",
                       path);
    return 0;
}

/* NAME.cgm.tmp-XXXXXX; base NULL: of any package. */
static bool is_temporary(const char *name, const char *base) {
    const size_t suffix_bytes = strlen(".tmp-XXXXXX");
    size_t n = strlen(name);

    if (n <= suffix_bytes || strncmp(name + n - suffix_bytes, ".tmp-", 5))
        return false;
    n -= suffix_bytes;
    return base ? n == strlen(base) && !memcmp(name, base, n) : n > 4 && !memcmp(name + n - 4, ".cgm", 4);
}

/* Takes away what killed imports left: files that nobody has locked. In the cache folder those of any package. */
static void remove_stale(const char *out_path, bool in_cache) {
    char folder[PATH_MAX], path[PATH_MAX];
    const char *slash = strrchr(out_path, '/'), *base = slash ? slash + 1 : out_path;
    const struct dirent *entry;
    struct stat st;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - out_path + 1) : 2, slash ? out_path : "./");
    dir = opendir(folder);
    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        _cleanup_(closep) int fd = -1;

        if (!is_temporary(entry->d_name, in_cache ? NULL : base) ||
            snprintf(path, sizeof(path), "%s%s", folder, entry->d_name) >= (int)sizeof(path))
            continue;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && !flock(fd, LOCK_EX | LOCK_NB))
            (void)unlink(path);
    }
    closedir(dir);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int check_space(const char *out_path, int fd, uint64_t package_bytes, ErrText *err) {
    struct statvfs vfs;
    struct rlimit limit;
    uint64_t free_bytes;

    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < package_bytes)
        return import_write_error(-EFBIG, out_path, package_bytes, err);
    if (fstatvfs(fd, &vfs) < 0 || !vfs.f_blocks)
        return 0; /* the file system does not say: writing will */
    free_bytes = (uint64_t)(geteuid() ? vfs.f_bavail : vfs.f_bfree) * vfs.f_frsize;
    if (free_bytes < package_bytes)
        return err_set(err, IMPORT_E_NO_SPACE,
                       "%s: the package needs %" PRIu64 " bytes (%.1f MB), %" PRIu64
                       " (%.1f MB) are free there; free some space or name "
                       "another place with -o",
                       out_path, package_bytes, (double)package_bytes / 1e6, free_bytes, (double)free_bytes / 1e6);
    return 0;
}

/* All blocks are reserved now, so that a full disk shows before the work and not in the middle of it. */
static int reserve_space(const char *out_path, int fd, uint64_t package_bytes, ErrText *err) {
    int r;

    do
        r = fallocate(fd, 0, 0, (off_t)package_bytes) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r == -EOPNOTSUPP || r == -ENOSYS)
        r = ftruncate(fd, (off_t)package_bytes) < 0 ? -errno : 0;
    return r ? import_write_error(r, out_path, package_bytes, err) : 0;
}

static unsigned int threads_allowed(unsigned int n_threads) {
    cpu_set_t set;

    if (!n_threads && !sched_getaffinity(0, sizeof(set), &set))
        n_threads = (unsigned int)CPU_COUNT(&set);
    return n_threads < 1 ? 1 : n_threads > THREADS_MAX ? THREADS_MAX : n_threads;
}

/* A temporary file with a lock, by which remove_stale() sees that it has an owner. Between making the file and locking
 * it another process may take it for a stale one: then it has no name any more, and the next try makes another. */
static int temporary_new(AtomicFile **filep, const char *out_path, ErrText *err) {
    struct stat st;
    int r;

    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        _cleanup_(atomic_file_freep) AtomicFile *file = NULL;

        r = atomic_file_new(&file, out_path, err);
        if (r)
            return r;
        do
            r = flock(atomic_file_fd(file), LOCK_EX);
        while (r < 0 && errno == EINTR); /* a file system without locks is no reason to fail: nothing is stale there */
        if (fstat(atomic_file_fd(file), &st) < 0)
            return err_set(err, -errno, "%s: %s", out_path, strerror(errno));
        if (st.st_nlink) {
            *filep = steal(&file);
            return 0;
        }
    }
    return err_set(err, -EBUSY, "%s: its temporary files are taken away by other programs", out_path);
}

/* --- widths -------------------------------------------------------------------------------------------------------- */

/* One trial of an average width: how large the package would be. */
static int allocate(Import *import, void *state, double bits, const char *sha256, ErrText *err) {
    const ImportOptions *options = import->model.options;
    int r;

    import->model.bits = bits;
    r = options->method->allocate(state, &import->model, err);
    return r ? r : import_plan_layout(&import->plan, &options->recipe, sha256, import->calibration.sha256, err);
}

/**
 * choose_bits() - the widths of all channels, and with them the layout
 *
 * With a budget: the largest average, in steps of 1/128 bit (1 bit where all channels are alike), whose package is not
 * larger. More bits never make a package smaller, so the search may halve.
 */
static int choose_bits(Import *import, void *state, const char *sha256, ErrText *err) {
    const QuantRecipe *recipe = &import->model.options->recipe;
    const unsigned int step = recipe->allocation == QUANT_ALLOCATION_UNIFORM ? BITS_STEPS : 1;
    unsigned int low = BITS_STEPS / step, high; /* in steps; the least, and one that is too large */
    unsigned int now;
    int r;

    r = allocate(import, state, recipe->bits, sha256, err);
    if (r || !recipe->budget_bytes || import->plan.package_bytes <= recipe->budget_bytes)
        return r;
    high = (unsigned int)ceil(recipe->bits * BITS_STEPS / step);
    now = low;
    r = allocate(import, state, (double)(now * step) / BITS_STEPS, sha256, err);
    if (r)
        return r;
    if (import->plan.package_bytes > recipe->budget_bytes)
        return err_set(err, IMPORT_E_BUDGET,
                       "%s: the smallest package has %" PRIu64 " bytes (1 bit a weight, embeddings of %u bits), the "
                       "budget is %" PRIu64 " bytes: give a larger one, or fewer bits to the embeddings",
                       import->source.path, import->plan.package_bytes, recipe->embedding_bits, recipe->budget_bytes);
    while (high - low > 1) {
        now = low + (high - low) / 2;
        r = allocate(import, state, (double)(now * step) / BITS_STEPS, sha256, err);
        if (r)
            return r;
        if (import->plan.package_bytes > recipe->budget_bytes)
            high = now;
        else
            low = now;
    }
    return now == low ? 0 : allocate(import, state, (double)(low * step) / BITS_STEPS, sha256, err);
}

/* --- layers -------------------------------------------------------------------------------------------------------- */

static int make_layer(Import *import, void *state, size_t index, ErrText *err) {
    const ImportMethod *method = import->model.options->method;
    int r;

    r = import_layer_begin(import, index, err);
    if (!r && !index)
        r = import_outside_write(import, err);
    if (!r && !index && method->sees_outside)
        r = import_layer_read_back(import, index, err);
    if (!r)
        r = method->quantize(state, &import->model, &import->plan.layers[index], err);
    return r ? r : import_layer_write(import, index, err);
}

static int make_layers(Import *import, void *state, ErrText *err) {
    const ImportPlan *plan = &import->plan;
    uint64_t done_bytes = 0;
    int r;

    import->progress.n_layers = plan->n_layers;
    for (size_t i = 0; i < plan->n_layers; i++) {
        if (import_is_cancelled(&import->model))
            return err_set(err, IMPORT_E_CANCELLED, "%s: the import was cancelled", import->source.path);
        import_report_stage(import, IMPORT_STAGE_CONVERT, done_bytes, plan->layer_bytes[i], plan->total_bytes);
        r = make_layer(import, state, i, err);
        import_layer_end(import, i);
        if (r)
            return r;
        done_bytes += plan->layer_bytes[i];
        import->progress.done_layers = i + 1;
    }
    import_report_stage(import, IMPORT_STAGE_CONVERT, done_bytes, 0, plan->total_bytes);
    return 0;
}

/* --- the package --------------------------------------------------------------------------------------------------- */

static int write_package(Import *import, void *state, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    const char *out_path = import->out_path;
    uint64_t package_bytes = import->plan.package_bytes;
    const StrBuf *head = gguf_writer_head(import->plan.writer);
    int r;

    r = temporary_new(&file, out_path, err);
    if (r)
        return r;
    import->out_fd = atomic_file_fd(file);
    r = check_space(out_path, import->out_fd, package_bytes, err);
    if (r)
        return r;
    r = reserve_space(out_path, import->out_fd, package_bytes, err);
    if (r)
        return r;
    r = file_write_at(import->out_fd, head->data, head->len_bytes, 0);
    if (r)
        return import_write_error(r, out_path, package_bytes, err);
    r = make_layers(import, state, err);
    if (!r)
        r = import_source_unchanged(&import->source, err);
    if (r)
        return r;
    import_report_stage(import, IMPORT_STAGE_SYNC, 0, package_bytes, package_bytes);
    r = atomic_file_commit(file, err);
    if (r)
        return r == -ENOSPC || r == -EDQUOT ? import_write_error(r, out_path, package_bytes, err) : r;
    import_report_part(&import->model, 1);
    return 0;
}

static int make_package(Import *import, const char *sha256, ErrText *err) {
    const ImportOptions *options = &import->options;
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    void *state = NULL;
    int r;

    r = worker_pool_new(&pool, threads_allowed(options->n_threads));
    if (r)
        return err_set(err, r, "%s: cannot start threads: %s", import->out_path, strerror(-r));
    r = import_plan_make(&import->plan, &import->source, &options->recipe, err);
    if (r)
        return r;
    import->model = (ImportModel){
        .options = options,
        .source_path = import->source.path,
        .source = import->source.file,
        .source_fd = import->source.fd,
        .hparams = import->source.hparams,
        .pool = pool,
        .calibration = *import->calibration.sha256 ? &import->calibration : NULL,
        .bits = options->recipe.bits,
        .layers = import->plan.layers,
    };
    /* Said when a method reports: plain rounding has nothing to measure. */
    import->progress.stage = IMPORT_STAGE_MEASURE;
    import->progress.total_bytes = import->part_bytes = import->plan.total_bytes;
    r = options->method->begin(&state, &import->model, err);
    if (!r)
        r = choose_bits(import, state, sha256, err);
    if (!r)
        r = write_package(import, state, err);
    options->method->end(state);
    return r;
}

static int choose_path(const Import *import, const char *out_path, ImportReport *report, ErrText *err) {
    const ImportOptions *options = &import->options;
    char folder[PATH_MAX];
    int r;

    if (out_path) {
        if (snprintf(report->path, sizeof(report->path), "%s", out_path) >= (int)sizeof(report->path))
            return err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", out_path);
        return 0;
    }
    r = import_default_path(report->path, import->source.path, report->source_sha256, &options->recipe,
                            options->calibration_path ? import->calibration.sha256 : NULL, options->cache_dir, err);
    if (r)
        return r;
    r = import_cache_dir(folder, options->cache_dir, err);
    return r ? r : file_make_dirs(folder, err);
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
                       "int8, or switch smoothing, compensation and the allocation by model off",
                       recipe->name);
    r = calibration_load(&import->calibration, options->calibration_path, err);
    return r > 0 ? IMPORT_E_UNSUPPORTED : r;
}

static void fill_report(ImportReport *report, const Import *import, uint64_t begin_ns) {
    const QuantRecipe *recipe = &import->options.recipe;
    struct rusage usage;

    snprintf(report->recipe, sizeof(report->recipe), "%s", recipe->name);
    report->bits_asked = recipe->bits;
    report->embedding_bits = recipe->embedding_bits;
    report->n_layers = (size_t)import->source.hparams.n_layers + 1;
    if (!report->already_imported) {
        report->package_bytes = import->plan.package_bytes;
        report->n_linears = import->plan.n_linears;
        report->bits = import->plan.bits_made;
    }
    report->peak_bytes = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
    report->seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
}

static void import_deinit(Import *import) {
    import_plan_deinit(&import->plan);
    import_source_deinit(&import->source);
    calibration_deinit(&import->calibration);
}

/**
 * import_run() - make a package of a GGUF file, or find the one that was made before
 * @source_path: read with read calls but for the metadata, which is mapped (see gguf_open())
 * @out_path:    the package, replaced when it is an older one of another source or with other settings; its folder must
 *               exist. NULL: the default path, whose folder is made
 * @report:      out; filled only when 0 is returned
 *
 * The package appears under its name whole or not at all. Its bytes depend on the source, its base name and the
 * settings alone. Takes some ms when the package is there and the source is remembered, and one reading of the source
 * when it is not. Thread: any, several at a time; of two imports to one path the last one to end stays.
 *
 * Return: 0, IMPORT_E_*, or -errno; the text names the file and the remedy. Nothing is left behind after an error; what
 * a killed import leaves (PATH.tmp-XXXXXX) the next one to the same path removes.
 */
int import_run(const char *source_path, const char *out_path, const ImportOptions *options, ImportReport *report,
               ErrText *err) {
    _cleanup_(import_deinit) Import import = { .source = IMPORT_SOURCE_NULL };
    uint64_t begin_ns = clock_now_ns();
    ImportReport made = { 0 };
    int r;

    r = check_options(&import, options, err);
    if (!r)
        r = import_source_open(&import.source, source_path, err);
    if (r)
        return r;
    made.source_bytes = (uint64_t)import.source.st.st_size;
    r = import_source_identify(&import.source, options, &made, err);
    if (!r)
        r = choose_path(&import, out_path, &made, err);
    if (r)
        return r;
    import.out_path = made.path;
    made.already_imported = already_imported(&import, &made);
    if (!made.already_imported) {
        r = options->check_source ? options->check_source(import.source.file, err) : 0;
        if (r)
            return r > 0 ? IMPORT_E_UNSUPPORTED : err_trace(r);
        r = out_path ? check_replaceable(out_path, &import.source, err) : 0;
        if (r)
            return r;
        remove_stale(made.path, !out_path);
        r = make_package(&import, made.source_sha256, err);
        if (r)
            return r;
    }
    fill_report(&made, &import, begin_ns);
    *report = made;
    return 0;
}
