// SPDX-License-Identifier: Apache-2.0
/* Times of blocks follow the measurements, and the next load of the file on such a machine has them. */
#undef NDEBUG
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/cpu.h"
#include "test/unit/fixtures/model_maker.h"
#include "weights/graphs/graph_times_note.h"

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static void test_graph_times_seen(void **state) {
    GraphTimes times = { { 0 }, { 0 } };

    graph_times_took_load(&times, GRAPH_DECODE, 1000);
    assert_true(is_near(times.load_ns[GRAPH_DECODE], 1000) && is_near(times.load_ns[GRAPH_PREFILL], 1000));
    graph_times_took_load(&times, GRAPH_DECODE, 2000);
    assert_true(is_near(times.load_ns[GRAPH_DECODE], 1300) && is_near(times.load_ns[GRAPH_PREFILL], 1000));
    /* A chunk is one graph of 256 rows, and 8 of 32. */
    graph_times_took(&times, GRAPH_PREFILL, 256, 256, 32, 500);
    assert_true(is_near(times.compute_ns[GRAPH_PREFILL], 500));
    graph_times_took(&times, GRAPH_PREFILL, 512, 256, 32, 1000);
    assert_true(is_near(times.compute_ns[GRAPH_PREFILL], 500));
    graph_times_took(&times, GRAPH_DECODE, 1, 256, 32, 100);
    assert_true(is_near(times.compute_ns[GRAPH_DECODE], 800));
    graph_times_took(&times, GRAPH_DECODE, 1, 256, 32, 1); /* few rows do not count any more */
    assert_true(is_near(times.compute_ns[GRAPH_DECODE], 800));
    graph_times_took(&times, GRAPH_DECODE, 256, 256, 32, 800);
    assert_true(is_near(times.compute_ns[GRAPH_DECODE], 800));
}

static void recall(GraphTimesNote *note, GraphTimes *times, int fd, const char *folder, Backend *backend,
                   size_t n_blocks) {
    *times = (GraphTimes){ { 0 }, { 0 } };
    graph_times_note_recall(note, times, fd, folder, backend, n_blocks, (ReadLimit){ 0 });
}

static void test_graph_times_noted(void **state) {
    char folder[256], notes[300];
    AccountTable accounts;
    GraphTimesNote note;
    WorkerPool *pool;
    GraphTimes times;
    Backend *backend;
    int fd, other_fd;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    assert_int_equal(backend_npu_new(&backend, cpu_features(), pool, &accounts, NULL), 0);
    test_folder_make(folder);
    snprintf(notes, sizeof(notes), "%s/notes", folder);
    fd = open("Makefile", O_RDONLY | O_CLOEXEC); /* no note is taken of a file that changed a moment ago */
    other_fd = open("README.md", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && other_fd >= 0);
    recall(&note, &times, fd, notes, backend, 8);
    graph_times_note_save(&note); /* nothing is known */
    recall(&note, &times, fd, notes, backend, 8);
    assert_true(times.compute_ns[0] <= 0 && times.load_ns[1] <= 0);
    times = (GraphTimes){ { 10, 20 }, { 30, 40 } };
    graph_times_note_save(&note);
    recall(&note, &times, fd, notes, backend, 7); /* other blocks */
    assert_true(times.compute_ns[0] <= 0);
    recall(&note, &times, fd, notes, backend, 8);
    assert_true(is_near(times.compute_ns[0], 10) && is_near(times.compute_ns[1], 20) && is_near(times.load_ns[0], 30) &&
                is_near(times.load_ns[1], 40));
    recall(&note, &times, fd, NULL, backend, 8); /* no folder */
    times = (GraphTimes){ { 1, 2 }, { 3, 4 } };
    graph_times_note_save(&note);
    recall(&note, &times, other_fd, notes, backend, 8); /* another file */
    assert_true(times.compute_ns[0] <= 0);
    close(fd);
    close(other_fd);
    test_folder_remove(folder);
    backend_free(backend);
    worker_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_times_seen),
        cmocka_unit_test(test_graph_times_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
