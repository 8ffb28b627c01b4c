/* Package reader: every refusal by its code, and mutations of a package's head. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file_io.h"
#include "importer/import_method.h"
#include "model/package.h"
#include "quant/grid.h"
#include "quant/pack.h"
#include "test/unit/import_fixture.h"

/* Good packages of the tiny model: at 8 bits; packed, with all widths in every matrix of the layers, embeddings of 6
 * bits. The one that is edited; and a block that is aligned as a map is. */
static MappedFile int8, packed, normal, with_shadows; /* normal: packed, on that grid; the last: static activations */
static const MappedFile *good = &int8;
static uint8_t *block;
static char folder[256];

static int allocate_all_widths(void *state, const ImportModel *model, ErrText *err) {
    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; j < model->layers[i].n_linears; j++)
            for (size_t channel = 0; channel < model->layers[i].linears[j].n; channel++)
                model->layers[i].linears[j].bits[channel] = (int8_t)(1 + channel % 8);
    return 0;
}

static int make_good(void **state) {
    ImportOptions options = IMPORT_OPTIONS_DEFAULT;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportMethod method = import_method_plain;
    StrBuf file = STR_BUF_NULL;
    char source[300], out[300];
    ImportReport report;

    test_folder_make(folder);
    model_maker_run(&maker, &file);
    test_write_file(folder, "tiny.gguf", file.data, file.len_bytes);
    str_buf_deinit(&file);
    snprintf(source, sizeof(source), "%s/tiny.gguf", folder);
    snprintf(out, sizeof(out), "%s/tiny.cgm", folder);
    options.cache_dir = folder;
    if (import_run(source, out, &options, &report, NULL) || mapped_file_open(&int8, out, NULL))
        return -1;
    method.allocate = allocate_all_widths;
    options.method = &method;
    options.recipe.embedding_bits = 6;
    snprintf(out, sizeof(out), "%s/packed.cgm", folder);
    if (import_run(source, out, &options, &report, NULL) || mapped_file_open(&packed, out, NULL))
        return -1;
    options.recipe.grid = GRID_NORMAL;
    snprintf(out, sizeof(out), "%s/normal.cgm", folder);
    if (import_run(source, out, &options, &report, NULL) || mapped_file_open(&normal, out, NULL))
        return -1;
    method = import_method_plain;
    method.profile = import_fixture_profile;
    options.recipe.grid = GRID_UNIFORM;
    options.recipe.embedding_bits = 8;
    options.recipe.static_activations = true;
    options.recipe.hot_percent = 10;
    snprintf(out, sizeof(out), "%s/static.cgm", folder);
    if (import_run(source, out, &options, &report, NULL) || mapped_file_open(&with_shadows, out, NULL))
        return -1;
    return posix_memalign((void **)&block, PACKAGE_ALIGNMENT, 2 * int8.len_bytes);
}

static int remove_good(void **state) {
    mapped_file_deinit(&int8);
    mapped_file_deinit(&packed);
    mapped_file_deinit(&normal);
    mapped_file_deinit(&with_shadows);
    free(block);
    test_folder_remove(folder);
    return 0;
}

/* What a copy of the good package has otherwise. */
typedef struct Edit {
    const char *drop_key;
    const char *drop_tensor;
    const char *add_tensor;
    const char *reshape_tensor; /* one value longer */
    const char *retype_tensor;  /* F16 */
    const char *spoil_tensor;   /* these bytes at its start */
    uint32_t spoil_bits;
    size_t spoil_bytes;
    const char *key; /* replaced by what put() writes */
    void (*put)(GgufWriter *writer, const char *name);
    uint32_t alignment;
} Edit;

