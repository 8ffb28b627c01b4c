// SPDX-License-Identifier: Apache-2.0
/* Names of packages in the cache folder, and the hashes of source files that are remembered there. */
#ifndef COORDGEN_IMPORTER_IMPORT_CACHE_H
#define COORDGEN_IMPORTER_IMPORT_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "quant/format/recipe.h"

/* Gives the cache folder; cache_dir NULL: $XDG_CACHE_HOME or ~/.cache, /coordgen/models. */
int import_cache_dir(char path[PATH_MAX], const char *cache_dir, ErrText *err);
/* Gives CACHE_DIR/NAME-<first 12 digits of sha256>[SETTINGS].cgm. SETTINGS names what differs from the default recipe.
 * cache_dir: as for import_cache_dir(). calibration_sha256: hash of the user's own text, else NULL. */
int import_default_path(char path[PATH_MAX], const char *source_path, const char *sha256, const QuantRecipe *recipe,
                        const char *calibration_sha256, const char *cache_dir, ErrText *err);
/* Gives MODEL_DIR/NAME[SETTINGS].cgm: in a folder of models the package's name is the model's name. */
int import_model_path(char path[PATH_MAX], const char *source_path, const QuantRecipe *recipe,
                      const char *calibration_sha256, const char *model_dir, ErrText *err);
/* Recalls the hash of a file that was hashed before and has not changed since. false: not known. */
bool import_hash_recall(const char *cache_dir, const struct stat *st, char sha256[SHA256_HEX_BYTES]);
/* Remembers a file's hash. Best effort: a hash that cannot be kept is only computed again. */
void import_hash_remember(const char *cache_dir, const struct stat *st, const char *sha256);

#endif
