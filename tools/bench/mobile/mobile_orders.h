// SPDX-License-Identifier: Apache-2.0
/* What the order of operators brings on the npu device, where products run beside everything else: prompts in each
 * order, in turns. */
#ifndef COORDGEN_BENCH_MOBILE_ORDERS_H
#define COORDGEN_BENCH_MOBILE_ORDERS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define MOBILE_ORDERS_N 9
#define MOBILE_ORDERS_PROMPTS_MAX 16
#define MOBILE_ORDERS_WHY_BYTES 800

/* One order on one prompt; the time is the median of the turns, the rest is of all of them. */
typedef struct MobileOrder {
    const char *name, *placement; /* "position, stealing", "npu" */
    size_t prompt_tokens;
    double prefill_ms;
    double npu_bubble, cpu_bubble;           /* parts of the time in which they had nothing to do */
    double ideal_ms;                         /* the longer of the two at work, had it never waited */
    uint64_t n_products, n_placed, n_stolen; /* of the NPU; of the processors, by placement or stolen */
} MobileOrder;

typedef struct MobileOrders {
    MobileOrder
        rows[MOBILE_ORDERS_PROMPTS_MAX * MOBILE_ORDERS_N]; /* by prompt, then order; in order first, then static */
    size_t n;
    unsigned int n_threads;                                       /* beside the NPU's */
    size_t groups;                                                /* of a step, at most */
    char why[MOBILE_ORDERS_PROMPTS_MAX][MOBILE_ORDERS_WHY_BYTES]; /* of each prompt: the places by profile */
} MobileOrders;

struct BenchRun;
struct Timeline;
/* Adds its rows, and a band of the last turn of each to the timeline, which may be NULL. 0, -errno or a condition of
 * the engine, with a text. */
int mobile_orders_run(const struct BenchRun *run, MobileOrders *orders, struct Timeline *timeline, ErrText *err);
void mobile_orders_table(const MobileOrders *orders, FILE *file);
/* Appends an object for each row. */
void mobile_orders_json(const MobileOrders *orders, json_t *rows);

#endif
