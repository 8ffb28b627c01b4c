// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/system/c_library.h"
#include "client/client_internal.h"
#include "proto/proto_check.h"

const char *coordgen_client_version(void) {
    return COORDGEN_VERSION;
}

int coordgen_client_new(CoordgenClient **clientp) {
    CoordgenClient *client;
    size_t n = 0;

    if (!clientp)
        return COORDGEN_E_INVALID_ARGUMENT;
    client = calloc(1, sizeof(*client));
    if (!client)
        return COORDGEN_E_NO_MEMORY;
    client->socket_fd = client->epoll_fd = client->out.fd = -1;
    client->next_id = 1;
    client->pid = getpid();
    pthread_mutex_init(&client->lock, NULL);
    for (const char *c = c_library_program_name(); *c && n < sizeof(client->name) - 1; c++)
        client->name[n++] = *c >= ' ' && *c <= '~' ? *c : '?';
    *clientp = client;
    return 0;
}

CoordgenClient *coordgen_client_free(CoordgenClient *client) {
    if (!client)
        return NULL;
    if (client->pid == getpid()) {
        client_connection_close(client);
        pthread_mutex_destroy(&client->lock);
    } else if (client->socket_fd >= 0) {
        close(client->socket_fd); /* after fork(): a thread of the parent may have held the lock, which stays so here */
    }
    while (client->requests) {
        ClientRequest *request = client->requests;

        client->requests = request->next;
        client_request_free(request);
    }
    if (client->epoll_fd >= 0)
        close(client->epoll_fd);
    frame_reader_deinit(&client->reader);
    str_buf_deinit(&client->out.bytes);
    closep(&client->out.fd);
    free(client);
    return NULL;
}

int coordgen_client_set_name(CoordgenClient *client, const char *name) {
    if (!client || !name)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "hello.client_name", 0, "the client's name is NULL");
    if (strlen(name) > PROTO_CLIENT_NAME_BYTES_MAX)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "hello.client_name", 0,
                           "a client name of %zu bytes: at most %d", strlen(name), PROTO_CLIENT_NAME_BYTES_MAX);
    snprintf(client->name, sizeof(client->name), "%s", name);
    return 0;
}

static int hello_start(CoordgenClient *client) {
    Coordgen__V1__HelloRequest hello = COORDGEN__V1__HELLO_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    hello.has_version_min = hello.has_version_max = true;
    hello.version_min = PROTO_VERSION_MIN;
    hello.version_max = PROTO_VERSION_MAX;
    hello.client_name = client->name;
    message.op_case = COORDGEN__V1__REQUEST__OP_HELLO;
    message.hello = &hello;
    return client_start(client, REQUEST_HELLO, &message, -1, NULL, NULL, NULL);
}

static uint64_t deadline_after_ms(int timeout_ms) {
    return timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

static int hello_wait(CoordgenClient *client, uint64_t deadline_ns) {
    int r;

    r = hello_start(client);
    while (!r && !client->greeted) {
        struct pollfd wait = { .fd = client->epoll_fd, .events = POLLIN };
        uint64_t now_ns = clock_now_ns();
        int wait_ms = -1;

        if (deadline_ns != UINT64_MAX) {
            if (now_ns >= deadline_ns) {
                ClientFailure failure = { .code = COORDGEN_E_TIMEOUT };

                snprintf(failure.err.text, sizeof(failure.err.text), "%s: the service did not answer in time",
                         client->socket_path);
                return client_connection_fail(client, &failure);
            }
            wait_ms = (int)((deadline_ns - now_ns) / 1000000u + 1);
        }
        (void)poll(&wait, 1, wait_ms);
        r = coordgen_client_dispatch(client);
    }
    return r;
}

int coordgen_client_connect(CoordgenClient *client, const char *socket_path, int timeout_ms) {
    uint64_t deadline_ns = deadline_after_ms(timeout_ms);
    int r;

    r = client_check_usable(client, true);
    if (r)
        return r;
    r = client_connection_open(client, socket_path, deadline_ns);
    return r ? r : hello_wait(client, deadline_ns);
}

int coordgen_client_connect_start(CoordgenClient *client, const char *socket_path) {
    int r;

    r = client_check_usable(client, true);
    if (r)
        return r;
    r = client_connection_open(client, socket_path, 0);
    return r ? r : hello_start(client);
}

int coordgen_client_connect_fd(CoordgenClient *client, int fd, int timeout_ms) {
    int r;

    r = client_check_usable(client, true);
    if (r) { /* the descriptor is the library's all the same */
        if (fd >= 0)
            close(fd);
        return r;
    }
    r = client_connection_adopt(client, fd);
    return r ? r : hello_wait(client, deadline_after_ms(timeout_ms));
}

const char *coordgen_client_socket_path(const CoordgenClient *client) {
    return client ? client->socket_path : "";
}

const char *coordgen_client_service_version(const CoordgenClient *client) {
    return client ? client->service_version : "";
}

int coordgen_client_error(const CoordgenClient *client) {
    return client ? client->failure.code : COORDGEN_E_NO_MEMORY;
}

const char *coordgen_client_message(const CoordgenClient *client) {
    return client ? client->failure.err.text : "out of memory for a client";
}

const char *coordgen_client_field(const CoordgenClient *client) {
    return client ? client->failure.field : "";
}

uint32_t coordgen_client_retry_after_ms(const CoordgenClient *client) {
    return client ? client->failure.retry_after_ms : 0;
}

int coordgen_client_fd(const CoordgenClient *client) {
    return client ? client->epoll_fd : -1;
}

short coordgen_client_events(const CoordgenClient *client) {
    return POLLIN;
}
