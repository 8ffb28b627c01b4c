// SPDX-License-Identifier: Apache-2.0
/* Layers that are read ahead of use, and failures: reads that come short or fail; files that are cut, changed or
 * removed; a reader that is freed at any moment. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/extent_reader.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/weights/ring/layer_fixture.h"

enum {
    N_READS = 10000
};

/* --- faults ------------------------------------------------------------------------------------------------------- */

/* A copy of the file that may be changed. */
static int open_copy(char path[320]) {
    int fd;

    snprintf(path, 320, "%s/copy", layer_fixture.folder);
    test_write_file(layer_fixture.folder, "copy", layer_fixture.bytes, layer_fixture.len_bytes);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void assert_told(const ErrText *err, const char *path, const char *layer, const char *what, const char *remedy) {
    if (!strstr(err->text, path) || !strstr(err->text, layer) || !strstr(err->text, what) || !strstr(err->text, remedy))
        fail_msg("'%s' does not say of %s and %s that '%s', '%s'", err->text, path, layer, what, remedy);
}

/* A file that is cut short: layers before the cut come, from slots or the disk; the others never come, and say why each
 * time. */
static void test_layer_reader_cut_file(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, 4);
        _cleanup_(closep) int fd = -1;
        const uint8_t *data;
        LayerReader *reader;
        char path[320];

        fd = open_copy(path);
        options.fd = fd;
        options.path = path;
        assert_int_equal(ftruncate(fd, (off_t)(layer_fixture.layers[7].offset_bytes + 5000)), 0);
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        for (int turn = 0; turn < 3; turn++)
            for (size_t i = 0; i < N_LAYERS; i++) {
                ErrText err = { 0 };

                if (i < 7) {
                    layer_fixture_hold_whole(reader, i);
                    layer_reader_release(reader, i);
                    continue;
                }
                assert_int_equal(layer_fixture_hold(reader, i, &data, &err), LAYER_READER_E_FILE);
                if (i == 7)
                    assert_told(&err, path, "layer 107", "cut short", "import the model again");
            }
        layer_reader_free(reader);
    }
}

/* A file that is changed in place: layers in slots stay, all others are refused from then on, whatever their bytes. */
static void test_layer_reader_changed_file(void **state) {
    static const char *const kinds[] = { "length", "bytes", "ctime" };

    for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        LayerReaderOptions options = layer_fixture_options(EXTENT_WAY_ANY, N_LAYERS, 2);
        _cleanup_(closep) int fd = -1;
        struct timespec times[2];
        const uint8_t *data;
        LayerReader *reader;
        struct stat before, now;
        char path[320];
        ErrText err = { 0 };

        fd = open_copy(path);
        options.fd = fd;
        options.path = path;
        assert_int_equal(fstat(fd, &before), 0);
        reader = layer_fixture_open(&options);
        data = layer_fixture_hold_whole(reader, 4);
        layer_fixture_hold_whole(reader, 5);
        layer_reader_release(reader, 5); /* not read again: layer 6 has its slot, or will have */
        times[0] = before.st_atim;
        times[1] = before.st_mtim;
        do /* repeats until the file's clock has advanced */
            if (kind == 0)
                assert_int_equal(ftruncate(fd, (off_t)layer_fixture.len_bytes + 1), 0);
            else if (kind == 1)
                assert_int_equal(pwrite(fd, "x", 1, 0), 1);
            else
                assert_int_equal(futimens(fd, times), 0);
        while (!fstat(fd, &now) && now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
               now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
        for (int turn = 0; turn < 3; turn++) {
            const uint8_t *other;

            assert_int_equal(layer_fixture_hold(reader, 10, &other, &err), LAYER_READER_E_FILE);
            assert_told(&err, path, "layer 110", "was changed", "load the model again");
            layer_fixture_check(4, data);
        }
        assert_ptr_equal(layer_fixture_hold_whole(reader, 4), data);
        layer_reader_free(reader);
    }
}

