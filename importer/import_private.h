/* Inside of the importer: importer.c plans and publishes, import_convert.c makes the tensors, import_cache.c knows
 * names and remembers the hashes of sources. */
#ifndef COORDGEN_IMPORTER_IMPORT_PRIVATE_H
#define COORDGEN_IMPORTER_IMPORT_PRIVATE_H

#include <sys/stat.h>

#include "base/worker_pool.h"
#include "importer/importer.h"

/* One tensor of the source and its place in the package. */
typedef struct ImportTensor {
    const GgufTensor *source;
    bool linear;
    uint32_t rotation_block;
    uint64_t out_offset;    /* of the weight or vector */
    uint64_t scales_offset; /* linears */
    uint64_t bits_offset;
} ImportTensor;

typedef struct ImportJob {
    const ImportOptions *options;
    const char *source_path;
    const char *out_path;
    int source_fd;
    int out_fd;
    WorkerPool *pool;
    uint64_t total_bytes; /* of the tensors of the source */
    uint64_t package_bytes;
    _Atomic uint64_t done_bytes;
} ImportJob;

static inline bool import_cancelled(const ImportOptions *options) {
    return options->cancelled && atomic_load_explicit(options->cancelled, memory_order_relaxed);
}

static inline void import_progress(const ImportOptions *options, ImportStage stage, uint64_t done_bytes,
                                   uint64_t total_bytes) {
    if (options->progress)
        options->progress(options->progress_arg, stage, done_bytes, total_bytes);
}

int import_convert(ImportJob *job, const ImportTensor *tensors, size_t n, ErrText *err);
/* Words a failed write: IMPORT_E_NO_SPACE or -errno. */
int import_write_error(int error, const char *out_path, uint64_t package_bytes, ErrText *err);

int import_cache_dir(char path[PATH_MAX], const char *cache_dir, ErrText *err);
/* Hash of an unchanged file that was hashed before. */
bool import_hash_recall(const char *cache_dir, const struct stat *st, char sha256[SHA256_HEX_BYTES]);
/* Best effort: a hash that cannot be kept is only computed again. */
void import_hash_remember(const char *cache_dir, const struct stat *st, const char *sha256);

#endif
