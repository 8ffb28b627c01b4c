// SPDX-License-Identifier: Apache-2.0
/* Tests models in several files: they give the same result as one file, and a part that is missing or wrong is
 * named. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/engine.h"
#include "model/gguf/gguf_parts.h"
#include "model/gguf/gguf_text.h"
#include "model/package/package.h"
#include "test/unit/importer/import_fixture.h"

enum {
    N_PARTS = 3,
    N_TOKENS = 12,
    N_VOCAB = 40,
};

/* The keys of a part about itself. */
typedef struct PartKeys {
    uint32_t no, count;
    uint32_t n_tensors;
    size_t begin, end; /* number of its tensors */
} PartKeys;

static void write_part(const ImportFixture *fixture, const GgufFile *whole, const char *name, const PartKeys *keys,
                       bool has_model_keys) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;

    assert_int_equal(gguf_writer_new(&writer, 32, NULL), 0);
    for (size_t i = 0; has_model_keys && i < gguf_n_keys(whole); i++)
        gguf_writer_copy(writer, gguf_key_at(whole, i));
    /* Types as gguf-split writes them. */
    gguf_writer_copy(writer, &(GgufKey){ .name = { "split.no", 8 }, .type = GGUF_U16, .value.u64 = keys->no });
    gguf_writer_copy(writer, &(GgufKey){ .name = { "split.count", 11 }, .type = GGUF_U16, .value.u64 = keys->count });
    gguf_writer_copy(
        writer, &(GgufKey){ .name = { "split.tensors.count", 19 }, .type = GGUF_I32, .value.i64 = keys->n_tensors });
    for (size_t i = keys->begin; i < keys->end; i++) {
        const GgufTensor *tensor = gguf_tensor_at(whole, i);

        gguf_writer_tensor(writer, tensor->name, tensor->type, tensor->n_dims, tensor->ne);
    }
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    test_gguf_image(writer, &file);
    for (size_t i = keys->begin; i < keys->end; i++) {
        const GgufTensor *tensor = gguf_tensor_at(whole, i);

        memcpy((uint8_t *)file.data + gguf_writer_tensor_offset(writer, i - keys->begin), tensor->data,
               tensor->len_bytes);
    }
    test_write_file(fixture->folder, name, file.data, file.len_bytes);
}

static const char *part_name(char name[64], size_t part) {
    snprintf(name, 64, "model-%05zu-of-%05d.gguf", part + 1, N_PARTS);
    return name;
}

static void part_path(const ImportFixture *fixture, char path[400], size_t part) {
    char name[64];

    snprintf(path, 400, "%s/%s", fixture->folder, part_name(name, part));
}

static PartKeys keys_of(const GgufFile *whole, size_t part) {
    const size_t n = gguf_n_tensors(whole);

    /* The second part has most tensors, so that layers lie in two files. */
    return (PartKeys){ .no = (uint32_t)part,
                       .count = N_PARTS,
                       .n_tensors = (uint32_t)n,
                       .begin = part == 0   ? 0
                                : part == 1 ? 4
                                            : n - 5,
                       .end = part == 0   ? 4
                              : part == 1 ? n - 5
                                          : n };
}

/* Writes the whole model at fixture->source, and its parts beside it. The caller frees the result. */
static GgufFile *write_parts(ImportFixture *fixture) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    GgufFile *whole;
    char name[64];

    import_fixture_source(fixture, &maker);
    assert_int_equal(gguf_open(&whole, fixture->source, NULL), 0);
    for (size_t part = 0; part < N_PARTS; part++) {
        const PartKeys keys = keys_of(whole, part);

        write_part(fixture, whole, part_name(name, part), &keys, part == 0);
    }
    return whole;
}

static void logits_of(const char *path, EngineDevice device, float *logits) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _cleanup_(engine_freep) Engine *engine = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    AccountTable accounts;
    uint32_t tokens[N_TOKENS];
    ErrText err = { 0 };

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    if (engine_new(
            &engine,
            &(EngineOptions){
                .path = path, .load.device = device, .load.chunk_tokens = 8, .pool = pool, .accounts = &accounts },
            &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&sequence, engine, N_TOKENS, &err), 0);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = i * 7 % N_VOCAB;
    for (uint32_t i = 0; i < N_TOKENS; i += 6)
        assert_int_equal(engine_forward(engine, sequence, tokens + i, 6, 6, logits + i * N_VOCAB, NULL), 0);
}

