// SPDX-License-Identifier: Apache-2.0
/* Imports of small models in a folder of their own, and what a package must be beside its source. */
#ifndef COORDGEN_TEST_IMPORT_FIXTURE_H
#define COORDGEN_TEST_IMPORT_FIXTURE_H

#include "base/system/cpu.h"
#include "importer/importer.h"
#include "importer/methods/import_method.h"
#include "test/unit/fixtures/model_maker.h"

typedef struct ImportFixture {
    char folder[256];
    char cache[300]; /* the importer's, in the folder */
    char source[300];
    char out[300];
    ImportOptions options; /* the defaults, on 2 threads */
} ImportFixture;

int import_fixture_setup(void **state);
int import_fixture_teardown(void **state);
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, import_fixture_setup, import_fixture_teardown)

/* Writes the model to fixture->source. */
void import_fixture_source(ImportFixture *fixture, const ModelMaker *maker);
/* Changes a float32 tensor of it: values f32[n][k]; of a vector k is 1. */
typedef void ImportFixtureFn(float *values, size_t n, size_t k);
void import_fixture_change(const ImportFixture *fixture, const char *name, ImportFixtureFn *fn);
/* A profile for static activations of tiny models: every second operator has a shadow, with `percent` hot channels. */
int import_fixture_profile(void *state, const ImportModel *model, ErrText *err);
/* A package of such a model in the cache folder, by plain rounding to so many bits; with static activations as
 * import_fixture_profile() has them. The path is there until the next call. */
const char *import_fixture_package(ImportFixture *fixture, const ModelMaker *maker, double bits,
                                   bool static_activations);
/* A package of the source at fixture->out by fixture->options, made with no more than what the level has, which must be
 * present; the caller removes it. */
void import_fixture_import_at(ImportFixture *fixture, Isa isa);
/* SHA-256 of a file. */
void import_fixture_hash(const char *path, char hex[SHA256_HEX_BYTES]);
/* The package is the source's, within what its widths allow. */
void import_fixture_check(const char *source_path, const char *package_path, bool rotated);
/* The import fails so, and leaves nothing behind. */
void import_fixture_refusal(ImportFixture *fixture, const char *out, int code, const char *text);

#endif
