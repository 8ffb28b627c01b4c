// SPDX-License-Identifier: Apache-2.0
/* A good package of the tiny model, and copies of it in which one thing is otherwise. */
#ifndef COORDGEN_TEST_PACKAGE_EDIT_H
#define COORDGEN_TEST_PACKAGE_EDIT_H

#include "base/files/file_io.h"
#include "importer/methods/import_method.h"
#include "model/package/package.h"
#include "test/unit/model_maker.h"

/* A test program has one group of tests a package; this is its state. */
typedef struct GoodPackage {
    char folder[256]; /* tiny.gguf, good.cgm */
    char path[300];
    MappedFile file;
    uint8_t *block; /* for the copy: aligned as a map is, twice as long */
} GoodPackage;

/* Imports the model with these options, whose cache folder is the package's own. 0, or -1: what the setup of a group
 * returns. */
int good_package_new(void **state, ImportOptions *options);
int good_package_free(void **state);

/* What a copy of the good package has otherwise; {}: nothing. */
typedef struct PackageEdit {
    const char *drop_key;
    const char *drop_tensor;
    const char *add_tensor;
    const char *reshape_tensor; /* one value longer */
    const char *retype_tensor;  /* F16 */
    const char *spoil_tensor;   /* these bytes at its start */
    uint32_t spoil_bits;
    size_t spoil_bytes;
    const char *key; /* replaced by what put() writes, or added */
    void (*put)(GgufWriter *writer, const char *name);
    uint32_t alignment;
} PackageEdit;

/* Such a copy is read with this code, and this is in what is said. */
void expect_edit(GoodPackage *good, const PackageEdit *edit, int code, const char *text);
/* The good package as it is; the caller frees it. It reads from good->block. */
Package *package_edit_parse(GoodPackage *good);
/* A test: bytes flipped and extreme numbers anywhere in the head: success or a condition, never more. */
void package_edit_mutations(void **state);

/* Values of more than one program's edits. */
void put_f32_7(GgufWriter *writer, const char *name);
void put_f32_nan(GgufWriter *writer, const char *name);
/* One text for each of the 16 linears. */
void put_linears(GgufWriter *writer, const char *name, const char *first, const char *others);

#endif
