// SPDX-License-Identifier: Apache-2.0
#include "scheduler/operators/op_times.h"

#include "base/min_max.h"

#define NEW_TIME 0.25 /* weight of a new measurement */

static double follow(double before, uint32_t n_before, uint64_t ns) {
    if (!n_before)
        return (double)ns;
    if (n_before < OP_TIMES_FIRST)
        return MIN((double)ns, before);
    return before + NEW_TIME * ((double)ns - before);
}

void op_times_took(OpTimes *times, OpQueue by, size_t node, uint64_t ns) {
    uint32_t *n = &times->n[by][node];

    times->ns[by][node] = follow(times->ns[by][node], *n, ns);
    *n += *n < OP_TIMES_FIRST;
}

void op_times_took_beside(OpTimes *times, size_t node, uint64_t begin_ns, uint64_t end_ns) {
    uint32_t *n = &times->n_beside[node];

    times->begin_ns[node] = follow(times->begin_ns[node], *n, begin_ns);
    times->end_ns[node] = follow(times->end_ns[node], *n, end_ns);
    *n += *n < OP_TIMES_FIRST;
}

bool op_times_know(const OpTimes *times, OpQueue by, uint64_t nodes) {
    for (; nodes; nodes &= nodes - 1)
        if (times->n[by][__builtin_ctzll(nodes)] < OP_TIMES_FIRST)
            return false;
    return true;
}