static void fill_tensor(GgufWriter *writer, const Edit *edit, const GgufTensor *tensor, uint64_t len_bytes) {
    uint8_t *data = calloc(1, (size_t)len_bytes);

    assert_non_null(data);
    if (tensor)
        memcpy(data, tensor->data, (size_t)(tensor->len_bytes < len_bytes ? tensor->len_bytes : len_bytes));
    if (tensor && edit->spoil_tensor && !strcmp(tensor->name, edit->spoil_tensor))
        memcpy(data, &edit->spoil_bits, edit->spoil_bytes);
    assert_int_equal(gguf_writer_append(writer, data, (size_t)len_bytes, NULL), 0);
    free(data);
}

static void copy_keys(GgufWriter *writer, const Edit *edit, const GgufFile *file) {
    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);
        char name[128];

        snprintf(name, sizeof(name), "%.*s", (int)key->name.len_bytes, key->name.data);
        if (!strcmp(name, "general.alignment") || (edit->drop_key && !strcmp(name, edit->drop_key)))
            continue;
        if (edit->key && !strcmp(name, edit->key))
            edit->put(writer, name);
        else
            gguf_writer_copy(writer, key);
    }
}

/* The edited package in block; its length. */
static size_t edit_package(const Edit *edit) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf out = STR_BUF_NULL;
    uint64_t one[] = { 1 };
    size_t index = 0;

    assert_int_equal(gguf_parse(&file, good->data, good->len_bytes, "good", NULL), 0);
    assert_int_equal(gguf_writer_new(&writer, edit->alignment ? edit->alignment : PACKAGE_ALIGNMENT, NULL), 0);
    copy_keys(writer, edit, file);
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        uint64_t ne[2] = { tensor->ne[0], tensor->ne[1] };
        uint32_t type = tensor->type;

        if (edit->drop_tensor && !strcmp(tensor->name, edit->drop_tensor))
            continue;
        if (edit->reshape_tensor && !strcmp(tensor->name, edit->reshape_tensor))
            ne[0]++;
        if (edit->retype_tensor && !strcmp(tensor->name, edit->retype_tensor))
            type = GGML_F16;
        gguf_writer_tensor(writer, tensor->name, type, tensor->n_dims, ne);
    }
    if (edit->add_tensor)
        gguf_writer_tensor(writer, edit->add_tensor, GGML_F32, 1, one);
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    assert_int_equal(gguf_writer_start(writer, (GgufSink){ .buf = &out }, NULL), 0);
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        if (!edit->drop_tensor || strcmp(tensor->name, edit->drop_tensor))
            fill_tensor(writer, edit, tensor, gguf_writer_tensor_bytes(writer, index++));
    }
    if (edit->add_tensor)
        fill_tensor(writer, edit, NULL, 4);
    assert_int_equal(gguf_writer_finish(writer, NULL), 0);
    assert_true(out.len_bytes <= 2 * int8.len_bytes);
    memcpy(block, out.data, out.len_bytes);
    return out.len_bytes;
}

