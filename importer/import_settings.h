// SPDX-License-Identifier: Apache-2.0
/* A recipe in its three forms: keys of a package, part of a package's name, fingerprint of a journal. */
#ifndef COORDGEN_IMPORTER_IMPORT_SETTINGS_H
#define COORDGEN_IMPORTER_IMPORT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "importer/files/import_journal.h"
#include "model/package/package.h"
#include "quant/format/recipe.h"

/* Must be raised when the same settings give other bytes than before: packages of an earlier importer are then made
 * again. */
#define IMPORT_REVISION 10

#define IMPORT_STEPS_MAX 11

/* Lists the steps that a recipe runs, in their order. Return: their number. */
size_t import_steps(const QuantRecipe *recipe, const char *steps[IMPORT_STEPS_MAX]);
/* Whether a package was made by this recipe. */
bool import_settings_match(const PackageQuant *quant, const QuantRecipe *recipe, const char *calibration_sha256);
/* Hashes everything that the bytes of a package depend on. source_name: the base name, which the package holds. */
void import_fingerprint(const QuantRecipe *recipe, const char *source_name, const char *source_sha256,
                        const char *calibration_sha256, uint8_t fingerprint[JOURNAL_DIGEST_BYTES]);
/* Names the settings for the name of a package: "", "-unrotated", "-int8-4.5". */
void import_settings_suffix(char *text, size_t room_bytes, const QuantRecipe *recipe, const char *calibration_sha256);

#endif
