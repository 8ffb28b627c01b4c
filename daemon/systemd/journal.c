// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/systemd/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log_rate.h"
#include "base/strings/printable.h"
#include "daemon/systemd/journal_sink.h"

static const JournalSink *to_journal; /* NULL: stderr; const after journal_open() */
static bool with_priority;            /* const after journal_open() */

/* JOURNAL_STREAM says which stream is the journal's; stderr may have been redirected since. */
static bool stderr_is_journal(void) {
    const char *given = getenv("JOURNAL_STREAM");
    unsigned long long device;
    struct stat info;
    char *rest;

    if (!given || fstat(STDERR_FILENO, &info) < 0)
        return false;
    device = strtoull(given, &rest, 10);
    return *rest == ':' && info.st_dev == device && info.st_ino == strtoull(rest + 1, NULL, 10);
}

/* A service whose stderr is neither the journal nor a terminal: its reader knows the <N> prefixes of sd-daemon(3). */
static bool run_by_systemd(void) {
    const char *pid = getenv("SYSTEMD_EXEC_PID");

    return pid && strtol(pid, NULL, 10) == (long)getpid();
}

static void sink_stderr(LogLevel level, const char *topic, const char *line) {
    char text[1280];
    int n;

    if (with_priority)
        n = snprintf(text, sizeof(text), "<%d>%s: %s\n", (int)level, topic, line);
    else
        n = snprintf(text, sizeof(text), "coordgend: %s %s: %s\n", log_level_name(level), topic, line);
    /* A single write keeps lines of several processes on a terminal whole. */
    if (n > 0)
        (void)!write(STDERR_FILENO, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

int journal_check(LogTarget target, ErrText *err) {
    if (target != LOG_TARGET_JOURNAL || journal_sink())
        return 0;
    return err_set(err, -EINVAL,
                   "journal: this coordgend was built without libsystemd: set auto or stderr, or build it with "
                   "WITH_SYSTEMD=yes");
}

/* Without libsystemd the journal gets what goes to stderr, with levels and without fields. */
void journal_open(LogTarget target) {
    const JournalSink *sink = journal_sink();

    to_journal =
        sink && (target == LOG_TARGET_JOURNAL || (target == LOG_TARGET_AUTO && stderr_is_journal())) ? sink : NULL;
    with_priority = run_by_systemd() && !isatty(STDERR_FILENO);
    log_set_sink(to_journal ? to_journal->line : sink_stderr);
}

bool journal_takes_priorities(void) {
    return to_journal || with_priority;
}

void journal_request(LogLevel level, const RequestRecord *record) {
    const LogKind kind = { record->outcome, record->uid, level, TOPIC_DAEMON, LOG_RATE_OF_REQUESTS };
    char line[512];

    if (level > log_level())
        return;
    snprintf(line, sizeof(line),
             "request %" PRIu64 ": %s%s%s, uid %u, model %.*s: %s, %" PRIu32 " + %" PRIu32
             " tokens, first after %" PRIu64 " us, %" PRIu64 " us in all",
             record->serial, record->operation, record->priority ? " " : "", record->priority ? record->priority : "",
             (unsigned int)record->uid, UTF8_PREFIX(record->model, 64), record->outcome, record->n_prompt_tokens,
             record->n_output_tokens, record->first_token_us, record->total_us);
    if (!log_rate_admits(&kind, line, clock_now_ns()))
        return;
    if (!to_journal) {
        log_emit(level, TOPIC_DAEMON, line);
        return;
    }
    to_journal->request(level, line, record);
}
