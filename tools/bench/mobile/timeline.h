// SPDX-License-Identifier: Apache-2.0
/* A picture of what ran when on the npu device: bands one under the other on one scale of time, each with a line for
 * the NPU, one for the processors and one for loads. */
#ifndef COORDGEN_BENCH_TIMELINE_H
#define COORDGEN_BENCH_TIMELINE_H

#include <jansson.h>

#include "base/err.h"
#include "base/strings/str_buf.h"
#include "scheduler/trace.h"

/* Of the picture. */
typedef enum TimelineLine {
    TIMELINE_NPU,
    TIMELINE_PROCESSORS,
    TIMELINE_LOADS,
    _TIMELINE_LINES,
} TimelineLine;

typedef enum TimelineKind {
    TIMELINE_PRODUCT,
    TIMELINE_ATTENTION,
    TIMELINE_OTHER, /* operators, and all around them */
    TIMELINE_LOAD_PROMPTS,
    TIMELINE_LOAD_DECODING,
    TIMELINE_WAIT, /* for a load */
    _TIMELINE_KINDS,
} TimelineKind;

#define TIMELINE_BANDS_MAX 144 /* as many as a bench of 16 prompts has */

typedef struct Timeline Timeline;

int timeline_new(Timeline **timelinep); /* 0 or -ENOMEM */
Timeline *timeline_free(Timeline *timeline);
DEFINE_CLEANUP(Timeline, timeline_free)

/* A band more, before those of a higher place: the events of a trace from `first` on, within start_ns..end_ns.
 * prompt_end_ns: where its prompt was computed, which is marked; 0: nowhere. 0, -ENOMEM, -E2BIG. */
int timeline_add(Timeline *timeline, size_t place, const char *name, const Trace *trace, size_t first,
                 uint64_t start_ns, uint64_t prompt_end_ns, uint64_t end_ns);
/* Appends the document, in which a pixel is of what ran longest in it. Same bands, same bytes. */
void timeline_svg(StrBuf *text, const Timeline *timeline, const char *title);
/* The bands in the picture's order, each with all that ran in it, in milliseconds since its begin. The caller's; NULL
 * without memory. */
json_t *timeline_json(const Timeline *timeline, const char *title);
/* The picture as a file, or the numbers where its name ends in .json; whole or not at all. 0, -errno with a text. */
int timeline_write(const Timeline *timeline, const char *title, const char *path, ErrText *err);

#endif
