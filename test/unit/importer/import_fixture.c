// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/importer/import_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "model/package/package.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/rotate.h"

void import_fixture_source(ImportFixture *fixture, const ModelMaker *maker) {
    StrBuf file = STR_BUF_NULL;

    model_maker_run(maker, &file);
    test_write_file(fixture->folder, "tiny.gguf", file.data, file.len_bytes);
    str_buf_deinit(&file);
}

void import_fixture_change(const ImportFixture *fixture, const char *name, ImportFixtureFn *fn) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(freep) float *values = NULL;
    const GgufTensor *tensor;
    FILE *stream;

    assert_int_equal(gguf_open(&file, fixture->source, NULL), 0);
    tensor = gguf_tensor(file, name);
    assert_true(tensor && tensor->type == GGML_F32);
    values = malloc(tensor->len_bytes);
    assert_non_null(values);
    memcpy(values, tensor->data, tensor->len_bytes);
    if (tensor->n_dims == 1)
        fn(values, tensor->ne[0], 1);
    else
        fn(values, tensor->ne[1], tensor->ne[0]);
    stream = fopen(fixture->source, "r+e");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, (long)tensor->offset_bytes, SEEK_SET), 0);
    assert_int_equal(fwrite(values, 1, tensor->len_bytes, stream), tensor->len_bytes);
    assert_int_equal(fclose(stream), 0);
}

void import_fixture_import_at(ImportFixture *fixture, Isa isa) {
    ImportReport report;
    ErrText err = { 0 };
    int r;

    cpu_features_limit(isa_features(isa));
    r = import_run(fixture->source, fixture->out, &fixture->options, &report, &err);
    cpu_features_limit(UINT32_MAX);
    if (r)
        fail_msg("%s: %s", isa_name(isa), err.text);
    assert_false(report.already_imported);
}

int import_fixture_setup(void **state) {
    ImportFixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    test_folder_make(fixture->folder);
    snprintf(fixture->cache, sizeof(fixture->cache), "%s/cache", fixture->folder);
    snprintf(fixture->source, sizeof(fixture->source), "%s/tiny.gguf", fixture->folder);
    snprintf(fixture->out, sizeof(fixture->out), "%s/out.cgm", fixture->folder);
    fixture->options = import_options_default();
    fixture->options.cache_dir = fixture->cache;
    fixture->options.n_threads = 2;
    *state = fixture;
    return 0;
}

