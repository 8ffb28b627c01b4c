// SPDX-License-Identifier: Apache-2.0
/* The default socket of a program that names none. */
#ifndef COORDGEN_CLIENT_SERVICE_SOCKET_H
#define COORDGEN_CLIENT_SERVICE_SOCKET_H

#include <stddef.h>

/* Writes the path of socket @name ("api.sock", "admin.sock"): the user's own socket if a service listens there, else
 * the system's. */
void service_socket_path(const char *name, char *path, size_t room_bytes);

#endif
