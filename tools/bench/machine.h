// SPDX-License-Identifier: Apache-2.0
/* What every bench needs of the machine: a clock, memory, its name, how fast memory is read. */
#ifndef COORDGEN_BENCH_MACHINE_H
#define COORDGEN_BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of this thread alone: other work on the machine takes its share of the caches, not of the clock. */
uint64_t machine_ns(void);
/* Aligned to 64; large ones on huge pages. Ends the program when there is no memory. The caller frees. */
void *machine_alloc(size_t bytes);
/* Reads the buffer once, in the widest way there is, and returns the nanoseconds. */
uint64_t machine_read(const void *buffer, size_t bytes);
/* Bytes of the last-level cache; 0: unknown. */
size_t machine_cache_bytes(void);
/* "Intel(R) ..., avx512vnni": processor and instruction sets. */
void machine_name(char *name, size_t name_size);

/* Middle of n values, which it sorts; the mean of the two middle ones when n is even. */
double machine_median(double *values, size_t n);
/* An option's value: a whole number in [least, most], or -1. */
long machine_number(const char *text, long least, long most);

#endif
