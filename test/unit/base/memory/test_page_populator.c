// SPDX-License-Identifier: Apache-2.0
/* Tests of memory that is populated in advance: all of it is, written content stays, an unavailable range ends the
 * work. A stop works at any time, and the memory may be freed right after it. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "base/memory/arena.h"
#include "base/memory/page_populator.h"
#include "base/memory/page_size.h"

#define PAGE page_size()
#define MIB ((size_t)1 << 20)

static uint8_t *map(size_t len_bytes) {
    void *mapped = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(mapped, MAP_FAILED);
    return mapped;
}

static size_t pages_there(const uint8_t *data, size_t len_bytes) {
    const size_t n = (len_bytes + PAGE - 1) / PAGE;
    unsigned char *flags = malloc(n);
    size_t there = 0;

    assert_non_null(flags);
    assert_int_equal(mincore((void *)(uintptr_t)data, len_bytes, flags), 0);
    for (size_t i = 0; i < n; i++)
        there += flags[i] & 1;
    free(flags);
    return there;
}

/* Skips a test on systems that can't populate. */
static void need_populating(void) {
    uint8_t *data = map(PAGE);
    PagePopulator *populator = NULL;
    PageRange range = { .data = data, .len_bytes = PAGE };
    int r = page_populator_new(&populator, &range, 1);
    size_t there = 0;

    assert_true(r == 0 || r == -EOPNOTSUPP);
    if (!r)
        there = page_populator_wait(populator);
    page_populator_free(populator);
    munmap(data, PAGE);
    if (there)
        return;
    print_message("left out: this system cannot bring memory ahead of its use\n");
    skip();
}

/* Ranges that begin anywhere in a huge page, on pages of either size, some of which are in use. */
static void test_page_populator_brings_all(void **state) {
    PagePopulator *populator;
    const size_t len_bytes = 9 * MIB + PAGE;
    PageRange ranges[3];
    uint8_t *maps[3];

    need_populating();
    for (size_t i = 0; i < 3; i++) {
        maps[i] = map(12 * MIB);
        assert_int_equal(pages_there(maps[i], 12 * MIB), 0);
        ranges[i] = (PageRange){ .data = maps[i] + i * PAGE, .len_bytes = len_bytes, .is_huge = i != 1 };
        if (i != 1)
            (void)madvise(maps[i], 12 * MIB, MADV_HUGEPAGE);
    }
    for (size_t at = 0; at < 4 * MIB; at += 3 * PAGE)
        ranges[1].data[at] = (uint8_t)(at / PAGE + 1);
    assert_int_equal(page_populator_new(&populator, ranges, 3), 0);
    assert_int_equal(page_populator_wait(populator), 3 * len_bytes);
    assert_int_equal(page_populator_wait(populator), 3 * len_bytes);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pages_there(ranges[i].data, len_bytes), len_bytes / PAGE);
        for (size_t at = 0; at < len_bytes; at += PAGE)
            assert_int_equal(ranges[i].data[at],
                             i == 1 && at < 4 * MIB && !(at % (3 * PAGE)) ? (uint8_t)(at / PAGE + 1) : 0);
    }
    /* If no huge page is possible, nothing beyond the range is populated. */
    assert_true(pages_there(maps[1] + PAGE + len_bytes, MIB) == 0);
    page_populator_free(populator);
    for (size_t i = 0; i < 3; i++)
        munmap(maps[i], 12 * MIB);
}

/* Memory that the system refuses, and all after it, is left to the first access. */
static void test_page_populator_refused(void **state) {
    PagePopulator *populator;
    uint8_t *data = map(8 * MIB);
    PageRange ranges[2] = { { .data = data, .len_bytes = 4 * MIB }, { .data = data + 4 * MIB, .len_bytes = 4 * MIB } };

    need_populating();
    assert_int_equal(mprotect(data + 2 * MIB, 2 * MIB, PROT_READ), 0);
    (void)madvise(data, 8 * MIB, MADV_NOHUGEPAGE);
    assert_int_equal(page_populator_new(&populator, ranges, 2), 0);
    assert_true(page_populator_wait(populator) <= 2 * MIB);
    assert_int_equal(pages_there(data + 4 * MIB, 4 * MIB), 0);
    page_populator_free(populator);
    munmap(data, 8 * MIB);
}

/* A populator that is stopped right after its start has rarely finished. */
static void test_page_populator_stops(void **state) {
    int n_early = 0;

    need_populating();
    for (int i = 0; i < 20; i++) {
        PagePopulator *populator = NULL;
        uint8_t *data = map(256 * MIB);
        PageRange range = { .data = data, .len_bytes = 256 * MIB };

        assert_int_equal(page_populator_new(&populator, &range, 1), 0);
        while (!pages_there(data, PAGE))
            (void)sched_yield();
        for (int at = 0; at < i; at++)
            data[(size_t)at * MIB] = 1; /* next to the range */
        page_populator_free(populator);
        n_early += pages_there(data, 256 * MIB) < 256 * MIB / PAGE;
        munmap(data, 256 * MIB);
    }
    assert_true(n_early > 0);
}

/* An arena's blocks, the oldest region first; freeing one ends the work. */
static void test_page_populator_arena(void **state) {
    AccountTable accounts;
    ArenaBlock blocks[3];
    Arena *arena;

    need_populating();
    account_table_init(&accounts);
    for (int round = 0; round < 2; round++) {
        size_t there = 0;

        assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
        arena_set_pages(arena, ARENA_PAGES_SMALL);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(arena_take(arena, &blocks[i], 40 * MIB), 0);
        arena_populate(arena);
        for (size_t i = 0; !round && i < 3; i++) /* each has a region of its own */
            for (int tries = 0; (there = pages_there(blocks[i].data, 40 * MIB)) < 40 * MIB / PAGE; tries++) {
                assert_true(tries < 20000);
                assert_int_equal(nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL), 0);
            }
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(((const uint8_t *)blocks[i].data)[40 * MIB - 1], 0);
            arena_give(&blocks[i]);
        }
        arena_free(arena);
    }
    assert_int_equal(atomic_load(&accounts.used_bytes[ACCOUNT_WEIGHTS]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_populator_brings_all),
        cmocka_unit_test(test_page_populator_refused),
        cmocka_unit_test(test_page_populator_stops),
        cmocka_unit_test(test_page_populator_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
