// SPDX-License-Identifier: Apache-2.0
/* Tests the package reader with static activations: the values read, the refusals, and mutations of the head. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "test/unit/fixtures/package_edit.h"
#include "test/unit/importer/import_fixture.h"

static int make_static(void **state) {
    ImportOptions options = import_options_default();
    ImportMethod method = import_method_plain;

    method.profile = import_fixture_profile;
    options.method = &method;
    options.recipe.static_activations = true;
    options.recipe.hot_percent = 10;
    return good_package_new(state, &options);
}

/* Checks the profile for all linears of an operator; columns are the integers turned. */
static void test_package_static(void **state) {
    GoodPackage *good = *state;
    _cleanup_(package_freep) Package *package = package_edit_parse(good);
    static const bool shadows[16] = { [1] = true, [2] = true, [3] = true,  [5] = true,  [6] = true,
                                      [8] = true, [9] = true, [10] = true, [12] = true, [13] = true };

    assert_int_equal(package_fd(package), -1);
    assert_true(package_quant(package)->static_activations);
    assert_true(package_quant(package)->hot_percent == 10 && package_quant(package)->prune_percent == 85);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);
        const PackageActivations *activations = &linear->activations;
        size_t n_hot = 0;

        assert_true((activations->scale > 0) == (i > 0 && i < 15));
        assert_int_equal(activations->shadow, shadows[i]);
        for (size_t c = 0; shadows[i] && c < linear->k; c++)
            if (c * 37 % 100 < 10)
                assert_int_equal(activations->hot[n_hot++], c);
        assert_int_equal(activations->n_hot, n_hot);
        for (size_t c = 0; shadows[i] && c < linear->k; c++)
            for (size_t o = 0; o < linear->n; o++)
                assert_int_equal(activations->columns[c * linear->n + o], linear->weights[o * linear->k + c]);
        if (shadows[i])
            assert_memory_equal(good->file.data + activations->columns_offset_bytes, activations->columns,
                                linear->n * linear->k);
    }
}

/* Changes one element of an array of 4-byte numbers; an index at its end shortens the array by one. */
static const GoodPackage *changed;
static size_t changed_index;
static uint32_t changed_bits;

static void put_changed(GgufWriter *writer, const char *name) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    const GgufArray *array;
    uint32_t values[256];

    assert_int_equal(gguf_parse(&file, changed->file.data, changed->file.len_bytes, "good", NULL), 0);
    array = &gguf_key(file, name)->value.array;
    assert_true(array->n && array->n <= ARRAY_LEN(values) && array->element_type != GGUF_STRING);
    memcpy(values, array->data, (size_t)array->n * sizeof(*values));
    if (changed_index < array->n)
        values[changed_index] = changed_bits;
    gguf_writer_array(writer, name, array->element_type, values, array->n - (changed_index >= array->n));
}

static void put_clipped(GgufWriter *writer, const char *name) {
    put_linears(writer, name, PACKAGE_OUTLIERS_NONE, PACKAGE_OUTLIERS_CLIPPED);
}

static void put_new_outliers(GgufWriter *writer, const char *name) {
    put_linears(writer, name, PACKAGE_OUTLIERS_NONE, "something new");
}

static void put_dynamic(GgufWriter *writer, const char *name) {
    put_linears(writer, name, PACKAGE_ACTIVATION_DYNAMIC_ROW, PACKAGE_ACTIVATION_DYNAMIC_ROW);
}

static void put_mode_dynamic(GgufWriter *writer, const char *name) {
    gguf_writer_string(writer, name, PACKAGE_ACTIVATION_DYNAMIC_ROW);
}

static void put_f32_101(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, 101);
}

