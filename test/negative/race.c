// SPDX-License-Identifier: Apache-2.0
/* Proves that ThreadSanitizer can fail: two threads write one plain variable; `make check` wants an error. */
#include <pthread.h>
#include <stddef.h>

static int shared;

static void *write_it(void *arg) {
    for (int i = 0; i < 100000; i++)
        shared += *(int *)arg;
    return NULL;
}

int main(void) {
    int one = 1;
    pthread_t thread;

    if (pthread_create(&thread, NULL, write_it, &one))
        return 0;
    write_it(&one);
    pthread_join(thread, NULL);
    return 0;
}
