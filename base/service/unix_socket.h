// SPDX-License-Identifier: Apache-2.0
/* Listening Unix sockets at a path, of services that start and end. The socket of a dead service is replaced, that of a
 * living one is not. Thread: one, at the start and at the end. */
#ifndef COORDGEN_BASE_UNIX_SOCKET_H
#define COORDGEN_BASE_UNIX_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"

enum {
    UNIX_SOCKET_E_SERVED = 1, /* another service answers at this address */
    UNIX_SOCKET_E_PATH,       /* an address that is too long, no socket, or of an unknown form */
};

typedef struct UnixSocket {
    int fd; /* listens, does not block, is closed when another program is executed; -1: none */
    char *path;
    uint64_t device, inode;
} UnixSocket;

/* Reads an address, "unix:PATH" or "PATH". 0 or UNIX_SOCKET_E_PATH. */
int unix_socket_address(const char *address, struct sockaddr_un *to, ErrText *err);
/* Checks that the folder of a socket can take it. A folder that the start creates may be absent. 0 or -errno. */
int unix_socket_check_folder(const struct sockaddr_un *to, bool may_be_absent, ErrText *err);
/* Checks that no file but a socket has the path. 0 or UNIX_SOCKET_E_PATH. */
int unix_socket_check_place(const struct sockaddr_un *to, ErrText *err);
/* Makes a listening socket with a file of that mode. 0, UNIX_SOCKET_E_*, -errno, with a text. */
int unix_socket_open(UnixSocket *made, const char *address, mode_t mode, ErrText *err);
/* Removes the file, unless it is another service's by now. */
void unix_socket_unlink(const UnixSocket *made);
/* Closes the socket and removes its file. */
void unix_socket_close(UnixSocket *made);

#endif
