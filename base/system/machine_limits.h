// SPDX-License-Identifier: Apache-2.0
/* The memory and processors that this process may use: those of the machine, or less within a cgroup (MemoryMax= and
 * CPUQuota= of a unit, a container). */
#ifndef COORDGEN_BASE_MACHINE_LIMITS_H
#define COORDGEN_BASE_MACHINE_LIMITS_H

#include <limits.h>
#include <stdint.h>

typedef struct MachineLimits {
    uint64_t memory_bytes;          /* UINT64_MAX: unknown */
    unsigned int n_processors;      /* at least 1 */
    char memory_file[PATH_MAX];     /* the cgroup's file that limits memory below the machine's; "": none */
    char processors_file[PATH_MAX]; /* the cgroup's file that limits processors; "": none */
} MachineLimits;

/* Reads the machine's memory, and counts the processors that the calling thread may use. */
void machine_limits_of_machine(MachineLimits *limits);
/* Applies the limits of the process's cgroups; root is put before all paths ("" except in tests). */
void machine_limits_narrow(MachineLimits *limits, const char *root);
/* Reads the machine and applies the limits of the cgroups. */
void machine_limits_read(MachineLimits *limits);

#endif
