// SPDX-License-Identifier: Apache-2.0
/* main() of coordgen-httpd, which serves clients of HTTP as a client of coordgend. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/files/standard_io.h"
#include "base/strings/command_line.h"
#include "gateway/gateway.h"

typedef struct HttpdOptions {
    const char *listen;
    const char *socket;
} HttpdOptions;

#define AT(field) offsetof(HttpdOptions, field)

static const CommandOption options_table[] = {
    { { "listen", 0, "PATH", "socket to serve HTTP on" }, command_set_text, AT(listen), 1, 0, NULL, NULL, NULL },
    { { "socket", 's', "PATH", "socket of coordgend" }, command_set_text, AT(socket), 1, 0, NULL, NULL, NULL },
    { { "help", 'h', NULL, "this text" }, NULL, 0, 0, 0, NULL, NULL, NULL },
    { { "version", 'V', NULL, "the version" }, NULL, 0, 0, 0, NULL, NULL, NULL },
};

static int listen_on(const char *path) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 128) < 0)
        return -errno;
    return steal_fd(&fd);
}

static void on_signal(evutil_socket_t number, short what, void *arg) {
    event_base_loopbreak(arg);
}

static int serve(Gateway *gateway, const HttpdOptions *options, ErrText *err) {
    static const HttpLimits limits = {
        .body_bytes = 8 << 20, .connections = 1024, .idle_ms = 60000, .body_ms = 60000, .unread_bytes = 1 << 20
    };
    struct event *stop[2];
    int fd, r;

    gateway->base = event_base_new();
    if (!gateway->base || link_new(&gateway->link, gateway->base, options->socket))
        return err_no_memory(err);
    r = http_server_new(&gateway->http, gateway->base, &limits, &gateway_ops, gateway, err);
    if (r)
        return r;
    fd = listen_on(options->listen);
    if (fd < 0)
        return err_set(err, fd, "%s: cannot listen: %s", options->listen, strerror(-fd));
    r = http_server_listen(gateway->http, fd);
    if (r)
        return err_no_memory(err);
    stop[0] = evsignal_new(gateway->base, SIGTERM, on_signal, gateway->base);
    stop[1] = evsignal_new(gateway->base, SIGINT, on_signal, gateway->base);
    for (size_t i = 0; i < ARRAY_LEN(stop); i++)
        if (!stop[i] || event_add(stop[i], NULL))
            return err_no_memory(err);
    event_base_dispatch(gateway->base);
    for (size_t i = 0; i < ARRAY_LEN(stop); i++)
        event_free(stop[i]);
    return 0;
}

int main(int argc, char *argv[]) {
    HttpdOptions options = { 0 };
    CommandLine line = { .program = "coordgen-httpd",
                         .see_help = "see coordgen-httpd --help",
                         .tables = { { "coordgen-httpd --listen PATH [option...]", options_table,
                                       ARRAY_LEN(options_table) } },
                         .help_column = 20,
                         .options = &options };
    Gateway gateway = { 0 };
    ErrText err = { 0 };
    int status, r;

    if (standard_io_secure())
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN);
    if (!command_line_read(&line, argc, argv, &status))
        return status;
    if (!options.listen)
        return command_line_refuse(&line, "--listen is missing");
    r = serve(&gateway, &options, &err);
    if (r)
        fprintf(stderr, "coordgen-httpd: %s\n", err.text);
    http_server_free(gateway.http);
    link_free(gateway.link);
    if (gateway.base)
        event_base_free(gateway.base);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
