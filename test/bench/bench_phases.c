// SPDX-License-Identifier: Apache-2.0
/* Measures a block of attention, 256 positions for 256 row-heads, by its phases: products of keys, weights, products of
 * values, the sum over blocks. A device whose unit multiplies (BackendOps.attention_joint) has the products beside the
 * rest. One thread, by its CPU time, least of many runs; keys and values are in the cache.
 *
 * build/bin/bench-phases */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/cpu/attention/attention.h"
#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "tools/bench/machine.h"

enum {
    ROW_HEADS = 256,
    RUNS = 2000,
    PARTS = ATTENTION_BLOCK / KV_BLOCK
};

typedef enum Phase {
    PHASE_KEYS,
    PHASE_WEIGHTS,
    PHASE_VALUES,
    PHASE_ADD,
    PHASE_BLOCK, /* the first three as one call, as the processors attend alone */
    _PHASE_N,
} Phase;

typedef struct Work {
    const AttentionOps *ops;
    AttentionQueries queries;
    AttentionParts parts;
    AttentionSums sums;
    AttentionTotals totals;
    uint8_t *cache, *scratch;
} Work;

static void fill(float *values, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (float)(seed >> 8) / 0x1p24f - 0.5f;
    }
}

static void work_init(Work *work, const AttentionOps *ops, size_t head_size) {
    const size_t n = ROW_HEADS, plane_bytes = KV_BLOCK * kv_row_bytes(head_size),
                 outputs_bytes = n * head_size * sizeof(float);
    _cleanup_(freep) float *x = machine_alloc(outputs_bytes);
    void *blocks[PARTS];
    const KvHead kv = { blocks, 0, plane_bytes, head_size };

    *work = (Work){
        .ops = ops,
        .queries = { head_size, 0, machine_alloc(n * attention_levels_bytes(head_size)),
                     machine_alloc(n * sizeof(float)), machine_alloc(n * sizeof(int32_t)) },
        .parts.n = PARTS,
        .sums = { machine_alloc(n * sizeof(float)), machine_alloc(n * sizeof(float)),
                  machine_alloc(n * sizeof(int32_t)), machine_alloc(outputs_bytes) },
        .totals = { machine_alloc(n * sizeof(float)), machine_alloc(n * sizeof(float)), machine_alloc(outputs_bytes) },
        .cache = machine_alloc(PARTS * 2 * plane_bytes),
        .scratch = machine_alloc(attention_scratch_bytes(ops->group)),
    };
    for (size_t i = 0; i < PARTS; i++) {
        blocks[i] = work->cache + i * 2 * plane_bytes;
        work->parts.at[i] = kv_block_at(&kv, blocks[i]);
    }
    fill(x, n * head_size, 1);
    ops->store(&kv, 0, x, x, NULL, head_size, ATTENTION_BLOCK);
    fill(x, n * head_size, 2);
    ops->queries(&work->queries, 0, x, n, NULL, 0.18f);
    for (size_t i = 0; i < n; i++)
        work->totals.units[i] = -INFINITY;
}

static void work_deinit(const Work *work) {
    void *const all[] = {
        work->queries.levels,     work->queries.factors,  work->queries.starts, work->sums.score_units,
        work->sums.value_units,   work->sums.normalizers, work->sums.outputs,   work->totals.units,
        work->totals.normalizers, work->totals.outputs,   work->cache,          work->scratch
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

static void run_phase(const Work *work, Phase phase) {
    const AttentionOps *ops = work->ops;
    const size_t head_size = work->queries.head_size;

    for (size_t at = 0, n; at < ROW_HEADS; at += n) {
        n = MIN(ROW_HEADS - at, ops->group);
        if (phase == PHASE_KEYS)
            ops->keys(&work->queries, at, n, &work->parts, work->scratch);
        else if (phase == PHASE_WEIGHTS)
            ops->weights(&work->queries, at, n, &work->parts, NULL, work->scratch, &work->sums);
        else if (phase == PHASE_VALUES)
            ops->values(n, &work->parts, head_size, work->scratch, &work->sums);
        else if (phase == PHASE_ADD)
            ops->add(&work->sums, n, head_size, &work->totals);
        else
            ops->block(&work->queries, at, n, &work->parts, NULL, work->scratch, &work->sums);
    }
}

/* Prints the least time of each phase, and how many times as fast the block is beside a unit that multiplies: one as
 * fast as this processor, and one that is never waited for. */
static void bench(const AttentionOps *ops, size_t head_size) {
    double us[_PHASE_N], alone, rest;
    Work work;

    work_init(&work, ops, head_size);
    for (Phase phase = 0; phase < _PHASE_N; phase++) {
        uint64_t best = UINT64_MAX;

        for (size_t run = 0; run < RUNS; run++) {
            const uint64_t start = machine_ns(), took = (run_phase(&work, phase), machine_ns() - start);

            best = MIN(best, took);
        }
        us[phase] = (double)best / 1e3;
    }
    work_deinit(&work);
    alone = us[PHASE_BLOCK] + us[PHASE_ADD];
    rest = us[PHASE_WEIGHTS] + us[PHASE_ADD];
    printf("%-22s %4zu %8.1f %8.1f %8.1f %8.1f %8.1f %8.2f %8.2f\n", ops->name, head_size, us[PHASE_KEYS],
           us[PHASE_VALUES], us[PHASE_WEIGHTS], us[PHASE_ADD], us[PHASE_BLOCK],
           alone / fmax(us[PHASE_KEYS] + us[PHASE_VALUES], rest), alone / rest);
}

int main(void) {
    printf("us for %d row-heads and %d positions; times as fast beside a unit like this processor, or a faster one\n"
           "%-22s %4s %8s %8s %8s %8s %8s %8s %8s\n",
           ROW_HEADS, ATTENTION_BLOCK, "build", "head", "keys", "values", "weights", "add", "block", "alike", "faster");
    for (size_t i = 0; i < attention_n_ops(); i++)
        for (size_t head_size = 64; head_size <= 256; head_size *= 2)
            if (!(attention_ops_at(i)->need & ~cpu_features()))
                bench(attention_ops_at(i), head_size);
    return 0;
}
