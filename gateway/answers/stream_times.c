// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/stream_times.h"

#include "base/clock.h"

static double ms_since(uint64_t from_ns) {
    return (double)(clock_now_ns() - from_ns) / 1e6;
}

void stream_times_begin(StreamTimes *times) {
    *times = (StreamTimes){ .start_ns = clock_now_ns() };
}

json_t *stream_times_progress(StreamTimes *times, const CoordgenEvent *event) {
    if (!event->prompt_tokens || (times->has_told && times->told_tokens == event->prefilled_tokens))
        return NULL;
    times->has_told = true;
    times->told_tokens = event->prefilled_tokens;
    return json_pack("{sI, sI, sI, sf}", "total", (json_int_t)event->prompt_tokens, "cache",
                     (json_int_t)event->cached_tokens, "processed", (json_int_t)event->prefilled_tokens, "time_ms",
                     ms_since(times->start_ns));
}

json_t *stream_times_so_far(StreamTimes *times, const CoordgenEvent *event) {
    double ms;

    if (!times->first_ns)
        times->first_ns = clock_now_ns();
    times->n_tokens += event->n_tokens;
    ms = ms_since(times->first_ns);
    return json_pack("{sI, sf, sf, sf}", "predicted_n", (json_int_t)times->n_tokens, "predicted_ms", ms,
                     "predicted_per_token_ms", times->n_tokens ? ms / (double)times->n_tokens : 0,
                     "predicted_per_second", ms > 0 ? (double)times->n_tokens * 1000 / ms : 0);
}
