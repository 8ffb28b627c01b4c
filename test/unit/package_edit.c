// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/package_edit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

int good_package_new(void **state, ImportOptions *options) {
    GoodPackage *good = calloc(1, sizeof(*good));
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    StrBuf file = STR_BUF_NULL;
    char source[300];
    ImportReport report;

    if (!good)
        return -1;
    test_folder_make(good->folder);
    model_maker_run(&maker, &file);
    test_write_file(good->folder, "tiny.gguf", file.data, file.len_bytes);
    str_buf_deinit(&file);
    snprintf(source, sizeof(source), "%s/tiny.gguf", good->folder);
    snprintf(good->path, sizeof(good->path), "%s/good.cgm", good->folder);
    options->cache_dir = good->folder;
    *state = good;
    if (import_run(source, good->path, options, &report, NULL) || mapped_file_open(&good->file, good->path, NULL))
        return -1;
    return posix_memalign((void **)&good->block, PACKAGE_ALIGNMENT, 2 * good->file.len_bytes);
}

int good_package_free(void **state) {
    GoodPackage *good = *state;

    mapped_file_deinit(&good->file);
    free(good->block);
    test_folder_remove(good->folder);
    free(good);
    return 0;
}

/* room_bytes: to the next tensor, or the end of the file. */
static void fill_tensor(char *data, const PackageEdit *edit, const GgufTensor *tensor, uint64_t room_bytes) {
    memcpy(data, tensor->data, (size_t)(tensor->len_bytes < room_bytes ? tensor->len_bytes : room_bytes));
    if (edit->spoil_tensor && !strcmp(tensor->name, edit->spoil_tensor))
        memcpy(data, &edit->spoil_bits, edit->spoil_bytes);
}

static void copy_keys(GgufWriter *writer, const PackageEdit *edit, const GgufFile *file) {
    if (edit->key && !gguf_key(file, edit->key))
        edit->put(writer, edit->key);
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

/* The edited package in good->block; its length. */
static size_t edit_package(GoodPackage *good, const PackageEdit *edit) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf out = STR_BUF_NULL;
    uint64_t one[] = { 1 };
    size_t index = 0, n_tensors = 0;

    assert_int_equal(gguf_parse(&file, good->file.data, good->file.len_bytes, "good", NULL), 0);
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
        n_tensors++;
    }
    if (edit->add_tensor)
        gguf_writer_tensor(writer, edit->add_tensor, GGML_F32, 1, one);
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    n_tensors += !!edit->add_tensor;
    test_gguf_image(writer, &out);
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        if (!edit->drop_tensor || strcmp(tensor->name, edit->drop_tensor)) {
            uint64_t offset = gguf_writer_tensor_offset(writer, index++);
            uint64_t end = index < n_tensors ? gguf_writer_tensor_offset(writer, index) : out.len_bytes;

            fill_tensor(out.data + offset, edit, tensor, end - offset);
        }
    }
    assert_true(out.len_bytes <= 2 * good->file.len_bytes);
    memcpy(good->block, out.data, out.len_bytes);
    return out.len_bytes;
}

void expect_edit(GoodPackage *good, const PackageEdit *edit, int code, const char *text) {
    _cleanup_(package_freep) Package *package = NULL;
    size_t len_bytes = edit_package(good, edit);
    ErrText err = { "" };
    int r = package_parse(&package, good->block, len_bytes, "p", &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("code %d, expected %d; text '%s', expected '%s'", r, code, err.text, text);
}

Package *package_edit_parse(GoodPackage *good) {
    const PackageEdit none = { .drop_key = NULL };
    Package *package = NULL;

    expect_edit(good, &none, 0, "");
    assert_int_equal(package_parse(&package, good->block, good->file.len_bytes, "p", NULL), 0);
    return package;
}

void package_edit_mutations(void **state) {
    GoodPackage *good = *state;
    static const uint64_t extremes[] = { 0, 1, 0xffffffff, 1ull << 32, INT64_MAX, UINT64_MAX };
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    size_t head_bytes, n_refused = 0;
    uint64_t random = 11;

    assert_int_equal(gguf_parse(&file, good->file.data, good->file.len_bytes, "good", NULL), 0);
    head_bytes = gguf_tensor_at(file, 0)->offset_bytes;
    memcpy(good->block, good->file.data, good->file.len_bytes);
    for (size_t i = 0; i < 2000; i++) {
        _cleanup_(package_freep) Package *package = NULL;
        size_t at = test_random(&random) % (head_bytes - 8), len_bytes = good->file.len_bytes;
        ErrText err;
        int r;

        if (i % 2)
            memcpy(good->block + at, &extremes[test_random(&random) % ARRAY_LEN(extremes)], i % 4 == 1 ? 8 : 4);
        else
            good->block[at] ^= (uint8_t)(1 + test_random(&random) % 255);
        if (i % 10 == 0)
            len_bytes = test_random(&random) % len_bytes;
        r = package_parse(&package, good->block, len_bytes, "mutant", &err);
        assert_true(r >= 0 && r <= PACKAGE_E_NOT_PACKAGE);
        n_refused += r != 0;
        memcpy(good->block + at, good->file.data + at, 8);
    }
    assert_true(n_refused > 1000);
}

void put_f32_7(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, 7);
}

void put_f32_nan(GgufWriter *writer, const char *name) {
    gguf_writer_f32(writer, name, NAN);
}

void put_linears(GgufWriter *writer, const char *name, const char *first, const char *others) {
    const char *texts[16];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        texts[i] = i ? others : first;
    gguf_writer_strings(writer, name, texts, ARRAY_LEN(texts));
}
