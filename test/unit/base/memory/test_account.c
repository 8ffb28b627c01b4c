// SPDX-License-Identifier: Apache-2.0
/* Tests of memory accounts: limits of one account and of several, the part left for clients, bills that move. */
#undef NDEBUG
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

#include "base/memory/account.h"

static AccountTable table;

static int setup(void **state) {
    account_table_init(&table);
    return 0;
}

static int teardown(void **state) {
    assert_int_equal(table.total_bytes, 0);
    assert_int_equal(table.others_bytes, 0);
    return 0;
}

static void test_account_own_limit(void **state) {
    Bill kv = { 0 };

    table.limit_bytes[ACCOUNT_KV] = 100;
    assert_int_equal(account_charge(&table, ACCOUNT_KV, &kv, 60), 0);
    assert_int_equal(account_own_room_bytes(&table, ACCOUNT_KV), 40);
    assert_int_equal(account_charge(&table, ACCOUNT_KV, &kv, 41), ACCOUNT_E_LIMIT);
    assert_int_equal(table.total_bytes, 60);
    assert_int_equal(account_charge(&table, ACCOUNT_KV, &kv, 40), 0);
    assert_int_equal(kv.bytes, 100);
    bill_settle(&kv);
    assert_int_equal(table.peak_bytes[ACCOUNT_KV], 100);
}

/* A bill's bytes count in the user's sum from the tally until the bill is settled. */
static void test_account_tally(void **state) {
    Bill first = { 0 }, second = { 0 };
    uint64_t sum_bytes = 0;

    table.limit_bytes[ACCOUNT_SESSIONS] = 100;
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &first, 20), 0);
    bill_tally(&first, &sum_bytes);
    bill_tally(&first, &sum_bytes);
    assert_int_equal(sum_bytes, 20);
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &first, 30), 0);
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &second, 10), 0);
    bill_tally(&second, &sum_bytes);
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &second, 41), ACCOUNT_E_LIMIT);
    assert_int_equal(sum_bytes, 60);
    bill_settle(&first);
    assert_int_equal(sum_bytes, 10);
    bill_settle(&second);
    assert_int_equal(sum_bytes, 0);
}

/* The rest of the total beyond the limit on other accounts is reserved for clients, whoever came first. */
static void test_account_part_of_clients(void **state) {
    Bill kv = { 0 }, cache = { 0 }, sessions = { 0 };

    table.total_limit_bytes = 100;
    table.others_limit_bytes = 70;
    assert_int_equal(account_charge(&table, ACCOUNT_KV, &kv, 50), 0);
    assert_int_equal(account_shared_room_bytes(&table, ACCOUNT_CACHE), 20);
    assert_int_equal(account_charge(&table, ACCOUNT_CACHE, &cache, 21), ACCOUNT_E_LIMIT);
    assert_int_equal(table.total_bytes, 50);
    assert_int_equal(account_charge(&table, ACCOUNT_CACHE, &cache, 20), 0);
    assert_int_equal(bill_move(&kv, ACCOUNT_CACHE), 0);
    assert_int_equal(account_shared_room_bytes(&table, ACCOUNT_SESSIONS), 30);
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &sessions, 30), 0);
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &sessions, 1), ACCOUNT_E_LIMIT);
    /* Clients may use more if it is free; others then have less. */
    bill_settle(&kv);
    assert_int_equal(account_charge(&table, ACCOUNT_SESSIONS, &sessions, 40), 0);
    assert_int_equal(account_shared_room_bytes(&table, ACCOUNT_KV), 10);
    assert_int_equal(account_charge(&table, ACCOUNT_KV, &kv, 11), ACCOUNT_E_LIMIT);
    assert_int_equal(table.others_bytes, 20);
    bill_settle(&sessions);
    bill_settle(&cache);
}

/* Returns the address space of this process in bytes. */
static size_t mapped_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return (size_t)pages * getauxval(AT_PAGESZ); /* the kernel\'s own pages */
}

/* Small blocks and mapped ones: freed memory goes back to the system. */
static void test_account_block_is_given_back(void **state) {
    const size_t len_bytes = (size_t)256 << 20;
    AccountedBlock block;
    size_t before;

    assert_int_equal(accounted_block_init(&block, &table, ACCOUNT_KV, 100), 0);
    assert_int_equal((uintptr_t)block.data % 64, 0);
    accounted_block_deinit(&block);
    before = mapped_bytes();
    for (int turn = 0; turn < 8; turn++) {
        assert_int_equal(accounted_block_init(&block, &table, ACCOUNT_KV, len_bytes), 0);
        *(char *)block.data = 1;
        assert_int_equal(table.used_bytes[ACCOUNT_KV], len_bytes);
        accounted_block_deinit(&block);
    }
    assert_true(mapped_bytes() < before + 2 * len_bytes);
}

/* Returns whether the mapping that begins there is left out of core dumps. */
static bool is_left_out(const void *data) {
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    bool is_there = false, is_left_out = false;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        unsigned long from, to;
        char *end;

        from = strtoul(line, &end, 16);
        to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;
        if (to && *end == ' ')
            is_there = from <= (uintptr_t)data && (uintptr_t)data < to;
        else if (is_there && !strncmp(line, "VmFlags:", 8))
            is_left_out = strstr(line, " dd");
    }
    fclose(file);
    return is_left_out;
}

static void test_account_block_and_core_dumps(void **state) {
    AccountedBlock block;

    assert_int_equal(accounted_block_init(&block, &table, ACCOUNT_KV, 8192), 0);
    assert_true(is_left_out(block.data));
    accounted_block_deinit(&block);
    assert_int_equal(accounted_block_init(&block, &table, ACCOUNT_WEIGHTS, 8192), 0);
    assert_false(is_left_out(block.data));
    accounted_block_deinit(&block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_account_own_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_account_tally, setup, teardown),
        cmocka_unit_test_setup_teardown(test_account_part_of_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_account_block_is_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_account_block_and_core_dumps, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
