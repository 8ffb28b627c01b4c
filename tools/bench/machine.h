// SPDX-License-Identifier: Apache-2.0
/* What every bench needs from the machine: a clock, memory, its name, the speed of reading memory. */
#ifndef COORDGEN_BENCH_MACHINE_H
#define COORDGEN_BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Returns this thread's CPU time in ns. Other programs take cache from the thread, but no CPU time. */
uint64_t machine_ns(void);
/* Allocates memory aligned to 64 bytes, on huge pages where it is large. Ends the program when there is no memory; the
 * caller frees. */
void *machine_alloc(size_t bytes);
/* Reads the buffer once with the widest loads, and returns the time in ns. */
uint64_t machine_read(const void *buffer, size_t bytes);
/* Returns the bytes of the last-level cache; 0: unknown. */
size_t machine_cache_bytes(void);
/* Writes processor and instruction sets, as "Intel(R) ..., avx512vnni". */
void machine_name(char *name, size_t name_size);

/* Sorts n values and returns their median; for even n the mean of the two middle ones. */
double machine_median(double *values, size_t n);
/* Parses an option's value: a whole number in [least, most], else -1. */
long machine_number(const char *text, long least, long most);

#endif
