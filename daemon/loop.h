// SPDX-License-Identifier: Apache-2.0
/* The loop thread: it owns every object of the daemon but what the engine thread is given to compute on. */
#ifndef COORDGEN_DAEMON_LOOP_H
#define COORDGEN_DAEMON_LOOP_H

#include <assert.h>
#include <event2/event.h>
#include <pthread.h>

typedef struct Loop {
    struct event_base *base;
    pthread_t thread;     /* const after set-up */
    struct event *settle; /* made active by loop_pump() */
} Loop;

/* Something has ended or changed: when the loop is back at its top, what can start starts, what waits for a model hears
 * of it, and a drained server ends. */
static inline void loop_pump(Loop *loop) {
    event_active(loop->settle, 0, 0);
}

/* Opens every function that may touch loop-owned state. */
#define assert_on_loop(loop) assert(pthread_equal((loop)->thread, pthread_self()))

#endif
