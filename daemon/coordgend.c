// SPDX-License-Identifier: Apache-2.0
/* main() of coordgend, the service that owns the language model of a machine. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/files/standard_io.h"
#include "base/log.h"
#include "base/memory/map_guard.h"
#include "base/system/cpu.h"
#include "base/system/machine_limits.h"
#include "daemon/config_check.h"
#include "daemon/systemd/journal.h"
#include "daemon/models/files/model_import.h"
#include "daemon/net/listener.h"
#include "daemon/net/refusal.h"
#include "daemon/server.h"

enum { /* exit codes of systemd.exec(5) */
    EXIT_INVALID_ARGUMENT = 2,
    EXIT_NO_PERMISSION = 4,
    EXIT_WRONG_CONFIG = 78, /* EX_CONFIG of sysexits.h */
};

static const int loop_signals[] = { SIGTERM, SIGINT, SIGHUP }; /* signals that the server handles in its loop */

/* Blocks or unblocks the loop's signals. They are blocked until there are handlers, so that none is lost meanwhile. */
static void mask_signals(int how) {
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(loop_signals); i++)
        sigaddset(&set, loop_signals[i]);
    sigprocmask(how, &set, NULL);
}

static int exit_code(int r) {
    return r == -EACCES || r == -EPERM ? EXIT_NO_PERMISSION : r == -EINVAL ? EXIT_WRONG_CONFIG : EXIT_FAILURE;
}

static int exit_code_of_config(int r) {
    return r == CONFIG_E_FLAG ? EXIT_INVALID_ARGUMENT : r > 0 ? EXIT_WRONG_CONFIG : EXIT_FAILURE;
}

/* Reports an error before the configuration is loaded. Return: @code. */
static int complain(const ErrText *err, int code) {
    if (journal_takes_priorities())
        log_error(TOPIC_DAEMON, "%s", err->text);
    else
        fprintf(stderr, "coordgend: %s\n", err->text);
    return code;
}

/* Ends a failed start: tells waiting clients the reason. Return: @code. */
static int give_up(ListenerSet *spare, const ErrText *err, int code) {
    mask_signals(SIG_UNBLOCK);
    refusal_serve(spare, err->text);
    return code;
}

/* Forbids core dumps, since the memory holds prompts and outputs of all users. */
static void forbid_core_dumps(void) {
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        log_warn(TOPIC_DAEMON, "core dumps stay possible: %s", strerror(errno));
}

/* Logs limits of the service's cgroup: defaults depend on them, and users do not expect the reason there. */
static void say_limits(void) {
    MachineLimits machine, ours;

    machine_limits_of_machine(&machine);
    ours = machine;
    machine_limits_narrow(&ours, "");
    if (*ours.memory_file)
        log_notice(TOPIC_DAEMON, "this service may use %" PRIu64 " MiB of the machine's %" PRIu64 " MiB of memory: %s",
                   ours.memory_bytes >> 20, machine.memory_bytes >> 20, ours.memory_file);
    if (*ours.processors_file)
        log_notice(TOPIC_DAEMON, "this service may use the time of %u of %u processors: %s", ours.n_processors,
                   machine.n_processors, ours.processors_file);
}

static int serve(Config **configp, ListenerSet *spare, int argc, char *argv[]) {
    const bool core_dumps = (*configp)->core_dumps;
    ListenerSet listeners;
    Server *server = NULL;
    ErrText err = { 0 };
    uint32_t features;
    int r;

    if (isa_select((*configp)->load.isa, &features, &err))
        return give_up(spare, &err, complain(&err, EXIT_INVALID_ARGUMENT));
    r = config_check_settings(*configp, &err);
    if (r)
        return give_up(spare, &err, complain(&err, exit_code_of_config(r)));
    r = journal_check((*configp)->log_target, &err);
    if (r) {
        err_prefix(&err, "log-target");
        return give_up(spare, &err, complain(&err, exit_code(r)));
    }
    journal_open((*configp)->log_target);
    log_set_level((*configp)->log_level);
    if (!core_dumps)
        forbid_core_dumps();
    say_limits();
    map_guard_install(); /* a truncated mapped file marks its mapping instead of ending the service */
    r = listener_set_open(&listeners, *configp, &err);
    if (r) {
        log_error(TOPIC_DAEMON, "%s", err.text);
        return give_up(spare, &err, exit_code(r));
    }
    r = server_new(&server, configp, &listeners, argc, argv, &err);
    if (r) {
        log_error(TOPIC_DAEMON, "%s", err.text);
        listener_set_close(&listeners);
        return give_up(spare, &err, exit_code(r));
    }
    listener_set_close(spare);
    mask_signals(SIG_UNBLOCK);
    r = server_run(server);
    if (r == -ETIMEDOUT)
        _exit(EXIT_SUCCESS); /* a thread still computes, so its memory must not be freed */
    server_free(server);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char *argv[]) {
    _cleanup_(config_freep) Config *config = NULL;
    ListenerSet spare;
    ConfigAction action;
    ErrText err = { 0 };
    int r;

    if (standard_io_secure()) { /* first of all, so that no socket takes the place of a standard stream */
        journal_open(LOG_TARGET_AUTO);
        return complain(&(ErrText){ .text = "/dev/null cannot be opened in place of a closed standard descriptor" },
                        EXIT_FAILURE);
    }
    signal(SIGXFSZ, SIG_IGN); /* writes fail with EFBIG instead */
    if (argc > 1 && !strcmp(argv[1], IMPORT_WORKER_FLAG))
        return import_worker_main(argc - 2, argv + 2);
    mask_signals(SIG_BLOCK);
    journal_open(LOG_TARGET_AUTO); /* until the configuration names the target */
    refusal_prepare(&spare);
    r = config_load(&config, "", argc, argv, &action, &err);
    if (r) {
        r = complain(&err, exit_code_of_config(r));
        return give_up(&spare, &err, r);
    }
    switch (action) {
    case CONFIG_HELP:
        config_print_help(stdout);
        return standard_output_end("coordgend", EXIT_SUCCESS, EXIT_FAILURE);
    case CONFIG_VERSION:
        puts("coordgend " COORDGEN_VERSION);
        return standard_output_end("coordgend", EXIT_SUCCESS, EXIT_FAILURE);
    case CONFIG_PRINT:
        config_print(config, stdout);
        return standard_output_end("coordgend", EXIT_SUCCESS, EXIT_FAILURE);
    case CONFIG_CHECK:
        r = config_check(config, &err);
        return r ? complain(&err, exit_code_of_config(r)) : EXIT_SUCCESS;
    case CONFIG_RUN:
        break;
    }
    return serve(&config, &spare, argc, argv);
}
