// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_rate.h"

#define SECOND UINT64_C(1000000000)
#define INTERVAL (LOG_RATE_INTERVAL_S * SECOND)

static char lines[4096][256];
static size_t n_lines;
static size_t n_calls;

static void sink(LogLevel level, const char *topic, const char *line) {
    assert_true(n_lines < ARRAY_LEN(lines));
    snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
}

static void on_count(void *arg) {
    ++*(size_t *)arg;
}

static int setup(void **state) {
    n_lines = n_calls = 0;
    log_set_sink(sink);
    log_rate_start(on_count, &n_calls);
    return 0;
}

static int teardown(void **state) {
    log_rate_stop();
    log_set_sink(NULL);
    return 0;
}

/* Logs n lines of a kind at that time; lines in full reach the sink here. */
static void tell(const char *place, uint32_t uid, size_t n, uint64_t now_ns) {
    const LogKind kind = { place, uid, LOG_LEVEL_INFO, TOPIC_DAEMON,
                           uid == LOG_NO_USER ? LOG_RATE_OF_SERVICE : LOG_RATE_OF_USER };

    for (size_t i = 0; i < n; i++)
        if (log_rate_admits(&kind, place, now_ns))
            log_emit(LOG_LEVEL_INFO, TOPIC_DAEMON, place);
}

/* Returns the number of lines in full plus the sum reported by the others. */
static uint64_t sum_of_lines(void) {
    uint64_t sum = 0;

    for (size_t i = 0; i < n_lines; i++) {
        const char *more = strstr(lines[i], " more ");

        while (more && more > lines[i] && more[-1] >= '0' && more[-1] <= '9')
            more--;
        sum += more ? strtoull(more, NULL, 10) : 1;
    }
    return sum;
}

static void test_log_rate_tells_the_first_and_counts_the_others(void **state) {
    tell("refused", 7, 10000, SECOND);
    assert_int_equal(n_lines, LOG_RATE_OF_USER);
    assert_true(log_rate_flush(SECOND + INTERVAL - 1, false));
    assert_int_equal(n_lines, LOG_RATE_OF_USER);
    assert_false(log_rate_flush(SECOND + INTERVAL, false));
    assert_int_equal(n_lines, LOG_RATE_OF_USER + 1);
    assert_string_equal(lines[n_lines - 1], "uid 7: 9995 more in 30 s like this one: refused");
    assert_int_equal(sum_of_lines(), 10000);
}

static void test_log_rate_begins_anew_after_an_interval(void **state) {
    for (size_t i = 1; i <= 3; i++) {
        tell("refused", 7, 1000, i * INTERVAL);
        assert_int_equal(n_lines, i * (LOG_RATE_OF_USER + 1) - 1);
    }
    assert_false(log_rate_flush(3 * INTERVAL, true));
    assert_int_equal(n_lines, 3 * (LOG_RATE_OF_USER + 1));
    assert_int_equal(sum_of_lines(), 3000);
}

static void test_log_rate_is_quiet_about_few(void **state) {
    tell("refused", 7, LOG_RATE_OF_USER, SECOND);
    assert_false(log_rate_flush(SECOND + INTERVAL, false));
    assert_int_equal(n_lines, LOG_RATE_OF_USER);
    assert_int_equal(n_calls, 0);
}

static void test_log_rate_is_of_each_user_and_kind(void **state) {
    static const char a[] = "a", b[] = "b";

    tell(a, 7, 100, SECOND);
    tell(b, 7, 1, SECOND);
    tell(a, 8, 1, SECOND);
    tell(a, LOG_NO_USER, LOG_RATE_OF_SERVICE, SECOND);
    assert_int_equal(n_lines, LOG_RATE_OF_USER + 2 + LOG_RATE_OF_SERVICE);
}

static void test_log_rate_calls_once_until_all_is_told(void **state) {
    tell("a", 7, 100, SECOND);
    tell("b", 8, 100, SECOND);
    assert_int_equal(n_calls, 1);
    assert_false(log_rate_flush(2 * INTERVAL, false));
    tell("a", 7, 100, 3 * INTERVAL);
    assert_int_equal(n_calls, 2);
}

/* A user with many uids fills the rows of users, but neither the log nor the service's rows. */
static void test_log_rate_is_bounded_with_many_users(void **state) {
    for (uint32_t uid = 0; uid < 65536; uid++)
        tell("refused", uid, 2, SECOND);
    assert_true(n_lines <= 400);
    tell("the service's own", LOG_NO_USER, 1, SECOND);
    assert_string_equal(lines[n_lines - 1], "the service's own");
    assert_false(log_rate_flush(SECOND, true));
    assert_true(n_lines <= 600);
    assert_int_equal(sum_of_lines(), 2 * 65536 + 1);
}

/* Every log call is counted, in the order of its lines and for every level of debug lines. */
static void test_log_rate_is_the_logs(void **state) {
    log_set_level(LOG_LEVEL_DEBUG);
    for (uint32_t i = 0; i < 1000; i++)
        log_info_of(7, TOPIC_DAEMON, "connection %u, uid %u: closed", i, 7);
    assert_int_equal(n_lines, LOG_RATE_OF_USER);
    for (uint32_t i = 0; i < 1000; i++)
        log_warn(TOPIC_DAEMON, "line %u", i);
    assert_int_equal(n_lines, LOG_RATE_OF_USER + LOG_RATE_OF_SERVICE);
    for (uint32_t i = 0; i < 1000; i++)
        log_debug(TOPIC_DAEMON, "line %u", i);
    assert_int_equal(n_lines, LOG_RATE_OF_USER + LOG_RATE_OF_SERVICE + 1000);
    log_rate_stop();
    assert_int_equal(sum_of_lines(), 3000);
    for (uint32_t i = 0; i < 100; i++)
        log_warn(TOPIC_DAEMON, "line %u", i);
    assert_int_equal(sum_of_lines(), 3100);
    log_set_level(LOG_LEVEL_NOTICE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_log_rate_tells_the_first_and_counts_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rate_begins_anew_after_an_interval, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rate_is_quiet_about_few, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rate_is_of_each_user_and_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rate_calls_once_until_all_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rate_is_bounded_with_many_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_rate_is_the_logs, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
