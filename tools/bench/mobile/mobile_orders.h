// SPDX-License-Identifier: Apache-2.0
/* Compares orders of operators on the npu device, where products run beside everything else: prompts in each order, in
 * turns. */
#ifndef COORDGEN_BENCH_MOBILE_ORDERS_H
#define COORDGEN_BENCH_MOBILE_ORDERS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define MOBILE_ORDERS_N 10
#define MOBILE_ORDERS_PROMPTS_MAX 16
#define MOBILE_ORDERS_WHY_BYTES 1024

/* An order on a prompt. The time is the median of the turns, all else counts all turns. */
typedef struct MobileOrder {
    const char *name, *placement; /* "position, stealing", "npu" */
    size_t prompt_tokens;
    double prefill_ms;
    double npu_bubble, cpu_bubble; /* shares of the time without work */
    double ideal_ms;               /* busy time of the busier of the two */
    /* Products on the NPU, on the processors by placement, on the processors by stealing. */
    uint64_t n_products, n_placed, n_stolen;
    uint64_t n_joint; /* attentions whose products the NPU made */
} MobileOrder;

typedef struct MobileOrders {
    MobileOrder
        rows[MOBILE_ORDERS_PROMPTS_MAX * MOBILE_ORDERS_N]; /* by prompt, then order: in-order first, then static */
    size_t n;
    unsigned int n_threads;                                       /* threads beside the NPU's */
    size_t groups;                                                /* groups of a step, at most */
    char why[MOBILE_ORDERS_PROMPTS_MAX][MOBILE_ORDERS_WHY_BYTES]; /* places of products by profile, and why */
} MobileOrders;

struct BenchRun;
struct Timeline;
/* Measures all orders and adds the rows; adds a band of each order's last turn to the timeline, which may be NULL.
 * Return: 0, -errno or a condition of the engine, with a text. */
int mobile_orders_run(const struct BenchRun *run, MobileOrders *orders, struct Timeline *timeline, ErrText *err);
void mobile_orders_table(const MobileOrders *orders, FILE *file);
/* Appends an object for each row. */
void mobile_orders_json(const MobileOrders *orders, json_t *rows);

#endif
