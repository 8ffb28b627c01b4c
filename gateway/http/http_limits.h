// SPDX-License-Identifier: Apache-2.0
/* What clients of the HTTP server may take. */
#ifndef COORDGEN_GATEWAY_HTTP_LIMITS_H
#define COORDGEN_GATEWAY_HTTP_LIMITS_H

#include <stddef.h>

typedef struct HttpLimits {
    size_t body_bytes;        /* of a request's body */
    size_t bodies_bytes;      /* of all bodies that are arriving or are being read by handlers */
    unsigned int connections; /* at a time; the one that has waited longest makes room for a new one */
    unsigned int requests;    /* at a time, from the whole request to the end of its reply */
    unsigned int idle_ms;     /* between requests of a connection, the next one's first line included */
    unsigned int head_ms;     /* for the head of a request to arrive, from its first line on */
    unsigned int body_ms;     /* for a body to arrive, from the end of the head on */
    unsigned int stall_ms;    /* without a byte of a reply that the client takes */
    size_t unread_bytes;      /* of a stream; then the client is disconnected */
} HttpLimits;

#endif
