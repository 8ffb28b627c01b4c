// SPDX-License-Identifier: Apache-2.0
/* Tests of an arena's blocks: zero, separate, aligned and charged; freeing gives back memory and charge. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/memory/arena.h"

enum {
    BLOCKS = 300,
};

static size_t len_of(size_t i) {
    return i % 7 ? 1 + i * 977 % 5000 : 1 + i * 104729 % (3u << 20);
}

static bool is_filled(const ArenaBlock *block, uint8_t value) {
    const uint8_t *bytes = block->data;

    for (size_t i = 0; i < block->len_bytes; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void test_arena_blocks_are_apart(void **state) {
    AccountTable accounts = { 0 };
    ArenaBlock blocks[BLOCKS];
    Arena *arena;
    uint64_t charged = 0;

    account_table_init(&accounts);
    assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(arena_take(arena, &blocks[i], len_of(i)), 0);
        assert_int_equal((uintptr_t)blocks[i].data % 64, 0);
        assert_true(is_filled(&blocks[i], 0));
        memset(blocks[i].data, (int)(1 + i % 255), blocks[i].len_bytes);
        charged += (len_of(i) + 63) / 64 * 64;
        assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], charged);
    }
    for (size_t i = 0; i < BLOCKS; i += 2) { /* blocks between them must stay */
        charged -= (len_of(i) + 63) / 64 * 64;
        arena_give(&blocks[i]);
        assert_null(blocks[i].data);
        assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], charged);
    }
    for (size_t i = 1; i < BLOCKS; i += 2)
        assert_true(is_filled(&blocks[i], (uint8_t)(1 + i % 255)));
    for (size_t i = 0; i < BLOCKS; i += 2) {
        assert_int_equal(arena_take(arena, &blocks[i], len_of(i)), 0);
        assert_true(is_filled(&blocks[i], 0));
    }
    for (size_t i = 0; i < BLOCKS; i++)
        arena_give(&blocks[i]);
    assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], 0);
    assert_null(arena_free(arena));
}

/* A page that two blocks share stays when one of them is freed, for any page size. */
static void test_arena_neighbours_keep_their_bytes(void **state) {
    AccountTable accounts = { 0 };
    ArenaBlock blocks[5];
    Arena *arena;

    account_table_init(&accounts);
    assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
        assert_int_equal(arena_take(arena, &blocks[i], 300 * 1024 + 64 * i), 0);
        memset(blocks[i].data, (int)i + 1, blocks[i].len_bytes);
    }
    for (size_t i = 0; i < ARRAY_LEN(blocks); i += 2)
        arena_give(&blocks[i]);
    for (size_t i = 1; i < ARRAY_LEN(blocks); i += 2) {
        assert_true(is_filled(&blocks[i], (uint8_t)(i + 1)));
        arena_give(&blocks[i]);
    }
    assert_null(arena_free(arena));
}

/* Returns the resident bytes of this process. */
static size_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long size, resident;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return (size_t)resident * getauxval(AT_PAGESZ); /* the kernel\'s own pages */
}

static void test_arena_gives_memory_back(void **state) {
    const size_t len_bytes = (size_t)16 << 20;
    AccountTable accounts = { 0 };
    ArenaBlock kept, block;
    size_t before;
    Arena *arena;

    account_table_init(&accounts);
    assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
    assert_int_equal(arena_take(arena, &kept, 100), 0);
    memset(kept.data, 1, kept.len_bytes);
    before = resident_bytes();
    for (int turn = 0; turn < 20; turn++) { /* more than a region, while the first block keeps one */
        assert_int_equal(arena_take(arena, &block, len_bytes), 0);
        memset(block.data, 1, len_bytes);
        arena_give(&block);
    }
    assert_true(resident_bytes() < before + len_bytes);
    arena_give(&kept);
    arena_free(arena);
}

