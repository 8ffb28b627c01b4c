// SPDX-License-Identifier: Apache-2.0
/* Wraps calls beyond POSIX that glibc and musl have, and that bionic, the C library of Android, lacks or has in another
 * way. */
#ifndef COORDGEN_BASE_C_LIBRARY_H
#define COORDGEN_BASE_C_LIBRARY_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

/* Returns the name by which this program was started, without folders. */
const char *c_library_program_name(void);
/* Returns the variable, or NULL if it is not set or the program has more rights than its caller. */
char *c_library_secure_getenv(const char *name);
/* Returns the current folder under the name that $PWD gives, for free(); NULL: errno tells why. */
char *c_library_current_folder(void);
/* Joins a thread if it ends within timeout_ms. 0, -ETIMEDOUT or -errno. */
int c_library_join_within(pthread_t thread, uint64_t timeout_ms);
/* Gets the processors that the calling thread may use. 0 or -errno. */
int c_library_get_affinity(cpu_set_t *set);
int c_library_set_affinity(pthread_t thread, const cpu_set_t *set);

#endif
