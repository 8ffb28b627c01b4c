#define _GNU_SOURCE
#include "importer/importer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/printable.h"
#include "model/gguf_writer.h"
#include "importer/import_private.h"
#include "model/package.h"
#include "quant/rotate.h"

#define HASH_BLOCK_BYTES (1u << 20)
#define TEMPORARY_TRIES 8
#define THREADS_MAX 64

const char *import_stage_name(ImportStage stage) {
    static const char *const names[] = { "hashing", "measuring", "converting", "writing" };

    return names[stage];
}

/* --- the source --------------------------------------------------------------------------------------------------- */

typedef struct Source {
    const char *path;
    const char *name; /* base name */
    int fd;
    struct stat st;
    GgufFile *file;
    Hparams hparams;
} Source;

static void source_deinit(Source *source) {
    gguf_free(source->file);
    if (source->fd >= 0)
        close(source->fd);
}

/* The families that engine/tokenizer.h builds. It knows the pre-tokenizers: see ImportOptions.check_source. */
static int check_tokenizer(const Source *source, ErrText *err) {
    GgufString model;
    Printable shown;
    int r;

    r = gguf_get_string(source->file, "tokenizer.ggml.model", &model, err);
    if (r)
        return r < 0 ? r : IMPORT_E_CORRUPT;
    if (!(model.len_bytes == 4 && !memcmp(model.data, "gpt2", 4)) &&
        !(model.len_bytes == 5 && !memcmp(model.data, "llama", 5)))
        return err_set(err, IMPORT_E_UNSUPPORTED,
                       "%s: tokenizer '%s' is not supported: gpt2 (byte-level BPE) and llama (SentencePiece) are",
                       source->path, printable(&shown, model.data, model.len_bytes));
    return 0;
}

static int source_check(Source *source, ErrText *err) {
    uint32_t n_parts;
    int r;

    if (package_is(source->file))
        return err_set(err, IMPORT_E_UNSUPPORTED, "%s: this is a model package already: load it as it is",
                       source->path);
    if (!gguf_get_u32(source->file, "split.count", &n_parts, NULL) && n_parts > 1)
        return err_set(err, IMPORT_E_UNSUPPORTED,
                       "%s: one part of a model in %u files: merge them first (llama-gguf-split --merge)", source->path,
                       n_parts);
    r = hparams_read(&source->hparams, source->file, err);
    if (!r)
        r = hparams_check_tensors(&source->hparams, source->file, err);
    if (r)
        return r == HPARAMS_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED
               : r == HPARAMS_E_CORRUPT   ? IMPORT_E_CORRUPT
                                          : err_fold(r);
    return check_tokenizer(source, err);
}

