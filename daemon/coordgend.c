// SPDX-License-Identifier: Apache-2.0
/* coordgend: the service that owns the language model of a machine. main() and nothing else. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "daemon/config.h"
#include "daemon/journal.h"
#include "daemon/listener.h"
#include "daemon/model_import.h"
#include "daemon/server.h"

enum { /* systemd.exec(5), LSB */
    EXIT_INVALID_ARGUMENT = 2,
    EXIT_NO_PERMISSION = 4,
    EXIT_NOT_CONFIGURED = 6,
};

static int exit_code(int r) {
    return r == -EACCES || r == -EPERM ? EXIT_NO_PERMISSION : EXIT_FAILURE;
}

static int complain(const ErrText *err, int code) {
    fprintf(stderr, "coordgend: %s\n", err->text);
    return code;
}

static int serve(Config **configp, int argc, char *argv[]) {
    ListenerSet listeners;
    Server *server = NULL;
    ErrText err = { "" };
    uint32_t features;
    int r;

    if (isa_select((Isa)(*configp)->isa, &features, &err))
        return complain(&err, EXIT_INVALID_ARGUMENT);
    journal_open((LogTarget)(*configp)->log_target);
    log_set_level((LogLevel)(*configp)->log_level);
    signal(SIGPIPE, SIG_IGN);
    r = listener_set_open(&listeners, *configp, &err);
    if (r) {
        log_error(TOPIC_DAEMON, "%s", err.text);
        return exit_code(r);
    }
    r = server_new(&server, configp, &listeners, argc, argv, &err);
    if (r) {
        log_error(TOPIC_DAEMON, "%s", err.text);
        listener_set_close(&listeners);
        return r == -EINVAL ? EXIT_NOT_CONFIGURED : exit_code(r);
    }
    r = server_run(server);
    if (r == -ETIMEDOUT)
        _exit(EXIT_SUCCESS); /* a thread still computes: nothing may be freed under it */
    server_free(server);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char *argv[]) {
    _cleanup_(config_freep) Config *config = NULL;
    ConfigAction action;
    ErrText err = { "" };
    int r;

    if (argc > 1 && !strcmp(argv[1], IMPORT_WORKER_FLAG))
        return import_worker_main(argc - 2, argv + 2);
    r = config_load(&config, "", argc, argv, &action, &err);
    if (r)
        return complain(&err, r == CONFIG_E_FLAG   ? EXIT_INVALID_ARGUMENT
                              : r == CONFIG_E_FILE ? EXIT_NOT_CONFIGURED
                                                   : EXIT_FAILURE);
    switch (action) {
    case CONFIG_HELP:
        config_print_help(stdout);
        return EXIT_SUCCESS;
    case CONFIG_VERSION:
        puts("coordgend " COORDGEN_VERSION);
        return EXIT_SUCCESS;
    case CONFIG_PRINT:
        config_print(config, stdout);
        return EXIT_SUCCESS;
    case CONFIG_CHECK:
        return EXIT_SUCCESS;
    case CONFIG_RUN:
        break;
    }
    return serve(&config, argc, argv);
}
