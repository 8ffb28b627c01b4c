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

/* A raise of one group that waits for its turn. */
typedef struct Raise {
    double gain;    /* less error for each bit of storage */
    uint32_t index; /* of the group */
    int8_t bits;    /* its width after it */
} Raise;

/* Binary heap, largest gain first; of equal gains the lower index. */
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

/* The first one gives its place to the next raise of its group, or goes. */
static void heap_replace(RaiseHeap *heap, const Raise *next) {
    if (next)
        heap->raises[0] = *next;
    else
        heap->raises[0] = heap->raises[--heap->n];
    heap_sink(heap, 0);
}

/* Bits of storage in a budget; 1e-6 keeps an average like 4.7 over 10 channels at 47. */
static double budget_of(double n_weights, double average_bits) {
    return floor(n_weights * average_bits + 1e-6);
}

/**
 * bit_allocation_tensor() - EdgeFlow 4.1, Algorithm 1: greedy bit-width allocation over the channels of one tensor
 * @peaks:        f64[n], max^2 / mean of squares of every channel (relative_error_peak())
 * @average_bits: 1..8; the channels get floor(n * average_bits) bits together
 * @bits:         out: int8[n], 1..8
 *
 * Every channel starts with 1 bit; the bit that lowers the sum of RE most is spent next, until none is left. The gain
 * of a bit, RE(W, B) - RE(W, B + 1) = 3/4 RE(W, B), falls with B, so the greedy answer is the optimum; gains are exact
 * multiples of the peaks by powers of two, and of equal ones the lower channel comes first. O(n log n). Thread: any.
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

/* The raise of a group from `bits` that gains most for each bit of storage, among those that fit into `left` bits; of
 * equal ones the smallest. False when none lowers the error. */
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
 * bit_allocation_model() - one budget for groups of different sizes, by their measured errors
 * @groups:       [n]
 * @average_bits: average width over all weights; the budget is floor(average_bits * sum of n_weights) bits
 * @min_bits, @max_bits: what a group may have
 * @bits:         out: int8[n]
 *
 * Every group starts with min_bits. Again and again the raise, by one or more bits, that lowers the error most for each
 * bit of storage is made; of equal ones that of the lower index. A raise by several bits at once is what errors that
 * are not convex need: the steps of a group are the corners of the lower convex hull of its errors. A raise that no
 * longer fits is replaced by the best one of its group that does, so that what is left is used up by smaller steps and
 * smaller groups. A group whose error no wider width lowers stays as it is; bits may then be left.
 *
 * Guarantee: let R be the first raise, in order of gain, that does not fit. What is reached before it is the optimum
 * for the bits used until then. The sum of errors at the end is not more than the optimum for the budget plus what R
 * would have gained (the optimum with fractions of R allowed is a lower bound); when all raises fit, it is the
 * optimum. With thousands of groups one raise is nothing. Exact for groups of one size whose errors are convex.
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
