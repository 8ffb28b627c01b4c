// SPDX-License-Identifier: Apache-2.0
/* Inside of the importer. importer.c: from the options to the package; import_source.c: the file that is read;
 * import_plan.c: what becomes of its tensors, and where; import_rows.c: reading them; import_layer.c: one layer's
 * memory, packing and writing; import_work.c: all of them, with import_journal.c; import_part.c: the file that is
 * written; import_settings.c: recipes as keys and names; import_cache.c: the cache folder. */
#ifndef COORDGEN_IMPORTER_IMPORT_PRIVATE_H
#define COORDGEN_IMPORTER_IMPORT_PRIVATE_H

#include <sys/stat.h>

#include "base/system/worker_pool.h"
#include "importer/import_journal.h"
#include "importer/importer.h"
#include "importer/methods/import_method.h"
#include "model/gguf/gguf_writer.h"
#include "model/package/package.h"
#include "model/package/package_checksum.h"

/* --- import_source.c ---------------------------------------------------------------------------------------------- */

typedef struct ImportSource {
    const char *path;
    const char *name; /* base name */
    size_t n_parts;
    int *fds;         /* [n_parts] */
    struct stat *sts; /* [n_parts] */
    GgufFile *file;
    Hparams hparams;
} ImportSource;

#define IMPORT_SOURCE_NULL ((ImportSource){ 0 })

/* fd: see ImportOptions.source_fd. */
int import_source_open(ImportSource *source, const char *path, const int *fd, ErrText *err);
void import_source_deinit(ImportSource *source);
/* Of all parts. */
uint64_t import_source_len_bytes(const ImportSource *source);
/* IMPORT_E_CHANGED when it is not the file that was opened any more. */
int import_source_unchanged(const ImportSource *source, ErrText *err);
/* Its hash, read or remembered from the cache folder. */
int import_source_identify(const ImportSource *source, const ImportOptions *options, ImportReport *report,
                           ErrText *err);
/* Words a failed read at FILE_E_SHORT or -errno. */
int import_read_error(int error, const char *path, ErrText *err);

/* --- import_plan.c ------------------------------------------------------------------------------------------------ */

/* One tensor of the source and its place in the package. */
typedef struct ImportTensor {
    ImportLinear *linear; /* or: */
    ImportVector *vector;
    const GgufTensor *source;
    size_t layer;                        /* index of its ImportLayer */
    char name[GGUF_TENSOR_NAME_MAX + 8]; /* of a linear, without ".weight" */
    bool packed;
    uint64_t offset, weight_bytes; /* of the weight or vector */
    uint64_t scales_offset, bits_offset;
    uint64_t columns_offset; /* of an operator with a shadow, else 0 */
} ImportTensor;

typedef struct ImportPlan {
    const ImportSource *source;
    ImportTensor *tensors; /* [n_tensors], in the order of the package */
    size_t n_tensors;
    GgufTensor *sources; /* [n_tensors]: what they are of the source, whole tensors or rows of them */
    ImportLayer *layers; /* [n_layers]: 0 is what lies outside */
    size_t n_layers;
    ImportLinear *linears; /* [n_linears], by layers */
    size_t n_linears;
    ImportVector *vectors;
    int8_t *bits; /* [n_channels], of all linears in their order */
    size_t n_channels;
    ImportOperator *operators; /* [n_operators], with static activations */
    size_t n_operators;
    uint8_t *is_hot; /* [n_inputs], of all operators in their order */
    size_t n_inputs;
    uint64_t *layer_bytes; /* [n_layers], of the source's tensors */
    uint64_t total_bytes;
    GgufWriter *writer;     /* after import_plan_layout() */
    uint64_t package_bytes; /* likewise */
    double bits_made;       /* likewise: average width of the layers' weights */
} ImportPlan;

int import_plan_make(ImportPlan *plan, const ImportSource *source, const QuantRecipe *recipe, ErrText *err);
void import_plan_deinit(ImportPlan *plan);
/* Least that the package can have, before anything is known of its widths. */
uint64_t import_plan_least_bytes(const ImportPlan *plan, const QuantRecipe *recipe);
/* Head and offsets for the widths as they stand; may be called again. calibration_sha256 "": none. */
int import_plan_layout(ImportPlan *plan, const QuantRecipe *recipe, const char *source_sha256,
                       const char *calibration_sha256, ErrText *err);

/* --- import_part.c ------------------------------------------------------------------------------------------------ */

typedef struct Import Import;

enum { /* inside of it */
    IMPORT_PART_BUSY = 100,
    IMPORT_PART_AGAIN = 101,
};

typedef struct ImportPart {
    const char *out_path;
    char path[PATH_MAX];
    char journal_path[PATH_MAX];
    int fd;
} ImportPart;