/* A file without a name, or with one more, is the same file. */
static void test_layer_reader_removed_file(void **state) {
    LayerReaderOptions options = layer_fixture_options(EXTENT_WAY_ANY, N_LAYERS, 2);
    _cleanup_(closep) int fd = -1;
    LayerReader *reader;
    char path[320], other[340];

    fd = open_copy(path);
    options.fd = fd;
    options.path = path;
    snprintf(other, sizeof(other), "%s-link", path);
    reader = layer_fixture_open(&options);
    for (size_t i = 0; i < 3 * N_LAYERS; i++) {
        if (i == N_LAYERS / 2)
            assert_int_equal(link(path, other), 0);
        if (i == N_LAYERS)
            assert_int_equal(unlink(path), 0);
        if (i == 2 * N_LAYERS)
            assert_int_equal(unlink(other), 0);
        layer_fixture_hold_whole(reader, i % N_LAYERS);
        layer_reader_release(reader, i % N_LAYERS);
    }
    layer_reader_free(reader);
}

/* The second piece of a layer fails before anybody has asked for the layer: the error is told once, and the layer is
 * read again. While the disk fails, the error is told each time; the layers around it come. */
static void test_layer_reader_failing_disk(void **state) {
    const LayerExtent *layer = &layer_fixture.layers[5];
    const uint64_t second = layer->offset_bytes / EXTENT_ALIGNMENT * EXTENT_ALIGNMENT + PIECE_BYTES;

    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        const LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, 3);
        const uint8_t *data, *held;
        LayerReader *reader;
        ErrText err = { 0 };
        char place[64];

        layer_faults_between(second, second + 1);
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        held = layer_fixture_hold_whole(reader, 4);
        snprintf(place, sizeof(place), "at byte %llu: %s", (unsigned long long)second, strerror(EIO));
        for (int turn = 0; turn < 3; turn++) {
            assert_int_equal(layer_fixture_hold(reader, 5, &data, &err), -EIO);
            assert_told(&err, layer_fixture.path, "layer 105", place, "look at the disk");
            layer_fixture_hold_whole(reader, 6);
            layer_reader_release(reader, 6);
            layer_fixture_check(4, held);
        }
        layer_faults_between(0, 0);
        layer_fixture_hold_whole(reader, 5);
        layer_fixture_check(4, held);
        layer_reader_free(reader);
    }
}

/* Thousands of reads, every eighth with a fault: held layers are whole, failures are told with their kind, and the next
 * calls bring the layers. */
static void test_layer_reader_many_faults(void **state) {
    /* Small layers that several fit into a unit, and some of several pieces. */
    enum {
        N = 64
    };
    LayerExtent layers[N];
    size_t n_reads = patience_is_short() ? N_READS / 10 : N_READS;
    uint64_t seed = 10, at = 0;

    for (size_t i = 0; i < N; i++) {
        const size_t len_bytes = 64 * (1 + (size_t)(test_random(&seed) % (i % 16 ? 2000 : 70000)));

        layers[i] = (LayerExtent){ at, len_bytes, (uint32_t)i };
        at += len_bytes;
        if (at + 5000000 > layer_fixture.len_bytes)
            at = 64;
    }
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        LayerReaderOptions options = layer_fixture_options(layer_ways[w], N, 2);
        size_t index = 0, n_told[2] = { 0 }, n_all = 0;

        layer_faults_one_in(8);
        options.layers = layers;
        for (size_t round = 0; n_all < n_reads; round++) {
            LayerReader *reader;

            options.n_slots = 2 + round % (LAYER_SLOTS_MAX - 1);
            reader = layer_fixture_open(&options);
            if (!reader)
                break;
            for (size_t i = 0; i < 500; i++) {
                const uint8_t *data;
                ErrText err = { 0 };
                int r = layer_fixture_hold(reader, index, &data, &err);

                if (r) {
                    assert_true(r == -EIO || r == LAYER_READER_E_FILE);
                    assert_non_null(strstr(err.text, r == -EIO ? strerror(EIO) : "cut short"));
                    n_told[r == -EIO]++;
                    continue; /* asks for the same layer again */
                }
                assert_memory_equal(data, layer_fixture.bytes + layers[index].offset_bytes, layers[index].len_bytes);
                layer_reader_release(reader, index);
                index = test_random(&seed) % 16 ? (index + 1) % N : (size_t)(test_random(&seed) % N);
            }
            layer_reader_free(reader);
            n_all = 0;
            for (size_t i = 0; i < N_FAULTS; i++)
                n_all += layer_faults_seen(i); /* nothing reads any more */
        }
        if (!n_all)
            continue;
        assert_true(n_told[0] && n_told[1] && layer_faults_seen(FAULT_SHORT_READ));
        assert_true(n_told[0] <= layer_faults_seen(FAULT_SHORT_FILE) && n_told[1] <= layer_faults_seen(FAULT_EIO));
        layer_faults_reset();
    }
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* The reader is freed at any moment, with reads under way, held layers and failed ones; nothing touches the slots
 * afterwards. */
