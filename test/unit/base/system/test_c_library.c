// SPDX-License-Identifier: Apache-2.0
/* Tests of functions that differ between C libraries. */
#undef NDEBUG
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system/c_library.h"

static void test_c_library_names(void **state) {
    char *folder = c_library_current_folder();
    struct stat named, here;

    assert_string_equal(c_library_program_name(), "test_c_library");
    setenv("COORDGEN_TEST", "value", 1);
    assert_string_equal(c_library_secure_getenv("COORDGEN_TEST"), "value");
    assert_null(c_library_secure_getenv("COORDGEN_NO_SUCH"));
    assert_non_null(folder);
    assert_int_equal(*folder, '/');
    assert_int_equal(stat(folder, &named) | stat(".", &here), 0);
    assert_true(named.st_dev == here.st_dev && named.st_ino == here.st_ino);
    free(folder);
}

static void *wait_for(void *arg) {
    while (sem_wait(arg) && errno == EINTR)
        ;
    return NULL;
}

static void test_c_library_threads(void **state) {
    cpu_set_t set, one;
    pthread_t thread;
    sem_t end;

    assert_int_equal(sem_init(&end, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for, &end), 0);
    assert_int_equal(c_library_get_affinity(&set), 0);
    assert_true(CPU_COUNT(&set) >= 1);
    assert_int_equal(c_library_set_affinity(thread, &set), 0);
    CPU_ZERO(&one);
    assert_int_equal(c_library_set_affinity(thread, &one), -EINVAL);
    assert_int_equal(c_library_join_within(thread, 20), -ETIMEDOUT);
    assert_int_equal(sem_post(&end), 0);
    assert_int_equal(c_library_join_within(thread, 60000), 0);
    sem_destroy(&end);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c_library_names),
        cmocka_unit_test(test_c_library_threads),
    };

    return cmocka_run_group_tests_name("c_library", tests, NULL, NULL);
}
