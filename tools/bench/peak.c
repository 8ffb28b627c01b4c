// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peak.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

enum {
    ROUNDS = 12500, /* rounds of a piece of work */
    PIECES_PER_THREAD = 16,
};

#if defined(__x86_64__)
#include "tools/bench/peak_loops_x86_64.h"
#elif defined(__aarch64__)
#include "tools/bench/peak_loops_aarch64.h"
#else
static const Peak *const peaks = NULL;
#define N_PEAKS 0u
#endif

size_t peak_n(void) {
    return N_PEAKS;
}

const Peak *peak_at(size_t index) {
    assert(index < N_PEAKS);
    return &peaks[index];
}

const Peak *peak_fed(const Peak *peak) {
    for (size_t i = 0; i < peak_n(); i++) {
        const char *name = peak_at(i)->name;

        if (!strncmp(name, peak->name, strlen(peak->name)) && !strcmp(name + strlen(peak->name), ", fed"))
            return peak_at(i);
    }
    return NULL;
}

const Peak *peak_of_kernel(const char *kernel) {
    for (size_t i = 0; i < peak_n(); i++)
        if (!strcmp(peak_at(i)->kernel, kernel))
            return peak_at(i);
    return NULL;
}

typedef struct PeakLoop {
    const Peak *peak;
    size_t n;
} PeakLoop;

static void run_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const PeakLoop *loop = arg;

    for (size_t i = begin; i < end; i++)
        loop->peak->loop(loop->n);
}

/**
 * peak_tries() - measure giga-operations a second of all threads of the pool, wall clock
 * @values: one for each try
 *
 * A try takes about a millisecond, so that some tries fall between the time slices of other programs.
 */
void peak_tries(const Peak *peak, WorkerPool *pool, double values[PEAK_TRIES]) {
    PeakLoop loop = { peak, ROUNDS };
    const size_t n = PIECES_PER_THREAD * worker_pool_n_threads(pool);

    for (int try = 0; try < PEAK_TRIES; try++) {
        uint64_t start_ns = clock_now_ns();

        worker_pool_run(pool, run_pieces, &loop, n, 1);
        values[try] = peak->ops * ROUNDS * (double)n / (double)(clock_now_ns() - start_ns);
    }
}

double peak_measure(const Peak *peak, WorkerPool *pool) {
    double values[PEAK_TRIES], best = 0;

    peak_tries(peak, pool, values);
    for (int try = 0; try < PEAK_TRIES; try++)
        best = MAX(values[try], best);
    return best;
}
