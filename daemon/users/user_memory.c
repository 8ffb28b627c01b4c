// SPDX-License-Identifier: Apache-2.0
/* Limits on the memory that clients take from the account sessions: all together, one user's apps, administrators. */
#include "base/min_max.h"
#include "daemon/users/user.h"

enum {
    USER_PARTS = 4,          /* one user's apps leave other users at least 1/4 */
    ADMIN_PARTS = 8,         /* all apps leave administrators 1/8, but no more than all of them can use */
    ADMIN_BYTES = 128 << 10, /* need of an administrator's connection for messages, besides its output buffer */
};

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* Returns the bytes that the narrower one of the account's own and the shared limit still allows. */
static uint64_t room_bytes(const AccountTable *accounts) {
    const uint64_t own = account_own_room_bytes(accounts, ACCOUNT_SESSIONS),
                   shared = account_shared_room_bytes(accounts, ACCOUNT_SESSIONS);

    return MIN(own, shared);
}

/* Returns the bytes that all clients together hold or may still take. */
static uint64_t all_bytes(const AccountTable *accounts) {
    return atomic_load(&accounts->used_bytes[ACCOUNT_SESSIONS]) + room_bytes(accounts);
}

/* Returns the bytes that a user's apps may still take. */
static uint64_t user_room_bytes(const User *user) {
    const uint64_t all = all_bytes(user->table->accounts);

    return minus(all - all / USER_PARTS, user->client_bytes);
}

/* Returns the bytes that all apps may still take. The last part is for administrators, who can then inspect a full
 * service. */
static uint64_t app_room_bytes(const UserTable *table) {
    const uint64_t part = all_bytes(table->accounts) / ADMIN_PARTS,
                   needed = ADMIN_CONNECTIONS_MAX * (table->config->limits.output_buffer_bytes + ADMIN_BYTES);

    return minus(room_bytes(table->accounts), MIN(needed, part));
}

int user_charge(User *user, bool is_admin, Bill *bill, uint64_t bytes) {
    int r;

    if (!is_admin && (bytes > app_room_bytes(user->table) || bytes > user_room_bytes(user)))
        return ACCOUNT_E_LIMIT;
    r = account_charge(user->table->accounts, ACCOUNT_SESSIONS, bill, bytes);
    if (!r && !is_admin)
        bill_tally(bill, &user->client_bytes);
    return r;
}

/* Names the limit that is the narrowest for the user at this moment. */
const char *user_memory_limit(const User *user, bool is_admin) {
    const AccountTable *accounts = user->table->accounts;
    const bool is_own = account_own_room_bytes(accounts, ACCOUNT_SESSIONS) == room_bytes(accounts);

    if (!is_admin && user_room_bytes(user) < app_room_bytes(user->table))
        return is_own ? "this user's share of session-memory-limit" : "this user's share of memory-limit";
    return is_own ? "session-memory-limit" : "memory-limit";
}
