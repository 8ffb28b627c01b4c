// SPDX-License-Identifier: Apache-2.0
/* Tests that a package, or the files of a cancelled import, are never taken for those of other settings. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "importer/import_settings.h"
#include "model/package/package.h"
#include "test/unit/importer/import_fixture.h"

enum {
    N_LAYERS = 6,
    N_FINISHED = 5,
};

typedef void ChangeFn(ImportFixture *fixture);

static void change_recipe(ImportFixture *fixture) {
    fixture->options.recipe.name = "edgeflow";
}

static void change_bits(ImportFixture *fixture) {
    fixture->options.recipe.bits = 4.75;
}

static void change_embedding_bits(ImportFixture *fixture) {
    fixture->options.recipe.embedding_bits = 3;
}

static void change_budget(ImportFixture *fixture) {
    fixture->options.recipe.budget_bytes = 1 << 30;
}

static void change_rotation(ImportFixture *fixture) {
    fixture->options.recipe.rotate = true;
}

static void change_scales(ImportFixture *fixture) {
    fixture->options.recipe.search_scales ^= true;
}

static void change_grid(ImportFixture *fixture) {
    fixture->options.recipe.grid = GRID_NORMAL;
}

static void change_smoothing(ImportFixture *fixture) {
    fixture->options.recipe.smooth = true;
}

static void change_compensation(ImportFixture *fixture) {
    fixture->options.recipe.compensate = true;
}

static void change_descent(ImportFixture *fixture) {
    fixture->options.recipe.descend = false;
}

static void change_gain(ImportFixture *fixture) {
    fixture->options.recipe.correct_gain = false;
}

static void change_allocation(ImportFixture *fixture) {
    fixture->options.recipe.allocation = QUANT_ALLOCATION_MODEL;
}

static void change_activations(ImportFixture *fixture) {
    fixture->options.recipe.static_activations = false;
}

static void change_hot(ImportFixture *fixture) {
    fixture->options.recipe.hot_percent = 30;
}

static void change_pruned(ImportFixture *fixture) {
    fixture->options.recipe.prune_percent = 60;
}

static void take_text(ImportFixture *fixture, const char *name) {
    static char path[400];

    snprintf(path, sizeof(path), "%s/texts/%s", fixture->folder, name);
    fixture->options.calibration_path = path;
}

static void change_text(ImportFixture *fixture) {
    take_text(fixture, "other.txt");
}

static void change_name(ImportFixture *fixture) {
    char path[300];

    snprintf(path, sizeof(path), "%s/other.gguf", fixture->folder);
    assert_int_equal(rename(fixture->source, path), 0);
    memcpy(fixture->source, path, sizeof(path));
}

static ChangeFn *const changes[] = {
    change_recipe, change_bits,      change_embedding_bits, change_budget,  change_rotation, change_scales,
    change_grid,   change_smoothing, change_compensation,   change_descent, change_gain,     change_allocation,
    change_hot,    change_pruned,    change_activations,    change_text,    change_name,
};

/* A method that takes every recipe and looks at no text. */
static int allocate_anyhow(void *state, const ImportModel *model, ErrText *err) {
    if (model->recipe->allocation != QUANT_ALLOCATION_MODEL)
        return import_method_plain.allocate(state, model, err);
    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; j < model->layers[i].n_linears; j++)
            memset(model->layers[i].linears[j].bits, (int)model->bits, model->layers[i].linears[j].n);
    return 0;
}

static void make_texts(const ImportFixture *fixture) {
    char folder[300];

    snprintf(folder, sizeof(folder), "%s/texts", fixture->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    test_write_file(folder, "text.txt", "one text", 8);
    test_write_file(folder, "other.txt", "two text", 8);
}

/* Settings that differ from the defaults, so that each can change alone. */
static void take_settings(ImportFixture *fixture, const ImportMethod *method) {
    QuantRecipe *recipe = &fixture->options.recipe;

    assert_int_equal(quant_recipe_named(recipe, NULL), 0);
    quant_recipe_set_bits(recipe, 4.5);
    recipe->rotate = false;
    recipe->descend = recipe->correct_gain = true;
    recipe->static_activations = true;
    recipe->hot_percent = 20;
    recipe->prune_percent = 50;
    fixture->options.method = method;
    take_text(fixture, "text.txt");
    snprintf(fixture->source, sizeof(fixture->source), "%s/tiny.gguf", fixture->folder);
}

static void make_source(ImportFixture *fixture) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_layers = N_LAYERS;
    import_fixture_source(fixture, &maker);
}

