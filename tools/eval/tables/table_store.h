// SPDX-License-Identifier: Apache-2.0
/* What a quant-table has measured, as a JSON file that is written after every measurement: a run that was interrupted,
 * or one with more rows or questions, goes on from it.
 *
 * {"format": 1, "source": {"file", "bytes", "sha256"}, "rows": [ROW...]}
 * ROW: {"recipe", "calibration_sha256"?, "import_revision"?, "package"?: {...}, "measures": [{"settings": {...}, ...}]}
 * A measurement is found again by its settings, which say all that its result depends on beside the row's package. */
#ifndef COORDGEN_EVAL_TABLE_STORE_H
#define COORDGEN_EVAL_TABLE_STORE_H

#include <jansson.h>

#include "base/err.h"

typedef struct TableStore {
    char *path;
    json_t *root;
} TableStore;

/* Reads the file, or begins a new one. Return: 0, -EEXIST if the file is of another source model or no store, or
 * another -errno. */
int table_store_open(TableStore *store, const char *path, const char *source_path, ErrText *err);
void table_store_deinit(TableStore *store);
/* Replaces the file as a whole. */
int table_store_save(const TableStore *store, ErrText *err);

/* Returns the row of a recipe, new if there is none; the store owns it. @calibration_sha256 is of the package's
 * calibration text, NULL: none. @import_revision is the importer's, 0: nothing is imported. NULL: out of memory. */
json_t *table_store_row(TableStore *store, const char *recipe, const char *calibration_sha256, int import_revision);
/* Sets the row's package, which is consumed; drops measurements of a package with another sha256. */
void table_row_set_package(json_t *row, json_t *package);
/* Returns the measurement with these settings, or NULL; the row owns it. */
json_t *table_row_measure(const json_t *row, const json_t *settings);
/* Adds a measurement; consumes its arguments. Return: 0 or -ENOMEM. */
int table_row_add(json_t *row, json_t *settings, json_t *measure);

#endif
