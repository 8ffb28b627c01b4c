// SPDX-License-Identifier: Apache-2.0
/* Limits how often the log repeats a line, so that a client that repeats an event fills neither disk nor journal.
 * Lines of one kind come from one place in the code, on behalf of one user. The log tells the first lines of a kind in
 * an interval in full, counts the others, and tells the count at the end of the interval. Any thread. */
#ifndef COORDGEN_BASE_LOG_RATE_H
#define COORDGEN_BASE_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log_sink.h"

enum {
    LOG_RATE_INTERVAL_S = 30,
    /* Lines of one kind that an interval tells in full: */
    LOG_RATE_OF_USER = 5,      /* caused by a user */
    LOG_RATE_OF_SERVICE = 50,  /* caused by the service itself */
    LOG_RATE_OF_REQUESTS = 100 /* about a user's requests that end in one way */
};

typedef struct LogKind {
    const void *place; /* the address of a constant text, common to the kind; never dereferenced */
    uint32_t uid;      /* LOG_NO_USER: the service itself */
    LogLevel level;
    LogTopic topic;
    uint32_t n_told_max; /* lines that an interval tells in full */
} LogKind;

/* Starts counting; a program that never calls this tells every line. on_count (any thread; NULL: none) reports that a
 * first count waits to be told: log_rate_flush() is due in an interval. */
void log_rate_start(void (*on_count)(void *arg), void *arg);
/* Tells every count, and ends counting. */
void log_rate_stop(void);
/* Whether the line is to be told now; a refused line is counted, and stands for its kind when the count is told. */
bool log_rate_admits(const LogKind *kind, const char *line, uint64_t now_ns);
/* Tells the counts whose intervals are over, or every count if `all`. Return: whether counts are left. */
bool log_rate_flush(uint64_t now_ns, bool all);

#endif
