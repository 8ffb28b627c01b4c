// SPDX-License-Identifier: Apache-2.0
/* Tests the package reader: a package at 8 bits, every refusal by its code, and mutations of its head. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "test/unit/fixtures/package_edit.h"

static int make_good(void **state) {
    ImportOptions options = import_options_default();

    return good_package_new(state, &options);
}

static void test_package_good(void **state) {
    GoodPackage *good = *state;
    _cleanup_(package_freep) Package *package = NULL;
    Package *copy = package_edit_parse(good);

    package_freep(&copy);
    assert_int_equal(package_open(&package, good->path, NULL), 0);
    assert_int_equal(package_n_linears(package), 16);
    assert_string_equal(package_linear_at(package, 0)->name, "token_embd");
    assert_string_equal(package_linear_at(package, 7)->name, "blk.0.ffn_down");
    assert_null(package_linear_at(package, 16));
    assert_int_equal(strlen(package_source_sha256(package)), 64);
    assert_true(package_quant(package)->rotated);
    assert_string_equal(package_quant(package)->recipe, "int8");
    assert_true(package_quant(package)->bits == 8 && package_quant(package)->bits_asked == 8);
    assert_int_equal(package_quant(package)->embedding_bits, 8);
    assert_string_equal(package_quant(package)->calibration_sha256, "");
    assert_int_equal(package_hparams(package)->n_layers, 2);
    assert_false(package_quant(package)->static_activations);
    assert_true(package_linear_at(package, 1)->activations.scale == 0);
    assert_true(package_fd(package) >= 0);
}

static void test_package_opens_no_other_file(void **state) {
    GoodPackage *good = *state;
    Package *package = NULL;
    char path[300];
    ErrText err;

    snprintf(path, sizeof(path), "%s/tiny.gguf", good->folder);
    assert_int_equal(package_open(&package, path, &err), PACKAGE_E_NOT_PACKAGE);
    assert_non_null(strstr(err.text, "import it first"));
    assert_int_equal(package_open(&package, "/nonexistent", &err), -ENOENT);
    assert_int_equal(package_parse(&package, good->block + 8, 8, "p", &err), -EINVAL);
    memcpy(good->block, "no GGUF", 7);
    assert_int_equal(package_parse(&package, good->block, 7, "p", &err), PACKAGE_E_CORRUPT);
    assert_null(package);
}

static void put_u32_1(GgufWriter *writer, const char *name) {
    gguf_writer_u32(writer, name, 1);
}

static void put_u32_2(GgufWriter *writer, const char *name) {
    gguf_writer_u32(writer, name, 2);
}

static void put_f32_9(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, 9);
}

static void put_long_text(GgufWriter *writer, const char *name) {
    gguf_writer_string(writer, name, "a name that is longer than what is possible");
}

static void put_packed_normal_first(GgufWriter *writer, const char *name) {
    put_linears(writer, name, PACKAGE_LAYOUT_PACKED_NORMAL, PACKAGE_LAYOUT_INT8);
}

static void put_packed_first(GgufWriter *writer, const char *name) {
    put_linears(writer, name, PACKAGE_LAYOUT_PACKED, PACKAGE_LAYOUT_INT8);
}

static void put_text(GgufWriter *writer, const char *name) {
    gguf_writer_string(writer, name, "something new");
}

static void put_texts(GgufWriter *writer, const char *name) {
    const char *texts[16];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        texts[i] = "something new";
    gguf_writer_strings(writer, name, texts, ARRAY_LEN(texts));
}

static void put_text_twice(GgufWriter *writer, const char *name) {
    static const char *const texts[] = { "int8", "int8" };

    gguf_writer_strings(writer, name, texts, 2);
}

static void put_blocks(GgufWriter *writer, uint32_t block_values, const char *name) {
    uint32_t blocks[16];

    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        blocks[i] = block_values;
    gguf_writer_array(writer, name, GGUF_U32, blocks, ARRAY_LEN(blocks));
}

static void put_blocks_128(GgufWriter *writer, const char *name) {
    put_blocks(writer, 128, name);
}

static void put_blocks_48(GgufWriter *writer, const char *name) {
    put_blocks(writer, 48, name);
}

static void put_blocks_first_32(GgufWriter *writer, const char *name) {
    static const uint32_t blocks[16] = { [1] = 32 };

    gguf_writer_array(writer, name, GGUF_U32, blocks, ARRAY_LEN(blocks));
}

static void put_u32_3(GgufWriter *writer, const char *name) {
    gguf_writer_u32(writer, name, 3);
}

static void put_u32_4(GgufWriter *writer, const char *name) {
    gguf_writer_u32(writer, name, 4);
}

static void test_package_refuses_keys(void **state) {
    GoodPackage *good = *state;
    static const char *const needed[] = {
        PACKAGE_KEY_SOURCE_SHA256,  PACKAGE_KEY_RECIPE,           PACKAGE_KEY_STEPS,
        PACKAGE_KEY_BITS,           PACKAGE_KEY_BITS_ASKED,       PACKAGE_KEY_EMBEDDING_BITS,
        PACKAGE_KEY_ROTATED,        PACKAGE_KEY_ACTIVATION_MODE,  PACKAGE_KEY_LINEAR_NAMES,
        PACKAGE_KEY_LINEAR_LAYOUTS, PACKAGE_KEY_LINEAR_ROTATIONS, PACKAGE_KEY_LINEAR_ACTIVATIONS,
        "llama.block_count"
    };
    const struct {
        const char *key;
        void (*put)(GgufWriter *writer, const char *name);
        int code;
        const char *text;
    } cases[] = {
        { PACKAGE_KEY_FORMAT_VERSION, put_u32_1, PACKAGE_E_UNSUPPORTED,
          "package format version 1, this program reads 2: import the model again (coordgenctl model import)" },
        { PACKAGE_KEY_FORMAT_VERSION, put_u32_3, PACKAGE_E_UNSUPPORTED,
          "package format version 3, this program reads 2: import the model again (coordgenctl model import)" },
        { PACKAGE_KEY_FORMAT_VERSION, put_u32_4, PACKAGE_E_UNSUPPORTED,
          "package format version 4, this program reads 2" },
        { PACKAGE_KEY_FORMAT_VERSION, put_text, PACKAGE_E_CORRUPT, "of type string" },
        { PACKAGE_KEY_SOURCE_SHA256, put_text, PACKAGE_E_CORRUPT, "64 hex digits" },
        { PACKAGE_KEY_IMPORT_REVISION, put_text, PACKAGE_E_CORRUPT, "of type string" },
        { PACKAGE_KEY_RECIPE, put_text, 0, "" },
        { PACKAGE_KEY_RECIPE, put_long_text, PACKAGE_E_CORRUPT, "a name of 1 to 31 is needed" },
        { PACKAGE_KEY_STEPS, put_text, PACKAGE_E_CORRUPT, "expected an array of string" },
        { PACKAGE_KEY_BITS, put_f32_9, PACKAGE_E_CORRUPT, "'coordgen.quant.bits' is 9: 1 to 8" },
        { PACKAGE_KEY_BITS, put_f32_nan, PACKAGE_E_CORRUPT, "'coordgen.quant.bits' is nan of type f32" },
        { PACKAGE_KEY_BITS, put_f32_7, PACKAGE_E_CORRUPT, "'coordgen.quant.bits' is 7, the widths" },
        { PACKAGE_KEY_BITS_ASKED, put_f32_9, PACKAGE_E_CORRUPT, "'coordgen.quant.bits_asked' is 9" },
        { PACKAGE_KEY_BITS_ASKED, put_f32_7, 0, "" },
        { PACKAGE_KEY_EMBEDDING_BITS, put_u32_2, PACKAGE_E_CORRUPT,
          "'token_embd.bits': channel 0 is 8 bits wide, key 'coordgen.quant.embedding_bits' says 2" },
        { PACKAGE_KEY_EMBEDDING_BITS, put_f32_9, PACKAGE_E_CORRUPT, "embedding_bits" },
        { PACKAGE_KEY_ACTIVATION_MODE, put_text, PACKAGE_E_UNSUPPORTED,
          "'coordgen.activation_mode' is 'something new'" },
        { PACKAGE_KEY_ROTATED, put_u32_2, PACKAGE_E_CORRUPT, "expected a bool" },
        { PACKAGE_KEY_LINEAR_NAMES, put_texts, PACKAGE_E_CORRUPT,
          "element 0 is 'something new', the architecture has 'token_embd'" },
        { PACKAGE_KEY_LINEAR_LAYOUTS, put_texts, PACKAGE_E_UNSUPPORTED, "'token_embd' has layout 'something new'" },
        { PACKAGE_KEY_LINEAR_LAYOUTS, put_packed_first, PACKAGE_E_CORRUPT, "tensor 'token_embd.weight' is 64 x 40" },
        { PACKAGE_KEY_LINEAR_LAYOUTS, put_packed_normal_first, PACKAGE_E_CORRUPT,
          "tensor 'token_embd.weight' is 64 x 40" },
        { PACKAGE_KEY_LINEAR_LAYOUTS, put_text_twice, PACKAGE_E_CORRUPT,
          "has 2 elements, 'coordgen.linear.names' has 16" },
        { PACKAGE_KEY_LINEAR_ACTIVATIONS, put_texts, PACKAGE_E_UNSUPPORTED, "has activations 'something new'" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_texts, PACKAGE_E_CORRUPT, "expected an array of integers from 0" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_blocks_128, PACKAGE_E_CORRUPT, "of 64 inputs has rotation block 128" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_blocks_first_32, PACKAGE_E_CORRUPT,
          "'blk.0.attn_q' and 'blk.0.attn_k' share their input, but not its rotation" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_blocks_48, PACKAGE_E_CORRUPT, "rotation block 48" },
        { "general.architecture", put_text, PACKAGE_E_UNSUPPORTED, "architecture 'something new'" },
        { "llama.feed_forward_length", put_u32_2, PACKAGE_E_CORRUPT, "feed_forward_length" },
    };
    const PackageEdit small_alignment = { .alignment = 32 }, no_version = { .drop_key = PACKAGE_KEY_FORMAT_VERSION };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_edit(good, &(PackageEdit){ .key = cases[i].key, .put = cases[i].put }, cases[i].code, cases[i].text);
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        expect_edit(good, &(PackageEdit){ .drop_key = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
    expect_edit(good, &no_version, PACKAGE_E_NOT_PACKAGE, "not a model package");
    expect_edit(good, &small_alignment, PACKAGE_E_CORRUPT, "'general.alignment' is 32");
}

static void test_package_refuses_tensors(void **state) {
    GoodPackage *good = *state;
    static const char *const needed[] = { "token_embd.weight",   "output.scales",          "blk.1.ffn_down.bits",
                                          "blk.0.attn_q.weight", "blk.1.attn_norm.weight", "output_norm.weight" };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        expect_edit(good, &(PackageEdit){ .drop_tensor = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
        expect_edit(good, &(PackageEdit){ .reshape_tensor = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
        expect_edit(good, &(PackageEdit){ .retype_tensor = needed[i] }, PACKAGE_E_CORRUPT,
                    "has type F16, a package has ");
    }
    /* The scales of the embedding give the number of tokens. */
    expect_edit(good, &(PackageEdit){ .drop_tensor = "token_embd.scales" }, PACKAGE_E_CORRUPT,
                "'token_embd.scales' is missing");
    expect_edit(good, &(PackageEdit){ .reshape_tensor = "token_embd.scales" }, PACKAGE_E_CORRUPT,
                "'token_embd.weight' is 64 x 40 x 1 x 1, the metadata asks for 64 x 41");
    /* Without output.weight the model is tied, so the head's other tensors do not belong. */
    expect_edit(good, &(PackageEdit){ .drop_tensor = "output.weight" }, PACKAGE_E_CORRUPT,
                "has 16 elements, the architecture has 15 linears");
    expect_edit(good, &(PackageEdit){ .add_tensor = "stranger" }, PACKAGE_E_CORRUPT,
                "54 tensors, the architecture has 53");
}

