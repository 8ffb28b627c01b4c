// SPDX-License-Identifier: Apache-2.0
/* Importer: turns a GGUF source into a model package (package_format.h), layer by layer, in bounded memory. */
#ifndef COORDGEN_IMPORTER_IMPORTER_H
#define COORDGEN_IMPORTER_IMPORTER_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "importer/import_error.h"
#include "importer/import_monitor.h"
#include "quant/format/recipe.h"

struct ImportMethod;

typedef struct ImportOptions {
    QuantRecipe recipe;
    const struct ImportMethod *method; /* import_method.h; NULL: rounding without calibration */
    const char *calibration_path;      /* a text; NULL: the project's own */
    unsigned int n_threads;            /* 0: one for every processor that this process may use */
    const char *cache_dir;             /* folder of packages without an out_path; NULL: the user's cache */
    const char
        *model_dir; /* folder of packages without an out_path, instead of the cache; they are named after the source */
    const int *source_fd;       /* the source, opened by the caller; NULL: its path is opened */
    bool checks_package;        /* compares a package that is there with its checksums, and makes a damaged one again */
    ImportProgressFn *progress; /* may be NULL */
    void *progress_arg;
    const _Atomic bool *cancelled; /* may be NULL; polled several times a megabyte */
} ImportOptions;

/* Options with the default recipe: 8 bits, plainly rounded. */
ImportOptions import_options_default(void);

typedef struct ImportReport {
    char path[PATH_MAX];   /* of the package */
    bool already_imported; /* the package was there: nothing was written */
    char source_sha256[SHA256_HEX_BYTES];
    bool hash_remembered; /* the source was recognized by size, times and inode, and was not read again */
    uint64_t source_bytes;
    uint64_t package_bytes;
    size_t n_linears;
    size_t n_layers;
    size_t resumed_layers; /* layers that an earlier, killed or cancelled import had finished */
    char recipe[32];
    double bits, bits_asked; /* average width of the layers' weights */
    uint32_t embedding_bits;
    size_t n_operators;     /* with static activations, else 0 */
    size_t n_shadows;       /* operators whose outliers are computed */
    size_t n_shadow_inputs; /* of these */
    size_t n_hot;           /* inputs with a shadow whose columns stay in memory */
    uint64_t peak_bytes;    /* peak memory of the process; 0: the system does not report it */
    double seconds;
} ImportReport;

/* Makes a package, or finds it. out_path NULL: import_default_path(), or with a model_dir
 * MODEL_DIR/NAME[SETTINGS].cgm. */
int import_run(const char *source_path, const char *out_path, const ImportOptions *options, ImportReport *report,
               ErrText *err);

/* Removes the files that a cancelled or killed import with these settings has left for the next import_run(). path:
 * out, the package that it would have become. -EBUSY while a process works on it. */
int import_discard(const char *source_path, const char *out_path, const ImportOptions *options, char path[PATH_MAX],
                   bool *foundp, ErrText *err);

/* Gives the hash by which packages know their source; it is remembered in the cache folder. Options, time and errors as
 * for import_run() of a source that was imported before. */
int import_source_sha256(const char *source_path, const ImportOptions *options, char sha256[SHA256_HEX_BYTES],
                         ErrText *err);

#endif
