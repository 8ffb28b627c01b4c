// SPDX-License-Identifier: Apache-2.0
/* Importer: a GGUF source becomes a model package (package.h), layer by layer, in bounded memory. */
#ifndef COORDGEN_IMPORTER_IMPORTER_H
#define COORDGEN_IMPORTER_IMPORTER_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "quant/format/recipe.h"

enum {
    IMPORT_E_UNSUPPORTED = 1, /* an architecture, tensor type, tokenizer or kind of file that is refused by name */
    IMPORT_E_CORRUPT = 2,     /* the source contradicts itself or holds values that are not finite */
    IMPORT_E_CANCELLED = 3,   /* the flag was seen */
    IMPORT_E_NO_SPACE = 4,    /* the text has the path, the bytes that are needed, and "free some space" at its end */
    IMPORT_E_CHANGED = 5,     /* the source changed while it was read: import it again */
    IMPORT_E_EXISTS = 6,      /* the output path holds something that is not a package, or the source itself */
    IMPORT_E_BUDGET = 7,      /* not even the smallest package fits the budget; the text has both numbers */
    IMPORT_E_CALIBRATION = 8, /* the calibration text is none, or too short */
};

typedef enum ImportStage {
    IMPORT_STAGE_HASH,    /* SHA-256 of the source */
    IMPORT_STAGE_WAIT,    /* for another import to the same path */
    IMPORT_STAGE_MEASURE, /* calibration: sensitivity of the tensors, where the bits go */
    IMPORT_STAGE_RESUME,  /* layers that an earlier import has finished are checked */
    IMPORT_STAGE_CONVERT, /* layers; what lies outside of them counts as one */
    IMPORT_STAGE_SYNC,    /* the package reaches the disk */
} ImportStage;

const char *import_stage_name(ImportStage stage);

typedef struct ImportProgress {
    ImportStage stage;
    uint64_t done_bytes, total_bytes; /* of the stage: of the source, or of its tensors */
    size_t done_layers, n_layers;     /* resuming and converting */
    int other_pid;                    /* waiting: the process that is waited for, 0: not known */
} ImportProgress;

/* Called on the thread that runs import_run(), some times for every megabyte. */
typedef void ImportProgressFn(void *arg, const ImportProgress *progress);

struct ImportMethod;

typedef struct ImportOptions {
    QuantRecipe recipe;
    const struct ImportMethod *method; /* import_method.h; NULL: rounding without calibration */
    const char *calibration_path;      /* a text; NULL: the one that comes with the project */
    unsigned int n_threads;            /* 0: one for every processor that this process may use */
    const char *cache_dir;             /* where packages without an out_path go; NULL: the user's cache */
    const char *model_dir;             /* without an out_path: they go here instead, by the name of the source */
    const int *source_fd;              /* of the source, which somebody else has opened; NULL: its path is opened */
    bool checks_package;        /* one that is there is compared with its checksums, and made again if it is damaged */
    ImportProgressFn *progress; /* may be NULL */
    void *progress_arg;
    const _Atomic bool *cancelled; /* may be NULL; polled several times a megabyte */
} ImportOptions;

/* The recipe of no name: 8 bits, plainly rounded. */
ImportOptions import_options_default(void);
#define IMPORT_OPTIONS_DEFAULT import_options_default()

typedef struct ImportReport {
    char path[PATH_MAX];   /* of the package */
    bool already_imported; /* it was there: nothing was written */
    char source_sha256[SHA256_HEX_BYTES];
    bool hash_remembered; /* the source was known by size, times and inode, and was not read again */
    uint64_t source_bytes;
    uint64_t package_bytes;
    size_t n_linears;
    size_t n_layers;
    size_t resumed_layers; /* of them, those that an earlier, killed or cancelled import had finished */
    char recipe[32];
    double bits, bits_asked; /* average width of the layers' weights */
    uint32_t embedding_bits;
    size_t n_operators;     /* with static activations, else 0 */
    size_t n_shadows;       /* of them, those whose outliers are computed */
    size_t n_shadow_inputs; /* of these */
    size_t n_hot;           /* of those, channels whose columns stay in memory */
    uint64_t peak_bytes;    /* most memory that the process has ever had; 0: the system does not say */
    double seconds;
} ImportReport;

/* Raised when the same settings give other bytes than before: what an earlier importer has made is made again. */
#define IMPORT_REVISION 9

/* out_path NULL: import_default_path(), or with a model_dir MODEL_DIR/NAME[SETTINGS].cgm. */
int import_run(const char *source_path, const char *out_path, const ImportOptions *options, ImportReport *report,
               ErrText *err);

/* Removes what a cancelled or killed import with these settings has left, for import_run() to go on with. path: of the
 * package that it would have become. -EBUSY while a process works on it. */
int import_discard(const char *source_path, const char *out_path, const ImportOptions *options, char path[PATH_MAX],
                   bool *foundp, ErrText *err);

/* What an import has left beside the path of its package. */
typedef enum ImportLeft {
    IMPORT_LEFT_USELESS,   /* nothing to go on with */
    IMPORT_LEFT_RESUMABLE, /* import_run() would go on with it, where its settings are the same */
    IMPORT_LEFT_BUSY,      /* a process works on it, or it is another user's */
} ImportLeft;
ImportLeft import_left(const char *package_path);
/* Removes that, as import_discard() does. */
int import_left_discard(const char *package_path, bool *foundp, ErrText *err);

/* The hash by which packages know their source; remembered in the cache folder. As import_run(), which reads no more
 * than this of a source that was imported before. */
int import_source_sha256(const char *source_path, const ImportOptions *options, char sha256[SHA256_HEX_BYTES],
                         ErrText *err);

/* CACHE_DIR/NAME-<first 12 hex of sha256>[SETTINGS].cgm, SETTINGS naming what differs from the default recipe;
 * cache_dir NULL: $XDG_CACHE_HOME or ~/.cache, /coordgen/models. calibration_sha256: of the user's own text, else
 * NULL. */
int import_default_path(char path[PATH_MAX], const char *source_path, const char *sha256, const QuantRecipe *recipe,
                        const char *calibration_sha256, const char *cache_dir, ErrText *err);

#endif