static int source_open(Source *source, const char *path, ErrText *err) {
    const char *slash = strrchr(path, '/');
    int r;

    *source = (Source){ .path = path, .name = slash ? slash + 1 : path, .fd = -1 };
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (source->fd < 0 || fstat(source->fd, &source->st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = gguf_open_fd(&source->file, source->fd, path, err);
    if (r)
        return r == GGUF_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED : r == GGUF_E_CORRUPT ? IMPORT_E_CORRUPT : err_trace(r);
    return source_check(source, err);
}

static bool same_content(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int source_check_unchanged(const Source *source, ErrText *err) {
    struct stat st;

    if (fstat(source->fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", source->path, strerror(errno));
    if (!same_content(&st, &source->st))
        return err_set(err, IMPORT_E_CHANGED, "%s: the file changed while it was read: import it again", source->path);
    return 0;
}

static int source_hash(const Source *source, const ImportOptions *options, char sha256[SHA256_HEX_BYTES],
                       ErrText *err) {
    _cleanup_(freep) uint8_t *block = malloc(HASH_BLOCK_BYTES);
    uint64_t total_bytes = (uint64_t)source->st.st_size;
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx context;
    int r;

    if (!block)
        return err_set(err, -ENOMEM, "%s: out of memory", source->path);
    sha256_init(&context);
    (void)posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (uint64_t at = 0; at < total_bytes;) {
        size_t n = total_bytes - at < HASH_BLOCK_BYTES ? (size_t)(total_bytes - at) : HASH_BLOCK_BYTES;

        if (import_cancelled(options))
            return err_set(err, IMPORT_E_CANCELLED, "%s: the import was cancelled", source->path);
        r = file_read_exact(source->fd, block, n, at);
        if (r == FILE_E_SHORT)
            return err_set(err, IMPORT_E_CHANGED, "%s: the file became shorter while it was read: import it again",
                           source->path);
        if (r)
            return err_set(err, r, "%s: cannot read: %s", source->path, strerror(-r));
        sha256_update(&context, n, block);
        at += n;
        import_progress(options, IMPORT_STAGE_HASH, at, total_bytes);
    }
    sha256_digest(&context, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
    return source_check_unchanged(source, err);
}

/* Remembers the hash in the cache folder, if there is one. */
static int source_identify(const Source *source, const ImportOptions *options, ImportReport *report, ErrText *err) {
    char folder[PATH_MAX];
    bool has_folder = !import_cache_dir(folder, options->cache_dir, NULL);
    int r;

    report->hash_remembered = has_folder && import_hash_recall(folder, &source->st, report->source_sha256);
    if (report->hash_remembered)
        return 0;
    r = source_hash(source, options, report->source_sha256, err);
    if (r)
        return r;
    if (has_folder)
        import_hash_remember(folder, &source->st, report->source_sha256);
    return 0;
}

/* --- what lies at the output path --------------------------------------------------------------------------------- */

static bool already_imported(const char *path, const ImportOptions *options, ImportReport *report) {
    _cleanup_(package_freep) Package *package = NULL;

    if (package_open(&package, path, NULL) || strcmp(package_source_sha256(package), report->source_sha256) ||
        package_rotated(package) != options->rotate)
        return false;
    report->package_bytes = gguf_len_bytes(package_file(package));
    report->n_linears = package_n_linears(package);
    return true;
}

/* A file that someone named is replaced only when it is a package of some version; the cache's files are ours. */
static int check_replaceable(const char *path, const Source *source, ErrText *err) {
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

/* --- the package -------------------------------------------------------------------------------------------------- */

typedef struct Plan {
    const Source *source;
    const ImportOptions *options;
    GgufWriter *writer;
    ImportTensor *tensors; /* [n] */
    size_t n;
    char (*names)[GGUF_TENSOR_NAME_MAX]; /* [n_linears], of the linears */
    const char **name_list, **layouts, **activations;
    uint32_t *rotation_blocks;
    size_t n_linears;
    uint64_t total_bytes;
} Plan;

static void plan_deinit(Plan *plan) {
    gguf_writer_free(plan->writer);
    free(plan->tensors);
    free(plan->names);
    free(plan->name_list);
    free(plan->layouts);
    free(plan->activations);
    free(plan->rotation_blocks);
}

static int plan_tensor(void *arg, const ArchTensor *expected, int layer) {
    Plan *plan = arg;
    const GgufTensor *source;
    ImportTensor *tensor;
    char name[GGUF_TENSOR_NAME_MAX];

    source = gguf_tensor(plan->source->file, tensor_name(expected->role, layer, name, sizeof(name)));
    if (!source)
        return 0; /* optional: hparams_check_tensors() has seen to the others */
    tensor = &plan->tensors[plan->n++];
    *tensor = (ImportTensor){ .source = source, .linear = tensor_role_is_linear(expected->role) };
    plan->total_bytes += source->len_bytes;
    if (tensor->linear) {
        size_t index = plan->n_linears++;

        tensor->rotation_block = plan->options->rotate ? rotate_block_size((size_t)source->ne[0]) : 0;
        snprintf(plan->names[index], GGUF_TENSOR_NAME_MAX, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
        plan->name_list[index] = plan->names[index];
        plan->layouts[index] = PACKAGE_LAYOUT_INT8;
        plan->activations[index] = PACKAGE_ACTIVATION_DYNAMIC_ROW;
        plan->rotation_blocks[index] = tensor->rotation_block;
    }
    return 0;
}

static void plan_keys(const Plan *plan, const char *sha256) {
    static const char *const dropped[] = { "general.alignment", "general.file_type", "general.quantization_version" };
    const size_t prefix_bytes = strlen(PACKAGE_KEY_PREFIX);
    GgufWriter *writer = plan->writer;

    for (size_t i = 0; i < gguf_n_keys(plan->source->file); i++) {
        const GgufKey *key = gguf_key_at(plan->source->file, i);
        bool keep = key->name.len_bytes < prefix_bytes || memcmp(key->name.data, PACKAGE_KEY_PREFIX, prefix_bytes);

        for (size_t j = 0; j < ARRAY_LEN(dropped); j++)
            if (key->name.len_bytes == strlen(dropped[j]) && !memcmp(key->name.data, dropped[j], key->name.len_bytes))
                keep = false;
        if (keep)
            gguf_writer_copy(writer, key);
    }
    gguf_writer_u32(writer, PACKAGE_KEY_FORMAT_VERSION, PACKAGE_FORMAT_VERSION);
    gguf_writer_string(writer, PACKAGE_KEY_SOURCE_SHA256, sha256);
    gguf_writer_u64(writer, PACKAGE_KEY_SOURCE_BYTES, (uint64_t)plan->source->st.st_size);
    gguf_writer_string(writer, PACKAGE_KEY_SOURCE_NAME, plan->source->name);
    gguf_writer_string(writer, PACKAGE_KEY_RECIPE, PACKAGE_RECIPE_INT8_RTN);
    gguf_writer_bool(writer, PACKAGE_KEY_ROTATED, plan->options->rotate);
    gguf_writer_string(writer, PACKAGE_KEY_ACTIVATION_MODE, PACKAGE_ACTIVATION_DYNAMIC_ROW);
    gguf_writer_strings(writer, PACKAGE_KEY_LINEAR_NAMES, plan->name_list, plan->n_linears);
    gguf_writer_strings(writer, PACKAGE_KEY_LINEAR_LAYOUTS, plan->layouts, plan->n_linears);
    gguf_writer_array(writer, PACKAGE_KEY_LINEAR_ROTATIONS, GGUF_U32, plan->rotation_blocks, plan->n_linears);
    gguf_writer_strings(writer, PACKAGE_KEY_LINEAR_ACTIVATIONS, plan->activations, plan->n_linears);
}

/* The tensor table in file order; offsets follow from it. */
static int plan_layout(Plan *plan, ErrText *err) {
    size_t index = 0;
    int r;

    for (size_t i = 0, linear = 0; i < plan->n; i++) {
        const GgufTensor *source = plan->tensors[i].source;
        char name[GGUF_TENSOR_NAME_MAX + 16];

        if (!plan->tensors[i].linear) {
            gguf_writer_tensor(plan->writer, source->name, GGML_F32, 1, source->ne);
            continue;
        }
        gguf_writer_tensor(plan->writer, source->name, GGML_I8, 2, source->ne);
        snprintf(name, sizeof(name), "%s.scales", plan->names[linear]);
        gguf_writer_tensor(plan->writer, name, GGML_F32, 1, source->ne + 1);
        snprintf(name, sizeof(name), "%s.bits", plan->names[linear++]);
        gguf_writer_tensor(plan->writer, name, GGML_I8, 1, source->ne + 1);
    }
    r = gguf_writer_layout(plan->writer, err);
    if (r)
        return r < 0 ? r : IMPORT_E_CORRUPT;
    for (size_t i = 0; i < plan->n; i++) {
        plan->tensors[i].out_offset = gguf_writer_tensor_offset(plan->writer, index++);
        if (plan->tensors[i].linear) {
            plan->tensors[i].scales_offset = gguf_writer_tensor_offset(plan->writer, index++);
            plan->tensors[i].bits_offset = gguf_writer_tensor_offset(plan->writer, index++);
        }
    }
    return 0;
}

static int plan_make(Plan *plan, const char *sha256, ErrText *err) {
    size_t room = gguf_n_tensors(plan->source->file) + 1;
    int r;

    plan->tensors = calloc(room, sizeof(*plan->tensors));
    plan->names = calloc(room, sizeof(*plan->names));
    plan->name_list = calloc(room, sizeof(*plan->name_list));
    plan->layouts = calloc(room, sizeof(*plan->layouts));
    plan->activations = calloc(room, sizeof(*plan->activations));
    plan->rotation_blocks = calloc(room, sizeof(*plan->rotation_blocks));
    if (!plan->tensors || !plan->names || !plan->name_list || !plan->layouts || !plan->activations ||
        !plan->rotation_blocks)
        return err_set(err, -ENOMEM, "%s: out of memory for %zu tensors", plan->source->path, room);
    r = gguf_writer_new(&plan->writer, PACKAGE_ALIGNMENT, err);
    if (r)
        return err_fold(r);
    r = hparams_each_tensor(&plan->source->hparams, plan_tensor, plan);
    if (r)
        return r;
    plan_keys(plan, sha256);
    return plan_layout(plan, err);
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

static int write_package(const Plan *plan, const char *out_path, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    const StrBuf *head = gguf_writer_head(plan->writer);
    ImportJob job = {
        .options = plan->options,
        .source_path = plan->source->path,
        .out_path = out_path,
        .source_fd = plan->source->fd,
        .total_bytes = plan->total_bytes,
        .package_bytes = gguf_writer_file_bytes(plan->writer),
    };
    int r;

    r = worker_pool_new(&pool, threads_allowed(plan->options->n_threads));
    if (r)
        return err_set(err, r, "%s: cannot start threads: %s", out_path, strerror(-r));
    r = temporary_new(&file, out_path, err);
    if (r)
        return r;
    job.pool = pool;
    job.out_fd = atomic_file_fd(file);
    r = check_space(out_path, job.out_fd, job.package_bytes, err);
    if (r)
        return r;
    r = reserve_space(out_path, job.out_fd, job.package_bytes, err);
    if (r)
        return r;
    r = file_write_all(job.out_fd, head->data, head->len_bytes);
    if (r)
        return import_write_error(r, out_path, job.package_bytes, err);
    r = import_convert(&job, plan->tensors, plan->n, err);
    if (r)
        return r;
    r = source_check_unchanged(plan->source, err);
    if (r)
        return r;
    import_progress(plan->options, IMPORT_STAGE_SYNC, 0, job.package_bytes);
    r = atomic_file_commit(file, err);
    if (r)
        return r == -ENOSPC || r == -EDQUOT ? import_write_error(r, out_path, job.package_bytes, err) : r;
    import_progress(plan->options, IMPORT_STAGE_SYNC, job.package_bytes, job.package_bytes);
    return 0;
}

static int choose_path(const Source *source, const char *out_path, const ImportOptions *options, ImportReport *report,
                       ErrText *err) {
    char folder[PATH_MAX];
    int r;

    if (out_path) {
        if (snprintf(report->path, sizeof(report->path), "%s", out_path) >= (int)sizeof(report->path))
            return err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", out_path);
        return 0;
    }
    r = import_default_path(report->path, source->path, report->source_sha256, options->rotate, options->cache_dir,
                            err);
    if (r)
        return r;
    r = import_cache_dir(folder, options->cache_dir, err);
    return r ? r : file_make_dirs(folder, err);
}

/**
 * import_run() - make a package of a GGUF file, or find the one that was made before
 * @source_path: read with read calls but for the metadata, which is mapped (see gguf_open())
 * @out_path:    the package, replaced when it is an older one of another source or with other settings; its folder must
 *               exist. NULL: the default path, whose folder is made
 * @report:      out; filled only when 0 is returned
 *
 * The package appears under its name whole or not at all. Its bytes depend on the source, its base name and the
 * settings alone. Takes some ms when the package is there and the source is remembered, and one reading of the source when it is
 * not. Thread: any, several at a time; of two imports to one path the last one to end stays.
 *
 * Return: 0, IMPORT_E_*, or -errno; the text names the file and the remedy. Nothing is left behind after an error; what
 * a killed import leaves (PATH.tmp-XXXXXX) the next one to the same path removes.
 */
int import_run(const char *source_path, const char *out_path, const ImportOptions *options, ImportReport *report,
               ErrText *err) {
    _cleanup_(source_deinit) Source source = { .fd = -1 };
    _cleanup_(plan_deinit) Plan plan = { .source = &source, .options = options };
    uint64_t begin_ns = clock_now_ns();
    ImportReport made = { 0 };
    int r;

    r = source_open(&source, source_path, err);
    if (r)
        return r;
    made.source_bytes = (uint64_t)source.st.st_size;
    r = source_identify(&source, options, &made, err);
    if (r)
        return r;
    r = choose_path(&source, out_path, options, &made, err);
    if (r)
        return r;
    made.already_imported = already_imported(made.path, options, &made);
    if (!made.already_imported) {
        r = options->check_source ? options->check_source(source.file, err) : 0;
        if (r)
            return r > 0 ? IMPORT_E_UNSUPPORTED : err_trace(r);
        if (out_path) {
            r = check_replaceable(out_path, &source, err);
            if (r)
                return r;
        }
        remove_stale(made.path, !out_path);
        r = plan_make(&plan, made.source_sha256, err);
        if (r)
            return r;
        r = write_package(&plan, made.path, err);
        if (r)
            return r;
        made.package_bytes = gguf_writer_file_bytes(plan.writer);
        made.n_linears = plan.n_linears;
    }
    made.seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
    *report = made;
    return 0;
}
