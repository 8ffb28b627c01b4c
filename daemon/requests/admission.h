// SPDX-License-Identifier: Apache-2.0
/* The queue in front of the engine thread. The queue decides, by the rules of scheduler/admission_order, and counts;
 * requests act. The generations at work are bounded in number: interactive ones have places of their own. */
#ifndef COORDGEN_DAEMON_ADMISSION_H
#define COORDGEN_DAEMON_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/queue.h"
#include "daemon/users/user.h"

typedef struct Request Request;

enum {
    ADMISSION_E_FULL = 1, /* the queue has no room */
    ADMISSION_E_QUOTA,    /* this user's part of it has none */
};

typedef struct AdmissionPlaces {
    unsigned int n_active;  /* generations with the engine thread */
    unsigned int n_running; /* of them, those that have a place: neither paused nor resting */
    unsigned int n_resting; /* of them */
    uint64_t clock_ns;      /* what the user who got the last place was served: who comes begins there */
} AdmissionPlaces;

typedef struct Admission { /* all loop */
    Loop *loop;
    const Config *config;
    RequestList waiting;   /* not with the engine thread yet; by queue_link */
    RequestList submitted; /* with the engine thread; by queue_link */
    unsigned int n_waiting;
    unsigned int n_active;            /* generations with the engine thread */
    AdmissionPlaces places[_PLACE_N]; /* which they are */
    unsigned int n_stalled;           /* generations that were ended for others and are still with the engine thread */
    unsigned int n_small;             /* other requests with the engine thread */
    uint64_t jitter;                  /* state of what is drawn for it */
    uint64_t mean_run_us;             /* of generations, from start to end; moving average */
} Admission;

void admission_init(Admission *admission, Loop *loop, const Config *config);
/* Starts the request, whose job is the caller's to submit then, or puts it at the end of the queue; its model is
 * ready or on its way. 0 (its state says which), ADMISSION_E_FULL, ADMISSION_E_QUOTA. */
int admission_enter(Admission *admission, Request *request);
bool admission_can_start(Admission *admission, const Request *request); /* it waits for nothing any more */
void admission_start(Admission *admission, Request *request);           /* one that waits */
unsigned int admission_user_max(const Admission *admission);            /* requests of one user that may wait */
void admission_leave(Admission *admission, Request *request);           /* at its end, wherever it is */
/* Its client reads too slowly, or reads again. */
void admission_pause(Admission *admission, Request *request, bool paused);
/* It gives its place up, or has one again. */
void admission_rest(Admission *admission, Request *request, bool resting);
unsigned int admission_n_resting(const Admission *admission);          /* they wait for a turn too */
void admission_let_go(Admission *admission, Request *request);         /* it runs, if only to its end */
bool admission_has_turn(Admission *admission, const Request *request); /* a place of its kind is free */
void admission_count_service(Admission *admission, uint64_t now_ns);   /* of those that have places */
/* Who takes the next place, now; NULL: nobody. yieldingp: out: who gives it up; NULL: it is free. */
Request *admission_next(Admission *admission, uint64_t now_ns, Request **yieldingp);
/* A stalled generation that keeps out one that could have a turn; NULL: none. */
Request *admission_find_stalled(Admission *admission, uint64_t now_ns);
/* One of another user that holds memory without reading; NULL: none. */
Request *admission_find_holder(const Admission *admission, const User *user);
/* Fills queue_position of all that wait: 1 is the next. Positions stay as they were if memory is short. */
void admission_number(Admission *admission, uint64_t now_ns);
PlaceKind admission_kind(const Request *request);                    /* which places a generation takes */
void admission_note_stalled(Admission *admission, Request *request); /* it is about to be ended for others */
void admission_wait_again(Admission *admission, Request *request);   /* one that the engine thread had no memory for */
void admission_note_run(Admission *admission, uint64_t run_us);
/* When to come again: 100 ms to a minute, by the queue's length, with jitter. */
uint32_t admission_retry_ms(Admission *admission);

#endif
