// SPDX-License-Identifier: Apache-2.0
/* Tests the kinds of files by name and content: whole models, their parts, other files, and files that are cut
 * anywhere, grow, or claim more than they have. */
#define _GNU_SOURCE
#undef NDEBUG
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "model/gguf/gguf_kind.h"
#include "model/gguf/gguf_parts.h"
#include "test/unit/fixtures/model_maker.h"

typedef struct Fixture {
    char folder[256];
    char path[300];
} Fixture;

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    test_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof(fixture->path), "%s/file.gguf", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    test_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* Writes the content as a file; gives its kind. */
static GgufKindInfo kind_of(const Fixture *fixture, const void *data, size_t len_bytes) {
    GgufKindInfo info;

    test_write_file(fixture->folder, "file.gguf", data, len_bytes);
    gguf_kind_find(&info, fixture->path, -1);
    return info;
}

static void assert_tells(const Fixture *fixture, const GgufKindInfo *info, const char *text) {
    ErrText err = { 0 };

    gguf_kind_tell(info, fixture->path, &err);
    assert_memory_equal(err.text, fixture->path, strlen(fixture->path));
    if (!strstr(err.text, text))
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void test_gguf_kind_by_name(void **state) {
    static const struct {
        const char *name;
        GgufKind kind;
    } names[] = {
        { "x/model.gguf", GGUF_KIND_MODEL },
        { "model-i1-imatrix-Q4_K_M.gguf", GGUF_KIND_MODEL },
        { "model-00001-of-00003.gguf", GGUF_KIND_MODEL },
        { "model-00002-of-00003.gguf", GGUF_KIND_PART },
        { "model-00004-of-00003.gguf", GGUF_KIND_MODEL },
        { "mmproj-x/model.gguf", GGUF_KIND_MODEL },
        { "x/mmproj-model-f16.gguf", GGUF_KIND_PROJECTOR },
        { "mmproj.gguf", GGUF_KIND_PROJECTOR },
        { "imatrix.gguf", GGUF_KIND_IMATRIX },
        { "model.imatrix", GGUF_KIND_IMATRIX },
        { "model.imatrix.gguf", GGUF_KIND_IMATRIX },
        { "model.gguf.part", GGUF_KIND_DOWNLOAD },
        { "model.gguf.crdownload", GGUF_KIND_DOWNLOAD },
        { "model.gguf.incomplete", GGUF_KIND_DOWNLOAD },
        { "", GGUF_KIND_MODEL },
        { "-00002-of-00003.gguf", GGUF_KIND_MODEL }, /* a name without a stem is no part of a model */
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        GgufKindInfo info;

        assert_int_equal(gguf_kind_of_name(&info, names[i].name), names[i].kind != GGUF_KIND_MODEL);
        assert_int_equal(info.kind, names[i].kind);
    }
}

/* Makes a file of these keys: a type, an architecture, numbers of a part. */
static void make(StrBuf *file, const char *type, const char *arch, int part, int n_parts, bool has_tensor) {
    static const char *const tokens[] = { "a", "b" };
    const uint64_t shape[] = { 32, 3 };
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;

    assert_int_equal(gguf_writer_new(&writer, 32, NULL), 0);
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", tokens, 2);
    if (type)
        gguf_writer_string(writer, "general.type", type);
    if (arch)
        gguf_writer_string(writer, "general.architecture", arch);
    if (n_parts) {
        gguf_writer_u32(writer, "split.no", (uint32_t)part);
        gguf_writer_u32(writer, "split.count", (uint32_t)n_parts);
    }
    if (has_tensor)
        gguf_writer_tensor(writer, "first.weight", GGML_Q8_0, 2, shape);
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    test_gguf_image(writer, file);
}

static void test_gguf_kind_by_content(void **state) {
    const Fixture *fixture = *state;
    static const struct {
        const char *type, *arch;
        int part, n_parts;
        bool has_tensor;
        GgufKind kind;
        const char *text;
    } files[] = {
        { "model", "llama", 0, 0, true, GGUF_KIND_MODEL, NULL },
        { NULL, "llama", 0, 0, true, GGUF_KIND_MODEL, NULL },
        { NULL, "llama", 0, 3, false, GGUF_KIND_MODEL, NULL },
        { NULL, NULL, 1, 3, true, GGUF_KIND_PART,
          "is shard 2 of 3 of a model: load the first one, whose name ends in -00001-of-00003.gguf" },
        { "mmproj", "clip", 0, 0, true, GGUF_KIND_PROJECTOR,
          "is a vision projector (general.type mmproj), not a language model" },
        { NULL, "clip", 0, 0, true, GGUF_KIND_PROJECTOR, "vision projector" },
        { "adapter", "llama", 0, 0, true, GGUF_KIND_ADAPTER, "is an adapter" },
        { "imatrix", NULL, 0, 0, true, GGUF_KIND_IMATRIX, "is an importance matrix" },
        { "model", "llama", 0, 0, false, GGUF_KIND_VOCAB, "has a vocabulary but no weights" },
    };

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;
        GgufKindInfo info;

        make(&file, files[i].type, files[i].arch, files[i].part, files[i].n_parts, files[i].has_tensor);
        info = kind_of(fixture, file.data, file.len_bytes);
        assert_int_equal(info.kind, files[i].kind);
        if (files[i].n_parts)
            assert_int_equal(info.n_parts, files[i].n_parts);
        if (files[i].text)
            assert_tells(fixture, &info, files[i].text);
    }
}

