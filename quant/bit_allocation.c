// SPDX-License-Identifier: Apache-2.0
#include "quant/bit_allocation.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "quant/relative_error.h"

/* A raise of one group that waits in the heap. */
typedef struct Raise {
    double gain;    /* decrease of the error for each bit of storage */
    uint32_t index; /* of the group */
    int8_t bits;    /* the group's width after the raise */
} Raise;

/* A binary heap, largest gain first; the lower index comes first among equal gains. */
typedef struct RaiseHeap {
    Raise *raises;
    size_t n;
} RaiseHeap;

static bool raise_before(const Raise *a, const Raise *b) {
    return a->gain != b->gain ? a->gain > b->gain : a->index < b->index;
}

static void heap_sink(RaiseHeap *heap, size_t i) {
    const Raise raise = heap->raises[i];

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && raise_before(&heap->raises[child + 1], &heap->raises[child]))
            child++;
        if (!raise_before(&heap->raises[child], &raise))
            break;
        heap->raises[i] = heap->raises[child];
        i = child;
    }
    heap->raises[i] = raise;
}

static void heap_build(RaiseHeap *heap) {
    for (size_t i = heap->n / 2; i-- > 0;)
        heap_sink(heap, i);
}

/* Replaces the first raise by the next one of its group, or removes it. */
static void heap_replace(RaiseHeap *heap, const Raise *next) {
    if (next)
        heap->raises[0] = *next;
    else
        heap->raises[0] = heap->raises[--heap->n];
    heap_sink(heap, 0);
}

/* Returns the bits of storage of a budget; 1e-6 keeps an average like 4.7 over 10 channels at 47. */
static double budget_of(double n_weights, double average_bits) {
    return floor(n_weights * average_bits + 1e-6);
}

/**
 * bit_allocation_tensor() - allocate bit widths greedily over the channels of one tensor (EdgeFlow 4.1, Algorithm 1)
 * @peaks:        f64[n], max^2 / mean of squares of every channel (relative_error_peak())
 * @average_bits: 1..8; the channels get floor(n * average_bits) bits together
 * @bits:         out: int8[n], 1..8
 *
 * Every channel starts with 1 bit. The bit that lowers the sum of RE most is spent next, until none is left. The gain
 * of a bit, RE(W, B) - RE(W, B + 1) = 3/4 RE(W, B), falls with B, so the greedy answer is the optimum. Gains are exact
 * multiples of the peaks by powers of two; among equal gains the lower channel comes first. O(n log n). Thread: any.
 */
int bit_allocation_tensor(const double *peaks, size_t n, double average_bits, int8_t *bits) {
    _cleanup_(freep) Raise *raises = NULL;
    RaiseHeap heap;
    double left;

    if (!n || n > UINT32_MAX || !(average_bits >= GRID_BITS_MIN && average_bits <= GRID_BITS_MAX))
        return err_raise(-EINVAL);
    for (size_t i = 0; i < n; i++)
        if (!(peaks[i] >= 0 && peaks[i] < INFINITY))
            return err_raise(-EINVAL);
    raises = malloc(n * sizeof(*raises));
    if (!raises)
        return err_raise(-ENOMEM);
    for (size_t i = 0; i < n; i++) {
        bits[i] = 1;
        raises[i] = (Raise){ relative_error(peaks[i], 1) - relative_error(peaks[i], 2), (uint32_t)i, 2 };
    }
    heap = (RaiseHeap){ raises, n };
    heap_build(&heap);
    for (left = budget_of((double)n, average_bits) - (double)n; left >= 1 && heap.n; left--) {
        Raise raise = heap.raises[0];

        bits[raise.index] = raise.bits;
        if (raise.bits < GRID_BITS_MAX) {
            raise.gain =
                relative_error(peaks[raise.index], raise.bits) - relative_error(peaks[raise.index], raise.bits + 1);
            raise.bits++;
            heap_replace(&heap, &raise);
        } else {
            heap_replace(&heap, NULL);
        }
    }
    return 0;
}

