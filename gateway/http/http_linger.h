// SPDX-License-Identifier: Apache-2.0
/* Sockets of refused clients. A socket that is closed with unread bytes is reset, and the reset may take the refusal
 * away before the client has read the refusal. These sockets are read for a moment first. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_HTTP_LINGER_H
#define COORDGEN_GATEWAY_HTTP_LINGER_H

#include <event2/event.h>

#include "base/queue.h"

typedef struct HttpLinger {
    struct event_base *base;
    LIST_HEAD(, LingerSocket) sockets;
    unsigned int n;
} HttpLinger;

void http_linger_init(HttpLinger *linger, struct event_base *base);
void http_linger_deinit(HttpLinger *linger);
/* Takes a non-blocking socket, on which nothing more will be sent, and closes the socket when the client has closed its
 * side, or soon. */
void http_linger_add(HttpLinger *linger, int fd);

#endif
