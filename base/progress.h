// SPDX-License-Identifier: Apache-2.0
/* Shows the progress of a long task. A terminal has one line, redrawn: stage, bar, per cent, bytes, rate, time left.
 * Any other output gets a plain line for each stage, and one every ten seconds. */
#ifndef COORDGEN_BASE_PROGRESS_H
#define COORDGEN_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero before progress_init(). One thread. */
typedef struct Progress {
    int fd;
    bool terminal; /* lines may be redrawn */
    bool colour;   /* terminal, and NO_COLOR is not set */
    bool drawn;    /* a line is on the screen */
    const char *stage;
    uint64_t stage_begin_ns;
    uint64_t stage_begin_bytes;
    uint64_t shown_ns; /* the time of the last output */
} Progress;

/* Starts on fd, which the caller keeps (STDERR_FILENO). */
void progress_init(Progress *progress, int fd);
/* Shows how far a stage is. stage: a literal; a new stage restarts the clock. Cheap enough to call for every block. */
void progress_update(Progress *progress, const char *stage, uint64_t done_bytes, uint64_t total_bytes);
/* Clears the line, so that the next output starts in an empty one. */
void progress_end(Progress *progress);

/* Writes the line for these values, at most columns wide (0: no limit and no bar). elapsed_ns and moved_bytes belong to
 * this stage. */
void progress_line(char *line, size_t room_bytes, unsigned int columns, bool colour, const char *stage,
                   uint64_t done_bytes, uint64_t total_bytes, uint64_t moved_bytes, uint64_t elapsed_ns);

#endif