/* A block that does not fit after a region's last block begins another region. */
static void test_arena_end_of_a_region(void **state) {
    const size_t most = ((size_t)64 << 20) - 128;
    AccountTable accounts = { 0 };
    ArenaBlock first, last, beyond;
    Arena *arena;

    account_table_init(&accounts);
    assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
    assert_int_equal(arena_take(arena, &first, most), 0);
    assert_int_equal(arena_take(arena, &last, 64), 0);
    assert_ptr_equal(last.region, first.region);
    assert_int_equal(arena_take(arena, &beyond, 65), 0);
    assert_ptr_not_equal(beyond.region, first.region);
    arena_give(&beyond);
    assert_int_equal(arena_take(arena, &beyond, 64), 0);
    memset(beyond.data, 1, 64);
    arena_give(&beyond);
    arena_give(&last);
    arena_give(&first);
    arena_free(arena);
}

static void test_arena_limit(void **state) {
    AccountTable accounts = { 0 };
    ArenaBlock block;
    Arena *arena;

    account_table_init(&accounts);
    accounts.limit_bytes[ACCOUNT_WEIGHTS] = 1000;
    assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
    assert_int_equal(arena_take(arena, &block, 1001), ACCOUNT_E_LIMIT);
    assert_null(block.data);
    assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], 0);
    assert_int_equal(arena_take(arena, &block, 0), 0);
    assert_null(block.data);
    arena_give(&block);
    assert_int_equal(arena_take(arena, &block, 900), 0);
    arena_give(&block);
    assert_int_equal(arena_take(arena, &block, SIZE_MAX - 3), -ENOMEM);
    arena_free(arena);
}

/* Returns the huge page advice of the map around an address: 'h': use, 'n': don't, 0: none. */
static char advice_at(const void *data) {
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[4096], *rest, advice = 0;
    unsigned long long begin, end;
    bool is_here = false;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        end = 0;
        begin = strtoull(line, &rest, 16);
        if (*rest == '-')
            end = strtoull(rest + 1, &rest, 16);
        if (end)
            is_here = (uintptr_t)data >= begin && (uintptr_t)data < end;
        else if (is_here && !strncmp(line, "VmFlags:", 8))
            advice = strstr(line, " hg") ? 'h' : strstr(line, " nh") ? 'n' : 0;
    }
    fclose(file);
    return advice;
}

/* Regions have pages of the requested size and are zero; the machine decides which size comes sooner. */
static void test_arena_pages(void **state) {
    static const struct {
        ArenaPages pages;
        const char *advice;
    } cases[] = { { ARENA_PAGES_HUGE, "h" }, { ARENA_PAGES_SMALL, "n" }, { ARENA_PAGES_CHEAP, "hn" } };
    const size_t len_bytes = ((size_t)64 << 20) - 4096;
    bool is_left_out = false;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AccountTable accounts = { 0 };
        ArenaBlock first, second;
        Arena *arena;

        account_table_init(&accounts);
        assert_int_equal(arena_new(&arena, &accounts, ACCOUNT_WEIGHTS), 0);
        arena_set_pages(arena, cases[i].pages);
        assert_int_equal(arena_take(arena, &first, len_bytes), 0);
        assert_int_equal(arena_take(arena, &second, len_bytes), 0);
        assert_ptr_not_equal(first.region, second.region);
        is_left_out = !advice_at(first.data);
        if (!is_left_out) {
            assert_non_null(strchr(cases[i].advice, advice_at(first.data)));
            assert_int_equal(advice_at(second.data), advice_at(first.data)); /* a load keeps the first decision */
        }
        for (size_t at = 0; at < len_bytes; at += 1 << 20) {
            assert_int_equal(((const uint8_t *)first.data)[at], 0);
            assert_int_equal(((const uint8_t *)second.data)[at], 0);
        }
        arena_give(&first);
        arena_give(&second);
        arena_free(arena);
    }
    if (is_left_out) {
        print_message("left out: this system has no huge pages\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_blocks_are_apart),
        cmocka_unit_test(test_arena_neighbours_keep_their_bytes),
        cmocka_unit_test(test_arena_gives_memory_back),
        cmocka_unit_test(test_arena_end_of_a_region),
        cmocka_unit_test(test_arena_limit),
        cmocka_unit_test(test_arena_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
