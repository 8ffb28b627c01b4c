// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client/service_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/paths.h"
#include "base/files/user_dirs.h"

/* Whether a service listens at @path: the socket file of a killed service stays. */
static bool is_served(const char *path) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    _cleanup_(closep) int fd = -1;

    if (strlen(path) >= sizeof(address.sun_path))
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    return !connect(fd, (struct sockaddr *)&address, sizeof(address)) || (errno != ECONNREFUSED && errno != ENOENT);
}

/**
 * service_socket_path() - write the default path of a service's socket
 * @name: "api.sock" or "admin.sock"
 *
 * The user's own service comes first, because a user who starts one wants to use it. Its socket counts if a service
 * listens there, or if the system has no socket, so that errors name the right path.
 */
void service_socket_path(const char *name, char *path, size_t room_bytes) {
    char rest[32], own[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    bool has_own;

    snprintf(rest, sizeof(rest), "/%s", name);
    has_own = !user_dir(USER_DIR_RUNTIME, rest, own, sizeof(own)) && !access(own, F_OK);
    snprintf(path, room_bytes, "%s", strcmp(name, "admin.sock") ? PATH_API_SOCKET : PATH_ADMIN_SOCKET);
    if (has_own && (access(path, F_OK) || is_served(own)))
        snprintf(path, room_bytes, "%s", own);
}