static void expect(const Edit *edit, int code, const char *text) {
    _cleanup_(package_freep) Package *package = NULL;
    size_t len_bytes = edit_package(edit);
    ErrText err = { "" };
    int r = package_parse(&package, block, len_bytes, "p", &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("code %d, expected %d; text '%s', expected '%s'", r, code, err.text, text);
}

static void test_package_good(void **state) {
    _cleanup_(package_freep) Package *package = NULL;
    static const Edit none = { .drop_key = NULL };
    char path[300];

    expect(&none, 0, "");
    snprintf(path, sizeof(path), "%s/tiny.cgm", folder);
    assert_int_equal(package_open(&package, path, NULL), 0);
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

/* What the profile said, for all linears of an operator; columns are the integers turned. */
static void test_package_static(void **state) {
    _cleanup_(package_freep) Package *package = NULL;
    static const Edit none = { .drop_key = NULL };
    static const bool shadows[16] = { [1] = true, [2] = true, [3] = true,  [5] = true,  [6] = true,
                                      [8] = true, [9] = true, [10] = true, [12] = true, [13] = true };

    expect(&none, 0, "");
    assert_int_equal(package_parse(&package, block, with_shadows.len_bytes, "p", NULL), 0);
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
            assert_memory_equal(with_shadows.data + activations->columns_offset_bytes, activations->columns,
                                linear->n * linear->k);
    }
}

/* The averages are those of the widths, and the bytes unpack to levels of them. */
static void test_package_packed(void **state) {
    _cleanup_(package_freep) Package *package = NULL;
    static const Edit none = { .drop_key = NULL };

    expect(&none, 0, "");
    assert_int_equal(package_parse(&package, block, packed.len_bytes, "p", NULL), 0);
    assert_int_equal(package_n_linears(package), 16);
    assert_true(package_quant(package)->bits == 4.5f);
    assert_int_equal(package_quant(package)->embedding_bits, 6);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);
        bool embedding = !strcmp(linear->name, "token_embd") || !strcmp(linear->name, "output");
        int8_t q[96 * 96];
        PackPlan plan;

        assert_true(linear->packed && !linear->weights && linear->n * linear->k <= sizeof(q));
        assert_int_equal(pack_plan_init(&plan, GRID_UNIFORM, linear->bits, linear->n, linear->k), 0);
        assert_int_equal(linear->weight_bytes, plan.offsets[plan.n_blocks]);
        for (size_t j = 0; j < plan.n_blocks; j++)
            unpack_block(&plan, j, linear->packed, q);
        for (size_t channel = 0; channel < linear->n; channel++) {
            int bits = linear->bits[channel];

            assert_int_equal(bits, embedding ? 6 : 1 + channel % 8);
            for (size_t j = 0; j < linear->k; j++) {
                int level = q[channel * linear->k + j];

                assert_int_equal(grid_level(GRID_UNIFORM, grid_code(GRID_UNIFORM, level, bits), bits), level);
                assert_true(level >= -grid_max(GRID_UNIFORM, bits) && level <= grid_max(GRID_UNIFORM, bits));
            }
        }
        pack_plan_deinit(&plan);
    }
}

static void test_package_opens_no_other_file(void **state) {
    Package *package = NULL;
    char path[300];
    ErrText err;

    snprintf(path, sizeof(path), "%s/tiny.gguf", folder);
    assert_int_equal(package_open(&package, path, &err), PACKAGE_E_NOT_PACKAGE);
    assert_non_null(strstr(err.text, "import it first"));
    assert_int_equal(package_open(&package, "/nonexistent", &err), -ENOENT);
    assert_int_equal(package_parse(&package, block + 8, 8, "p", &err), -EINVAL);
    memcpy(block, "no GGUF", 7);
    assert_int_equal(package_parse(&package, block, 7, "p", &err), PACKAGE_E_CORRUPT);
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

/* The same widths, but that none is narrower than its block; and the bytes unpack to levels of the other grid. */
static void test_package_packed_normal(void **state) {
    _cleanup_(package_freep) Package *package = NULL;
    static const Edit none = { .drop_key = NULL };
    size_t n_wider = 0;

    expect(&none, 0, "");
    assert_int_equal(package_parse(&package, block, normal.len_bytes, "p", NULL), 0);
    assert_int_equal(normal.len_bytes, packed.len_bytes);
    assert_true(package_quant(package)->bits > 4.5f);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);
        bool embedding = !strcmp(linear->name, "token_embd") || !strcmp(linear->name, "output");
        int8_t q[96 * 96];
        PackPlan plan;

        assert_true(linear->packed && linear->n * linear->k <= sizeof(q));
        assert_int_equal(linear->grid, GRID_NORMAL);
        assert_int_equal(pack_plan_init(&plan, GRID_NORMAL, linear->bits, linear->n, linear->k), 0);
        assert_int_equal(linear->weight_bytes, plan.offsets[plan.n_blocks]);
        for (size_t j = 0; j < plan.n_blocks; j++)
            unpack_block(&plan, j, linear->packed, q);
        for (size_t channel = 0; channel < linear->n; channel++) {
            int bits = linear->bits[channel], asked = embedding ? 6 : 1 + (int)(channel % 8);

            assert_true(bits >= asked);
            n_wider += bits > asked;
            for (size_t j = 0; j < linear->k; j++) {
                int level = q[channel * linear->k + j];

                assert_int_equal(grid_level(GRID_NORMAL, grid_code(GRID_NORMAL, level, bits), bits), level);
            }
        }
        pack_plan_deinit(&plan);
    }
    assert_true(n_wider > 100);
}

