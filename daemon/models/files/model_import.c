// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/files/model_import.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/system/kernel_call.h"

extern char **environ;

#define REPORT_LINE_MAX 8192

struct ModelImport {
    Loop *loop;
    pid_t pid; /* child process; 0: reaped */
    int pid_fd;
    int report_fd;
    struct event *exit_event;
    struct event *report_event;
    ModelImportProgressFn *progress;
    ModelImportDoneFn *done;
    void *arg;
    char line[REPORT_LINE_MAX]; /* the beginning of the report's current line */
    size_t line_bytes;
    char *package_path;
    TAILQ_ENTRY(ModelImport) link; /* in the list of abandoned imports */
    ModelImportList *abandoned;    /* list that holds this import; NULL: not abandoned */
    int result;                    /* the result that the child reported; MODEL_IMPORT_E_FAILED before its report */
    ErrText err;
};

ModelImport *model_import_free(ModelImport *import) {
    if (!import)
        return NULL;
    if (import->exit_event)
        event_free(import->exit_event);
    if (import->report_event)
        event_free(import->report_event);
    if (import->pid > 0) {
        kill(import->pid, SIGKILL);
        while (waitpid(import->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (import->pid_fd >= 0)
        close(import->pid_fd);
    if (import->report_fd >= 0)
        close(import->report_fd);
    free(import->package_path);
    free(import);
    return NULL;
}

void model_import_abandon(ModelImport *import, ModelImportList *abandoned) {
    assert_on_loop(import->loop);
    if (!import->pid) {
        model_import_free(import);
        return;
    }
    event_del(import->report_event);
    kill(import->pid, SIGKILL);
    import->abandoned = abandoned;
    TAILQ_INSERT_TAIL(abandoned, import, link);
}

void model_import_reap(ModelImportList *abandoned) {
    ModelImport *import;

    while ((import = TAILQ_FIRST(abandoned))) {
        TAILQ_REMOVE(abandoned, import, link);
        model_import_free(import);
    }
}

/* Returns the rest of the line if it begins with the verb, else NULL. */
static const char *after_verb(const char *line, const char *verb) {
    size_t verb_bytes = strlen(verb);

    return !strncmp(line, verb, verb_bytes) && line[verb_bytes] == ' ' ? line + verb_bytes + 1 : NULL;
}

static void take_line(ModelImport *import, const char *line) {
    const char *rest;

    if ((rest = after_verb(line, IMPORT_VERB_PROGRESS))) {
        unsigned long permille = strtoul(rest, NULL, 10);

        import->progress(import->arg, permille > 1000 ? 1000 : (uint32_t)permille);
    } else if ((rest = after_verb(line, IMPORT_VERB_DONE))) {
        free(import->package_path);
        import->package_path = strdup(rest);
        import->result = import->package_path ? 0 : MODEL_IMPORT_E_FAILED;
    } else if ((rest = after_verb(line, IMPORT_VERB_CORRUPT))) {
        import->result = err_set(&import->err, MODEL_IMPORT_E_MODEL, "%s", rest);
    } else if ((rest = after_verb(line, IMPORT_VERB_FAILED))) {
        import->result = err_set(&import->err, MODEL_IMPORT_E_FAILED, "%s", rest);
    }
}

/* Reads the child's report as far as it has arrived. Return: whether the pipe is still open. */
static bool read_report(ModelImport *import) {
    for (;;) {
        char *start = import->line, *newline;
        ssize_t n =
            read(import->report_fd, import->line + import->line_bytes, sizeof(import->line) - 1 - import->line_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0)
            return false;
        import->line_bytes += (size_t)n;
        import->line[import->line_bytes] = 0;
        while ((newline = strchr(start, '\n'))) {
            *newline = 0;
            take_line(import, start);
            start = newline + 1;
        }
        import->line_bytes -= (size_t)(start - import->line);
        memmove(import->line, start, import->line_bytes);
        if (import->line_bytes == sizeof(import->line) - 1)
            import->line_bytes = 0; /* drop it: the worker writes no line of this length */
    }
}

static void on_report(evutil_socket_t fd, short what, void *arg) {
    ModelImport *import = arg;

    assert_on_loop(import->loop);
    if (!read_report(import))
        event_del(import->report_event);
}

static void on_exit_of_child(evutil_socket_t fd, short what, void *arg) {
    ModelImport *import = arg;
    int status = 0;

    assert_on_loop(import->loop);
    while (waitpid(import->pid, &status, 0) < 0 && errno == EINTR)
        ;
    import->pid = 0;
    if (import->abandoned) {
        TAILQ_REMOVE(import->abandoned, import, link);
        model_import_free(import);
        return;
    }
    event_del(import->exit_event);
    event_del(import->report_event);
    (void)read_report(import);
    if (WIFSIGNALED(status)) {
        import->result = MODEL_IMPORT_E_FAILED;
        err_set(&import->err, 0, "the import process was ended by signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) && !import->result) {
        import->result = MODEL_IMPORT_E_FAILED;
    }
    if (import->result && !*import->err.text)
        err_set(&import->err, 0, "the import process ended with status %d and no reason", WEXITSTATUS(status));
    import->done(import->arg, import->result, import->package_path, &import->err);
}

/* Starts the child. Both descriptors must be above the child's fixed numbers, since a dup2() of a descriptor onto
 * itself would keep close-on-exec. */
static int spawn(ModelImport *import, int report_write_fd, const char *source, int source_fd, const char *cache_dir,
                 bool checks_package) {
    char *argv[7] = { (char *)"coordgend", (char *)IMPORT_WORKER_FLAG, (char *)source, (char *)cache_dir };
    size_t n = 4;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, plain;
    int r;

    if (source_fd >= 0)
        argv[n++] = (char *)IMPORT_WORKER_OPENED;
    if (checks_package)
        argv[n++] = (char *)IMPORT_WORKER_CHECK;
    sigemptyset(&none);
    sigemptyset(&plain);
    sigaddset(&plain, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!r)
        r = posix_spawnattr_setsigmask(&attr, &none);
    if (!r)
        r = posix_spawnattr_setsigdefault(&attr, &plain);
    if (!r)
        r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!r)
        r = posix_spawn_file_actions_adddup2(&actions, report_write_fd, IMPORT_REPORT_FD);
    if (!r && source_fd >= 0)
        r = posix_spawn_file_actions_adddup2(&actions, source_fd, IMPORT_SOURCE_FD);
    if (!r)
        r = posix_spawn(&import->pid, "/proc/self/exe", &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (r)
        import->pid = 0;
    return -r;
}

/**
 * model_import_new() - start the import of a GGUF into the cache folder
 *
 * The child executes this program again, so that it shares none of the daemon's memory. The child reports lines through
 * a pipe. A pidfd reports its end, so that no signal handler is needed.
 * Thread: loop. Return: 0 or -errno with a text.
 */
int model_import_new(ModelImport **importp, Loop *loop, const char *source, int fd, const char *cache_dir,
                     bool checks_package, ModelImportProgressFn *progress, ModelImportDoneFn *done, void *arg,
                     ErrText *err) {
    _cleanup_(model_import_freep) ModelImport *import = calloc(1, sizeof(*import));
    _cleanup_(closep) int write_fd = -1, source_fd = -1;
    int fds[2], r;

    assert_on_loop(loop);
    if (!import)
        return err_no_memory(err);
    *import = (ModelImport){
        .loop = loop,
        .pid_fd = -1,
        .report_fd = -1,
        .progress = progress,
        .done = done,
        .arg = arg,
        .result = MODEL_IMPORT_E_FAILED,
    };
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_set(err, -errno, "cannot start the import process: %s", strerror(errno));
    import->report_fd = fds[0];
    write_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, IMPORT_SOURCE_FD + 1);
    close(fds[1]);
    source_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, IMPORT_SOURCE_FD + 1) : -1;
    if (write_fd < 0 || (fd >= 0 && source_fd < 0))
        return err_set(err, -errno, "cannot start the import process: %s", strerror(errno));
    evutil_make_socket_nonblocking(import->report_fd);
    r = spawn(import, write_fd, source, source_fd, cache_dir, checks_package);
    if (r)
        return err_set(err, r, "cannot start the import process: %s", strerror(-r));
    import->pid_fd = kernel_pidfd_open(import->pid);
    if (import->pid_fd < 0)
        return err_set(err, import->pid_fd, "cannot watch the import process: %s", strerror(-import->pid_fd));
    import->exit_event = event_new(loop->base, import->pid_fd, EV_READ, on_exit_of_child, import);
    import->report_event = event_new(loop->base, import->report_fd, EV_READ | EV_PERSIST, on_report, import);
    if (!import->exit_event || !import->report_event || event_add(import->exit_event, NULL) ||
        event_add(import->report_event, NULL))
        return err_no_memory(err);
    *importp = steal(&import);
    return 0;
}
