// SPDX-License-Identifier: Apache-2.0
/* Memory accounts: bytes are reserved from a named account before they are allocated (design, invariant 2). */
#ifndef COORDGEN_BASE_ACCOUNT_H
#define COORDGEN_BASE_ACCOUNT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACCOUNT_E_LIMIT = 1, /* the account's limit, or one on several accounts, would be passed */
};

typedef enum AccountId {
    ACCOUNT_WEIGHTS,     /* loaded weight matrices, norms, token tables */
    ACCOUNT_GRAPHS,      /* compiled graphs of a device */
    ACCOUNT_KV,          /* key-value caches of sequences, reserved for as long as they may become */
    ACCOUNT_DRAFTDB,     /* draft database and its automaton */
    ACCOUNT_ACTIVATIONS, /* scratch of the running operators */
    ACCOUNT_CACHE,       /* kept prefixes that no sequence uses, and other things that may be dropped */
    ACCOUNT_SESSIONS,    /* prompts, frames and buffers of clients */
    _ACCOUNT_N,
} AccountId;

/* One set for a process; zero-initialise, then account_table_init(). Any thread may charge and settle. */
typedef struct AccountTable {
    _Atomic uint64_t used_bytes[_ACCOUNT_N];
    _Atomic uint64_t peak_bytes[_ACCOUNT_N];
    _Atomic uint64_t total_bytes;
    _Atomic uint64_t others_bytes;    /* of all accounts but sessions */
    uint64_t limit_bytes[_ACCOUNT_N]; /* const after set-up; UINT64_MAX: none of its own */
    uint64_t total_limit_bytes;       /* const after set-up */
    const char *total_limit_name;     /* const after set-up: the setting; NULL: the program has none */
    uint64_t others_limit_bytes;      /* const after set-up; what it leaves of the total is there for sessions alone */
} AccountTable;

/* What one object holds of an account; embedded in that object, settled when it is freed. Zero: holds nothing. */
typedef struct Bill {
    AccountTable *table;
    AccountId id;
    uint64_t bytes;
    uint64_t *tallyp; /* NULL, or a sum of one thread's that has these bytes too: bill_tally() */
} Bill;

void account_table_init(AccountTable *table);
const char *account_name(AccountId id);
/* The peak is what is used now. Others that charge meanwhile may be missed. */
void account_restart_peak(AccountTable *table, AccountId id);
/* How much more the account's own limit allows, and the limits that it shares with others. */
uint64_t account_own_room_bytes(const AccountTable *table, AccountId id);
uint64_t account_shared_room_bytes(const AccountTable *table, AccountId id);
int account_charge(AccountTable *table, AccountId id, Bill *bill, uint64_t bytes);
/* What the bill holds, now and later, is in the sum too until it is settled. The sum outlives the bill. */
void bill_tally(Bill *bill, uint64_t *tallyp);
void bill_settle(Bill *bill);
/* What the bill holds goes to another account of its table. 0, or ACCOUNT_E_LIMIT with nothing changed. */
int bill_move(Bill *bill, AccountId id);

/* Memory that is charged while it lives: zeroed, aligned to 64 bytes at least (when large: to pages, and huge pages are
 * asked for). */
typedef struct AccountedBlock {
    void *data;
    size_t len_bytes;
    Bill bill;
} AccountedBlock;

int accounted_block_init(AccountedBlock *block, AccountTable *table, AccountId id, size_t len_bytes);
void accounted_block_deinit(AccountedBlock *block);

#endif
