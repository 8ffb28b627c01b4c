// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/floor.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/files/page_cache.h"
#include "base/system/cpu.h"
#include "tools/bench/machine.h"

enum {
    PIECE_BYTES = 1 << 20,
    PIECES = 256, /* more than a last-level cache keeps of a passing stream */
    READ_BYTES = PIECES * PIECE_BYTES,
    READ_TRIES = 8,
    DISK_BYTES = 512 << 20,
    DISK_TRIES = 5,
};

typedef struct ReadLoop {
    const uint8_t *bytes;
} ReadLoop;

static void read_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const ReadLoop *loop = arg;

    (void)machine_read(loop->bytes + begin * PIECE_BYTES, (end - begin) * PIECE_BYTES);
}

static uint8_t *new_bytes(void) {
    uint8_t *bytes = aligned_alloc((size_t)2 << 20, READ_BYTES);

    if (!bytes)
        return NULL;
    madvise(bytes, READ_BYTES, MADV_HUGEPAGE);
    return memset(bytes, 1, READ_BYTES);
}

/* Measures the GB/s of every try, sorted. */
static void read_tries(const uint8_t *bytes, WorkerPool *pool, double values[READ_TRIES]) {
    ReadLoop loop = { bytes };

    for (int try = 0; try < READ_TRIES; try++) {
        uint64_t start_ns = clock_now_ns();

        worker_pool_run(pool, read_pieces, &loop, PIECES, 1);
        values[try] = (double)READ_BYTES / (double)(clock_now_ns() - start_ns);
    }
    (void)machine_median(values, READ_TRIES);
}

/* Measures the GB/s at which the pool reads memory. Return: 0 or -ENOMEM. */
static int read_memory(WorkerPool *pool, double *gbytes_per_sp) {
    _cleanup_(freep) uint8_t *bytes = new_bytes();
    double values[READ_TRIES];

    if (!bytes)
        return -ENOMEM;
    read_tries(bytes, pool, values);
    *gbytes_per_sp = values[READ_TRIES - 1];
    return 0;
}

void floors_deinit(Floors *floors) {
    free(floors->bytes);
    *floors = (Floors){ 0 };
}

int floors_measure(Floors *floors, const char *kernel, WorkerPool *pool) {
    FloorMoment moment;

    return floors_measure_now(floors, kernel, pool, &moment);
}

int floors_measure_now(Floors *floors, const char *kernel, WorkerPool *pool, FloorMoment *moment) {
    const Peak *fed = NULL;
    double reads[READ_TRIES];

    *moment = (FloorMoment){ 0 };
    if (!floors->bytes)
        floors->bytes = new_bytes();
    if (!floors->bytes)
        return -ENOMEM;
    read_tries(floors->bytes, pool, reads);
    moment->gbytes_per_s = machine_median(reads, READ_TRIES);
    floors->gbytes_per_s = fmax(reads[READ_TRIES - 1], floors->gbytes_per_s);
    floors->peak = peak_of_kernel(kernel);
    if (floors->peak) {
        moment->gops_per_s = peak_measure(floors->peak, pool);
        floors->gops_per_s = fmax(moment->gops_per_s, floors->gops_per_s);
        fed = peak_fed(floors->peak);
    }
    if (fed) {
        double values[PEAK_TRIES];

        peak_tries(fed, pool, values);
        floors->fed_gops_per_s = machine_median(values, PEAK_TRIES);
    }
    return 0;
}

static int report_with(BenchReport *report, unsigned int n_threads) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    double value, values[PEAK_TRIES];
    int r = worker_pool_new(&pool, n_threads);

    for (size_t i = 0; i < peak_n() && !r; i++) {
        const Peak *peak = peak_at(i);
        BenchResult result = { .test = "floor", .threads = n_threads, .unit = BENCH_GOPS };

        if (peak->need & ~cpu_features())
            continue;
        snprintf(result.name, sizeof(result.name), "%s %s", peak->type, peak->name);
        peak_tries(peak, pool, values);
        bench_result_take(&result, values, PEAK_TRIES);
        r = bench_report_add(report, &result);
    }
    if (!r)
        r = read_memory(pool, &value);
    if (!r) {
        BenchResult result = { .test = "floor", .name = "memory, reading", .threads = n_threads, .unit = BENCH_GBYTES };

        bench_result_take(&result, &value, 1);
        r = bench_report_add(report, &result);
    }
    return r;
}

int floors_report(BenchReport *report, unsigned int n_threads) {
    int r = report_with(report, 1);

    return r || n_threads == 1 ? r : report_with(report, n_threads);
}

int floor_report_disk(BenchReport *report, const char *path, ErrText *err) {
    BenchResult result = { .test = "floor", .name = "disk, O_DIRECT", .threads = 1, .unit = BENCH_GBYTES };
    double values[DISK_TRIES];

    for (size_t i = 0; i < DISK_TRIES; i++) {
        int r = page_cache_disk_speed(path, DISK_BYTES, &values[i], err);

        if (r)
            return r;
        values[i] /= 1e9;
    }
    bench_result_take(&result, values, DISK_TRIES);
    return bench_report_add(report, &result);
}
