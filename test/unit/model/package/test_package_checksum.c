// SPDX-License-Identifier: Apache-2.0
/* Tests checksums of packages: one changed bit anywhere is found. */
#undef NDEBUG
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "model/package/package.h"
#include "model/package/package_checksum.h"
#include "test/unit/importer/import_fixture.h"

static int verify(const char *path, ErrText *err) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    *err = (ErrText){ 0 };
    return package_checksum_verify(fd, path, NULL, NULL, err);
}

/* Flips one bit of the byte at `at`. */
static void flip(const char *path, uint64_t at) {
    _cleanup_(closep) int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

/* Whether the tensor belongs to a layer. */
static bool layer_of(const char *name, unsigned long *layerp) {
    if (strncmp(name, "blk.", 4))
        return false;
    *layerp = strtoul(name + 4, NULL, 10);
    return true;
}

/* Any bit of a tensor, of the padding behind it and of the head is found, and the text names the layer. */
static void test_package_checksum_of_every_tensor(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    const char *path = import_fixture_package(fixture, &maker, 5, true);
    ErrText err;

    assert_int_equal(verify(path, &err), 0);
    assert_int_equal(gguf_open(&file, path, &err), 0);
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        unsigned long layer;
        char text[32];

        if (layer_of(tensor->name, &layer))
            snprintf(text, sizeof(text), ": layer %lu is not", layer);
        else
            snprintf(text, sizeof(text), ": what begins with ");
        flip(path, tensor->offset_bytes + tensor->len_bytes - 1);
        assert_int_equal(verify(path, &err), PACKAGE_CHECKSUM_E_DAMAGED);
        assert_non_null(strstr(err.text, text));
        assert_non_null(strstr(err.text, path));
        flip(path, tensor->offset_bytes + tensor->len_bytes - 1);
    }
    flip(path, gguf_len_bytes(file) - 1);
    assert_int_equal(verify(path, &err), PACKAGE_CHECKSUM_E_DAMAGED);
    flip(path, gguf_len_bytes(file) - 1);
    flip(path, gguf_tensor_at(file, 0)->offset_bytes - 1);
    assert_int_equal(verify(path, &err), PACKAGE_CHECKSUM_E_DAMAGED);
    assert_non_null(strstr(err.text, "its head"));
    flip(path, gguf_tensor_at(file, 0)->offset_bytes - 1);
    assert_int_equal(verify(path, &err), 0);
}

/* A changed digest is damage too; a file that is cut is no package any more. */
static void test_package_checksum_of_digests(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    const char *path = import_fixture_package(fixture, &maker, 8, false);
    const GgufArray *digests;
    uint64_t at;
    ErrText err;

    assert_int_equal(gguf_open(&file, path, &err), 0);
    assert_int_equal(gguf_get_array(file, PACKAGE_KEY_CHECKSUMS, GGUF_U8, &digests, &err), 0);
    assert_int_equal(digests->n % PACKAGE_CHECKSUM_BYTES, 0);
    at = (uint64_t)(digests->data - (const uint8_t *)gguf_data(file));
    for (uint64_t i = 0; i < digests->n; i += PACKAGE_CHECKSUM_BYTES) {
        flip(path, at + i);
        assert_int_equal(verify(path, &err), PACKAGE_CHECKSUM_E_DAMAGED);
        flip(path, at + i);
    }
    assert_int_equal(verify(path, &err), 0);
    file = gguf_free(file);
    assert_int_equal(truncate(path, 100000), 0);
    assert_int_equal(verify(path, &err), PACKAGE_CHECKSUM_E_FILE);
}

/* Bytes that are handed over count, and only the bytes between are read: in pieces of any size, over borders of parts
 * too. */
static void test_package_checksum_of_bytes(void **state) {
    static const size_t pieces[] = { 1, 63, 4096, 50000, 1 << 20, 3 << 20 };
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(freep) char *data = NULL;
    const char *path = import_fixture_package(fixture, &maker, 8, false);
    const uint64_t hole_bytes = 10000;
    size_t len_bytes;
    uint64_t at;
    ErrText err;
    int fd;

    assert_int_equal(gguf_open(&file, path, &err), 0);
    assert_int_equal(file_slurp(path, 64 << 20, &data, &len_bytes, &err), 0);
    at = gguf_tensor_at(file, gguf_n_tensors(file) / 2)->offset_bytes;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        for (int damage = 0; damage < 3; damage++) { /* damage: nowhere, in the file, in the bytes handed over */
            PackageChecksum *checksum;
            const uint64_t first = gguf_tensor_at(file, 0)->offset_bytes;
            int r;

            if (damage == 1)
                flip(path, at);
            data[at] ^= damage == 2;
            assert_int_equal(package_checksum_new(&checksum, fd, file, &err), 0);
            assert_int_equal(package_checksum_compare(checksum, 1, &err), 0);
            assert_int_equal(package_checksum_done_bytes(checksum), first);
            for (uint64_t begin = first; begin < len_bytes; begin += pieces[i]) {
                const size_t n = len_bytes - begin < pieces[i] ? (size_t)(len_bytes - begin) : pieces[i];

                /* A gap behind the damage is read; bytes handed over again are skipped. */
                if (begin > at + pieces[i] && begin < at + hole_bytes)
                    continue;
                package_checksum_take(checksum, begin, data + begin, n);
                package_checksum_take(checksum, first, data + first, 1);
            }
            r = package_checksum_compare(checksum, UINT64_MAX, &err);
            assert_int_equal(r, damage == 2 ? PACKAGE_CHECKSUM_E_DAMAGED : 0);
            assert_int_equal(package_checksum_compare(checksum, 1, &err), r);
            if (!r)
                assert_int_equal(package_checksum_done_bytes(checksum), len_bytes);
            package_checksum_free(checksum);
            if (damage == 1)
                flip(path, at);
            data[at] ^= damage == 2;
        }
    close(fd);
}

static void test_package_checksum_of_none(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ErrText err;

    import_fixture_source(fixture, &maker);
    assert_int_equal(verify(fixture->source, &err), PACKAGE_CHECKSUM_E_NONE);
    assert_non_null(strstr(err.text, "import the model again"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_package_checksum_of_every_tensor),
        WITH_FOLDER(test_package_checksum_of_digests),
        WITH_FOLDER(test_package_checksum_of_bytes),
        WITH_FOLDER(test_package_checksum_of_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
