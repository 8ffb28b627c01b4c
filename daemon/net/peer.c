// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/net/peer.h"

#include <stdio.h>

static void enlist(Peer *peer) {
    TAILQ_INSERT_TAIL(&peer->user->peers, peer, user_link);
    if (peer->is_admin) {
        peer->user->table->n_admin_connections++;
    } else {
        peer->user->table->n_connections++;
        peer->user->n_connections++;
    }
}

static void strike_out(Peer *peer) {
    TAILQ_REMOVE(&peer->user->peers, peer, user_link);
    if (peer->is_admin) {
        peer->user->table->n_admin_connections--;
    } else {
        peer->user->table->n_connections--;
        peer->user->n_connections--;
    }
}

uint64_t peer_bytes(const Config *config) {
    return sizeof(Peer) + sizeof(Connection) + config->limits.output_buffer_bytes;
}

int peer_new(Peer **peerp, UserTable *users, int fd, bool is_admin, const ConnectionOps *ops, Service *service) {
    _cleanup_(peer_freep) Peer *peer = NULL;
    _cleanup_(closep) int owned_fd = fd;
    uid_t uid;
    pid_t pid;
    int r = connection_peer(fd, &uid, &pid);

    assert_on_loop(users->loop);
    if (r)
        return r;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return err_raise(-ENOMEM);
    peer->service = service;
    peer->pid = pid;
    peer->is_admin = is_admin;
    peer->may_administer = is_admin || uid == 0 || uid == geteuid();
    TAILQ_INIT(&peer->requests);
    TAILQ_INIT(&peer->sessions);
    peer->user = user_get(users, uid);
    if (!peer->user) {
        free(steal(&peer));
        return err_raise(-ENOMEM);
    }
    enlist(peer);
    r = user_charge(peer->user, is_admin, &peer->bill, peer_bytes(users->config));
    if (r == ACCOUNT_E_LIMIT) {
        char text[96];

        snprintf(text, sizeof(text), "no memory for another connection: %s is reached",
                 user_memory_limit(peer->user, is_admin));
        connection_refuse(steal_fd(&owned_fd), COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, ops->retry_ms(peer), text);
    }
    if (r)
        return r;
    r = connection_new(&peer->connection, peer->user, is_admin, steal_fd(&owned_fd), ops, peer);
    if (r)
        return r;
    peer->connection->input.takes_files = peer->may_administer;
    *peerp = steal(&peer);
    return 0;
}

Peer *peer_free(Peer *peer) {
    if (!peer)
        return NULL;
    connection_free(peer->connection);
    assert(TAILQ_EMPTY(&peer->requests) && !peer->n_requests && TAILQ_EMPTY(&peer->sessions));
    strike_out(peer);
    bill_settle(&peer->bill);
    user_unref(peer->user);
    free(peer);
    return NULL;
}

bool peer_is_idle(const Peer *peer) {
    return TAILQ_EMPTY(&peer->requests) && TAILQ_EMPTY(&peer->sessions) && !peer->n_draft_calls &&
           !peer->draft_transfer && connection_is_quiet(peer->connection);
}
