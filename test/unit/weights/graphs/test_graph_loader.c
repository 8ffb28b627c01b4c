// SPDX-License-Identifier: Apache-2.0
/* Extents of a file come into memory as they are, one load at a time, or piece by piece in order. A file that is cut
 * short, changed or damaged is told. Nobody waits longer for a slow disk than he wants. */
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
#include "base/files/extent_reader.h"
#include "test/unit/fixtures/model_maker.h"
#include "weights/graphs/graph_loader.h"

enum {
    FILE_BYTES = 5000000,
    PIECE_BYTES_MAX = 300000,
    PIECES_MAX = 40,
    WAIT_MS = 30000,
};

typedef struct Fixture {
    char folder[256], path[300];
    uint8_t *bytes, *buffer; /* the file's; room for all of it */
    int fd;
    bool is_bad;                  /* result of the check */
    size_t number;                /* that the check was asked about */
    size_t n_expanded, bad_piece; /* pieces; SIZE_MAX: none is bad */
    AccountTable accounts;
    GraphLoader *loader;
} Fixture;

static bool is_whole(void *arg, size_t number, const uint8_t *data) {
    Fixture *fixture = arg;

    fixture->number = number;
    return !fixture->is_bad && data[0] == fixture->bytes[number];
}

/* Pieces come in their order, each with the file's bytes. */
static bool expand(void *arg, const GraphPiece *piece, const uint8_t *data, void *target) {
    Fixture *fixture = arg;

    assert_ptr_equal(target, fixture->buffer);
    assert_int_equal(piece->matrix, fixture->n_expanded++);
    memcpy(fixture->buffer + piece->offset_bytes, data, piece->len_bytes);
    return piece->matrix != fixture->bad_piece;
}

static void begin(Fixture *fixture, ReadLimit limit) {
    ErrText err = { 0 };
    FILE *file;

    *fixture = (Fixture){ .bytes = malloc(FILE_BYTES),
                          .buffer = aligned_alloc(4096, FILE_BYTES / 4096 * 4096 + 8192),
                          .bad_piece = SIZE_MAX };
    account_table_init(&fixture->accounts);
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
                         &(GraphLoaderOptions){ .fd = fixture->fd,
                                                .path = fixture->path,
                                                .limit = limit,
                                                .is_whole = is_whole,
                                                .arg = fixture,
                                                .expand = expand,
                                                .piece_bytes_max = PIECE_BYTES_MAX,
                                                .accounts = &fixture->accounts },
                         &err))
        fail_msg("%s", err.text);
}

static void end(Fixture *fixture) {
    graph_loader_free(fixture->loader);
    assert_int_equal(atomic_load(&fixture->accounts.used_bytes[ACCOUNT_ACTIVATIONS]), 0);
    close(fixture->fd);
    test_folder_remove(fixture->folder);
    free(fixture->bytes);
    free(fixture->buffer);
}

