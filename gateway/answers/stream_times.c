// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/stream_times.h"

#include <stdio.h>

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
    if (!times->has_told)
        times->prompt_ns = clock_now_ns();
    times->has_told = true;
    times->prompt_tokens = event->prompt_tokens;
    times->cached_tokens = event->cached_tokens;
    times->told_tokens = event->prefilled_tokens;
    return json_pack("{sI, sI, sI, sf}", "total", (json_int_t)event->prompt_tokens, "cache",
                     (json_int_t)event->cached_tokens, "processed", (json_int_t)event->prefilled_tokens, "time_ms",
                     ms_since(times->start_ns));
}

/* Adds how many tokens of a kind took how long, by llama-server's names. */
static void add_speed(json_t *timings, const char *kind, uint64_t n_tokens, double ms) {
    char name[32];

    snprintf(name, sizeof(name), "%s_n", kind);
    json_object_set_new(timings, name, json_integer((json_int_t)n_tokens));
    snprintf(name, sizeof(name), "%s_ms", kind);
    json_object_set_new(timings, name, json_real(ms));
    snprintf(name, sizeof(name), "%s_per_token_ms", kind);
    json_object_set_new(timings, name, json_real(n_tokens ? ms / (double)n_tokens : 0));
    snprintf(name, sizeof(name), "%s_per_second", kind);
    json_object_set_new(timings, name, json_real(ms > 0 ? (double)n_tokens * 1000 / ms : 0));
}

json_t *stream_times_prompt(const StreamTimes *times) {
    json_t *timings = json_object();
    const uint64_t n_read = times->told_tokens > times->cached_tokens ? times->told_tokens - times->cached_tokens : 0;

    json_object_set_new(timings, "cache_n", json_integer(times->cached_tokens));
    add_speed(timings, "prompt", n_read, n_read ? ms_since(times->prompt_ns) : 0);
    add_speed(timings, "predicted", 0, 0);
    return timings;
}

json_t *stream_times_so_far(StreamTimes *times, const CoordgenEvent *event) {
    json_t *timings = json_object();

    if (!times->first_ns)
        times->first_ns = clock_now_ns();
    times->n_tokens += event->n_tokens;
    if (times->has_told) {
        json_object_set_new(timings, "cache_n", json_integer(times->cached_tokens));
        add_speed(timings, "prompt", times->prompt_tokens - times->cached_tokens,
                  (double)(times->first_ns - times->prompt_ns) / 1e6);
    }
    add_speed(timings, "predicted", times->n_tokens, ms_since(times->first_ns));
    return timings;
}
