// SPDX-License-Identifier: Apache-2.0
/* The sockets that coordgen-httpd listens on: handed over by systemd, or made at the addresses of --listen. TCP is for
 * clients of this machine alone. Thread: one, at the start and at the end. */
#ifndef COORDGEN_GATEWAY_HTTPD_SOCKETS_H
#define COORDGEN_GATEWAY_HTTPD_SOCKETS_H

#include <stdbool.h>

#include "base/service/unix_socket.h"
#include "gateway/process/httpd_settings.h"

enum {
    HTTPD_SOCKETS_E_ADDRESS = 1, /* of a form that is not allowed, or served by another program */
};

typedef struct HttpdSockets {
    struct {
        int fd; /* -1: given away */
        char name[160];
        UnixSocket file; /* path NULL: none was made */
    } sockets[HTTP_SOCKETS_MAX];
    size_t n;
    bool is_inherited; /* one of them: systemd starts the program again for the next client */
    bool has_tcp;
} HttpdSockets;

/* Opens all sockets. 0, HTTPD_SOCKETS_E_ADDRESS or -errno, with a text; then there are none. */
int httpd_sockets_open(HttpdSockets *sockets, const HttpdSettings *settings, ErrText *err);
/* Closes the sockets that were not given away, and removes the files that were made. */
void httpd_sockets_close(HttpdSockets *sockets);

#endif
