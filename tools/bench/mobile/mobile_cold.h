// SPDX-License-Identifier: Apache-2.0
/* Cold start of the npu device, from a cold page cache to the first token: all read first, or computed behind the load,
 * with graphs of either form. */
#ifndef COORDGEN_BENCH_MOBILE_COLD_H
#define COORDGEN_BENCH_MOBILE_COLD_H

#include "base/err.h"

struct BenchRun;
/* Measures and makes the run's report one of cold starts. Return: 0, -errno or a condition of the engine, with a
 * text. */
int mobile_cold_run(const struct BenchRun *run, ErrText *err);

#endif
