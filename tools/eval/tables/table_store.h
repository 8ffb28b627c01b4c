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

/* Reads the file, or begins a new one. -EEXIST when it is of another source model or not of ours; another -errno. */
int table_store_open(TableStore *store, const char *path, const char *source_path, ErrText *err);
void table_store_deinit(TableStore *store);
/* Replaces the file as a whole. */
int table_store_save(const TableStore *store, ErrText *err);

/* The row of a recipe, made when there is none; the store's. calibration_sha256 of the text that its package is
 * calibrated on, NULL: none; import_revision of the importer that makes it, 0: none is made. NULL: out of memory. */
json_t *table_store_row(TableStore *store, const char *recipe, const char *calibration_sha256, int import_revision);
/* The row's package is this one: measurements of one with another sha256 are dropped. Consumes package. */
void table_row_set_package(json_t *row, json_t *package);
/* The measurement with these settings, or NULL; the row's. */
json_t *table_row_measure(const json_t *row, const json_t *settings);
/* Adds one; consumes what it is given. 0 or -ENOMEM. */
int table_row_add(json_t *row, json_t *settings, json_t *measure);

#endif
