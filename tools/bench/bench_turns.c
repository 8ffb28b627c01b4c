// SPDX-License-Identifier: Apache-2.0
/* Keeps the repetitions of a test, each beside a floor of its own. */
#include <errno.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/machine.h"

int bench_turns_init(BenchTurns *turns, size_t n) {
    *turns = (BenchTurns){ .values = calloc(n, sizeof(double)),
                           .floors = calloc(n, sizeof(double)),
                           .parts = calloc(n, sizeof(double)) };
    return turns->values && turns->floors && turns->parts ? 0 : -ENOMEM;
}

void bench_turns_deinit(BenchTurns *turns) {
    free(turns->values);
    free(turns->floors);
    free(turns->parts);
}

void bench_turns_add(BenchTurns *turns, BenchUnit unit, double value, double floor) {
    turns->values[turns->n] = value;
    turns->floors[turns->n] = floor;
    if (floor > 0)
        turns->parts[turns->n] = unit == BENCH_MS ? floor / value : value / floor;
    turns->n++;
}

void bench_turns_take(BenchTurns *turns, BenchResult *result) {
    result->floor = machine_median(turns->floors, turns->n);
    result->of_floor = machine_median(turns->parts, turns->n);
    bench_result_take(result, turns->values, turns->n);
}
