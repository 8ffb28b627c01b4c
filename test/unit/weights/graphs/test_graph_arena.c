// SPDX-License-Identifier: Apache-2.0
/* Slots within a limit and an account: never a slot too many, and nothing left behind. The memory comes before anybody
 * touches it. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/memory/page_size.h"
#include "weights/graphs/graph_arena.h"

enum {
    SLOTS = 5,
    SLOT_BYTES = 3 * 4096,
};

static void test_graph_arena_slots(void **state) {
    AccountTable accounts;
    GraphArena arena;
    size_t slots[SLOTS];

    account_table_init(&accounts);
    assert_int_equal(graph_arena_init(&arena, &accounts, SLOTS, SLOT_BYTES, SLOTS * SLOT_BYTES), 0);
    for (size_t i = 0; i < SLOTS; i++) {
        slots[i] = graph_arena_take(&arena);
        assert_int_equal((uintptr_t)graph_arena_at(&arena, slots[i]) % 4096, 0);
        memset(graph_arena_at(&arena, slots[i]), (int)i, SLOT_BYTES);
        assert_int_equal(arena.used_bytes, (i + 1) * SLOT_BYTES);
    }
    for (size_t i = 0; i < SLOTS; i++) /* no slot lies in another */
        assert_true(graph_arena_at(&arena, slots[i])[0] == i && graph_arena_at(&arena, slots[i])[SLOT_BYTES - 1] == i);
    assert_int_equal(graph_arena_take(&arena), GRAPH_SLOT_NONE);
    graph_arena_give(&arena, slots[3]);
    assert_int_equal(arena.used_bytes, (SLOTS - 1) * SLOT_BYTES);
    assert_int_equal(arena.peak_bytes, SLOTS * SLOT_BYTES);
    assert_int_equal(graph_arena_take(&arena), slots[3]);
    assert_true(atomic_load(&accounts.used_bytes[ACCOUNT_GRAPHS]) >= SLOTS * SLOT_BYTES);
    graph_arena_deinit(&arena);
    assert_int_equal(atomic_load(&accounts.used_bytes[ACCOUNT_GRAPHS]), 0);
}

static void test_graph_arena_limits(void **state) {
    AccountTable accounts;
    GraphArena arena;

    account_table_init(&accounts);
    assert_int_equal(graph_arena_init(&arena, &accounts, SLOTS, SLOT_BYTES, SLOTS * SLOT_BYTES - 1),
                     GRAPH_ARENA_E_LIMIT);
    graph_arena_deinit(&arena);
    accounts.limit_bytes[ACCOUNT_GRAPHS] = SLOTS * SLOT_BYTES;
    assert_int_equal(graph_arena_init(&arena, &accounts, SLOTS, SLOT_BYTES, UINT64_MAX), GRAPH_ARENA_E_LIMIT);
    assert_int_equal(atomic_load(&accounts.used_bytes[ACCOUNT_GRAPHS]), 0);
    graph_arena_deinit(&arena);
}

static size_t pages_there(const GraphArena *arena, unsigned char *flags) {
    const size_t n = arena->memory.len_bytes / page_size();
    size_t there = 0;

    assert_int_equal(mincore(arena->memory.data, arena->memory.len_bytes, flags), 0);
    for (size_t i = 0; i < n; i++)
        there += flags[i] & 1;
    return there;
}

/* All memory comes before anybody has touched it, and may be freed while it comes. */
static void test_graph_arena_comes_ahead(void **state) {
    static unsigned char flags[8192];
    const size_t slot_bytes = (size_t)4 << 20;
    AccountTable accounts;
    GraphArena arena;

    account_table_init(&accounts);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(graph_arena_init(&arena, &accounts, SLOTS, slot_bytes, UINT64_MAX), 0);
        graph_arena_deinit(&arena);
    }
    assert_int_equal(graph_arena_init(&arena, &accounts, SLOTS, slot_bytes, UINT64_MAX), 0);
    if (!arena.populator || !page_populator_wait(arena.populator)) {
        graph_arena_deinit(&arena);
        print_message("left out: this system cannot bring memory ahead of its use\n");
        skip();
    }
    assert_int_equal(pages_there(&arena, flags), arena.memory.len_bytes / page_size());
    for (size_t i = 0; i < SLOTS * slot_bytes; i += page_size())
        assert_int_equal(arena.slots[i], 0);
    graph_arena_deinit(&arena);
    assert_int_equal(atomic_load(&accounts.used_bytes[ACCOUNT_GRAPHS]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_arena_slots),
        cmocka_unit_test(test_graph_arena_limits),
        cmocka_unit_test(test_graph_arena_comes_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
