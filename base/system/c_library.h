// SPDX-License-Identifier: Apache-2.0
/* What glibc and musl have beyond POSIX and bionic, the C library of Android, has in another way or not at all. */
#ifndef COORDGEN_BASE_C_LIBRARY_H
#define COORDGEN_BASE_C_LIBRARY_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

/* The name that this program was started by, without folders. */
const char *c_library_program_name(void);
/* NULL too in a program that has more rights than who started it. */
char *c_library_secure_getenv(const char *name);
/* The current folder as people know it, for free(); NULL: errno says why. */
char *c_library_current_folder(void);
/* Joins a thread that ends in time. 0, -ETIMEDOUT or -errno. */
int c_library_join_within(pthread_t thread, uint64_t timeout_ms);
/* 0 or -errno. */
int c_library_get_affinity(cpu_set_t *set);
int c_library_set_affinity(pthread_t thread, const cpu_set_t *set);

#endif
