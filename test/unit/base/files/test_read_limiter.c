// SPDX-License-Identifier: Apache-2.0
/* Tests of the limiter on a simulated clock: the rate over time, at most one read above it, parallel latencies, and the
 * effect of idle time and late callers. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/read_limiter.h"
#include "test/unit/fixtures/model_maker.h"

#define SECOND_NS UINT64_C(1000000000)

enum {
    PIECE_BYTES = 2 << 20,
    DEPTH = 8,
};

static uint64_t now_of(void *arg) {
    return *(const uint64_t *)arg;
}

static void test_read_limiter_none(void **state) {
    uint64_t now_ns = 5 * SECOND_NS;
    ReadLimiter limiter;

    read_limiter_init(&limiter, (ReadLimit){ 0 }, now_of, &now_ns);
    for (int i = 0; i < 100; i++)
        assert_int_equal(read_limiter_ask(&limiter, SIZE_MAX), 0);
    assert_int_equal(read_limiter_now(&limiter), now_ns);
}

static void test_read_limiter_own_clock(void **state) {
    const uint64_t before_ns = clock_now_ns();
    ReadLimiter limiter;
    uint64_t now_ns;

    read_limiter_init(&limiter, (ReadLimit){ .latency_us = 7 }, NULL, NULL);
    now_ns = read_limiter_now(&limiter);
    assert_true(now_ns >= before_ns && now_ns <= clock_now_ns());
    assert_true(read_limiter_ask(&limiter, 1) >= now_ns + 7000);
}

/* Simultaneous reads have their latency simultaneously; without a rate all of them arrive then. */
static void test_read_limiter_latency_alone(void **state) {
    uint64_t now_ns = 77;
    ReadLimiter limiter;

    read_limiter_init(&limiter, (ReadLimit){ .latency_us = 150 }, now_of, &now_ns);
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(read_limiter_ask(&limiter, PIECE_BYTES), 77 + 150000);
    now_ns += 1000;
    assert_int_equal(read_limiter_ask(&limiter, 1), 1077 + 150000);
}

/* A read enters the line after its latency, which all reads under way share. */
static void test_read_limiter_both(void **state) {
    uint64_t now_ns = 1000;
    ReadLimiter limiter;

    read_limiter_init(&limiter, (ReadLimit){ .bytes_per_s = 1000000, .latency_us = 200 }, now_of, &now_ns);
    for (uint64_t i = 1; i <= DEPTH; i++)
        assert_int_equal(read_limiter_ask(&limiter, 500), 1000 + 200000 + i * 500000);
    now_ns = 201000 + DEPTH * 500000 - 200000; /* just in time to pass after them */
    assert_int_equal(read_limiter_ask(&limiter, 500), 201000 + (DEPTH + 1) * 500000);
    now_ns += 700001; /* late: the line has been empty */
    assert_int_equal(read_limiter_ask(&limiter, 500), now_ns + 200000 + 500000);
}

/* Idle time is not saved up: the first read after it takes as long as any. */
static void test_read_limiter_idle(void **state) {
    uint64_t now_ns = 0;
    ReadLimiter limiter;

    read_limiter_init(&limiter, (ReadLimit){ .bytes_per_s = 250000000 }, now_of, &now_ns);
    assert_int_equal(read_limiter_ask(&limiter, 1000000), 4000000);
    now_ns = 100 * SECOND_NS;
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(read_limiter_ask(&limiter, 1000000), now_ns + i * 4000000);
}

static void test_read_limiter_set(void **state) {
    uint64_t now_ns = 0;
    ReadLimiter limiter;

    read_limiter_init(&limiter, (ReadLimit){ .bytes_per_s = 1000 }, now_of, &now_ns);
    assert_int_equal(read_limiter_ask(&limiter, 1000), SECOND_NS);
    read_limiter_set(&limiter, (ReadLimit){ .bytes_per_s = 2000 });
    assert_int_equal(read_limiter_ask(&limiter, 1000), SECOND_NS + SECOND_NS / 2); /* after the previous one */
    read_limiter_set(&limiter, (ReadLimit){ 0 });
    assert_int_equal(read_limiter_ask(&limiter, 1000), 0);
}

/* Sizes and rates at the ends of their ranges. Times are exact, or rounded up by a nanosecond, or by the remainder of
 * thousands of bytes per second of a rate above 16 GB/s. */
