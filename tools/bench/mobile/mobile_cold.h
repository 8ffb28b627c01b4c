// SPDX-License-Identifier: Apache-2.0
/* The npu device from a cold page cache to the first token: all read before it begins, or computed behind the load,
 * with graphs of either form. */
#ifndef COORDGEN_BENCH_MOBILE_COLD_H
#define COORDGEN_BENCH_MOBILE_COLD_H

#include "base/err.h"

struct BenchRun;
/* Makes the run's report one of them. 0, -errno or a condition of the engine, with a text. */
int mobile_cold_run(const struct BenchRun *run, ErrText *err);

#endif
