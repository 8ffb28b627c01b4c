// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/net/places.h"

#include <inttypes.h>
#include <poll.h>

#include "base/log.h"

static unsigned int n_connections_of(UserTable *users, uid_t uid) {
    const User *user = user_find(users, uid);

    return user ? user->n_connections : 0;
}

/* Tells whether no place is free. Administrators have places of their own, so that they can inspect a full service. */
static bool is_full(const UserTable *users, bool is_admin) {
    return is_admin ? users->n_admin_connections >= ADMIN_CONNECTIONS_MAX
                    : users->n_connections >= users->config->limits.max_connections;
}

static bool is_full_for(UserTable *users, bool is_admin, uid_t uid) {
    return !is_admin && n_connections_of(users, uid) >= users->config->limits.max_connections_per_uid;
}

/* Frees the places of connections that their clients have closed: a client's next connection may be accepted before the
 * loop sees the end of the last one. One call polls all connections, because refused clients cause this search. */
static void free_gone(UserTable *users) {
    const size_t n = users->n_connections + users->n_admin_connections;
    _cleanup_(freep) struct pollfd *fds = calloc(n + 1, sizeof(*fds));
    _cleanup_(freep) Peer **peers = calloc(n + 1, sizeof(*peers));
    User *user = NULL;
    Peer *peer;
    size_t i = 0;

    if (!fds || !peers)
        return;
    while ((user = user_next(users, user)))
        TAILQ_FOREACH (peer, &user->peers, user_link) {
            peers[i] = peer;
            fds[i++].fd = connection_fd(peer->connection);
        }
    assert(i == n);
    if (poll(fds, n, 0) < 0)
        return;
    for (i = 0; i < n; i++)
        if (peers[i]->connection->state == CONNECTION_DEAD || fds[i].revents & (POLLHUP | POLLERR))
            peer_free(peers[i]);
}

/* Tells whether to close @connection rather than @other, both idle: first one without a Hello, else the longer idle. */
static bool is_rather(const Connection *connection, const Connection *other) {
    const bool is_silent = connection->state == CONNECTION_HELLO;

    if (is_silent != (other->state == CONNECTION_HELLO))
        return is_silent;
    return connection->turn.served_ns < other->turn.served_ns;
}

/* Finds the idle connection of a user's apps to close first; NULL: none of the apps is idle. */
static Peer *find_idle(const User *user) {
    Peer *peer, *found = NULL;

    TAILQ_FOREACH (peer, &user->peers, user_link)
        if (!peer->is_admin && peer_is_idle(peer) && (!found || is_rather(peer->connection, found->connection)))
            found = peer;
    return found;
}

/* Finds an idle connection of the user with the most connections. That user must have at least two more than @uid;
 * otherwise two users could take places from each other in turns. NULL: no such connection. */
static Peer *find_dispensable(UserTable *users, uid_t uid) {
    unsigned int n_found = n_connections_of(users, uid) + 1;
    User *user = NULL;
    Peer *found = NULL;

    while ((user = user_next(users, user))) {
        Peer *idle = user->uid != uid && user->n_connections > n_found ? find_idle(user) : NULL;

        if (!idle)
            continue;
        found = idle;
        n_found = user->n_connections;
    }
    return found;
}

int places_make(UserTable *users, bool is_admin, uid_t uid) {
    Peer *peer;

    assert_on_loop(users->loop);
    if (!is_full(users, is_admin) && !is_full_for(users, is_admin, uid))
        return 0;
    free_gone(users);
    if (!is_full(users, is_admin))
        return is_full_for(users, is_admin, uid) ? PLACES_E_USER : 0;
    peer = is_admin || is_full_for(users, is_admin, uid) ? NULL : find_dispensable(users, uid);
    if (!peer)
        return PLACES_E_FULL;
    log_info_of(uid, TOPIC_DAEMON, "connection %" PRIu64 ", uid %u: closed: idle, and its place is uid %u's",
                peer->connection->serial, (unsigned int)peer->user->uid, (unsigned int)uid);
    connection_dismiss(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                       "closed: it was idle, this user has the most connections, and another one's needed the place "
                       "(max-connections)");
    return 0;
}