static void test_gguf_kind_names_the_first_part(void **state) {
    Fixture *fixture = *state;
    GgufKindInfo info;

    snprintf(fixture->path, sizeof(fixture->path), "%s/big-00002-of-00003.gguf", fixture->folder);
    gguf_kind_find(&info, fixture->path, -1);
    assert_tells(fixture, &info, "is shard 2 of 3 of a model: load big-00001-of-00003.gguf");
}

/* A file with a missing end is cut, and from the end of the metadata on the length that is needed is known. */
static void test_gguf_kind_of_cut_files(void **state) {
    const Fixture *fixture = *state;
    _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;
    size_t n_measured = 0;
    GgufKindInfo info;
    char text[64];

    make(&file, "model", "llama", 0, 0, true);
    for (size_t n = 0; n < file.len_bytes; n++) {
        info = kind_of(fixture, file.data, n);
        if (info.kind == GGUF_KIND_MODEL) { /* only padding is missing */
            assert_true(n >= info.whole_bytes && info.whole_bytes > file.len_bytes - 32);
            continue;
        }
        assert_int_equal(info.kind, GGUF_KIND_CUT);
        n_measured += info.whole_bytes > 0;
        snprintf(text, sizeof(text), "%zu of ", n);
        assert_tells(fixture, &info, info.whole_bytes ? text : "inside the metadata; fetch it again");
    }
    assert_true(n_measured >= 3 * 34);
    info = (GgufKindInfo){ .kind = GGUF_KIND_CUT, .have_bytes = 81200000, .whole_bytes = 98362432 };
    assert_tells(fixture, &info, "is cut short: 81 of 98 MB are there; fetch it again");
}

static void test_gguf_kind_beside_a_download(void **state) {
    const Fixture *fixture = *state;
    _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;
    GgufKindInfo info;

    make(&file, "model", "llama", 0, 0, true);
    test_write_file(fixture->folder, "file.gguf.aria2", "", 0);
    info = kind_of(fixture, file.data, file.len_bytes);
    assert_int_equal(info.kind, GGUF_KIND_DOWNLOAD);
    assert_tells(fixture, &info, "is being downloaded");
}