static void test_read_limiter_ranges(void **state) {
    static const struct {
        uint64_t len_bytes, bytes_per_s, ns;
    } cases[] = {
        { 1, 1, SECOND_NS },
        { 0, 1, 0 },
        { 1, 3, 333333334 },
        { UINT64_C(1) << 31, 1, (UINT64_C(1) << 31) * SECOND_NS },
        { (UINT64_C(1) << 34) - 2, (UINT64_C(1) << 34) - 1, 1000000000 },
        { 2000000, UINT64_C(20000000000), 100000 },
        { UINT64_C(39999999000), UINT64_C(20000000000), 1999999950 },
        { 1000, UINT64_MAX, 1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t now_ns = 0;
        ReadLimiter limiter;

        read_limiter_init(&limiter, (ReadLimit){ .bytes_per_s = cases[i].bytes_per_s }, now_of, &now_ns);
        assert_int_equal(read_limiter_ask(&limiter, (size_t)cases[i].len_bytes), cases[i].ns);
    }
}

/* A reader with several reads under way that checks late, at random. The result is within 1 % of the rate over a
 * second, never more than the rate and one read in any time, and no read comes before its latency. */
static void run_reader(uint64_t bytes_per_s, uint32_t latency_us, uint64_t seed) {
    enum {
        N_MAX = 6000
    };
    static struct {
        uint64_t asked_ns, done_ns;
        size_t len_bytes;
    } reads[N_MAX];
    const uint64_t largest_late_ns = PIECE_BYTES * SECOND_NS / bytes_per_s * DEPTH / 2;
    uint64_t now_ns = test_random(&seed) % SECOND_NS, bytes = 0, start_ns, took_ns;
    ReadLimiter limiter;
    size_t n = 0;

    read_limiter_init(&limiter, (ReadLimit){ bytes_per_s, latency_us }, now_of, &now_ns);
    start_ns = now_ns;
    while (n < N_MAX && now_ns - start_ns < 2 * SECOND_NS) {
        if (n >= DEPTH) {
            const uint64_t late_ns = test_random(&seed) % 4 ? 0 : test_random(&seed) % (largest_late_ns + 1);

            if (now_ns < reads[n - DEPTH].done_ns + late_ns)
                now_ns = reads[n - DEPTH].done_ns + late_ns;
        }
        reads[n].asked_ns = now_ns;
        reads[n].len_bytes = test_random(&seed) % 8 ? PIECE_BYTES : 4096 + (size_t)(test_random(&seed) % PIECE_BYTES);
        if (reads[n].len_bytes > PIECE_BYTES)
            reads[n].len_bytes = PIECE_BYTES;
        reads[n].done_ns = read_limiter_ask(&limiter, reads[n].len_bytes);
        assert_true(reads[n].done_ns >= now_ns + latency_us * UINT64_C(1000));
        bytes += reads[n].len_bytes;
        n++;
    }
    for (size_t i = 0; i < n; i += 7) {
        uint64_t within = 0;

        for (size_t j = i; j < n; j++) {
            within += reads[j].len_bytes;
            assert_true((double)(within - reads[i].len_bytes) <=
                        (double)(reads[j].done_ns - reads[i].done_ns) * (double)bytes_per_s / 1e9 + 1);
        }
    }
    took_ns = reads[n - 1].done_ns - start_ns;
    assert_true(took_ns >= SECOND_NS);
    assert_true((double)bytes * 1e9 / (double)took_ns <= (double)bytes_per_s);
    assert_true((double)bytes * 1e9 / (double)took_ns >= 0.99 * (double)bytes_per_s);
}

static void test_read_limiter_average(void **state) {
    static const uint64_t rates[] = { 50000000, 250000000, 500000000, 1000000000, UINT64_C(5000000000) };

    for (size_t i = 0; i < ARRAY_LEN(rates); i++)
        for (uint32_t latency_us = 0; latency_us <= 300; latency_us += 100)
            for (uint64_t seed = 1; seed <= 5; seed++)
                run_reader(rates[i], latency_us, seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_limiter_none),          cmocka_unit_test(test_read_limiter_own_clock),
        cmocka_unit_test(test_read_limiter_latency_alone), cmocka_unit_test(test_read_limiter_both),
        cmocka_unit_test(test_read_limiter_idle),          cmocka_unit_test(test_read_limiter_set),
        cmocka_unit_test(test_read_limiter_ranges),        cmocka_unit_test(test_read_limiter_average),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
