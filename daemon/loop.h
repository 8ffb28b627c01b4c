// SPDX-License-Identifier: Apache-2.0
/* The loop thread, which owns every object of the daemon except what the engine thread computes on. */
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

/* Schedules service_settle() at the top of the loop, because an object has ended or changed. Requests then start,
 * requests that wait for a model are told, and a drained server ends. */
static inline void loop_pump(Loop *loop) {
    if (loop->settle) /* else the service ends before its start was complete */
        event_active(loop->settle, 0, 0);
}

/* Stands at the top of every function that touches state of the loop. */
#define assert_on_loop(loop) assert(pthread_equal((loop)->thread, pthread_self()))

#endif
