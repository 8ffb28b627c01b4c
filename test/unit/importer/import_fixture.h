// SPDX-License-Identifier: Apache-2.0
/* Imports of small models in a folder of their own, and checks of a package against its source. */
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
/* Changes a float32 tensor of the source: values f32[n][k]; k is 1 for a vector. */
typedef void ImportFixtureFn(float *values, size_t n, size_t k);
void import_fixture_change(const ImportFixture *fixture, const char *name, ImportFixtureFn *fn);
/* A profile for static activations of tiny models: every second operator has a shadow, with `percent` hot channels. */
int import_fixture_profile(void *state, const ImportModel *model, ErrText *err);
/* Makes a package of such a model in the cache folder, by plain rounding to so many bits; static activations are those
 * of import_fixture_profile(). The path stays valid until the next call. */
const char *import_fixture_package(ImportFixture *fixture, const ModelMaker *maker, double bits,
                                   bool static_activations);
/* Makes a package of the source at fixture->out by fixture->options, with no more than the given instruction set, which
 * must be present; the caller removes the package. */
void import_fixture_import_at(ImportFixture *fixture, Isa isa);
/* Computes the SHA-256 of a file. */
void import_fixture_hash(const char *path, char hex[SHA256_HEX_BYTES]);
/* Checks that the package's weights are the source's, within the error that their widths allow. */
void import_fixture_check(const char *source_path, const char *package_path, bool rotated);
/* Checks that the import fails with this code, and leaves nothing behind. */
void import_fixture_refusal(ImportFixture *fixture, const char *out, int code, const char *text);

#endif
