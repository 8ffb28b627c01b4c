// SPDX-License-Identifier: Apache-2.0
/* How often the log tells the same thing: whoever repeats what a program logs fills neither the disk nor the journal.
 * Lines are the same when they come from one place in the code, on behalf of one user. The first ones of an interval
 * are told in full, the others counted, and the count is told at the interval's end. Any thread. */
#ifndef COORDGEN_BASE_LOG_RATE_H
#define COORDGEN_BASE_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum {
    LOG_RATE_INTERVAL_S = 30,
    LOG_RATE_OF_USER = 5,      /* lines of one kind that an interval tells in full: on behalf of a user, */
    LOG_RATE_OF_SERVICE = 50,  /* on behalf of nobody, */
    LOG_RATE_OF_REQUESTS = 100 /* and of a user's requests that end in one way */
};

typedef struct LogKind {
    const void *place; /* what the lines have in common: the address of a constant text; never followed */
    uint32_t uid;      /* LOG_NO_USER: the service's own */
    LogLevel level;
    LogTopic topic;
    uint32_t n_told_max; /* of an interval, in full */
} LogKind;

/* Lines are counted from here on. A program that never calls this tells every line. on_count (any thread; NULL: none)
 * is called when there is something to tell where there was nothing: log_rate_flush() is due in an interval. */
void log_rate_start(void (*on_count)(void *arg), void *arg);
/* Tells every count and goes back to telling every line. */
void log_rate_stop(void);
/* Whether the line is to be told; else it is counted. line stands for its kind when the count is told. */
bool log_rate_admits(const LogKind *kind, const char *line, uint64_t now_ns);
/* Tells the counts whose intervals are over, or with all every count. Return: whether some are not told yet. */
bool log_rate_flush(uint64_t now_ns, bool all);

#endif