static void test_package_refuses_values(void **state) {
    GoodPackage *good = *state;
    const PackageEdit nan_scale = { .spoil_tensor = "blk.0.attn_q.scales", .spoil_bits = 0x7fc00000, .spoil_bytes = 4 };
    const PackageEdit negative_scale = { .spoil_tensor = "blk.0.attn_q.scales",
                                         .spoil_bits = 0xbf800000,
                                         .spoil_bytes = 4 };
    const PackageEdit infinite_scale = { .spoil_tensor = "output.scales", .spoil_bits = 0x7f800000, .spoil_bytes = 4 };
    const PackageEdit zero_scale = { .spoil_tensor = "output.scales", .spoil_bits = 0, .spoil_bytes = 4 };
    const PackageEdit four_bits = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 4, .spoil_bytes = 1 };
    const PackageEdit nan_norm = { .spoil_tensor = "output_norm.weight", .spoil_bits = 0x7fc00000, .spoil_bytes = 4 };

    expect_edit(good, &nan_scale, PACKAGE_E_CORRUPT, "'blk.0.attn_q.scales': element 0 is nan");
    expect_edit(good, &negative_scale, PACKAGE_E_CORRUPT, "'blk.0.attn_q.scales': element 0 is -1");
    expect_edit(good, &infinite_scale, PACKAGE_E_CORRUPT, "'output.scales': element 0 is inf");
    expect_edit(good, &zero_scale, 0, "");
    expect_edit(good, &four_bits, PACKAGE_E_CORRUPT,
                "'blk.1.ffn_up.bits': channel 0 is 4 bits wide, layout 'int8' has 8");
    expect_edit(good, &nan_norm, PACKAGE_E_CORRUPT, "'output_norm.weight': element 0 is not a finite number");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_package_good),           cmocka_unit_test(test_package_opens_no_other_file),
        cmocka_unit_test(test_package_refuses_keys),   cmocka_unit_test(test_package_refuses_tensors),
        cmocka_unit_test(test_package_refuses_values), cmocka_unit_test(package_edit_mutations),
    };

    return cmocka_run_group_tests(tests, make_good, good_package_free);
}
