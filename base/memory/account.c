// SPDX-License-Identifier: Apache-2.0
#include "base/memory/account.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/memory/page_size.h"
#include "base/min_max.h"

static const char *const account_names[_ACCOUNT_N] = {
    [ACCOUNT_WEIGHTS] = "weights",   [ACCOUNT_GRAPHS] = "graphs",           [ACCOUNT_KV] = "kv",
    [ACCOUNT_DRAFTDB] = "draftdb",   [ACCOUNT_ACTIVATIONS] = "activations", [ACCOUNT_CACHE] = "cache",
    [ACCOUNT_SESSIONS] = "sessions",
};

void account_table_init(AccountTable *table) {
    *table = (AccountTable){ .total_limit_bytes = UINT64_MAX, .others_limit_bytes = UINT64_MAX };
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        table->limit_bytes[i] = UINT64_MAX;
}

const char *account_name(AccountId id) {
    return account_names[id];
}

static uint64_t room_of(uint64_t used_bytes, uint64_t limit_bytes) {
    return used_bytes < limit_bytes ? limit_bytes - used_bytes : 0;
}

uint64_t account_own_room_bytes(const AccountTable *table, AccountId id) {
    return room_of(atomic_load(&table->used_bytes[id]), table->limit_bytes[id]);
}

uint64_t account_shared_room_bytes(const AccountTable *table, AccountId id) {
    const uint64_t all = room_of(atomic_load(&table->total_bytes), table->total_limit_bytes),
                   others = room_of(atomic_load(&table->others_bytes), table->others_limit_bytes);

    return id == ACCOUNT_SESSIONS || all < others ? all : others;
}

/* Adds bytes to the counter unless that would pass the limit. */
static int counter_add(_Atomic uint64_t *counter, uint64_t bytes, uint64_t limit) {
    uint64_t used = atomic_load(counter);

    do {
        if (bytes > limit || used > limit - bytes)
            return ACCOUNT_E_LIMIT;
    } while (!atomic_compare_exchange_weak(counter, &used, used + bytes));
    return 0;
}

static void peak_raise(AccountTable *table, AccountId id) {
    uint64_t used = atomic_load(&table->used_bytes[id]), peak = atomic_load(&table->peak_bytes[id]);

    while (used > peak && !atomic_compare_exchange_weak(&table->peak_bytes[id], &peak, used))
        ;
}

void account_restart_peak(AccountTable *table, AccountId id) {
    atomic_store(&table->peak_bytes[id], atomic_load(&table->used_bytes[id]));
}

/* Adds bytes to the counters that several accounts share. 0, or ACCOUNT_E_LIMIT with nothing changed. */
static int shared_add(AccountTable *table, AccountId id, uint64_t bytes) {
    int r = counter_add(&table->total_bytes, bytes, table->total_limit_bytes);

    if (r || id == ACCOUNT_SESSIONS)
        return r;
    r = counter_add(&table->others_bytes, bytes, table->others_limit_bytes);
    if (r)
        atomic_fetch_sub(&table->total_bytes, bytes);
    return r;
}

static void shared_sub(AccountTable *table, AccountId id, uint64_t bytes) {
    if (id != ACCOUNT_SESSIONS)
        atomic_fetch_sub(&table->others_bytes, bytes);
    atomic_fetch_sub(&table->total_bytes, bytes);
}

/**
 * account_charge() - reserve bytes of an account before they are allocated
 * @bill: zero, or an earlier charge to the same account, which grows
 *
 * Thread: any. Return: 0, or ACCOUNT_E_LIMIT with nothing changed.
 */
int account_charge(AccountTable *table, AccountId id, Bill *bill, uint64_t bytes) {
    int r;

    assert(!bill->bytes || (bill->table == table && bill->id == id));
    r = shared_add(table, id, bytes);
    if (r)
        return r;
    r = counter_add(&table->used_bytes[id], bytes, table->limit_bytes[id]);
    if (r) {
        shared_sub(table, id, bytes);
        return r;
    }
    peak_raise(table, id);
    bill->table = table;
    bill->id = id;
    bill->bytes += bytes;
    if (bill->tallyp)
        *bill->tallyp += bytes;
    return 0;
}

void bill_tally(Bill *bill, uint64_t *tallyp) {
    assert(!bill->tallyp || bill->tallyp == tallyp);
    if (!bill->tallyp)
        *tallyp += bill->bytes;
    bill->tallyp = tallyp;
}

void bill_settle(Bill *bill) {
    if (bill->tallyp)
        *bill->tallyp -= bill->bytes;
    if (bill->bytes) {
        atomic_fetch_sub(&bill->table->used_bytes[bill->id], bill->bytes);
        shared_sub(bill->table, bill->id, bill->bytes);
    }
    *bill = (Bill){ 0 };
}

int bill_move(Bill *bill, AccountId id) {
    int r;

    assert(bill->id != ACCOUNT_SESSIONS && id != ACCOUNT_SESSIONS); /* shared counters stay as they are */
    if (bill->bytes && bill->id != id) {
        r = counter_add(&bill->table->used_bytes[id], bill->bytes, bill->table->limit_bytes[id]);
        if (r)
            return r;
        atomic_fetch_sub(&bill->table->used_bytes[bill->id], bill->bytes);
        peak_raise(bill->table, id);
    }
    bill->id = id;
    return 0;
}

/**
 * accounted_block_init() - charge, then allocate zeroed memory
 * @block: overwritten; accounted_block_deinit() gives memory and charge back
 *
 * The memory is mapped, so that a freed block returns to the system at once.
 * Return: 0, ACCOUNT_E_LIMIT, or -ENOMEM; on failure block is empty and nothing stays charged.
 */
int accounted_block_init(AccountedBlock *block, AccountTable *table, AccountId id, size_t len_bytes) {
    static const size_t huge_bytes = 2u << 20;
    size_t map_bytes;
    void *data;
    int r;

    *block = (AccountedBlock){ 0 };
    if (!len_bytes)
        return 0;
    if (len_bytes > SIZE_MAX / 2)
        return err_raise(-ENOMEM);
    map_bytes = page_round_up(len_bytes);
    r = account_charge(table, id, &block->bill, map_bytes);
    if (r)
        return r;
    data = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        bill_settle(&block->bill);
        return err_raise(-ENOMEM);
    }
    if (map_bytes >= huge_bytes)
        (void)madvise(data, map_bytes, MADV_HUGEPAGE);
    /* Blocks of other accounts hold values computed from a prompt, which would reveal it in a core dump. */
    if (id != ACCOUNT_WEIGHTS)
        (void)madvise(data, map_bytes, MADV_DONTDUMP);
    block->data = data;
    block->len_bytes = map_bytes;
    return 0;
}

void accounted_block_deinit(AccountedBlock *block) {
    if (block->data)
        munmap(block->data, block->len_bytes);
    bill_settle(&block->bill);
    *block = (AccountedBlock){ 0 };
}