static void put_f32_nan(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, NAN);
}

static void put_f32_7(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, 7);
}

static void put_long_text(GgufWriter *writer, const char *name) {
    gguf_writer_string(writer, name, "a name that is longer than what is possible");
}

static void put_layouts(GgufWriter *writer, const char *name, const char *first, const char *others) {
    const char *texts[16];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        texts[i] = i ? others : first;
    gguf_writer_strings(writer, name, texts, ARRAY_LEN(texts));
}

static void put_int8_first(GgufWriter *writer, const char *name) {
    put_layouts(writer, name, PACKAGE_LAYOUT_INT8, PACKAGE_LAYOUT_PACKED);
}

static void put_packed_normal_first(GgufWriter *writer, const char *name) {
    put_layouts(writer, name, PACKAGE_LAYOUT_PACKED_NORMAL, PACKAGE_LAYOUT_INT8);
}

static void put_packed_first(GgufWriter *writer, const char *name) {
    put_layouts(writer, name, PACKAGE_LAYOUT_PACKED, PACKAGE_LAYOUT_INT8);
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

/* A package of version 3: its blocks are mixed as `across` says; NULL: it does not say. */
static void put_version_3(GgufWriter *writer, const char *name, const uint32_t *across) {
    gguf_writer_u32(writer, name, 3);
    if (across)
        gguf_writer_array(writer, PACKAGE_KEY_LINEAR_ACROSS, GGUF_U32, across, 16);
}

static void put_no_across(GgufWriter *writer, const char *name) {
    put_version_3(writer, name, NULL);
}

static void put_across_0(GgufWriter *writer, const char *name) {
    put_version_3(writer, name, (uint32_t[16]){ 0 });
}

static void put_across_first(GgufWriter *writer, const char *name) {
    put_version_3(writer, name, (uint32_t[16]){ 2 }); /* of token_embd */
}

static void put_across_3(GgufWriter *writer, const char *name) {
    put_version_3(writer, name, (uint32_t[16]){ 3 });
}

static void put_across_8(GgufWriter *writer, const char *name) {
    put_version_3(writer, name, (uint32_t[16]){ 8 });
}

static void put_across_second(GgufWriter *writer, const char *name) {
    put_version_3(writer, name, (uint32_t[16]){ [1] = 2 });
}

static void put_across_texts(GgufWriter *writer, const char *name) {
    gguf_writer_u32(writer, name, 3);
    put_texts(writer, PACKAGE_KEY_LINEAR_ACROSS);
}

static void put_u32_4(GgufWriter *writer, const char *name) {
    gguf_writer_u32(writer, name, 4);
}

static void test_package_refuses_keys(void **state) {
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
          "package format version 1, this program reads 2 to 3: import the model again" },
        { PACKAGE_KEY_FORMAT_VERSION, put_u32_4, PACKAGE_E_UNSUPPORTED,
          "package format version 4, this program reads" },
        { PACKAGE_KEY_FORMAT_VERSION, put_no_across, PACKAGE_E_CORRUPT, PACKAGE_KEY_LINEAR_ACROSS },
        { PACKAGE_KEY_FORMAT_VERSION, put_across_texts, PACKAGE_E_CORRUPT, "expected an array of u32" },
        { PACKAGE_KEY_FORMAT_VERSION, put_across_0, 0, "" },
        { PACKAGE_KEY_FORMAT_VERSION, put_across_first, 0, "" },
        { PACKAGE_KEY_FORMAT_VERSION, put_across_3, PACKAGE_E_CORRUPT,
          "of 64 inputs has rotation block 64, and 3 across blocks" },
        { PACKAGE_KEY_FORMAT_VERSION, put_across_8, PACKAGE_E_CORRUPT, "8 across blocks" },
        { PACKAGE_KEY_FORMAT_VERSION, put_across_second, PACKAGE_E_CORRUPT,
          "'blk.0.attn_q' and 'blk.0.attn_k' share their input, but not its rotation" },
        { PACKAGE_KEY_FORMAT_VERSION, put_text, PACKAGE_E_CORRUPT, "of type string" },
        { PACKAGE_KEY_SOURCE_SHA256, put_text, PACKAGE_E_CORRUPT, "64 hex digits" },
        { PACKAGE_KEY_RECIPE, put_text, 0, "" },
        { PACKAGE_KEY_RECIPE, put_long_text, PACKAGE_E_CORRUPT, "a name of 1 to 31 is needed" },
        { PACKAGE_KEY_STEPS, put_text, PACKAGE_E_CORRUPT, "expected an array of string" },
        { PACKAGE_KEY_BITS, put_f32_9, PACKAGE_E_CORRUPT, "'coordgen.quant.bits' is 9: 1 to 8" },
        { PACKAGE_KEY_BITS, put_f32_nan, PACKAGE_E_CORRUPT, "'coordgen.quant.bits' is not a finite number" },
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
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_texts, PACKAGE_E_CORRUPT, "expected an array of u32" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_blocks_128, PACKAGE_E_CORRUPT, "of 64 inputs has rotation block 128" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_blocks_first_32, PACKAGE_E_CORRUPT,
          "'blk.0.attn_q' and 'blk.0.attn_k' share their input, but not its rotation" },
        { PACKAGE_KEY_LINEAR_ROTATIONS, put_blocks_48, PACKAGE_E_CORRUPT, "rotation block 48" },
        { "general.architecture", put_text, PACKAGE_E_UNSUPPORTED, "architecture 'something new'" },
        { "llama.feed_forward_length", put_u32_2, PACKAGE_E_CORRUPT, "feed_forward_length" },
    };
    const Edit small_alignment = { .alignment = 32 }, no_version = { .drop_key = PACKAGE_KEY_FORMAT_VERSION };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(&(Edit){ .key = cases[i].key, .put = cases[i].put }, cases[i].code, cases[i].text);
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        expect(&(Edit){ .drop_key = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
    expect(&no_version, PACKAGE_E_NOT_PACKAGE, "not a model package");
    expect(&small_alignment, PACKAGE_E_CORRUPT, "'general.alignment' is 32");
}

static void test_package_refuses_tensors(void **state) {
    static const char *const needed[] = { "token_embd.weight",   "output.scales",          "blk.1.ffn_down.bits",
                                          "blk.0.attn_q.weight", "blk.1.attn_norm.weight", "output_norm.weight" };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        expect(&(Edit){ .drop_tensor = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
        expect(&(Edit){ .reshape_tensor = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
        expect(&(Edit){ .retype_tensor = needed[i] }, PACKAGE_E_CORRUPT, "has type F16, a package has ");
    }
    /* The scales of the embedding count the tokens. */
    expect(&(Edit){ .drop_tensor = "token_embd.scales" }, PACKAGE_E_CORRUPT, "'token_embd.scales' is missing");
    expect(&(Edit){ .reshape_tensor = "token_embd.scales" }, PACKAGE_E_CORRUPT,
           "'token_embd.weight' is 64 x 40 x 1 x 1, the metadata asks for 64 x 41");
    /* Without output.weight the model is tied, so what is left of the head does not belong. */
    expect(&(Edit){ .drop_tensor = "output.weight" }, PACKAGE_E_CORRUPT,
           "has 16 elements, the architecture has 15 linears");
    expect(&(Edit){ .add_tensor = "stranger" }, PACKAGE_E_CORRUPT, "54 tensors, the architecture has 53");
}

static void test_package_refuses_values(void **state) {
    const Edit nan_scale = { .spoil_tensor = "blk.0.attn_q.scales", .spoil_bits = 0x7fc00000, .spoil_bytes = 4 };
    const Edit negative_scale = { .spoil_tensor = "blk.0.attn_q.scales", .spoil_bits = 0xbf800000, .spoil_bytes = 4 };
    const Edit infinite_scale = { .spoil_tensor = "output.scales", .spoil_bits = 0x7f800000, .spoil_bytes = 4 };
    const Edit zero_scale = { .spoil_tensor = "output.scales", .spoil_bits = 0, .spoil_bytes = 4 };
    const Edit four_bits = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 4, .spoil_bytes = 1 };
    const Edit nan_norm = { .spoil_tensor = "output_norm.weight", .spoil_bits = 0x7fc00000, .spoil_bytes = 4 };

    expect(&nan_scale, PACKAGE_E_CORRUPT, "'blk.0.attn_q.scales': element 0 is nan");
    expect(&negative_scale, PACKAGE_E_CORRUPT, "'blk.0.attn_q.scales': element 0 is -1");
    expect(&infinite_scale, PACKAGE_E_CORRUPT, "'output.scales': element 0 is inf");
    expect(&zero_scale, 0, "");
    expect(&four_bits, PACKAGE_E_CORRUPT, "'blk.1.ffn_up.bits': channel 0 is 4 bits wide, layout 'int8' has 8");
    expect(&nan_norm, PACKAGE_E_CORRUPT, "'output_norm.weight': element 0 is not a finite number");
}

/* One element of an array of 4-byte numbers is another; at the end of the array: it is one shorter. */
static size_t changed_index;
static uint32_t changed_bits;

static void put_changed(GgufWriter *writer, const char *name) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    const GgufArray *array;
    uint32_t values[256];

    assert_int_equal(gguf_parse(&file, good->data, good->len_bytes, "good", NULL), 0);
    array = &gguf_key(file, name)->value.array;
    assert_true(array->n && array->n <= ARRAY_LEN(values) && array->element_type != GGUF_STRING);
    memcpy(values, array->data, (size_t)array->n * sizeof(*values));
    if (changed_index < array->n)
        values[changed_index] = changed_bits;
    gguf_writer_array(writer, name, array->element_type, values, array->n - (changed_index >= array->n));
}

static void put_clipped(GgufWriter *writer, const char *name) {
    put_layouts(writer, name, PACKAGE_OUTLIERS_NONE, PACKAGE_OUTLIERS_CLIPPED);
}

static void put_new_outliers(GgufWriter *writer, const char *name) {
    put_layouts(writer, name, PACKAGE_OUTLIERS_NONE, "something new");
}

static void put_dynamic(GgufWriter *writer, const char *name) {
    put_layouts(writer, name, PACKAGE_ACTIVATION_DYNAMIC_ROW, PACKAGE_ACTIVATION_DYNAMIC_ROW);
}

static void put_mode_dynamic(GgufWriter *writer, const char *name) {
    gguf_writer_string(writer, name, PACKAGE_ACTIVATION_DYNAMIC_ROW);
}

static void put_f32_101(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, 101);
}

static void test_package_refuses_static(void **state) {
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
        expect(&(Edit){ .drop_key = needed[i] }, PACKAGE_E_CORRUPT, needed[i]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        changed_index = numbers[i].index;
        changed_bits = numbers[i].bits;
        expect(&(Edit){ .key = numbers[i].key, .put = put_changed }, PACKAGE_E_CORRUPT, numbers[i].text);
    }
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        expect(&(Edit){ .drop_tensor = columns[i] }, PACKAGE_E_CORRUPT, columns[i]);
        expect(&(Edit){ .reshape_tensor = columns[i] }, PACKAGE_E_CORRUPT, columns[i]);
        expect(&(Edit){ .retype_tensor = columns[i] }, PACKAGE_E_CORRUPT, "has type F16, a package has I8 there");
    }
    expect(&(Edit){ .key = PACKAGE_KEY_HOT_PERCENT, .put = put_f32_101 }, PACKAGE_E_CORRUPT, "is 101: 0 to 100");
    expect(&(Edit){ .key = PACKAGE_KEY_PRUNE_PERCENT, .put = put_f32_nan }, PACKAGE_E_CORRUPT, "prune_percent");
    expect(&(Edit){ .key = PACKAGE_KEY_LINEAR_OUTLIERS, .put = put_new_outliers }, PACKAGE_E_UNSUPPORTED,
           "'blk.0.attn_q' has outliers 'something new'");
    expect(&(Edit){ .key = PACKAGE_KEY_LINEAR_OUTLIERS, .put = put_clipped }, PACKAGE_E_CORRUPT, "hot channels");
    expect(&(Edit){ .key = PACKAGE_KEY_LINEAR_ACTIVATIONS, .put = put_dynamic }, PACKAGE_E_UNSUPPORTED,
           "'blk.0.attn_q' has activations 'dynamic-row', this program knows 'static-tensor' there");
    expect(&(Edit){ .key = PACKAGE_KEY_ACTIVATION_MODE, .put = put_mode_dynamic }, PACKAGE_E_UNSUPPORTED,
           "'blk.0.attn_q' has activations 'static-tensor', this program knows 'dynamic-row' there");
}

