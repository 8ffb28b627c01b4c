// SPDX-License-Identifier: Apache-2.0
/* What of the machine this process may use: its memory and processors, or less where a cgroup (a unit's MemoryMax= and
 * CPUQuota=, a container) says so. */
#ifndef COORDGEN_BASE_MACHINE_LIMITS_H
#define COORDGEN_BASE_MACHINE_LIMITS_H

#include <limits.h>
#include <stdint.h>

typedef struct MachineLimits {
    uint64_t memory_bytes;          /* UINT64_MAX: not known */
    unsigned int n_processors;      /* at least 1 */
    char memory_file[PATH_MAX];     /* the file of the cgroup that leaves less than the machine has; "": none does */
    char processors_file[PATH_MAX]; /* the same for processors */
} MachineLimits;

/* The machine's, and those of its processors that the calling thread may run on. */
void machine_limits_of_machine(MachineLimits *limits);
/* Takes away what the process's cgroups do not leave of it; root is put before all paths ("" but for tests). */
void machine_limits_narrow(MachineLimits *limits, const char *root);
/* Both. */
void machine_limits_read(MachineLimits *limits);

#endif
