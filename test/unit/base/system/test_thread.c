// SPDX-License-Identifier: Apache-2.0
/* Tests of a thread's name, its signals, and the error if no thread can be made. */
#undef NDEBUG
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/system/thread.h"
#include "test/unit/fixtures/no_threads.h"

static void *signals_of(void *arg) {
    pthread_sigmask(SIG_BLOCK, NULL, arg);
    return arg;
}

static void *wait_for_lock(void *arg) {
    pthread_mutex_lock(arg);
    pthread_mutex_unlock(arg);
    return NULL;
}

static void test_thread_signals(void **state) {
    static const int theirs[] = { SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE };
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    sigset_t before, in_thread, after;
    pthread_t thread;
    void *result;

    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(thread_start(&thread, "signals", signals_of, &in_thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &in_thread);
    for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
        assert_int_equal(sigismember(&in_thread, theirs[i]), 1);
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        assert_int_equal(sigismember(&in_thread, own[i]), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int i = 1; i < SIGRTMIN; i++)
        assert_int_equal(sigismember(&after, i), sigismember(&before, i));
}

static void test_thread_name(void **state) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    char name[16] = "";

    pthread_mutex_lock(&lock);
    assert_int_equal(thread_start(&thread, "a-name", wait_for_lock, &lock), 0);
    assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
    assert_string_equal(name, "a-name");
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void test_thread_none_left(void **state) {
    NoThreads before;
    sigset_t after;
    pthread_t thread;

    no_threads_begin(&before);
    assert_int_equal(thread_start(&thread, "none", signals_of, &after), -EAGAIN);
    no_threads_end(&before);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGTERM), 0);
}

/* An owner ends its thread once; a thread that does not end is told. */
static void test_thread_of_an_owner(void **state) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    Thread thread = { 0 };

    assert_int_equal(thread_end(&thread, 0), 0); /* it was never started */
    assert_false(thread_is_under_way(&thread));
    pthread_mutex_lock(&lock);
    assert_int_equal(thread_begin(&thread, "owned", wait_for_lock, &lock), 0);
    assert_true(thread_is_under_way(&thread));
    assert_int_equal(thread_end(&thread, 1), -ETIMEDOUT);
    assert_true(thread_is_under_way(&thread));
    pthread_mutex_unlock(&lock);
    assert_int_equal(thread_end(&thread, 600000), 0);
    assert_true(thread.is_started && thread.is_joined && !thread_is_under_way(&thread));
    assert_int_equal(thread_end(&thread, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_signals),
        cmocka_unit_test(test_thread_name),
        cmocka_unit_test(test_thread_of_an_owner),
        cmocka_unit_test(test_thread_none_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
