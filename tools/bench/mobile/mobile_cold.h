// SPDX-License-Identifier: Apache-2.0
/* The npu device from a cold page cache to the first token: all read before it begins, or computed behind the load,
 * with graphs of either form. */
#ifndef COORDGEN_BENCH_MOBILE_COLD_H
#define COORDGEN_BENCH_MOBILE_COLD_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define MOBILE_COLD_WAYS 5
#define MOBILE_COLD_PROMPTS_MAX 16

/* One way with one prompt; medians over the turns, in milliseconds. */
typedef struct MobileColdRow {
    const char *way;
    const char *form; /* of the graphs, in the last turn */
    size_t prompt_tokens, n_turns;
    double first_token_ms;
    /* Of that time, in which each of these was at work: they overlap. */
    double read_ms, expand_ms, fill_ms, compute_ms;
    double wait_ms;    /* that nothing was computed */
    double prefill_ms; /* the same prompt again, all being there */
    uint64_t read_bytes;
} MobileColdRow;

typedef struct MobileCold {
    MobileColdRow rows[MOBILE_COLD_PROMPTS_MAX * MOBILE_COLD_WAYS]; /* by prompt, then way; the first is the baseline */
    size_t n;                                                       /* 0: the report is of something else */
    char why[300];                                                  /* of auto */
    double disk_mb_per_s;                                           /* that was allowed; 0: the disk's own, which is: */
    double own_mb_per_s;
} MobileCold;

struct BenchRun;
/* Adds its rows. 0, -errno or a condition of the engine, with a text. */
int mobile_cold_run(const struct BenchRun *run, MobileCold *cold, ErrText *err);
void mobile_cold_table(const MobileCold *cold, FILE *file);
void mobile_cold_csv(const MobileCold *cold, FILE *file);
/* A new array of objects; NULL when there is no memory. */
json_t *mobile_cold_json(const MobileCold *cold);

#endif