static void test_package_refuses_packed(void **state) {
    const Edit no_width = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 0, .spoil_bytes = 1 };
    const Edit nine_bits = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 9, .spoil_bytes = 1 };
    const Edit negative = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 0xff, .spoil_bytes = 1 };
    /* One channel wider: the widest of a block further. */
    const Edit wider = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 0x08080808, .spoil_bytes = 4 };
    const Edit wider_embedding = { .spoil_tensor = "token_embd.bits", .spoil_bits = 7, .spoil_bytes = 1 };
    const Edit longer = { .reshape_tensor = "blk.0.attn_q.weight" };
    const Edit wrong_type = { .retype_tensor = "blk.0.attn_q.weight" };
    const Edit called_int8 = { .key = PACKAGE_KEY_LINEAR_LAYOUTS, .put = put_int8_first };
    const Edit other_average = { .key = PACKAGE_KEY_BITS, .put = put_f32_7 };

    expect(&no_width, PACKAGE_E_CORRUPT, "'blk.1.ffn_up.bits': channel 0 is 0 bits wide: 1 to 8 are possible");
    expect(&nine_bits, PACKAGE_E_CORRUPT, "'blk.1.ffn_up.bits': channel 0 is 9 bits wide");
    expect(&negative, PACKAGE_E_CORRUPT, "'blk.1.ffn_up.bits': channel 0 is -1 bits wide");
    expect(&wider, PACKAGE_E_CORRUPT, "tensor 'blk.1.ffn_up.weight' has ");
    expect(&wider_embedding, PACKAGE_E_CORRUPT, "'token_embd.bits': channel 0 is 7 bits wide, key");
    expect(&longer, PACKAGE_E_CORRUPT, "tensor 'blk.0.attn_q.weight' has ");
    expect(&wrong_type, PACKAGE_E_CORRUPT, "has type F16, a package has I8 there");
    expect(&called_int8, PACKAGE_E_CORRUPT, "tensor 'token_embd.weight' is ");
    expect(&other_average, PACKAGE_E_CORRUPT, "'coordgen.quant.bits' is 7, the widths of the channels average 4.5");
}

