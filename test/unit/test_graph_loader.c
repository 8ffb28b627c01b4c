// SPDX-License-Identifier: Apache-2.0
/* Extents of a file come into memory as they are, one load at a time; a file that is cut short, changed or damaged is
 * told, and nobody waits longer than he wants for a slow disk. */
#undef NDEBUG
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/extent_reader.h"
#include "test/unit/model_maker.h"
#include "weights/graph_loader.h"

enum {
    FILE_BYTES = 5000000,
    WAIT_MS = 30000,
};

typedef struct Fixture {
    char folder[256], path[300];
    uint8_t *bytes, *buffer; /* the file's; room for all of it */
    int fd;
    bool is_bad;   /* the check says so */
    size_t number; /* that it was asked about */
    GraphLoader *loader;
} Fixture;

static bool is_whole(void *arg, size_t number, const uint8_t *data) {
    Fixture *fixture = arg;

    fixture->number = number;
    return !fixture->is_bad && data[0] == fixture->bytes[number];
}

static void begin(Fixture *fixture, ReadLimit limit) {
    ErrText err = { "" };
    FILE *file;

    *fixture = (Fixture){ .bytes = malloc(FILE_BYTES), .buffer = aligned_alloc(4096, FILE_BYTES / 4096 * 4096 + 8192) };
    assert_true(fixture->bytes && fixture->buffer);
    for (size_t i = 0; i < FILE_BYTES; i++)
        fixture->bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    test_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof(fixture->path), "%s/graphs", fixture->folder);
    file = fopen(fixture->path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(fixture->bytes, 1, FILE_BYTES, file), FILE_BYTES);
    assert_int_equal(fclose(file), 0);
    fixture->fd = open(fixture->path, O_RDWR | O_CLOEXEC);
    assert_true(fixture->fd >= 0);
    if (graph_loader_new(&fixture->loader,
                         &(GraphLoaderOptions){ fixture->fd, fixture->path, limit, is_whole, fixture }, &err))
        fail_msg("%s", err.text);
}

static void end(Fixture *fixture) {
    graph_loader_free(fixture->loader);
    close(fixture->fd);
    test_folder_remove(fixture->folder);
    free(fixture->bytes);
    free(fixture->buffer);
}

/* number: of the load, and its first byte. */
static GraphLoadEnd load(Fixture *fixture, size_t offset, size_t len_bytes) {
    GraphLoadEnd ended;

    graph_loader_begin(fixture->loader, &(GraphLoad){ offset, offset, len_bytes, fixture->buffer });
    for (int ms = 0; !graph_loader_ended(fixture->loader, 1000000, &ended); ms++)
        assert_true(ms < WAIT_MS);
    assert_true(ended.start_ns <= ended.read_ns && ended.read_ns <= ended.end_ns);
    assert_false(graph_loader_ended(fixture->loader, 0, &ended)); /* once */
    return ended;
}

static void test_graph_loader_reads(void **state) {
    static const size_t extents[][2] = {
        { 0, FILE_BYTES }, { 4096, 4096 }, { 1, 1 }, { 777777, 3333333 }, { FILE_BYTES - 5, 5 }
    };
    Fixture fixture;

    begin(&fixture, (ReadLimit){ 0 });
    for (size_t i = 0; i < ARRAY_LEN(extents); i++) {
        memset(fixture.buffer, 0x77, FILE_BYTES);
        assert_int_equal(load(&fixture, extents[i][0], extents[i][1]).result, 0);
        assert_memory_equal(fixture.buffer + extents[i][0] % EXTENT_ALIGNMENT, fixture.bytes + extents[i][0],
                            extents[i][1]);
        assert_int_equal(fixture.number, extents[i][0]);
    }
    assert_true(*graph_loader_way(fixture.loader));
    end(&fixture);
}

static void test_graph_loader_faults(void **state) {
    Fixture fixture;

    begin(&fixture, (ReadLimit){ 0 });
    fixture.is_bad = true;
    assert_int_equal(load(&fixture, 100, 5000).result, GRAPH_LOADER_E_FILE);
    fixture.is_bad = false;
    assert_int_equal(load(&fixture, 100, 5000).result, 0);
    assert_int_equal(ftruncate(fixture.fd, 2000000), 0);
    assert_int_equal(load(&fixture, 1900000, 200000).result, GRAPH_LOADER_E_FILE);
    assert_int_equal(load(&fixture, 100, 5000).result, GRAPH_LOADER_E_FILE); /* there, but of another file */
    end(&fixture);
}

/* One that takes a minute is given up at once, and a limit can be lifted. */
static void test_graph_loader_slow(void **state) {
    const uint64_t start_ns = clock_now_ns();
    GraphLoadEnd ended;
    Fixture fixture;

    begin(&fixture, (ReadLimit){ .latency_us = 30000 });
    assert_true(load(&fixture, 0, 5000).read_ns - start_ns >= 30000000);
    graph_loader_set_limit(fixture.loader, (ReadLimit){ 0 });
    assert_int_equal(load(&fixture, 0, 5000).result, 0);
    graph_loader_set_limit(fixture.loader, (ReadLimit){ .latency_us = 60000000 });
    graph_loader_begin(fixture.loader, &(GraphLoad){ 0, 0, 5000, fixture.buffer });
    assert_false(graph_loader_ended(fixture.loader, 1000000, &ended));
    end(&fixture);
    assert_true(clock_now_ns() - start_ns < UINT64_C(30000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_loader_reads),
        cmocka_unit_test(test_graph_loader_faults),
        cmocka_unit_test(test_graph_loader_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
