// SPDX-License-Identifier: Apache-2.0
/* Memory accounts: bytes are reserved from a named account before they are allocated, so that a limit is held. */
#ifndef COORDGEN_BASE_ACCOUNT_H
#define COORDGEN_BASE_ACCOUNT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACCOUNT_E_LIMIT = 1, /* the charge would pass the account's limit, or a limit of several accounts */
};

typedef enum AccountId {
    ACCOUNT_WEIGHTS,     /* loaded weight matrices, norms, token tables */
    ACCOUNT_GRAPHS,      /* compiled graphs of a device */
    ACCOUNT_KV,          /* key-value caches of sequences, reserved for their greatest length */
    ACCOUNT_DRAFTDB,     /* draft database and its automaton */
    ACCOUNT_ACTIVATIONS, /* scratch of the running operators */
    ACCOUNT_CACHE,       /* prefixes that no sequence uses, and other things that may be dropped */
    ACCOUNT_SESSIONS,    /* prompts, frames and buffers of clients */
    _ACCOUNT_N,
} AccountId;

/* The accounts of a process. Zero before account_table_init(). Any thread may charge and settle. */
typedef struct AccountTable {
    _Atomic uint64_t used_bytes[_ACCOUNT_N];
    _Atomic uint64_t peak_bytes[_ACCOUNT_N];
    _Atomic uint64_t total_bytes;
    _Atomic uint64_t others_bytes; /* of all accounts but sessions */
    /* Const after set-up: */
    uint64_t limit_bytes[_ACCOUNT_N]; /* of each account; UINT64_MAX: no limit of its own */
    uint64_t total_limit_bytes;       /* of all accounts */
    const char *total_limit_name;     /* the setting that limits the total; NULL: the program has none */
    uint64_t others_limit_bytes; /* of all accounts but sessions, which have the rest of the total for themselves */
} AccountTable;

/* The bytes of an account that one object holds. The object embeds its bill and settles it when freed. Zero: no bytes.
 * */
typedef struct Bill {
    AccountTable *table;
    AccountId id;
    uint64_t bytes;
    uint64_t *tallyp; /* NULL, or a sum of one thread that includes these bytes: bill_tally() */
} Bill;

void account_table_init(AccountTable *table);
const char *account_name(AccountId id);
/* Sets the peak to the bytes in use now. A charge by another thread at the same time may be missed. */
void account_restart_peak(AccountTable *table, AccountId id);
/* Return how many bytes are left within the account's own limit, and within the limits that it shares. */
uint64_t account_own_room_bytes(const AccountTable *table, AccountId id);
uint64_t account_shared_room_bytes(const AccountTable *table, AccountId id);
int account_charge(AccountTable *table, AccountId id, Bill *bill, uint64_t bytes);
/* Includes the bill's bytes, now and later, in *tallyp until the bill is settled. The sum outlives the bill. */
void bill_tally(Bill *bill, uint64_t *tallyp);
void bill_settle(Bill *bill);
/* Moves the bill's bytes to another account of its table. 0, or ACCOUNT_E_LIMIT with nothing changed. */
int bill_move(Bill *bill, AccountId id);

/* Memory that is charged while it lives: zeroed, aligned to 64 bytes. Large blocks are aligned to pages and ask for
 * huge pages. */
typedef struct AccountedBlock {
    void *data;
    size_t len_bytes;
    Bill bill;
} AccountedBlock;

int accounted_block_init(AccountedBlock *block, AccountTable *table, AccountId id, size_t len_bytes);
void accounted_block_deinit(AccountedBlock *block);

#endif