static void test_layer_reader_freed(void **state) {
    uint64_t seed = 3;

    for (int round = 0; round < 300; round++) {
        LayerReaderOptions options = layer_fixture_options(layer_ways[round % 2], N_LAYERS, 2 + (size_t)round % 5);
        const size_t first = (size_t)(test_random(&seed) % N_LAYERS), n = (size_t)(test_random(&seed) % 4);
        const uint64_t wait_ns = test_random(&seed) % 300000;
        LayerReader *reader;
        const uint8_t *data;

        if (round % 3 == 0)
            options.limit = (ReadLimit){ 1, 3000000000 }; /* no layer ever comes */
        layer_faults_one_in(round % 4 ? 0 : 4);
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        for (size_t i = 0; i < n; i++)
            (void)layer_reader_hold(reader, (first + i * i) % N_LAYERS, wait_ns, &data, NULL);
        layer_reader_free(reader);
        memset(layer_fixture.slots, 0xee, 4096);
        for (size_t i = 0; i < 4096; i++)
            assert_int_equal(layer_fixture.slots[i], 0xee);
    }
}

/* The process is killed while its layers come; the next reader of the file has all layers. */
static void test_layer_reader_killed(void **state) {
    uint64_t seed = 4;

    for (int round = 0; round < 10; round++) {
        const LayerReaderOptions options = layer_fixture_options(layer_ways[round % 2], N_LAYERS, 3);
        const size_t n = (size_t)(test_random(&seed) % 40);
        LayerReader *reader;
        int status, pipes[2];
        pid_t child;
        char word;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        assert_true(child >= 0);
        if (!child) {
            const uint8_t *data;

            if (layer_reader_new(&reader, &options, NULL))
                _exit(77);
            for (size_t i = 0;; i++) {
                if (i == n && write(pipes[1], "x", 1) != 1)
                    _exit(1);
                if (layer_fixture_hold(reader, i % N_LAYERS, &data, NULL))
                    _exit(1);
                layer_reader_release(reader, i % N_LAYERS);
            }
        }
        close(pipes[1]);
        (void)!read(pipes[0], &word, 1);
        close(pipes[0]);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 77);
        reader = layer_fixture_open(&options);
        for (size_t i = 0; reader && i < N_LAYERS; i++) {
            layer_fixture_hold_whole(reader, i);
            layer_reader_release(reader, i);
        }
        layer_reader_free(reader);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_layer_reader_cut_file, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_changed_file, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_removed_file, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_failing_disk, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_many_faults, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_freed, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_killed, layer_fixture_reset),
    };

    return cmocka_run_group_tests(tests, layer_fixture_setup, layer_fixture_teardown);
}
