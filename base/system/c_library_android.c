// SPDX-License-Identifier: Apache-2.0
/* Implements c_library.h for bionic, API level 30 and later. PLATFORM=android compiles this file instead of
 * c_library.c. */
#define _GNU_SOURCE
#include "base/system/c_library.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 1000000 /* between two checks for the end of a thread */

const char *c_library_program_name(void) {
    return getprogname();
}

char *c_library_secure_getenv(const char *name) {
    return getauxval(AT_SECURE) ? NULL : getenv(name);
}

/* Returns $PWD if it names the current folder, because it keeps the symbolic links of the user's path. */
char *c_library_current_folder(void) {
    const char *pwd = getenv("PWD");
    struct stat named, here;

    if (pwd && *pwd == '/' && !stat(pwd, &named) && !stat(".", &here) && named.st_dev == here.st_dev &&
        named.st_ino == here.st_ino)
        return strdup(pwd);
    return getcwd(NULL, 0);
}

/* Polls, because bionic has no timed join: a thread that has ended has no thread id any more. */
int c_library_join_within(pthread_t thread, uint64_t timeout_ms) {
    for (uint64_t waited_ns = 0;; waited_ns += LOOK_NS) {
        const pid_t tid = pthread_gettid_np(thread);

        if (tid <= 0 || (syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH))
            return -pthread_join(thread, NULL);
        if (waited_ns / 1000000 >= timeout_ms)
            return -ETIMEDOUT;
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
    }
}

int c_library_get_affinity(cpu_set_t *set) {
    return sched_getaffinity(0, sizeof(*set), set) < 0 ? -errno : 0;
}

int c_library_set_affinity(pthread_t thread, const cpu_set_t *set) {
    return sched_setaffinity(pthread_gettid_np(thread), sizeof(*set), set) < 0 ? -errno : 0;
}