/* On the normal grid a narrower channel within a block has no levels there. */
static void test_package_refuses_packed_normal(void **state) {
    const Edit narrower = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 1, .spoil_bytes = 1 };
    const Edit narrower_embedding = { .spoil_tensor = "token_embd.bits", .spoil_bits = 5, .spoil_bytes = 1 };
    const Edit called_int8 = { .key = PACKAGE_KEY_LINEAR_LAYOUTS, .put = put_int8_first };

    expect(&narrower, PACKAGE_E_CORRUPT, "linear 'blk.1.ffn_up' of 64 x 96: cannot be packed");
    expect(&narrower_embedding, PACKAGE_E_CORRUPT, "'token_embd.bits': channel 0 is 5 bits wide, key");
    expect(&called_int8, PACKAGE_E_CORRUPT, "tensor 'token_embd.weight' is ");
}

/* Bytes flipped and extreme numbers anywhere in the head: success or a condition, never more. */
static void test_package_mutations(void **state) {
    static const uint64_t extremes[] = { 0, 1, 0xffffffff, 1ull << 32, INT64_MAX, UINT64_MAX };
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    size_t head_bytes, n_refused = 0;
    uint64_t random = 11;

    assert_int_equal(gguf_parse(&file, good->data, good->len_bytes, "good", NULL), 0);
    head_bytes = gguf_tensor_at(file, 0)->offset_bytes;
    memcpy(block, good->data, good->len_bytes);
    for (size_t i = 0; i < 2000; i++) {
        _cleanup_(package_freep) Package *package = NULL;
        size_t at = test_random(&random) % (head_bytes - 8), len_bytes = good->len_bytes;
        ErrText err;
        int r;

        if (i % 2)
            memcpy(block + at, &extremes[test_random(&random) % ARRAY_LEN(extremes)], i % 4 == 1 ? 8 : 4);
        else
            block[at] ^= (uint8_t)(1 + test_random(&random) % 255);
        if (i % 10 == 0)
            len_bytes = test_random(&random) % len_bytes;
        r = package_parse(&package, block, len_bytes, "mutant", &err);
        assert_true(r >= 0 && r <= PACKAGE_E_NOT_PACKAGE);
        n_refused += r != 0;
        memcpy(block + at, good->data + at, 8);
    }
    assert_true(n_refused > 1000);
}

