// SPDX-License-Identifier: Apache-2.0
/*
 * A side that does not run a product does not measure it either. Each side therefore has a turn now and then: in every
 * few steps the processors run one of the NPU's products, in one layer; less often the NPU runs all products of one
 * group. Attention has its turn among the products: once the other way, alone or together with the NPU.
 */
#include "scheduler/operators/queue_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/strings/str_buf.h"

enum {
    STEPS_A_TRY = 8,
    STEPS_A_GROUP = 32,
    EXPLANATION_MAX_BYTES = 1024,
};

static size_t node_of_turn(uint64_t products, uint64_t turn) {
    for (turn %= (uint64_t)__builtin_popcountll(products); turn; turn--)
        products &= products - 1;
    return (size_t)__builtin_ctzll(products);
}

/* Lets each side measure products that the other one has. */
static void take_turns(QueueProfile *profile, uint64_t products, const double *shares, OpQueuesSetup *setup) {
    if (!(profile->n_steps % STEPS_A_TRY))
        profile->again |= UINT64_C(1) << node_of_turn(products | profile->joint, profile->n_steps / STEPS_A_TRY);
    if (!(profile->n_steps % STEPS_A_GROUP) && shares[0] >= 1)
        setup->on_npu[0] |= products;
}

/* Returns the nodes that may be joint, because the times of both ways are known. */
static uint64_t known_joint(const QueueProfile *profile) {
    uint64_t known = 0;

    for (uint64_t left = profile->joint; left; left &= left - 1) {
        const uint64_t node = left & -left;

        if (op_times_know(&profile->times, OP_QUEUE_NPU, node) && op_times_know(&profile->times, OP_QUEUE_CPU, node))
            known |= node;
    }
    return known;
}

/* Chooses the places for a step of these groups, once the times of both sides are known. */
static void choose(QueueProfile *profile, uint64_t products, const OpPlacementCase *of) {
    const OpPlacement before = profile->placement;
    char text[EXPLANATION_MAX_BYTES];

    if (!op_times_know(&profile->times, OP_QUEUE_NPU, products) ||
        !op_times_know(&profile->times, OP_QUEUE_CPU, products))
        return;
    op_placement_choose(of, &profile->placement);
    if (before.n_groups && !memcmp(before.on_npu, profile->placement.on_npu, sizeof(before.on_npu)))
        return;
    queue_profile_explain(profile, of->queues->graph, text, sizeof(text));
    log_debug(TOPIC_ENGINE, "operators: %s", text);
}

void queue_profile_place(QueueProfile *profile, const double *shares, const double *attention_shares, size_t n_slots,
                         bool is_first, OpQueuesSetup *setup) {
    const uint64_t products = op_queues_products(setup->graph);

    if (!profile->n_steps || profile->kind != OP_PLACEMENT_PROFILE)
        op_placement_init(&profile->placement, products | (profile->kind == OP_PLACEMENT_ALL ? profile->joint : 0));
    if (profile->kind == OP_PLACEMENT_PROFILE && is_first)
        choose(profile, products,
               &(OpPlacementCase){ setup, &profile->times, shares, n_slots, attention_shares, known_joint(profile) });
    profile->n_steps += is_first;
    op_placement_fill(&profile->placement, setup->n_groups, setup->on_npu);
    if (profile->kind == OP_PLACEMENT_PROFILE && is_first && products)
        take_turns(profile, products, shares, setup);
}

bool queue_profile_tries(QueueProfile *profile, const OpTimes *times, size_t node) {
    const uint64_t bit = UINT64_C(1) << node;

    if (profile->kind != OP_PLACEMENT_PROFILE ||
        (times->n[OP_QUEUE_CPU][node] >= OP_TIMES_FIRST && !(profile->again & bit)))
        return false;
    profile->again &= ~bit;
    return true;
}

bool queue_profile_tries_attention(QueueProfile *profile, const OpTimes *times, size_t node, bool is_joint) {
    const uint64_t bit = UINT64_C(1) << node;
    const OpQueue other = is_joint ? OP_QUEUE_CPU : OP_QUEUE_NPU;

    if (profile->kind != OP_PLACEMENT_PROFILE || !(profile->joint & bit) ||
        (times->n[other][node] >= OP_TIMES_FIRST && !(profile->again & bit)))
        return false;
    profile->again &= ~bit;
    return true;
}

/* --- in words ----------------------------------------------------------------------------------------------------- */

/* Groups of the last choice in which the NPU has it. */
static size_t groups_on_npu(const OpPlacement *placement, size_t node) {
    size_t n = 0;

    for (size_t i = 0; i < placement->n_groups; i++)
        n += placement->on_npu[i] >> node & 1;
    return n;
}

static double ms(double ns) {
    return ns / 1e6;
}

/* Appends who attends, and how long that takes. */
static void explain_attention(const QueueProfile *profile, const OpGraph *graph, size_t node, StrBuf *line) {
    const OpTimes *times = &profile->times;
    const size_t n = groups_on_npu(&profile->placement, node);

    str_buf_addf(line, "; %s with the npu in %zu groups of %zu (for %d positions: processors %.3f ms",
                 graph->nodes[node].name, n, profile->placement.n_groups, OP_TIMES_POSITIONS,
                 ms(times->ns[OP_QUEUE_CPU][node]));
    if (times->n[OP_QUEUE_NPU][node])
        str_buf_addf(line, ", with the npu %.3f", ms(times->ns[OP_QUEUE_NPU][node]));
    str_buf_add(line, ")");
}

void queue_profile_explain(const QueueProfile *profile, const OpGraph *graph, char *text, size_t room_bytes) {
    const OpTimes *times = &profile->times;
    const OpPlacement *placement = &profile->placement;
    _cleanup_(str_buf_deinit) StrBuf line = { 0 };

    for (uint64_t left = op_queues_products(graph); left; left &= left - 1) {
        const size_t node = (size_t)__builtin_ctzll(left), n_on_npu = groups_on_npu(placement, node);

        str_buf_addf(&line, "%s%s on the ", line.len_bytes ? "; " : "", graph->nodes[node].name);
        if (n_on_npu && n_on_npu < placement->n_groups)
            str_buf_addf(&line, "npu in %zu groups of %zu", n_on_npu, placement->n_groups);
        else
            str_buf_add(&line, n_on_npu || !placement->n_groups ? "npu" : "processors");
        str_buf_addf(&line, " (npu %.3f ms", ms(times->ns[OP_QUEUE_NPU][node]));
        if (times->n[OP_QUEUE_CPU][node])
            str_buf_addf(&line, ", processors %.3f", ms(times->ns[OP_QUEUE_CPU][node]));
        str_buf_addf(&line, ", and %.3f of them beside either)", ms(times->begin_ns[node] + times->end_ns[node]));
    }
    for (uint64_t left = profile->joint; left; left &= left - 1)
        explain_attention(profile, graph, (size_t)__builtin_ctzll(left), &line);
    if (placement->n_groups)
        str_buf_addf(&line, "; predicted for %d layers: %.2f ms, all on the npu %.2f ms", OP_PLACEMENT_LAYERS,
                     ms(placement->placed_ns), ms(placement->all_npu_ns));
    else
        str_buf_addf(&line, "; %s",
                     profile->kind == OP_PLACEMENT_NPU ? "as it is asked for" : "not everything is measured yet");
    snprintf(text, room_bytes, "%s", str_buf_failed(&line) ? "" : line.data);
}