/* number: of the load, and its first byte. */
static GraphLoadEnd load(Fixture *fixture, size_t offset, size_t len_bytes) {
    GraphLoadEnd ended;

    graph_loader_begin(fixture->loader, &(GraphLoad){ offset, offset, len_bytes, fixture->buffer, NULL, 0 });
    for (int ms = 0; !graph_loader_ended(fixture->loader, 1000000, &ended); ms++)
        assert_true(ms < WAIT_MS);
    assert_true(ended.start_ns <= ended.read_ns && ended.read_ns <= ended.end_ns);
    assert_false(graph_loader_ended(fixture->loader, 0, &ended)); /* each end is told once */
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

/* The file in pieces of any size, with gaps between them. */
static size_t cut(GraphPiece pieces[PIECES_MAX]) {
    size_t n = 0;

    for (uint64_t at = 5; at < FILE_BYTES - PIECE_BYTES_MAX && n < PIECES_MAX; n++) {
        pieces[n] =
            (GraphPiece){ .matrix = n, .offset_bytes = at, .len_bytes = 1 + (n * 77777 + 1234) % PIECE_BYTES_MAX };
        at += pieces[n].len_bytes + n % 3 * 1000;
    }
    return n;
}

static GraphLoadEnd load_pieces(Fixture *fixture, const GraphPiece *pieces, size_t n) {
    GraphLoadEnd ended;

    fixture->n_expanded = 0;
    graph_loader_begin(fixture->loader, &(GraphLoad){ .buffer = fixture->buffer, .pieces = pieces, .n_pieces = n });
    for (int ms = 0; !graph_loader_ended(fixture->loader, 1000000, &ended); ms++)
        assert_true(ms < WAIT_MS);
    return ended;
}

static void test_graph_loader_pieces(void **state) {
    GraphPiece pieces[PIECES_MAX];
    const size_t n = cut(pieces);
    Fixture fixture;
    GraphLoadEnd ended;

    assert_true(n > 20);
    begin(&fixture, (ReadLimit){ 0 });
    for (size_t some = 1; some <= n; some += some < 6 ? 1 : n - some > 0 ? n - some : 1) {
        memset(fixture.buffer, 0x77, FILE_BYTES);
        ended = load_pieces(&fixture, pieces, some);
        assert_int_equal(ended.result, 0);
        assert_int_equal(fixture.n_expanded, some);
        for (size_t i = 0; i < some; i++)
            assert_memory_equal(fixture.buffer + pieces[i].offset_bytes, fixture.bytes + pieces[i].offset_bytes,
                                pieces[i].len_bytes);
        assert_true(ended.expand_ns <= ended.read_ns - ended.start_ns);
        for (size_t i = 0; i < 2 * some; i++)
            assert_true(ended.expanded_ns[i] >= (i ? ended.expanded_ns[i - 1] : ended.start_ns) &&
                        ended.expanded_ns[i] <= ended.read_ns);
    }
    fixture.bad_piece = 7;
    assert_int_equal(load_pieces(&fixture, pieces, n).result, GRAPH_LOADER_E_FILE);
    assert_int_equal(fixture.n_expanded, 8); /* and none behind it */
    fixture.bad_piece = SIZE_MAX;
    assert_int_equal(load_pieces(&fixture, pieces, n).result, 0);
    assert_int_equal(ftruncate(fixture.fd, 2000000), 0);
    assert_int_equal(load_pieces(&fixture, pieces, n).result, GRAPH_LOADER_E_FILE);
    end(&fixture);
}

/* A slow disk is as slow for pieces. Freeing the loader does not wait for it. */
static void test_graph_loader_slow_pieces(void **state) {
    GraphPiece pieces[PIECES_MAX];
    const size_t n = cut(pieces);
    Fixture fixture;
    GraphLoadEnd ended;
    size_t len_bytes = 0;

    begin(&fixture, (ReadLimit){ .bytes_per_s = 50000000 });
    for (size_t i = 0; i < n; i++)
        len_bytes += pieces[i].len_bytes;
    ended = load_pieces(&fixture, pieces, n);
    assert_int_equal(ended.result, 0);
    assert_true(ended.read_ns - ended.start_ns >= (uint64_t)len_bytes * 1000 / 50);
    graph_loader_set_limit(fixture.loader, (ReadLimit){ .bytes_per_s = 1000 });
    graph_loader_begin(fixture.loader, &(GraphLoad){ .buffer = fixture.buffer, .pieces = pieces, .n_pieces = n });
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
    assert_int_equal(load(&fixture, 100, 5000).result,
                     GRAPH_LOADER_E_FILE); /* the bytes are there, but the file has changed */
    end(&fixture);
}

/* A load that takes a minute is given up at once, and a limit can be lifted. */
static void test_graph_loader_slow(void **state) {
    const uint64_t start_ns = clock_now_ns();
    GraphLoadEnd ended;
    Fixture fixture;

    begin(&fixture, (ReadLimit){ .latency_us = 30000 });
    assert_true(load(&fixture, 0, 5000).read_ns - start_ns >= 30000000);
    graph_loader_set_limit(fixture.loader, (ReadLimit){ 0 });
    assert_int_equal(load(&fixture, 0, 5000).result, 0);
    graph_loader_set_limit(fixture.loader, (ReadLimit){ .latency_us = 60000000 });
    graph_loader_begin(fixture.loader, &(GraphLoad){ 0, 0, 5000, fixture.buffer, NULL, 0 });
    assert_false(graph_loader_ended(fixture.loader, 1000000, &ended));
    end(&fixture);
    assert_true(clock_now_ns() - start_ns < UINT64_C(30000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_loader_reads),       cmocka_unit_test(test_graph_loader_pieces),
        cmocka_unit_test(test_graph_loader_slow_pieces), cmocka_unit_test(test_graph_loader_faults),
        cmocka_unit_test(test_graph_loader_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
