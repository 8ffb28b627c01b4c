// SPDX-License-Identifier: Apache-2.0
/* The child side of model_import.h: a separate program after exec, which runs one import and reports it line by line.
 * */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "base/log.h"
#include "base/memory/map_guard.h"
#include "base/strings/str_buf.h"
#include "daemon/models/files/model_import.h"
#include "importer/importer.h"

enum {
    PERMILLE_HASH = 100, /* share of the progress bar for the source's hash, which is quick beside the conversion */
    PERMILLE_SYNC = 990,
    NICENESS = 5, /* apps that are being served have precedence over an import */
};

static void import_worker_report(const char *verb, const char *text) {
    _cleanup_(str_buf_deinit) StrBuf line = STR_BUF_NULL;

    str_buf_addf(&line, "%s %s", verb, text);
    if (str_buf_failed(&line))
        return;
    for (size_t i = 0; i < line.len_bytes; i++)
        if (line.data[i] == '\n')
            line.data[i] = ' ';
    str_buf_add(&line, "\n");
    if (!str_buf_failed(&line))
        (void)file_write_all(IMPORT_REPORT_FD, line.data, line.len_bytes);
}

static void on_progress(void *arg, const ImportProgress *progress) {
    static const struct {
        unsigned int from, to;
    } permilles[] = {
        [IMPORT_STAGE_HASH] = { 0, PERMILLE_HASH },
        [IMPORT_STAGE_WAIT] = { PERMILLE_HASH, PERMILLE_HASH },
        [IMPORT_STAGE_MEASURE] = { PERMILLE_HASH, PERMILLE_HASH },
        [IMPORT_STAGE_RESUME] = { PERMILLE_HASH, PERMILLE_SYNC },
        [IMPORT_STAGE_CONVERT] = { PERMILLE_HASH, PERMILLE_SYNC },
        [IMPORT_STAGE_SYNC] = { PERMILLE_SYNC, 1000 },
    };
    unsigned int *last = arg, from = permilles[progress->stage].from, permille;
    double share = progress->total_bytes ? (double)progress->done_bytes / (double)progress->total_bytes : 0;
    char text[16];

    permille = from + (unsigned int)(share * (permilles[progress->stage].to - from));
    if (permille == *last)
        return;
    *last = permille;
    snprintf(text, sizeof(text), "%u", permille);
    import_worker_report(IMPORT_VERB_PROGRESS, text);
}

static void report_failure(int r, const ErrText *err) {
    const char *hint = r == IMPORT_E_NO_SPACE ? " or set cache-dir to another place" : "";
    char text[sizeof(err->text) + 64];

    snprintf(text, sizeof(text), "%s%s", *err->text ? err->text : strerror(r < 0 ? -r : EIO), hint);
    import_worker_report(r == IMPORT_E_CORRUPT || r == IMPORT_E_UNSUPPORTED ? IMPORT_VERB_CORRUPT : IMPORT_VERB_FAILED,
                         text);
}

/* Tells whether the service ended before PR_SET_PDEATHSIG could tie this process to it. */
static bool is_orphan(void) {
    struct pollfd pollfd = { .fd = IMPORT_REPORT_FD };

    return poll(&pollfd, 1, 0) == 1 && pollfd.revents & POLLERR; /* nobody reads the report */
}

/* Parses the arguments behind source and folder. Return: whether all of them are known. */
static bool take_words(int argc, char *const argv[], ImportOptions *options) {
    static const int source_fd = IMPORT_SOURCE_FD;

    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], IMPORT_WORKER_OPENED))
            options->source_fd = &source_fd;
        else if (!strcmp(argv[i], IMPORT_WORKER_CHECK))
            options->checks_package = true;
        else
            return false;
    return argc >= 2;
}

int import_worker_main(int argc, char *const argv[]) {
    ImportOptions options = import_options_default();
    _cleanup_(freep) char *folder = NULL;
    ImportReport done;
    ErrText err = { 0 };
    unsigned int last_permille = 0;
    int r;

    if (!take_words(argc, argv, &options)) {
        log_error(TOPIC_DAEMON, IMPORT_WORKER_FLAG " is for the service itself");
        return 2;
    }
    /* An orphan's report has no reader, and its successor may import the same file. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is_orphan())
        return 1;
    (void)prctl(PR_SET_NAME, "import");
    map_guard_install(); /* import_run() checks what the guard has marked */
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    if (asprintf(&folder, "%s/models", argv[1]) < 0) {
        folder = NULL;
        import_worker_report(IMPORT_VERB_FAILED, "out of memory");
        return 1;
    }
    options.cache_dir = folder;
    options.progress = on_progress;
    options.progress_arg = &last_permille;
    r = import_run(argv[0], NULL, &options, &done, &err);
    if (r) {
        report_failure(r, &err);
        return 1;
    }
    import_worker_report(IMPORT_VERB_DONE, done.path);
    return 0;
}
