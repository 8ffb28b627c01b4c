// SPDX-License-Identifier: Apache-2.0
/* The machine's limits, measured in the same run as the results beside them. */
#ifndef COORDGEN_BENCH_FLOOR_H
#define COORDGEN_BENCH_FLOOR_H

#include "base/err.h"
#include "base/system/worker_pool.h"
#include "tools/bench/peak.h"
#include "tools/bench/report.h"

typedef struct Floors {
    const Peak *peak;         /* loop over the product kernel's instructions; NULL: unknown */
    double gops_per_s;        /* speed of that loop on all threads; 0: unknown */
    double fed_gops_per_s;    /* the same with operands from the cache, median of the last tries; 0: unknown */
    double gbytes_per_s;      /* reading memory, all threads */
    double disk_gbytes_per_s; /* reading a package or an image with O_DIRECT, median; 0: not measured */
    uint8_t *bytes;           /* memory that is read */
} Floors;

/* The machine's speed at one moment. */
typedef struct FloorMoment {
    double gops_per_s;   /* the peak; 0: unknown */
    double gbytes_per_s; /* reading memory, median of some tries, for other programs use memory all the time */
} FloorMoment;

/* Measures the floors for the product kernel @kernel. Another call keeps the better figures, for other programs only
 * ever slow a machine down. Return: 0 or -ENOMEM. */
int floors_measure(Floors *floors, const char *kernel, WorkerPool *pool);
/* Measures the floors, and reports the speed of this moment. */
int floors_measure_now(Floors *floors, const char *kernel, WorkerPool *pool, FloorMoment *moment);
void floors_deinit(Floors *floors);
/* Reports the peaks of all instruction sets and of memory, by one thread and by n_threads. Return: 0 or -errno. */
int floors_report(BenchReport *report, unsigned int n_threads);
/* Reports the speed of reading the file's first 512 MiB with O_DIRECT. Return: 0, -errno or EXTENT_E_REFUSED, with a
 * text. */
int floor_report_disk(BenchReport *report, const char *path, ErrText *err);

#endif
