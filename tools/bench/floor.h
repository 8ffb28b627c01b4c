// SPDX-License-Identifier: Apache-2.0
/* What the machine can do at most, measured in the same run as the results that stand beside it. */
#ifndef COORDGEN_BENCH_FLOOR_H
#define COORDGEN_BENCH_FLOOR_H

#include "base/err.h"
#include "base/system/worker_pool.h"
#include "tools/bench/peak.h"
#include "tools/bench/report.h"

typedef struct Floors {
    const Peak *peak;         /* of the product kernel's instructions; NULL: unknown */
    double gops_per_s;        /* that peak, all threads; 0: unknown */
    double fed_gops_per_s;    /* with operands from the cache, the median of the last tries; 0: unknown */
    double gbytes_per_s;      /* reading memory, all threads */
    double disk_gbytes_per_s; /* reading a package or an image with O_DIRECT, by median; 0: not measured */
    uint8_t *bytes;           /* what is read of memory */
} Floors;

/* What the machine gives at the moment. */
typedef struct FloorMoment {
    double gops_per_s;   /* the peak; 0: unknown */
    double gbytes_per_s; /* reading memory, the median of some tries: neighbours take from it all the time */
} FloorMoment;

/* Measures; called again it keeps the better figures: other programs only ever make a machine slower. kernel: of the
 * products. 0 or -ENOMEM. */
int floors_measure(Floors *floors, const char *kernel, WorkerPool *pool);
/* The same, and what it is now. */
int floors_measure_now(Floors *floors, const char *kernel, WorkerPool *pool, FloorMoment *moment);
void floors_deinit(Floors *floors);
/* Peaks of all instruction sets and memory, by one thread and by n_threads, into the report: 0 or -errno. */
int floors_report(BenchReport *report, unsigned int n_threads);
/* Reading the file, its first 512 MiB, with O_DIRECT: 0, -errno or EXTENT_E_REFUSED, with a text. */
int floor_report_disk(BenchReport *report, const char *path, ErrText *err);

#endif