/* Every changed byte ends in a kind. */
static void test_gguf_kind_of_damaged_files(void **state) {
    const Fixture *fixture = *state;
    _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;
    uint64_t seed = 7;

    make(&file, "model", "llama", 1, 3, true);
    for (size_t i = 0; i < file.len_bytes - 3 * 34; i++)
        for (int round = 0; round < 3; round++) {
            const char before = file.data[i];
            GgufKindInfo info;

            file.data[i] = round ? (char)test_random(&seed) : (char)0xff;
            info = kind_of(fixture, file.data, file.len_bytes);
            assert_true(info.kind <= GGUF_KIND_OTHER);
            file.data[i] = before;
        }
}

/* A terabyte of empty strings, and steps that stay small. */
static void test_gguf_kind_is_bounded(void **state) {
    const Fixture *fixture = *state;
    static const uint64_t n_strings = UINT64_C(1) << 37;
    _cleanup_(gguf_kind_reader_freep) GgufKindReader *reader = NULL;
    char head[64] = "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0t\11\0\0\0\10\0\0\0";
    int fd;
    size_t n_steps = 0;

    memcpy(head + 24 + 9 + 8, &n_strings, 8);
    test_write_file(fixture->folder, "file.gguf", head, sizeof(head));
    fd = open(fixture->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    assert_int_equal(gguf_kind_reader_new(&reader, fd), 0);
    while (!gguf_kind_reader_step(reader, 1 << 20))
        n_steps++;
    assert_int_equal(gguf_kind_reader_info(reader)->kind, GGUF_KIND_OTHER);
    assert_in_range(n_steps, 32, 128);
}

static void test_gguf_kind_shrinks_meanwhile(void **state) {
    const Fixture *fixture = *state;
    _cleanup_(gguf_kind_reader_freep) GgufKindReader *reader = NULL;
    _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;

    make(&file, "model", "llama", 0, 0, true);
    test_write_file(fixture->folder, "file.gguf", file.data, file.len_bytes);
    assert_int_equal(gguf_kind_reader_new(&reader, open(fixture->path, O_RDONLY | O_CLOEXEC)), 0);
    assert_int_equal(truncate(fixture->path, 40), 0);
    while (!gguf_kind_reader_step(reader, 1))
        ;
    assert_int_equal(gguf_kind_reader_info(reader)->kind, GGUF_KIND_CUT);
}

/* Neither a FIFO nor a folder blocks the reader. */
static void test_gguf_kind_of_what_is_no_file(void **state) {
    const Fixture *fixture = *state;
    GgufKindInfo info;

    gguf_kind_find(&info, fixture->path, -1);
    assert_int_equal(info.kind, GGUF_KIND_LOST);
    assert_int_equal(mkfifo(fixture->path, 0600), 0);
    gguf_kind_find(&info, fixture->path, -1);
    assert_int_equal(info.kind, GGUF_KIND_LOST);
    gguf_kind_find(&info, fixture->folder, -1);
    assert_int_equal(info.kind, GGUF_KIND_LOST);
}

/* The lengths of a large vocabulary are walked in a few milliseconds. */
static void test_gguf_kind_of_the_default_model(void **state) {
    const char *path = test_default_model();
    GgufKindInfo info;
    uint64_t began_ns;

    if (!path)
        skip();
    began_ns = clock_now_ns();
    gguf_kind_find(&info, path, -1);
    print_message("%.1f ms\n", (double)(clock_now_ns() - began_ns) / 1e6);
    assert_int_equal(info.kind, GGUF_KIND_MODEL);
    assert_true(info.whole_bytes > info.have_bytes / 100 * 99 && info.whole_bytes <= info.have_bytes);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_kind_by_name),  WITH(test_gguf_kind_by_content),
        WITH(test_gguf_kind_names_the_first_part), WITH(test_gguf_kind_of_cut_files),
        WITH(test_gguf_kind_beside_a_download),    WITH(test_gguf_kind_of_damaged_files),
        WITH(test_gguf_kind_is_bounded),           WITH(test_gguf_kind_shrinks_meanwhile),
        WITH(test_gguf_kind_of_what_is_no_file),   cmocka_unit_test(test_gguf_kind_of_the_default_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