/* Finds the raise of a group from `bits` with the largest gain that fits into `left` bits, the smallest among equal
 * gains. False if no raise lowers the error. */
static bool best_raise(const BitGroup *group, int bits, int max_bits, double left, Raise *raise) {
    raise->gain = 0;
    for (int to = bits + 1; to <= max_bits; to++) {
        const double cost = (double)(to - bits) * (double)group->n_weights;
        const double gain = (group->error[bits - 1] - group->error[to - 1]) / cost;

        if (cost > left)
            break;
        if (gain > raise->gain) {
            raise->gain = gain;
            raise->bits = (int8_t)to;
        }
    }
    return raise->gain > 0;
}

static bool groups_are_good(const BitGroup *groups, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!groups[i].n_weights)
            return false;
        for (int bits = 0; bits < GRID_BITS_MAX; bits++)
            if (!isfinite(groups[i].error[bits]))
                return false;
    }
    return true;
}

/**
 * bit_allocation_model() - spend one budget on groups of different sizes, by their measured errors
 * @groups:       [n]
 * @average_bits: average width over all weights; the budget is floor(average_bits * sum of n_weights) bits
 * @min_bits, @max_bits: limits of a group's width
 * @bits:         out: int8[n]
 *
 * Every group starts with min_bits. Each step makes the raise, by one or more bits, that lowers the error most for
 * each bit of storage; among equal raises, that of the lower index. Raises by several bits serve errors that are not
 * convex: the steps of a group are the corners of the lower convex hull of its errors. A raise that no longer fits is
 * replaced by the best one of its group that does, so that smaller steps and smaller groups use up the rest. A group
 * stays as it is if no wider width lowers its error; bits may then be left.
 *
 * Guarantee: let R be the first raise, in order of gain, that does not fit. The state before R is the optimum for the
 * bits used until then. The final sum of errors is at most the optimum for the budget plus the gain of R, because the
 * optimum with fractions of R allowed is a lower bound. If all raises fit, the result is the optimum. With thousands
 * of groups, one raise is negligible. Groups of one size with convex errors have the exact optimum.
 *
 * O(n log n) with at most 7 steps a group, and at most 7 more near the end. Thread: any.
 */
int bit_allocation_model(const BitGroup *groups, size_t n, double average_bits, int min_bits, int max_bits,
                         int8_t *bits) {
    _cleanup_(freep) Raise *raises = NULL;
    RaiseHeap heap = { 0 };
    double n_weights = 0, left;

    if (!n || n > UINT32_MAX || min_bits < GRID_BITS_MIN || max_bits > GRID_BITS_MAX || min_bits > max_bits ||
        !(average_bits >= min_bits && average_bits <= GRID_BITS_MAX) || !groups_are_good(groups, n))
        return err_raise(-EINVAL);
    raises = malloc(n * sizeof(*raises));
    if (!raises)
        return err_raise(-ENOMEM);
    for (size_t i = 0; i < n; i++)
        n_weights += (double)groups[i].n_weights;
    left = budget_of(n_weights, average_bits) - (double)min_bits * n_weights;
    heap.raises = raises;
    for (size_t i = 0; i < n; i++) {
        Raise raise = { .index = (uint32_t)i };

        bits[i] = (int8_t)min_bits;
        if (best_raise(&groups[i], min_bits, max_bits, INFINITY, &raise))
            raises[heap.n++] = raise;
    }
    heap_build(&heap);
    while (heap.n) {
        Raise raise = heap.raises[0];
        const BitGroup *group = &groups[raise.index];
        const double cost = (double)(raise.bits - bits[raise.index]) * (double)group->n_weights;
        double limit = left;

        if (cost <= left) {
            bits[raise.index] = raise.bits;
            left -= cost;
            limit = INFINITY;
        }
        heap_replace(&heap, best_raise(group, bits[raise.index], max_bits, limit, &raise) ? &raise : NULL);
    }
    return 0;
}