/* Imports from the beginning, whatever lies there; the package is removed. */
static void import_anew(ImportFixture *fixture, char hash[SHA256_HEX_BYTES]) {
    ImportReport report;
    ErrText err = { 0 };

    if (import_run(fixture->source, fixture->out, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    assert_int_equal(report.resumed_layers, 0);
    import_fixture_hash(fixture->out, hash);
    assert_int_equal(unlink(fixture->out), 0);
    assert_int_equal(test_folder_count(fixture->folder), 1);
}

static void cancel_there(void *arg, const ImportProgress *progress) {
    if (progress->stage == IMPORT_STAGE_CONVERT && progress->done_layers == N_FINISHED)
        atomic_store((_Atomic bool *)arg, true);
}

static void import_cancelled(ImportFixture *fixture) {
    ImportOptions options = fixture->options;
    _Atomic bool cancelled = false;
    ImportReport report;

    options.progress = cancel_there;
    options.progress_arg = &cancelled;
    options.cancelled = &cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &options, &report, NULL), IMPORT_E_CANCELLED);
    assert_int_equal(test_folder_count(fixture->folder), 3); /* the source, the part, the journal */
}

/* Files left with other settings, another text or a source of another name are not resumed, and none of their bytes
 * stay between tensors. */
static void test_import_settings_of_others_are_not_gone_on_with(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = import_method_plain;
    char undisturbed[SHA256_HEX_BYTES], hash[SHA256_HEX_BYTES];

    method.profile = import_fixture_profile;
    method.allocate = allocate_anyhow;
    make_texts(fixture);
    make_source(fixture);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        char source[300];

        take_settings(fixture, &method);
        memcpy(source, fixture->source, sizeof(source));
        changes[i](fixture);
        import_anew(fixture, undisturbed);
        assert_int_equal(rename(fixture->source, source), 0);
        take_settings(fixture, &method);
        import_cancelled(fixture);
        changes[i](fixture);
        import_anew(fixture, hash);
        assert_string_equal(hash, undisturbed);
        assert_int_equal(rename(fixture->source, source), 0);
    }
}

/* A package is recognised by its settings and text: with others it is made again under the same name. */
static void test_import_settings_of_others_are_not_there(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = import_method_plain;
    ImportReport report;

    method.profile = import_fixture_profile;
    method.allocate = allocate_anyhow;
    make_texts(fixture);
    make_source(fixture);
    for (size_t i = 0; i < ARRAY_LEN(changes) && changes[i] != change_name; i++) {
        take_settings(fixture, &method);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
        assert_false(report.already_imported);
        changes[i](fixture);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
        assert_false(report.already_imported);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
        assert_true(report.already_imported);
    }
}

/* Finds the value of a key in the file of a package. */
static void write_revision(const char *path, uint32_t revision) {
    static const char key[] = PACKAGE_KEY_IMPORT_REVISION;
    _cleanup_(mapped_file_deinit) MappedFile file = { 0 };
    const uint8_t *found;
    FILE *stream;

    assert_int_equal(mapped_file_open(&file, path, NULL), 0);
    found = memmem(file.data, file.len_bytes, key, sizeof(key) - 1);
    assert_non_null(found);
    stream = fopen(path, "r+e");
    assert_non_null(stream);
    /* The type, u32, follows the name. */
    assert_int_equal(fseek(stream, found - (const uint8_t *)file.data + (long)sizeof(key) - 1 + 4, SEEK_SET), 0);
    assert_int_equal(fwrite(&revision, sizeof(revision), 1, stream), 1);
    assert_int_equal(fclose(stream), 0);
}

/* A package of another revision of the importer is made again, even with the same settings; its weights could
 * differ. */
static void test_import_settings_of_other_revisions_are_not_there(void **state) {
    ImportFixture *fixture = *state;
    char hash[SHA256_HEX_BYTES], again[SHA256_HEX_BYTES];
    ImportReport report;

    make_source(fixture);
    import_fixture_import_at(fixture, ISA_BEST);
    import_fixture_hash(fixture->out, hash);
    for (uint32_t revision = IMPORT_REVISION - 1; revision <= IMPORT_REVISION + 1; revision++) {
        write_revision(fixture->out, revision);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
        assert_true(report.already_imported == (revision == IMPORT_REVISION));
        import_fixture_hash(fixture->out, again);
        assert_string_equal(again, hash);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_import_settings_of_others_are_not_gone_on_with),
        WITH_FOLDER(test_import_settings_of_others_are_not_there),
        WITH_FOLDER(test_import_settings_of_other_revisions_are_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
