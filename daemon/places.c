// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/places.h"

#include <inttypes.h>
#include <poll.h>

#include "base/log.h"

static unsigned int n_connections_of(Server *server, uid_t uid) {
    const User *user = user_find(&server->users, uid);

    return user ? user->n_connections : 0;
}

/* Administrators have places of their own, so that a full service can still be looked at. */
static bool is_full(const Server *server, bool is_admin) {
    return is_admin ? server->n_admin_connections >= ADMIN_CONNECTIONS_MAX
                    : server->n_connections >= server->config->max_connections;
}

static bool is_full_for(Server *server, bool is_admin, uid_t uid) {
    return !is_admin && n_connections_of(server, uid) >= server->config->max_connections_per_uid;
}

/* A client that closes a connection and opens the next one may be accepted before the loop comes to the end of the
 * first: it is not refused for a place that it has left. All are asked at once, for whoever is refused causes it. */
static void free_gone(Server *server) {
    const size_t n = server->n_connections + server->n_admin_connections;
    _cleanup_(freep) struct pollfd *fds = calloc(n + 1, sizeof(*fds));
    Connection *connection, *next;
    size_t i = 0;

    if (!fds)
        return;
    TAILQ_FOREACH(connection, &server->connections, link)
    fds[i++].fd = connection_fd(connection);
    assert(i == n);
    if (poll(fds, n, 0) < 0)
        return;
    i = 0;
    for (connection = TAILQ_FIRST(&server->connections); connection; connection = next, i++) {
        next = TAILQ_NEXT(connection, link);
        if (connection->state == CONNECTION_DEAD || fds[i].revents & (POLLHUP | POLLERR))
            connection_free(connection);
    }
}

/* Of two idle ones of a user: one that never said Hello, else the one that has been idle for longer. */
static bool is_rather(const Connection *connection, const Connection *other) {
    const bool is_silent = connection->state == CONNECTION_HELLO;

    if (is_silent != (other->state == CONNECTION_HELLO))
        return is_silent;
    return connection->served_ns < other->served_ns;
}

/* An idle connection of the user who has the most; of users with as many any. NULL: none of them has two more than the
 * one who wants a place, so that two users never take places from each other in turns. */
static Connection *find_dispensable(Server *server, uid_t uid) {
    Connection *connection, *found = NULL;
    unsigned int n_found = n_connections_of(server, uid) + 1;

    TAILQ_FOREACH(connection, &server->connections, link) {
        if (connection->is_admin || connection->uid == uid || !connection_is_idle(connection))
            continue;
        if (connection->user->n_connections > n_found ||
            (found && connection->user == found->user && is_rather(connection, found))) {
            found = connection;
            n_found = connection->user->n_connections;
        }
    }
    return found;
}

int places_make(Server *server, bool is_admin, uid_t uid) {
    Connection *connection;

    assert_on_loop(&server->loop);
    if (!is_full(server, is_admin) && !is_full_for(server, is_admin, uid))
        return 0;
    free_gone(server);
    if (!is_full(server, is_admin))
        return is_full_for(server, is_admin, uid) ? PLACES_E_USER : 0;
    connection = is_admin || is_full_for(server, is_admin, uid) ? NULL : find_dispensable(server, uid);
    if (!connection)
        return PLACES_E_FULL;
    log_info(TOPIC_DAEMON, "connection %" PRIu64 ", uid %u: closed: idle, and its place is uid %u's",
             connection->serial, (unsigned int)connection->uid, (unsigned int)uid);
    connection_dismiss(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                       "closed: it was idle, this user has the most connections, and another one's needed the place "
                       "(max-connections)");
    return 0;
}
