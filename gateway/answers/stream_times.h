// SPDX-License-Identifier: Apache-2.0
/* What a stream tells of its speed before its end. */
#ifndef COORDGEN_GATEWAY_STREAM_TIMES_H
#define COORDGEN_GATEWAY_STREAM_TIMES_H

#include <jansson.h>

#include "client/coordgen-client.h"

typedef struct StreamTimes {
    uint64_t start_ns, first_ns; /* the request's arrival, its first delta; first_ns 0: none yet */
    uint64_t n_tokens;           /* of the answer so far */
    uint64_t prompt_ns;          /* the first progress; 0: none was told */
    uint32_t prompt_tokens, cached_tokens;
    uint32_t told_tokens; /* of the prompt that the last progress told */
    bool has_told;
} StreamTimes;

void stream_times_begin(StreamTimes *times);
/* Returns llama-server's prompt_progress of a PROGRESS, times in ms since the request's arrival; NULL: there is nothing
 * new. */
json_t *stream_times_progress(StreamTimes *times, const CoordgenEvent *event);
/* Returns the part of llama-server's timings that is known of a prompt whose progress was told last. NULL: out of
 * memory. */
json_t *stream_times_prompt(const StreamTimes *times);
/* Takes a DELTA. Returns the part of llama-server's timings that is known before the end: predicted_n and its speed,
 * and those of the prompt if its progress was told. */
json_t *stream_times_so_far(StreamTimes *times, const CoordgenEvent *event);

#endif
