// SPDX-License-Identifier: Apache-2.0
/* What the kernels of the cpu device reach on this machine, measured when it is first asked for, in a few milliseconds,
 * and kept for the process: how many rows a step wants, and when packed weights are expanded, follows from it. What is
 * computed never depends on it. Thread: any. */
#ifndef COORDGEN_BACKENDS_CPU_KERNEL_RATES_H
#define COORDGEN_BACKENDS_CPU_KERNEL_RATES_H

#include <stddef.h>

#include "backends/cpu/packed/packed_kernels.h"
#include "base/memory/account.h"
#include "base/system/worker_pool.h"

/* Up to how many rows the kernel for few of them is faster on a coding than panels that are expanded: 0, or up to
 * SIZE_MAX. Memory for the measurement comes from the account activations; where there is none, and with the portable
 * kernels, which are not measured: KERNEL_RATES_FEW_ROWS. */
size_t kernel_rates_few_rows(const PackedKernels *kernels, Grid grid, int bits, AccountTable *accounts);
#define KERNEL_RATES_FEW_ROWS 8

/* Rows at which a thread multiplies for as long as it reads the weights for it, all threads of the pool at once; by
 * int8 weights past the second-level cache. 0: not measured, for want of memory or because kernels are the portable
 * ones, which any number of rows keeps busy. */
double kernel_rates_balance_rows(const PackedKernels *kernels, WorkerPool *pool, AccountTable *accounts);

#endif
