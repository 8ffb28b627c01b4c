// SPDX-License-Identifier: Apache-2.0
/* Speed of the cpu device's kernels on this machine. Rates are measured at the first call, in a few milliseconds, and
 * kept for the process. They decide how many rows a step wants and when packed weights are expanded, but never affect
 * results. Thread: any. */
#ifndef COORDGEN_BACKENDS_CPU_KERNEL_RATES_H
#define COORDGEN_BACKENDS_CPU_KERNEL_RATES_H

#include <stddef.h>

#include "backends/cpu/packed/packed_kernels.h"
#include "base/memory/account.h"
#include "base/system/worker_pool.h"

/* Returns the number of rows up to which the kernel for few rows is faster on a coding than expanded panels:
 * 0..SIZE_MAX. Memory for the measurement is charged to the account of activations. Without memory, and for the
 * portable kernels, which are not measured, the result is KERNEL_RATES_FEW_ROWS. */
size_t kernel_rates_few_rows(const PackedKernels *kernels, Grid grid, int bits, AccountTable *accounts);
#define KERNEL_RATES_FEW_ROWS 8

/* Returns the number of rows at which a thread multiplies for as long as it reads the weights. All threads of the pool
 * read at once, int8 weights past the second-level cache. 0: not measured, because memory is short or because the
 * kernels are the portable ones, which any number of rows keeps busy. */
double kernel_rates_balance_rows(const PackedKernels *kernels, WorkerPool *pool, AccountTable *accounts);

#endif
