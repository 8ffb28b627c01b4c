// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/tables/table_store.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "base/strings/json_text.h"
#include "tools/eval/text_file.h"

#define FORMAT 1
#define FILE_MAX_BYTES ((size_t)64 << 20)

static int source_new(json_t **sourcep, const char *path, ErrText *err) {
    _cleanup_(mapped_file_deinit) MappedFile file = { 0 };
    const char *slash = strrchr(path, '/');
    char sha256[SHA256_HEX_BYTES];
    int r;

    r = mapped_file_open(&file, path, err);
    if (r)
        return r;
    sha256_hex(file.data, file.len_bytes, sha256);
    *sourcep = json_pack("{s:o, s:I, s:s}", "file", json_text(slash ? slash + 1 : path), "bytes",
                         (json_int_t)file.len_bytes, "sha256", sha256);
    return *sourcep ? 0 : err_set(err, -ENOMEM, "%s: out of memory", path);
}

static bool rows_are_sound(const json_t *rows) {
    size_t i;
    const json_t *row;

    json_array_foreach((json_t *)rows, i, row) {
        if (!json_is_string(json_object_get(row, "recipe")) || !json_is_array(json_object_get(row, "measures")))
            return false;
    }
    return json_is_array(rows);
}

/* Reads a store of results. Return: 0, -ENOENT (no such file), or another -errno with a text. */
static int read_store(json_t **rootp, const char *path, const json_t *source, ErrText *err) {
    _cleanup_(freep) char *text = NULL;
    const char *sha256, *name;
    json_error_t error;
    size_t len_bytes;
    json_t *root;
    int r;

    if (access(path, F_OK) < 0 && errno == ENOENT)
        return -ENOENT;
    r = file_slurp(path, FILE_MAX_BYTES, &text, &len_bytes, err);
    if (r)
        return r == -ENOENT ? -EIO : r;
    root = json_loadb(text, len_bytes, 0, &error);
    sha256 = json_string_value(json_object_get(json_object_get(root, "source"), "sha256"));
    name = json_string_value(json_object_get(json_object_get(root, "source"), "file"));
    if (json_integer_value(json_object_get(root, "format")) != FORMAT || !sha256 || !name ||
        !rows_are_sound(json_object_get(root, "rows")))
        r = err_set(err, -EEXIST,
                    "%s: not the results of a quant-table (format %d): name another file with --save, or "
                    "remove it",
                    path, FORMAT);
    else if (strcmp(sha256, json_string_value(json_object_get(source, "sha256"))))
        r = err_set(err, -EEXIST, "%s: results of another model (%.100s): name another file with --save, or remove it",
                    path, name);
    if (r)
        json_decref(root);
    else
        *rootp = root;
    return r;
}

int table_store_open(TableStore *store, const char *path, const char *source_path, ErrText *err) {
    json_t *source = NULL, *root = NULL;
    int r;

    r = source_new(&source, source_path, err);
    if (r)
        return r;
    r = read_store(&root, path, source, err);
    if (r == -ENOENT) {
        root = json_pack("{s:i, s:O, s:[]}", "format", FORMAT, "source", source, "rows");
        r = root ? 0 : err_no_memory(err);
    }
    json_decref(source);
    if (r)
        return r;
    *store = (TableStore){ .path = strdup(path), .root = root };
    if (!store->path) {
        table_store_deinit(store);
        return err_no_memory(err);
    }
    return 0;
}

void table_store_deinit(TableStore *store) {
    free(store->path);
    json_decref(store->root);
    *store = (TableStore){ 0 };
}

int table_store_save(const TableStore *store, ErrText *err) {
    _cleanup_(freep) char *dumped = json_dumps(store->root, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    if (!dumped)
        return err_no_memory(err);
    str_buf_addf(&text, "%s\n", dumped);
    return text_file_write(&text, store->path, err);
}

static bool same_text(const json_t *value, const char *text) {
    const char *own = json_string_value(value);

    return own && text ? !strcmp(own, text) : own == text;
}

json_t *table_store_row(TableStore *store, const char *recipe, const char *calibration_sha256, int import_revision) {
    json_t *rows = json_object_get(store->root, "rows"), *row;
    size_t i;

    json_array_foreach(rows, i, row) {
        if (same_text(json_object_get(row, "recipe"), recipe) &&
            same_text(json_object_get(row, "calibration_sha256"), calibration_sha256) &&
            json_integer_value(json_object_get(row, "import_revision")) == import_revision)
            return row;
    }
    row = json_pack("{s:s, s:[]}", "recipe", recipe, "measures");
    if (row && calibration_sha256)
        json_object_set_new(row, "calibration_sha256", json_string(calibration_sha256));
    if (row && import_revision)
        json_object_set_new(row, "import_revision", json_integer(import_revision));
    return json_array_append_new(rows, row) ? NULL : row;
}

void table_row_set_package(json_t *row, json_t *package) {
    const json_t *before = json_object_get(row, "package");

    if (before && !json_equal(json_object_get(before, "sha256"), json_object_get(package, "sha256")))
        json_array_clear(json_object_get(row, "measures"));
    json_object_set_new(row, "package", package);
}

json_t *table_row_measure(const json_t *row, const json_t *settings) {
    size_t i;
    json_t *measure;

    json_array_foreach(json_object_get(row, "measures"), i, measure) {
        if (json_equal(json_object_get(measure, "settings"), settings))
            return measure;
    }
    return NULL;
}

int table_row_add(json_t *row, json_t *settings, json_t *measure) {
    if (json_object_set_new(measure, "settings", settings)) {
        json_decref(measure);
        return -ENOMEM;
    }
    return json_array_append_new(json_object_get(row, "measures"), measure) ? -ENOMEM : 0;
}
