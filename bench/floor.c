#include "bench/floor.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/page_cache.h"
#include "bench/machine.h"

enum {
    PIECE_BYTES = 1 << 20,
    PIECES = 256, /* more than any last-level cache of the machines at hand keeps of a passing stream */
    REPEATS = 8,
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

int floor_read_memory(WorkerPool *pool, double *gbytes_per_sp) {
    const size_t len_bytes = (size_t)PIECES * PIECE_BYTES;
    _cleanup_(freep) uint8_t *bytes = aligned_alloc((size_t)2 << 20, len_bytes);
    ReadLoop loop = { bytes };
    uint64_t best_ns = UINT64_MAX;

    if (!bytes)
        return -ENOMEM;
    madvise(bytes, len_bytes, MADV_HUGEPAGE);
    memset(bytes, 1, len_bytes);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t start_ns = clock_now_ns(), time_ns;

        worker_pool_run(pool, read_pieces, &loop, PIECES, 1);
        time_ns = clock_now_ns() - start_ns;
        best_ns = time_ns < best_ns ? time_ns : best_ns;
    }
    *gbytes_per_sp = (double)len_bytes / (double)best_ns;
    return 0;
}

int floors_measure(Floors *floors, const char *kernel, WorkerPool *pool) {
    const Peak *fed = NULL;
    double gops_per_s, gbytes_per_s;
    int r = floor_read_memory(pool, &gbytes_per_s);

    if (r)
        return r;
    floors->gbytes_per_s = gbytes_per_s > floors->gbytes_per_s ? gbytes_per_s : floors->gbytes_per_s;
    floors->peak = peak_of_kernel(kernel);
    if (floors->peak) {
        gops_per_s = peak_measure(floors->peak, pool);
        floors->gops_per_s = gops_per_s > floors->gops_per_s ? gops_per_s : floors->gops_per_s;
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
        r = floor_read_memory(pool, &value);
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