int import_part_open(ImportPart *part, const char *out_path, Import *import, bool *waitedp, ErrText *err);
void import_part_deinit(ImportPart *part);
void import_part_remove(const ImportPart *part);
/* Where the package is there already. */
void import_part_clear(const char *out_path);
int import_part_discard(const char *out_path, bool *foundp, ErrText *err);
int import_part_check_space(const ImportPart *part, uint64_t package_bytes, ErrText *err);
int import_part_reserve(const ImportPart *part, uint64_t package_bytes, ErrText *err);
/* fsync, rename into place, fsync of the folder. */
int import_part_commit(const ImportPart *part, uint64_t package_bytes, ErrText *err);
/* What killed imports of any package have left there, when it is old. */
void import_parts_clean(const char *cache_folder);
/* Words a failed write: IMPORT_E_NO_SPACE or -errno. */
int import_write_error(int error, const char *out_path, uint64_t package_bytes, ErrText *err);
/* Words a full disk where nothing but the file that was being made was told; r when it is something else. */
int import_full_error(int r, const Import *import, ErrText *err);

/* --- importer.c --------------------------------------------------------------------------------------------------- */

struct Import {
    ImportModel model;     /* first: methods get its address */
    ImportOptions options; /* with a method */
    ImportSource source;
    CalibrationText calibration;
    ImportPlan plan;
    ImportPart part;
    ImportJournal *journal;
    ImportReport report;
    ImportProgress progress;
    uint64_t part_begin_bytes, part_bytes; /* what import_report_part() is a part of */
    const char *out_path;                  /* in the report */
    size_t n_resumed;                      /* layers that an earlier import had finished */
};

bool import_options_cancelled(const ImportOptions *options);
void import_report(Import *import);
/* Begins a stage, or goes on in it: what follows is [begin, begin + part) of total. */
void import_report_stage(Import *import, ImportStage stage, uint64_t begin_bytes, uint64_t part_bytes,
                         uint64_t total_bytes);

/* --- import_rows.c ------------------------------------------------------------------------------------------------ */

/* One row of a linear as float32, rotated when the linear is; w may be overwritten. false: not a finite number. */
typedef bool ImportRowFn(void *arg, size_t row, float *w, unsigned int worker);

/* Rows [begin, end) on all threads, in any order. 0, IMPORT_E_CORRUPT, IMPORT_E_CHANGED, IMPORT_E_CANCELLED, -errno. */
int import_each_row(const ImportModel *model, const ImportLinear *linear, size_t begin, size_t end, ImportRowFn *fn,
                    void *arg, ErrText *err);
int import_read_vector(const ImportModel *model, const ImportVector *vector, ErrText *err);

/* Rounds a row to the levels of its width; false when a value is not finite. */
bool import_round_row(const QuantRecipe *recipe, const float *w, size_t k, int bits, int8_t *q, float *scalep);

/* --- import_layer.c ----------------------------------------------------------------------------------------------- */

int import_layer_begin(Import *import, size_t index, ErrText *err);
void import_layer_end(Import *import, size_t index);
/* Rounds, packs and writes embedding and head, by panels. */
int import_outside_write(Import *import, ErrText *err);
/* Packs and writes what the method has made; of layer 0 the vectors only. */
int import_layer_write(Import *import, size_t index, ErrText *err);
int import_layer_read_integers(Import *import, size_t index, ErrText *err);
int import_layer_read_floats(Import *import, size_t index, ErrText *err);

/* --- import_work.c ------------------------------------------------------------------------------------------------ */

/* The package at import->out_path; its plan is made, the part is locked. */
int import_work(Import *import, ErrText *err);

/* --- import_settings.c -------------------------------------------------------------------------------------------- */

#define IMPORT_STEPS_MAX 11

/* The steps that a recipe runs, in their order; their number. */
size_t import_steps(const QuantRecipe *recipe, const char *steps[IMPORT_STEPS_MAX]);
/* Whether a package was made by this recipe. */
bool import_settings_match(const PackageQuant *quant, const QuantRecipe *recipe, const char *calibration_sha256);
/* SHA-256 of all that the bytes of a package depend on. */
void import_fingerprint(const Import *import, uint8_t fingerprint[JOURNAL_DIGEST_BYTES]);
/* What the name of a package says of its settings: "", "-unrotated", "-int8-4.5". */
void import_settings_suffix(char *text, size_t room_bytes, const QuantRecipe *recipe, const char *calibration_sha256);

/* --- import_cache.c ----------------------------------------------------------------------------------------------- */

int import_cache_dir(char path[PATH_MAX], const char *cache_dir, ErrText *err);
/* In a folder of models; the name of the package is what people call the model. */
int import_model_path(char path[PATH_MAX], const char *source_path, const QuantRecipe *recipe,
                      const char *calibration_sha256, const char *model_dir, ErrText *err);
/* Hash of an unchanged file that was hashed before. */
bool import_hash_recall(const char *cache_dir, const struct stat *st, char sha256[SHA256_HEX_BYTES]);
/* Best effort: a hash that cannot be kept is only computed again. */
void import_hash_remember(const char *cache_dir, const struct stat *st, const char *sha256);

#endif
