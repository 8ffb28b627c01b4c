// SPDX-License-Identifier: Apache-2.0
/* Tests of a file that is truncated while it is mapped: zeros and a mark on that map alone. A fault elsewhere, or a
 * signal that was sent, ends the process as usual, or goes to the signal's previous handler. */
#undef NDEBUG
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "base/system/thread.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    N_PAGES = 8,
    LEFT_PAGES = 2,
    HANDLER_EXIT = 42,
};

static char folder[256];
static size_t page_bytes;

/* Each test installs the guard, because cmocka takes the signal before each. A sanitizer's
 * handler is removed first. */
static void install(void) {
    signal(SIGBUS, SIG_DFL);
    map_guard_install();
    map_guard_install();
}

/* Makes a file of N_PAGES; every byte is the number of its page from 1. */
static void make(const char *name, char path[512]) {
    uint8_t *data = malloc(N_PAGES * page_bytes);

    assert_non_null(data);
    for (size_t i = 0; i < N_PAGES * page_bytes; i++)
        data[i] = (uint8_t)(1 + i / page_bytes);
    test_write_file(folder, name, data, N_PAGES * page_bytes);
    free(data);
    snprintf(path, 512, "%s/%s", folder, name);
}

static void map(MappedFile *file, const char *path) {
    ErrText err = { 0 };

    if (mapped_file_open(file, path, &err))
        fail_msg("%s", err.text);
}

static uint8_t page(const MappedFile *file, size_t index) {
    return *(const volatile uint8_t *)(file->data + index * page_bytes + page_bytes / 2);
}

static void test_map_guard_cut_short(void **state) {
    char path[512], other_path[512];
    MappedFile file, other;
    ErrText err = { 0 };

    install();
    make("cut", path);
    make("other", other_path);
    map(&file, path);
    map(&other, other_path);
    assert_int_equal(page(&file, N_PAGES - 1), N_PAGES);
    assert_int_equal(truncate(path, (off_t)(LEFT_PAGES * page_bytes)), 0);
    assert_int_equal(page(&file, LEFT_PAGES - 1), LEFT_PAGES);
    assert_int_equal(mapped_file_check(&file, path, &err), 0); /* no missing byte was read */
    /* Reads from the fault to the end; then, in earlier pages, once more. */
    assert_int_equal(page(&file, LEFT_PAGES + 2), 0);
    assert_int_equal(page(&file, N_PAGES - 1), 0);
    assert_int_equal(page(&file, LEFT_PAGES), 0);
    assert_int_equal(page(&file, LEFT_PAGES - 1), LEFT_PAGES);
    assert_int_equal(mapped_file_check(&file, path, &err), FILE_E_LOST);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "cut short"));
    assert_int_equal(page(&other, N_PAGES - 1), N_PAGES);
    assert_int_equal(mapped_file_check(&other, other_path, &err), 0);
    mapped_file_deinit(&file);
    assert_int_equal(mapped_file_check(&file, path, &err), 0);
    /* The map's place in the table has no memory. */
    make("cut", path);
    map(&file, path);
    assert_int_equal(page(&file, N_PAGES - 1), N_PAGES);
    assert_int_equal(mapped_file_check(&file, path, &err), 0);
    mapped_file_deinit(&file);
    mapped_file_deinit(&other);
}

typedef struct Reading {
    const MappedFile *file;
    pthread_barrier_t *barrier;
    uint64_t sum;
} Reading;

static void *read_all(void *arg) {
    Reading *reading = arg;

    pthread_barrier_wait(reading->barrier);
    for (size_t i = 0; i < N_PAGES; i++)
        reading->sum += page(reading->file, i);
    return NULL;
}

/* Several threads reach the end at once. */
static void test_map_guard_threads(void **state) {
    enum {
        N = 4
    };
    char path[512];

    install();
    for (size_t round = 0; round < 50; round++) {
        pthread_barrier_t barrier;
        pthread_t threads[N];
        Reading readings[N];
        MappedFile file;

        make("threads", path);
        map(&file, path);
        pthread_barrier_init(&barrier, NULL, N);
        assert_int_equal(truncate(path, (off_t)page_bytes), 0);
        for (size_t i = 0; i < N; i++) {
            readings[i] = (Reading){ &file, &barrier, 0 };
            assert_int_equal(thread_start(&threads[i], "reader", read_all, &readings[i]), 0);
        }
        for (size_t i = 0; i < N; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(readings[i].sum, 1);
        }
        assert_int_equal(mapped_file_check(&file, path, NULL), FILE_E_LOST);
        pthread_barrier_destroy(&barrier);
        mapped_file_deinit(&file);
    }
}

static void test_map_guard_full(void **state) {
    MapGuard *guards[MAP_GUARD_MAPS_MAX], *more;
    char path[512];
    MappedFile file;
    ErrText err = { 0 };

    make("full", path);
    for (size_t i = 0; i < MAP_GUARD_MAPS_MAX; i++)
        assert_int_equal(map_guard_add(&guards[i], (const void *)((i + 1) * page_bytes), 1), 0);
    assert_int_equal(map_guard_add(&more, (const void *)page_bytes, 1), MAP_GUARD_E_FULL);
    assert_int_equal(mapped_file_open(&file, path, &err), -EMFILE);
    assert_non_null(strstr(err.text, path));
    assert_null(file.data);
    for (size_t i = 0; i < MAP_GUARD_MAPS_MAX; i++)
        map_guard_remove(guards[i]);
    map_guard_remove(NULL);
    map(&file, path);
    mapped_file_deinit(&file);
}

/* --- foreign faults and signals, in processes of their own
 * ---------------------------------------------------------- */

/* Reads past the end of a file that is mapped without the guard. */
static void fault_elsewhere(void) {
    char path[512];
    const uint8_t *data;
    int fd;

    make("elsewhere", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    data = mmap(NULL, N_PAGES * page_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED || truncate(path, 0))
        _exit(1);
    _exit(*(const volatile uint8_t *)data ? 2 : 3);
}

static void is_sent(void) {
    (void)kill(getpid(), SIGBUS);
    _exit(1);
}

static void on_own(int number) {
    _exit(HANDLER_EXIT);
}

static void fault_with_own_handler(void) {
    signal(SIGBUS, on_own);
    map_guard_install();
    fault_elsewhere();
}

/* A parent may leave the signal blocked. */
static void fault_while_blocked(void) {
    char path[512];
    MappedFile file;
    sigset_t own;

    sigemptyset(&own);
    sigaddset(&own, SIGBUS);
    sigprocmask(SIG_BLOCK, &own, NULL);
    map_guard_install();
    make("blocked", path);
    if (mapped_file_open(&file, path, NULL) || truncate(path, 0))
        _exit(1);
    _exit(page(&file, 3) ? 2 : mapped_file_check(&file, path, NULL) == FILE_E_LOST ? 0 : 3);
}

static int in_child(void (*fn)(void)) {
    const struct rlimit no_core = { 0 };
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (!pid) {
        (void)setrlimit(RLIMIT_CORE, &no_core);
        fn();
        _exit(4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_map_guard_not_ours(void **state) {
    int status;

    install();
    status = in_child(fault_with_own_handler);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == HANDLER_EXIT);
    status = in_child(fault_elsewhere);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = in_child(is_sent);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = in_child(fault_while_blocked);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_guard_cut_short),
        cmocka_unit_test(test_map_guard_threads),
        cmocka_unit_test(test_map_guard_full),
        cmocka_unit_test(test_map_guard_not_ours),
    };
    int r;

    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    test_folder_make(folder);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return r;
}