static void test_package_refuses_static(void **state) {
    GoodPackage *good = *state;
    static const char *const needed[] = {
        PACKAGE_KEY_HOT_PERCENT,     PACKAGE_KEY_PRUNE_PERCENT,     PACKAGE_KEY_LINEAR_ACTIVATION_SCALES,
        PACKAGE_KEY_LINEAR_OUTLIERS, PACKAGE_KEY_LINEAR_IMPORTANCE, PACKAGE_KEY_LINEAR_HOT_COUNTS,
        PACKAGE_KEY_HOT_CHANNELS,
    };
    static const struct {
        const char *key;
        size_t index;
        uint32_t bits;
        const char *text;
    } numbers[] = {
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 1, 0, "'blk.0.attn_q' has activations of scale 0" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 4, 0x7fc00000, "'blk.0.attn_output' has activations of scale nan" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 4, 0x7f800000, "of scale inf" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 4, 0xbf800000, "of scale -1" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 4, 1, "of scale 1.4" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 2, 0x3f800000, "'blk.0.attn_q' and 'blk.0.attn_k' share their input" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 0, 0x3f800000, "'token_embd' is 'dynamic-row', but has a scale" },
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, 16, 0, "has 15 elements" },
        { PACKAGE_KEY_LINEAR_IMPORTANCE, 1, 0x7f800000, "importance inf" },
        { PACKAGE_KEY_LINEAR_IMPORTANCE, 1, 0xbf800000, "importance -1" },
        { PACKAGE_KEY_LINEAR_IMPORTANCE, 15, 0x3f800000, "'output' is 'dynamic-row', but has a scale" },
        { PACKAGE_KEY_LINEAR_IMPORTANCE, 16, 0, "has 15 elements" },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, 1, 1000, "'blk.0.attn_q': 1000 hot channels are more" },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, 1, 0xffffffff, "'blk.0.attn_q': 4294967295 hot channels are more" },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, 1, 0, "has 60 elements, the linears have 54" },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, 4, 1, "'blk.0.attn_output': 1 hot channels" },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, 0, 1, "'token_embd' is 'dynamic-row', but has a scale" },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, 13, 0, "has 60 elements, the linears have 54" },
        { PACKAGE_KEY_HOT_CHANNELS, 0, 64, "'blk.0.attn_q': hot channel 64" },
        { PACKAGE_KEY_HOT_CHANNELS, 1, 0, "'blk.0.attn_q': hot channel 0: they rise" },
        { PACKAGE_KEY_HOT_CHANNELS, 1, 0xffffffff, "hot channel 4294967295" },
        { PACKAGE_KEY_HOT_CHANNELS, 256, 0, "hot channels are more" },
    };
    static const char *const columns[] = { "blk.0.attn_v.columns", "blk.1.ffn_up.columns" };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        expect_edit(good, &(PackageEdit){ .drop_key = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        changed = good;
        changed_index = numbers[i].index;
        changed_bits = numbers[i].bits;
        expect_edit(good, &(PackageEdit){ .key = numbers[i].key, .put = put_changed }, PACKAGE_E_CORRUPT,
                    numbers[i].text);
    }
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        expect_edit(good, &(PackageEdit){ .drop_tensor = columns[i] }, PACKAGE_E_CORRUPT, columns[i]);
        expect_edit(good, &(PackageEdit){ .reshape_tensor = columns[i] }, PACKAGE_E_CORRUPT, columns[i]);
        expect_edit(good, &(PackageEdit){ .retype_tensor = columns[i] }, PACKAGE_E_CORRUPT,
                    "has type F16, a package has I8 there");
    }
    expect_edit(good, &(PackageEdit){ .key = PACKAGE_KEY_HOT_PERCENT, .put = put_f32_101 }, PACKAGE_E_CORRUPT,
                "is 101: 0 to 100");
    expect_edit(good, &(PackageEdit){ .key = PACKAGE_KEY_PRUNE_PERCENT, .put = put_f32_nan }, PACKAGE_E_CORRUPT,
                "prune_percent");
    expect_edit(good, &(PackageEdit){ .key = PACKAGE_KEY_LINEAR_OUTLIERS, .put = put_new_outliers },
                PACKAGE_E_UNSUPPORTED, "'blk.0.attn_q' has outliers 'something new'");
    expect_edit(good, &(PackageEdit){ .key = PACKAGE_KEY_LINEAR_OUTLIERS, .put = put_clipped }, PACKAGE_E_CORRUPT,
                "hot channels");
    expect_edit(good, &(PackageEdit){ .key = PACKAGE_KEY_LINEAR_ACTIVATIONS, .put = put_dynamic },
                PACKAGE_E_UNSUPPORTED,
                "'blk.0.attn_q' has activations 'dynamic-row', this program knows 'static-tensor' there");
    expect_edit(good, &(PackageEdit){ .key = PACKAGE_KEY_ACTIVATION_MODE, .put = put_mode_dynamic },
                PACKAGE_E_UNSUPPORTED,
                "'blk.0.attn_q' has activations 'static-tensor', this program knows 'dynamic-row' there");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_package_static),
        cmocka_unit_test(test_package_refuses_static),
        cmocka_unit_test(package_edit_mutations),
    };

    return cmocka_run_group_tests(tests, make_static, good_package_free);
}