static int use_packed(void **state) {
    good = &packed;
    return 0;
}

static int use_normal(void **state) {
    good = &normal;
    return 0;
}

static int use_static(void **state) {
    good = &with_shadows;
    return 0;
}

static int use_int8(void **state) {
    good = &int8;
    return 0;
}

#define OF_PACKED(test) cmocka_unit_test_setup_teardown(test, use_packed, use_int8)
#define OF_NORMAL(test) cmocka_unit_test_setup_teardown(test, use_normal, use_int8)
#define OF_STATIC(test) cmocka_unit_test_setup_teardown(test, use_static, use_int8)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_package_good),
        cmocka_unit_test(test_package_opens_no_other_file),
        cmocka_unit_test(test_package_refuses_keys),
        cmocka_unit_test(test_package_refuses_tensors),
        cmocka_unit_test(test_package_refuses_values),
        cmocka_unit_test(test_package_mutations),
        OF_PACKED(test_package_packed),
        OF_PACKED(test_package_refuses_packed),
        OF_NORMAL(test_package_packed_normal),
        OF_NORMAL(test_package_refuses_packed_normal),
        OF_STATIC(test_package_static),
        OF_STATIC(test_package_refuses_static),
        { "test_package_mutations_static", test_package_mutations, use_static, use_int8, NULL },
        { "test_package_mutations_packed", test_package_mutations, use_packed, use_int8, NULL },
    };

    return cmocka_run_group_tests(tests, make_good, remove_good);
}
