// SPDX-License-Identifier: Apache-2.0
/* Tests of the text of a memory error: purpose, size, limit. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/account_refusal.h"

#define MIB (UINT64_C(1) << 20)

static void setup(AccountTable *table) {
    account_table_init(table);
    table->total_limit_bytes = 100 * MIB;
    table->total_limit_name = "memory-limit";
    table->limit_bytes[ACCOUNT_KV] = 10 * MIB;
}

static void test_account_refusal_names_the_limit(void **state) {
    AccountTable table;
    Bill bill = { 0 };
    ErrText err = { 0 };

    setup(&table);
    assert_int_equal(
        account_refused(&err, 7, ACCOUNT_E_LIMIT, &table, ACCOUNT_KV, 11 * MIB, "the KV cache of %d tokens", 64), 7);
    assert_string_equal(err.text,
                        "no memory for the KV cache of 64 tokens (11.0 MiB): kv-memory-limit (10.0 MiB) is reached");
    assert_int_equal(account_charge(&table, ACCOUNT_WEIGHTS, &bill, 95 * MIB), 0);
    assert_int_equal(account_refused(&err, 7, ACCOUNT_E_LIMIT, &table, ACCOUNT_KV, 6 * MIB, "%s", "a cache"), 7);
    assert_string_equal(err.text, "no memory for a cache (6.0 MiB): memory-limit (100.0 MiB) is reached");
    assert_ptr_equal(err.limit, table.total_limit_name);
    assert_null(strstr(err.text, "95")); /* other accounts' use is not disclosed */
    table.total_limit_name = NULL;
    assert_int_equal(account_refused(&err, 7, ACCOUNT_E_LIMIT, &table, ACCOUNT_WEIGHTS, 6 * MIB, "a tensor"), 7);
    assert_string_equal(err.text, "no memory for a tensor (6.0 MiB): the limit on all memory (100.0 MiB) is reached");
    bill_settle(&bill);
}

static void test_account_refusal_lists_holders(void **state) {
    AccountTable table;
    Bill weights = { 0 }, kv = { 0 }, cache = { 0 };
    char text[200], narrow[24];

    setup(&table);
    account_holders(&table, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(account_charge(&table, ACCOUNT_KV, &kv, 3 * MIB), 0);
    assert_int_equal(account_charge(&table, ACCOUNT_CACHE, &cache, MIB), 0);
    assert_int_equal(account_charge(&table, ACCOUNT_WEIGHTS, &weights, 70 * MIB), 0);
    account_holders(&table, text, sizeof(text));
    assert_string_equal(text, "weights 70.0 MiB, kv 3.0 MiB of 10.0 MiB, cache 1.0 MiB");
    account_holders(&table, narrow, sizeof(narrow));
    assert_string_equal(narrow, "weights 70.0 MiB");
    bill_settle(&kv);
    bill_settle(&cache);
    bill_settle(&weights);
}

/* Runs in a child, because the limit stays. */
static void test_account_refusal_names_limits_of_the_process(void **state) {
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        const struct rlimit limit = { 64 * MIB, 64 * MIB };
        ErrText err = { 0 }, met = { .text = "a tensor" };
        int failed = setrlimit(RLIMIT_DATA, &limit);

        failed |= account_refused(&err, 7, -ENOMEM, NULL, ACCOUNT_KV, MIB, "a cache") != -ENOMEM;
        failed |= strcmp(err.text, "no memory for a cache (1.0 MiB): RLIMIT_DATA (ulimit -d, LimitDATA=) of 64.0 MiB "
                                   "is reached: raise it") != 0;
        failed |= account_refused_by_system(&met) != -ENOMEM || strncmp(met.text, "a tensor: RLIMIT_DATA", 21) != 0;
        _exit(failed);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_account_refusal_names_the_machine(void **state) {
    ErrText err = { 0 };

    assert_int_equal(account_refused(&err, 7, -ENOMEM, NULL, ACCOUNT_KV, MIB, "a cache"), -ENOMEM);
    assert_int_equal(strncmp(err.text, "no memory for a cache (1.0 MiB): ", 33), 0);
    assert_true(strlen(err.text) > 33);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_account_refusal_names_the_limit),
        cmocka_unit_test(test_account_refusal_lists_holders),
        cmocka_unit_test(test_account_refusal_names_limits_of_the_process),
        cmocka_unit_test(test_account_refusal_names_the_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
