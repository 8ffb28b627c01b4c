// SPDX-License-Identifier: Apache-2.0
/* What clients may have of the account sessions: all of them together, the apps of a user, administrators. */
#include "daemon/connection.h"

enum {
    USER_PARTS = 4,          /* one user's apps leave others one part in so many */
    ADMIN_PARTS = 8,         /* all apps leave administrators one in so many, but no more than they may need: */
    ADMIN_BYTES = 128 << 10, /* of each for messages, beside the output buffer */
};

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* The narrower of the limits on clients, whoever else is within it. */
static uint64_t room_bytes(const AccountTable *accounts) {
    const uint64_t own = account_own_room_bytes(accounts, ACCOUNT_SESSIONS),
                   shared = account_shared_room_bytes(accounts, ACCOUNT_SESSIONS);

    return own < shared ? own : shared;
}

/* What all clients together hold and may still have. */
static uint64_t all_bytes(const AccountTable *accounts) {
    return atomic_load(&accounts->used_bytes[ACCOUNT_SESSIONS]) + room_bytes(accounts);
}

/* What a user's apps may still have. */
static uint64_t user_room_bytes(const Server *server, const User *user) {
    const uint64_t all = all_bytes(&server->accounts);

    return minus(all - all / USER_PARTS, user->client_bytes);
}

/* Of the room that the limits leave, administrators have the last part, so that a full service can be looked at. */
static uint64_t app_room_bytes(const Server *server) {
    const uint64_t part = all_bytes(&server->accounts) / ADMIN_PARTS,
                   needed = ADMIN_CONNECTIONS_MAX * (server->config->output_buffer_bytes + ADMIN_BYTES);

    return minus(room_bytes(&server->accounts), needed < part ? needed : part);
}

int connection_charge(Connection *connection, Bill *bill, uint64_t bytes) {
    Server *server = connection->server;
    int r;

    if (!connection->is_admin && (bytes > app_room_bytes(server) || bytes > user_room_bytes(server, connection->user)))
        return ACCOUNT_E_LIMIT;
    r = account_charge(&server->accounts, ACCOUNT_SESSIONS, bill, bytes);
    if (!r && !connection->is_admin)
        bill_tally(bill, &connection->user->client_bytes);
    return r;
}

/* The narrowest now. */
const char *connection_limit(const Connection *connection) {
    const Server *server = connection->server;
    const AccountTable *accounts = &server->accounts;
    const bool is_own = account_own_room_bytes(accounts, ACCOUNT_SESSIONS) == room_bytes(accounts);

    if (!connection->is_admin && user_room_bytes(server, connection->user) < app_room_bytes(server))
        return is_own ? "this user's share of session-memory-limit" : "this user's share of memory-limit";
    return is_own ? "session-memory-limit" : "memory-limit";
}
