// SPDX-License-Identifier: Apache-2.0
/* What comes in through a client's socket: bytes, and with them at most one open file (SCM_RIGHTS) at a time. */
#ifndef COORDGEN_DAEMON_INLET_H
#define COORDGEN_DAEMON_INLET_H

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    INLET_E_END = 1,     /* the peer sends no more */
    INLET_E_DESCRIPTORS, /* more than one waits: they are closed */
};

typedef struct Inlet { /* all loop */
    struct evbuffer *bytes;
    uint64_t received_bytes; /* since the beginning */
    int fd;                  /* that came; -1: none */
    uint64_t fd_at_bytes;    /* received_bytes just behind the last byte that came with it */
} Inlet;

int inlet_init(Inlet *inlet); /* 0, -ENOMEM */
void inlet_deinit(Inlet *inlet);
/* One read that does not wait. 0 (also when nothing is there), INLET_E_*, -errno. */
int inlet_read(Inlet *inlet, int socket_fd, size_t max_bytes, bool take_descriptor);
/* The file that came with the first len_bytes of those that are there, the caller's from here on; -1: none. */
int inlet_take_fd(Inlet *inlet, size_t len_bytes);

#endif