static void test_gguf_parts_opens_all(void **state) {
    ImportFixture *fixture = *state;
    _cleanup_(gguf_freep) GgufFile *whole = write_parts(fixture), *file = NULL;
    char path[400];
    uint64_t len_bytes = 0;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ErrText err = { 0 };

    part_path(fixture, path, 0);
    if (gguf_open(&file, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(gguf_n_parts(file), N_PARTS);
    assert_int_equal(gguf_n_parts(whole), 1);
    assert_int_equal(gguf_n_tensors(file), gguf_n_tensors(whole));
    for (size_t i = 0; i < gguf_n_tensors(whole); i++) {
        const GgufTensor *expected = gguf_tensor_at(whole, i), *tensor = gguf_tensor(file, expected->name);

        assert_ptr_equal(tensor, gguf_tensor_at(file, i));
        assert_int_equal(tensor->part, i < 4 ? 0 : i < gguf_n_tensors(whole) - 5 ? 1 : 2);
        assert_int_equal(tensor->len_bytes, expected->len_bytes);
        assert_memory_equal(tensor->data, expected->data, tensor->len_bytes);
    }
    for (size_t i = 0; i < N_PARTS; i++) {
        _cleanup_(gguf_freep) GgufFile *part = NULL;
        char expected[400];

        part_path(fixture, expected, i);
        assert_string_equal(gguf_part_path(file, i), expected);
        assert_int_equal(gguf_open(&part, expected, &err), i ? GGUF_E_UNSUPPORTED : 0);
        if (i)
            assert_non_null(strstr(err.text, "of a model in 3 files: name the first one, which ends in "
                                             "-00001-of-00003.gguf"));
    }
    for (size_t i = 0; i < N_PARTS; i++) {
        MappedFile map;

        assert_int_equal(mapped_file_open(&map, gguf_part_path(file, i), NULL), 0);
        len_bytes += map.len_bytes;
        mapped_file_deinit(&map);
    }
    assert_int_equal(gguf_len_bytes(file), len_bytes);
    assert_int_equal(gguf_check_whole(file, NULL), 0);
    gguf_text_write(file, &text);
    assert_non_null(strstr(text.data, "in 3 files, up to "));
}

static void test_gguf_parts_run_and_import(void **state) {
    static float expected[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;
    _cleanup_(gguf_freep) GgufFile *package = NULL;
    ImportReport report;
    char path[400], other[PATH_MAX];
    ErrText err = { 0 };

    gguf_free(write_parts(fixture));
    part_path(fixture, path, 0);
    logits_of(fixture->source, ENGINE_DEVICE_REFERENCE, expected);
    logits_of(path, ENGINE_DEVICE_REFERENCE, logits);
    assert_memory_equal(logits, expected, sizeof(logits));
    if (import_run(fixture->source, NULL, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    logits_of(report.path, ENGINE_DEVICE_CPU, expected);
    if (import_run(path, NULL, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    assert_non_null(strstr(report.path, "/model-"));
    assert_null(strstr(report.path, "00001"));
    logits_of(report.path, ENGINE_DEVICE_CPU, logits);
    assert_memory_equal(logits, expected, sizeof(logits));
    snprintf(other, sizeof(other), "%s", report.path);
    assert_int_equal(gguf_open(&package, report.path, &err), 0);
    assert_null(gguf_key(package, "split.count")); /* one file */
    assert_int_equal(import_run(path, NULL, &fixture->options, &report, &err), 0);
    assert_true(report.already_imported);
    assert_string_equal(report.path, other);
    /* Another last part is another source. */
    part_path(fixture, path, N_PARTS - 1);
    {
        FILE *file = fopen(path, "r+e");

        assert_true(file && fseek(file, -5, SEEK_END) == 0 && fputc(1, file) == 1 && fclose(file) == 0);
    }
    part_path(fixture, path, 0);
    assert_int_equal(import_run(path, NULL, &fixture->options, &report, &err), 0);
    assert_false(report.already_imported);
}

static void expect_refusal(ImportFixture *fixture, int code, const char *named, const char *text) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ImportReport report;
    char path[400];
    ErrText err = { 0 };
    int r;

    part_path(fixture, path, 0);
    r = gguf_open(&file, path, &err);
    if (r != code || !strstr(err.text, named) || !strstr(err.text, text))
        fail_msg("%d: '%s', expected %d, '%s' and '%s'", r, err.text, code, named, text);
    err.text[0] = 0;
    r = import_run(path, NULL, &fixture->options, &report, &err);
    if (r != (code == GGUF_E_CORRUPT ? IMPORT_E_CORRUPT : IMPORT_E_UNSUPPORTED) || !strstr(err.text, named) ||
        !strstr(err.text, text))
        fail_msg("import: %d: '%s', expected '%s' and '%s'", r, err.text, named, text);
}

/* Part `index` written as the keys say. */
static void rewrite(const ImportFixture *fixture, const GgufFile *whole, size_t index, const PartKeys *keys) {
    char name[64];

    write_part(fixture, whole, part_name(name, index), keys, index == 0);
}

static void test_gguf_parts_refuses_by_name(void **state) {
    ImportFixture *fixture = *state;
    _cleanup_(gguf_freep) GgufFile *whole = write_parts(fixture);
    char path[400], moved[400];
    PartKeys keys;

    part_path(fixture, path, 1);
    assert_int_equal(unlink(path), 0);
    expect_refusal(fixture, GGUF_E_CORRUPT, "model-00002-of-00003.gguf: part 2 of 3", "missing: download it too");
    keys = keys_of(whole, 2);
    rewrite(fixture, whole, 1, &keys);
    expect_refusal(fixture, GGUF_E_CORRUPT, "model-00002-of-00003.gguf", "is part 3 of 3 by its keys, not part 2 of 3");
    keys = keys_of(whole, 1);
    keys.count = 4;
    rewrite(fixture, whole, 1, &keys);
    expect_refusal(fixture, GGUF_E_CORRUPT, "model-00002-of-00003.gguf", "is part 2 of 4 by its keys");
    keys = keys_of(whole, 1);
    keys.begin++;
    rewrite(fixture, whole, 1, &keys);
    expect_refusal(fixture, GGUF_E_CORRUPT, "split.tensors.count", "they are not of one model");
    keys.begin -= 2, keys.end--;
    rewrite(fixture, whole, 1, &keys);
    expect_refusal(fixture, GGUF_E_CORRUPT, "model-00002-of-00003.gguf: tensor '", "is in ");
    keys = keys_of(whole, 1);
    rewrite(fixture, whole, 1, &keys);
    keys = keys_of(whole, 0);
    keys.count = GGUF_PARTS_MAX + 1;
    rewrite(fixture, whole, 0, &keys);
    expect_refusal(fixture, GGUF_E_UNSUPPORTED, "'split.count' is 257", "up to 256");
    keys.count = N_PARTS + 1;
    rewrite(fixture, whole, 0, &keys);
    expect_refusal(fixture, GGUF_E_UNSUPPORTED, "model-00001-of-00003.gguf", "must end in -00001-of-00004.gguf");
    keys.count = N_PARTS;
    keys.no = 1;
    rewrite(fixture, whole, 0, &keys);
    expect_refusal(fixture, GGUF_E_UNSUPPORTED, " of a model", "the first one, ");
    keys.no = 0;
    rewrite(fixture, whole, 0, &keys);
    part_path(fixture, path, 0);
    snprintf(moved, sizeof(moved), "%s/first.gguf", fixture->folder);
    assert_int_equal(rename(path, moved), 0);
    {
        _cleanup_(gguf_freep) GgufFile *file = NULL;
        ErrText err = { 0 };

        assert_int_equal(gguf_open(&file, moved, &err), GGUF_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, "the first of 3 files of a model"));
    }
}

/* A descriptor alone does not tell what lies beside its file. */
static void test_gguf_parts_of_a_descriptor(void **state) {
    ImportFixture *fixture = *state;
    _cleanup_(fclosep) FILE *file = NULL;
    ImportReport report;
    char path[400];
    ErrText err = { 0 };
    int fd;

    gguf_free(write_parts(fixture));
    part_path(fixture, path, 0);
    file = fopen(path, "re");
    assert_non_null(file);
    fd = fileno(file);
    fixture->options.source_fd = &fd;
    assert_int_equal(import_run(path, NULL, &fixture->options, &report, &err), IMPORT_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "one part of a model in 3 files"));
}

static void test_gguf_parts_path(void **state) {
    static const char *const others[] = {
        "", "a.gguf", "-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00001-of-00004.gguf", "m-00001-of-00003.ggu"
    };
    _cleanup_(freep) char *path = gguf_parts_path("x/m-00001-of-00003.gguf", 2, 3);

    assert_string_equal(path, "x/m-00003-of-00003.gguf");
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_null(gguf_parts_path(others[i], 1, 3));
    free(path);
    path = gguf_parts_sibling("x/m-00003-of-00003.gguf", 0);
    assert_string_equal(path, "x/m-00001-of-00003.gguf");
    assert_int_equal(gguf_parts_stem_bytes("m-00003-of-00003.gguf"), 1);
    assert_int_equal(gguf_parts_stem_bytes("m-00004-of-00003.gguf"), 16);
    assert_int_equal(gguf_parts_stem_bytes("m.v2.cgm"), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_gguf_parts_opens_all),       WITH_FOLDER(test_gguf_parts_run_and_import),
        WITH_FOLDER(test_gguf_parts_refuses_by_name), WITH_FOLDER(test_gguf_parts_of_a_descriptor),
        cmocka_unit_test(test_gguf_parts_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
