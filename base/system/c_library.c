// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/system/c_library.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char *c_library_program_name(void) {
    return program_invocation_short_name;
}

char *c_library_secure_getenv(const char *name) {
    return secure_getenv(name);
}

char *c_library_current_folder(void) {
    return get_current_dir_name();
}

/* Waits with the call that the thread sanitizer knows, which takes the real-time clock. */
int c_library_join_within(pthread_t thread, uint64_t timeout_ms) {
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return -pthread_timedjoin_np(thread, NULL, &until);
}

int c_library_get_affinity(cpu_set_t *set) {
    return -pthread_getaffinity_np(pthread_self(), sizeof(*set), set);
}

int c_library_set_affinity(pthread_t thread, const cpu_set_t *set) {
    return -pthread_setaffinity_np(thread, sizeof(*set), set);
}