int import_fixture_teardown(void **state) {
    ImportFixture *fixture = *state;

    test_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* Hash of a file with known size and content. */
const char *import_fixture_package(ImportFixture *fixture, const ModelMaker *maker, double bits,
                                   bool static_activations) {
    static ImportReport report;
    ImportMethod method = import_method_plain;
    QuantRecipe *recipe = &fixture->options.recipe;
    ErrText err = { 0 };

    import_fixture_source(fixture, maker);
    method.profile = import_fixture_profile;
    fixture->options.method = static_activations ? &method : NULL;
    quant_recipe_set_bits(recipe, bits);
    recipe->static_activations = static_activations;
    recipe->hot_percent = static_activations ? 30 : 0;
    recipe->prune_percent = 0;
    if (import_run(fixture->source, NULL, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    fixture->options.method = NULL;
    return report.path;
}

void import_fixture_hash(const char *path, char hex[SHA256_HEX_BYTES]) {
    MappedFile file;

    assert_int_equal(mapped_file_open(&file, path, NULL), 0);
    sha256_hex(file.data, file.len_bytes, hex);
    mapped_file_deinit(&file);
}

/* Gives the integers of a row, from either layout. */
static const int8_t *row_of(const PackageLinear *linear, int8_t *unpacked, size_t row) {
    PackPlan plan;

    if (linear->weights)
        return linear->weights + row * linear->k;
    if (!row) {
        assert_int_equal(pack_plan_init(&plan, linear->grid, linear->bits, linear->n, linear->k), 0);
        for (size_t block = 0; block < plan.n_blocks; block++)
            unpack_block(&plan, block, linear->packed, unpacked);
        pack_plan_deinit(&plan);
    }
    return unpacked + row * linear->k;
}

/* Distance of a weight, in units of the scale, from its nearest level. */
static double distance_to_grid(Grid grid, int bits, double v) {
    double least = INFINITY;

    for (int code = bits == 8; code < 1 << bits; code++) {
        const double distance = fabs(v - grid_level(grid, code, bits));

        if (distance < least)
            least = distance;
    }
    return least;
}

/* Checks that every weight of the package is the level nearest to the rotated source, and un-rotated within the norm of
 * that. */
static void check_linear(const GgufTensor *source, const PackageLinear *linear) {
    _cleanup_(freep) float *rotated = malloc(linear->k * sizeof(float)), *plain = malloc(linear->k * sizeof(float)),
                           *back = malloc(linear->k * sizeof(float));
    _cleanup_(freep) int8_t *unpacked = linear->packed ? malloc(linear->n * linear->k) : NULL;
    size_t row_bytes = source->len_bytes / linear->n, step = linear->n > 512 ? linear->n / 512 : 1;

    assert_true(rotated && plain && back);
    assert_true(source->ne[0] == linear->k && source->ne[1] == linear->n);
    for (size_t row = 0; row < linear->n; row += step) {
        const int8_t *q = row_of(linear, unpacked, row);
        int bits = linear->bits[row];
        double scale = (double)linear->scales[row], error = 0;

        ggml_dequantize(source->type, source->data + row * row_bytes, plain, linear->k);
        memcpy(rotated, plain, linear->k * sizeof(float));
        rotate_row(rotated, linear->k, linear->rotation_block);
        for (size_t i = 0; i < linear->k; i++) {
            double x = (double)rotated[i], miss = fabs(x - q[i] * scale);

            assert_int_equal(grid_level(linear->grid, grid_code(linear->grid, q[i], bits), bits), q[i]);
            back[i] = (float)q[i] * linear->scales[row];
            if (scale > 0)
                assert_true(miss <= scale * (distance_to_grid(linear->grid, bits, x / scale) + 2e-5));
            else
                assert_true(miss < 1e-30);
        }
        if (bits < 8)
            continue;
        rotate_row(back, linear->k, linear->rotation_block);
        for (size_t i = 0; i < linear->k; i++)
            error += ((double)back[i] - (double)plain[i]) * ((double)back[i] - (double)plain[i]);
        /* The rotation keeps lengths; rounding errors are spread over +-scale/2 evenly, scale^2/12 on average. */
        assert_true(error <= 0.25001 * scale * scale * (double)linear->k);
        assert_true(linear->k < 64 || error <= 0.2 * scale * scale * (double)linear->k);
    }
}

void import_fixture_check(const char *source_path, const char *package_path, bool rotated) {
    _cleanup_(gguf_freep) GgufFile *source = NULL;
    _cleanup_(package_freep) Package *package = NULL;
    const Hparams *hparams;
    char name[GGUF_TENSOR_NAME_MAX + 8];
    PackageLinear linear;
    const GgufTensor *norm;

    assert_int_equal(gguf_open(&source, source_path, NULL), 0);
    assert_int_equal(package_open(&package, package_path, NULL), 0);
    assert_int_equal(package_quant(package)->rotated, rotated);
    hparams = package_hparams(package);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *at = package_linear_at(package, i);

        snprintf(name, sizeof(name), "%s.weight", at->name);
        assert_non_null(gguf_tensor(source, name));
        assert_int_equal(at->rotation_block, rotated ? rotate_block_size(at->k) : 0);
        check_linear(gguf_tensor(source, name), at);
        assert_int_equal(package_linear(package, name, &linear, NULL), 0);
        assert_true(linear.weights == at->weights && linear.packed == at->packed && linear.n == at->n);
        assert_int_equal((uintptr_t)(at->packed ? at->packed : (const uint8_t *)at->weights) % PACKAGE_ALIGNMENT, 0);
    }
    norm = gguf_tensor(package_file(package), "output_norm.weight");
    assert_non_null(norm);
    assert_int_equal(norm->len_bytes, hparams->n_embd * sizeof(float));
    assert_memory_equal(norm->data, gguf_tensor(source, "output_norm.weight")->data, norm->len_bytes);
    assert_int_equal(package_linear(package, "blk.0.attn_norm.weight", &linear, NULL), PACKAGE_E_CORRUPT);
    /* Checks that the source's keys are there, except for the three about its own storage. */
    for (size_t i = 0; i < gguf_n_keys(source); i++) {
        const GgufKey *key = gguf_key_at(source, i);
        bool dropped = false;

        snprintf(name, sizeof(name), "%.*s", (int)key->name.len_bytes, key->name.data);
        dropped = !strcmp(name, "general.file_type") || !strcmp(name, "general.quantization_version") ||
                  !strcmp(name, "general.alignment");
        assert_int_equal(!gguf_key(package_file(package), name), dropped && strcmp(name, "general.alignment"));
    }
}

void import_fixture_refusal(ImportFixture *fixture, const char *out, int code, const char *text) {
    size_t n_before = test_folder_count(fixture->folder);
    ImportReport report;
    ErrText err = { 0 };
    int r = import_run(fixture->source, out, &fixture->options, &report, &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("code %d, expected %d; text '%s', expected '%s'", r, code, err.text, text);
    assert_int_equal(test_folder_count(fixture->folder), n_before);
    if (access(fixture->cache, F_OK) == 0)
        assert_int_equal(test_folder_count(fixture->cache), 0);
}

int import_fixture_profile(void *state, const ImportModel *model, ErrText *err) {
    double percent = model->recipe->hot_percent;

    for (size_t i = 0; i < model->n_operators; i++) {
        ImportOperator *operator= & model->operators[i];

        operator->scale = 0.004f *(float)(1 + i % 3);
        operator->importance = 200 +(float) i;
        operator->shadow = i % 2 == 0 && model->recipe->prune_percent<100;
        for (size_t c = 0; operator->shadow && c<operator->k; c++)
            operator->is_hot[c] =(double)(c * 37 % 100) < percent;
    }
    return 0;
}
