// SPDX-License-Identifier: Apache-2.0
#include "gateway/process/httpd_log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool with_priority; /* const after httpd_log_open() */

static void to_stderr(LogLevel level, const char *topic, const char *line) {
    char text[1280];
    int n;

    if (with_priority)
        n = snprintf(text, sizeof(text), "<%d>%s: %s\n", (int)level, topic, line);
    else
        n = snprintf(text, sizeof(text), "coordgen-httpd: %s %s: %s\n", log_level_name(level), topic, line);
    /* A single write keeps lines of several processes whole. */
    if (n > 0)
        (void)!write(STDERR_FILENO, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void httpd_log_open(LogLevel level) {
    with_priority = getenv("JOURNAL_STREAM") && !isatty(STDERR_FILENO);
    log_set_sink(to_stderr);
    log_set_level(level);
}
