// SPDX-License-Identifier: Apache-2.0
#include "base/log_rate.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/strings/printable.h"

enum {
    ROWS = 256,
    ROWS_OF_USERS = 192, /* the rest is left for lines of the service itself, however many users there are */
    SAMPLE_BYTES = 200,
};

#define INTERVAL_NS (UINT64_C(1000000000) * LOG_RATE_INTERVAL_S)

/* Counts one kind of lines in its interval; n = 0: the row is free. */
typedef struct Row {
    LogKind kind;
    uint64_t since_ns;
    uint64_t n;         /* lines in this interval */
    uint64_t n_counted; /* lines in this interval that were not told */
    char sample[SAMPLE_BYTES];
} Row;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_on; /* guarded by lock, as all variables below are */
static void (*call_on_count)(void *arg);
static void *on_count_arg;
static Row rows[ROWS];    /* rows of users from the front, of the service from the end */
static Row others;        /* counts the lines that found no row */
static size_t n_counting; /* rows whose n_counted is not 0 */

void log_rate_start(void (*on_count)(void *arg), void *arg) {
    pthread_mutex_lock(&lock);
    is_on = true;
    call_on_count = on_count;
    on_count_arg = arg;
    pthread_mutex_unlock(&lock);
}

void log_rate_stop(void) {
    (void)log_rate_flush(clock_now_ns(), true);
    pthread_mutex_lock(&lock);
    is_on = false;
    call_on_count = NULL;
    memset(rows, 0, sizeof(rows));
    others = (Row){ 0 };
    n_counting = 0;
    pthread_mutex_unlock(&lock);
}

/* Tells the count of a row, and frees the row. */
static void end_interval(Row *row, uint64_t now_ns) {
    const uint64_t seconds = (now_ns - row->since_ns) / 1000000000;
    char line[SAMPLE_BYTES + 160];

    if (row == &others)
        snprintf(line, sizeof(line),
                 "%" PRIu64 " more lines in %" PRIu64 " s, of too many users at once to count them one by one",
                 row->n_counted, seconds);
    else if (row->kind.uid != LOG_NO_USER)
        snprintf(line, sizeof(line), "uid %" PRIu32 ": %" PRIu64 " more in %" PRIu64 " s like this one: %s",
                 row->kind.uid, row->n_counted, seconds, row->sample);
    else
        snprintf(line, sizeof(line), "%" PRIu64 " more in %" PRIu64 " s like this one: %s", row->n_counted, seconds,
                 row->sample);
    if (row->n_counted) {
        log_emit(row->kind.level, row->kind.topic, line);
        n_counting--;
    }
    row->n = row->n_counted = 0;
}

static bool is_over(const Row *row, uint64_t now_ns) {
    return row->n && now_ns - row->since_ns >= INTERVAL_NS;
}

/* Returns the row of a kind, else a free row, else the row for all others. Frees rows whose interval is over. */
static Row *find_row(const LogKind *kind, uint64_t now_ns) {
    const bool is_users = kind->uid != LOG_NO_USER;
    Row *free_row = NULL;

    for (size_t i = is_users ? 0 : ROWS_OF_USERS; i < (is_users ? ROWS_OF_USERS : ROWS); i++) {
        Row *row = &rows[i];

        if (is_over(row, now_ns))
            end_interval(row, now_ns);
        if (row->n && row->kind.place == kind->place && row->kind.uid == kind->uid)
            return row;
        if (!row->n && !free_row)
            free_row = row;
    }
    if (!free_row && is_over(&others, now_ns))
        end_interval(&others, now_ns);
    return free_row ? free_row : &others;
}

/**
 * log_rate_admits() - decide whether a line is told or counted
 *
 * A client that causes lines chooses neither the number of rows nor the time of a search. Users beyond the number of
 * rows share one row, in which no line is told in full. There are as many kinds as calls in the program.
 */
bool log_rate_admits(const LogKind *kind, const char *line, uint64_t now_ns) {
    bool is_told = true;
    Row *row;

    pthread_mutex_lock(&lock);
    if (is_on) {
        row = find_row(kind, now_ns);
        if (!row->n) {
            row->kind = *kind;
            row->since_ns = now_ns;
            printable_put(row->sample, sizeof(row->sample), line, strlen(line));
        }
        row->n++;
        is_told = row != &others && row->n <= kind->n_told_max;
        if (!is_told && !row->n_counted++ && !n_counting++ && call_on_count)
            call_on_count(on_count_arg);
    }
    pthread_mutex_unlock(&lock);
    return is_told;
}

bool log_rate_flush(uint64_t now_ns, bool all) {
    bool is_counting;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; n_counting && i <= ROWS; i++) {
        Row *row = i < ROWS ? &rows[i] : &others;

        if (row->n_counted && (all || is_over(row, now_ns)))
            end_interval(row, now_ns);
    }
    is_counting = n_counting > 0;
    pthread_mutex_unlock(&lock);
    return is_counting;
}
