// SPDX-License-Identifier: Apache-2.0
/* The measured times of a block's graphs, noted for the next load of the same file on the same kind of machine. */
#ifndef COORDGEN_WEIGHTS_GRAPH_TIMES_NOTE_H
#define COORDGEN_WEIGHTS_GRAPH_TIMES_NOTE_H

#include <limits.h>
#include <sys/stat.h>

#include "backends/backend.h"
#include "base/files/read_limiter.h"
#include "scheduler/graphs/graph_times.h"

/* What the times belong to. Zero: nothing is noted. */
typedef struct GraphTimesNote {
    const GraphTimes *times;
    char folder[PATH_MAX];
    struct stat file;
    char key[128]; /* machine, blocks and limit of the disk */
} GraphTimesNote;

/* Reads what was noted into `times`, which outlives the note. folder: where notes are; NULL: nowhere. */
void graph_times_note_recall(GraphTimesNote *note, GraphTimes *times, int fd, const char *folder,
                             const Backend *backend, size_t n_blocks, ReadLimit limit);
void graph_times_note_save(const GraphTimesNote *note);

#endif
