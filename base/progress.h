// SPDX-License-Identifier: Apache-2.0
/* Progress of a long task, on a terminal as one line that is drawn anew: stage, bar, per cent, bytes, rate, time left.
 * Not on a terminal: one plain line a stage and then one every ten seconds. */
#ifndef COORDGEN_BASE_PROGRESS_H
#define COORDGEN_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero, then progress_init(). One thread. */
typedef struct Progress {
    int fd;
    bool terminal; /* lines may be redrawn */
    bool colour;   /* terminal, and NO_COLOR is not set */
    bool drawn;    /* a line is on the screen */
    const char *stage;
    uint64_t stage_begin_ns;
    uint64_t stage_begin_bytes;
    uint64_t shown_ns; /* when something was last written */
} Progress;

/* fd is the caller's (STDERR_FILENO). */
void progress_init(Progress *progress, int fd);
/* stage: a literal; a new one starts the clock anew. Cheap enough to call for every block. */
void progress_update(Progress *progress, const char *stage, uint64_t done_bytes, uint64_t total_bytes);
/* Takes the line off the screen, so that the next output starts clean. */
void progress_end(Progress *progress);

/* The line for these values, at most columns wide (0: no limit, no bar). elapsed_ns and moved_bytes: of this stage. */
void progress_line(char *line, size_t room_bytes, unsigned int columns, bool colour, const char *stage,
                   uint64_t done_bytes, uint64_t total_bytes, uint64_t moved_bytes, uint64_t elapsed_ns);

#endif
