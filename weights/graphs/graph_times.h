// SPDX-License-Identifier: Apache-2.0
/* How long a block's graphs take to compute and to load, as it was seen, and noted for the next load of the model: of
 * this file, on this kind of machine. */
#ifndef COORDGEN_WEIGHTS_GRAPH_TIMES_H
#define COORDGEN_WEIGHTS_GRAPH_TIMES_H

#include <limits.h>
#include <sys/stat.h>

#include "backends/backend.h"
#include "base/files/read_limiter.h"
#include "scheduler/graph_switch.h"

/* Of whom they are. Zero: nothing is noted. */
typedef struct GraphTimesNote {
    const GraphTimes *times;
    char folder[PATH_MAX];
    struct stat file;
    char key[128]; /* machine, blocks and limit of the disk */
} GraphTimesNote;

/* What was noted comes into times, which outlives the note. folder NULL: nothing is. */
void graph_times_recall(GraphTimesNote *note, GraphTimes *times, int fd, const char *folder, const Backend *backend,
                        size_t n_blocks, ReadLimit limit);
void graph_times_save(const GraphTimesNote *note);

void graph_times_note_load(GraphTimes *times, GraphKind kind, double ns);
/* A step of so many rows went through a block. */
void graph_times_note_compute(GraphTimes *times, GraphKind kind, size_t rows, size_t prefill_rows, size_t decode_rows,
                              double ns);

#endif
