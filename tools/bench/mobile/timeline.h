// SPDX-License-Identifier: Apache-2.0
/* A timeline of the npu device as the numbers of a picture, which tools/plot draws: bands one below the other on one
 * time scale, each with lines for the NPU, the processors and loads. */
#ifndef COORDGEN_BENCH_TIMELINE_H
#define COORDGEN_BENCH_TIMELINE_H

#include "base/err.h"
#include "base/strings/str_buf.h"
#include "scheduler/operators/trace.h"

/* A line of a band. */
typedef enum TimelineLine {
    TIMELINE_NPU,
    TIMELINE_PROCESSORS,
    TIMELINE_LOADS,
    _TIMELINE_LINES,
} TimelineLine;

typedef enum TimelineKind {
    TIMELINE_PRODUCT,
    TIMELINE_ATTENTION,
    TIMELINE_OTHER, /* other operators, and the work between operators */
    TIMELINE_LOAD_PROMPTS,
    TIMELINE_LOAD_DECODING,
    TIMELINE_WAIT, /* waiting for a load */
    _TIMELINE_KINDS,
} TimelineKind;

#define TIMELINE_BANDS_MAX 144 /* bands of a bench with 16 prompts */

typedef struct Timeline Timeline;

int timeline_new(Timeline **timelinep); /* 0 or -ENOMEM */
Timeline *timeline_free(Timeline *timeline);
DEFINE_CLEANUP(Timeline, timeline_free)

/* Adds a band before those of a higher place, from the trace's events from index @first on, within start_ns..end_ns.
 * @prompt_end_ns marks the end of the prompt; 0: no mark. Return: 0, -ENOMEM, -E2BIG. */
int timeline_add(Timeline *timeline, size_t place, const char *name, const Trace *trace, size_t first,
                 uint64_t start_ns, uint64_t prompt_end_ns, uint64_t end_ns);
/* Appends CSV for tools/plot: each 880th part of the longest band shows what ran longest in it. */
void timeline_csv(StrBuf *text, const Timeline *timeline, const char *title);
/* Writes the CSV file, whole or not at all. Return: 0, -errno with a text. */
int timeline_write(const Timeline *timeline, const char *title, const char *path, ErrText *err);

#endif
