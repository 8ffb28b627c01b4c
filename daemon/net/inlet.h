// SPDX-License-Identifier: Apache-2.0
/* Input of a client's socket: bytes, and at most one open file (SCM_RIGHTS) at a time. */
#ifndef COORDGEN_DAEMON_INLET_H
#define COORDGEN_DAEMON_INLET_H

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    INLET_E_END = 1,     /* the peer sends no more */
    INLET_E_DESCRIPTORS, /* more than one file waits: all are closed */
};

typedef struct Inlet { /* all loop */
    struct evbuffer *bytes;
    uint64_t received_bytes; /* since inlet_init() */
    int fd;                  /* the file that waits to be taken; -1: none */
    uint64_t fd_at_bytes;    /* received_bytes at the end of the read that brought fd */
} Inlet;

int inlet_init(Inlet *inlet); /* 0, -ENOMEM */
void inlet_deinit(Inlet *inlet);
/* Reads once, without waiting. 0 (also when nothing is there), INLET_E_*, -errno. */
int inlet_read(Inlet *inlet, int socket_fd, size_t max_bytes, bool take_descriptor);
/* Hands over the file that came with the first len_bytes of the buffered bytes; -1: none did. The caller closes it. */
int inlet_take_fd(Inlet *inlet, size_t len_bytes);

#endif
