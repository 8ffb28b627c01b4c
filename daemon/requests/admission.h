// SPDX-License-Identifier: Apache-2.0
/* The queue in front of the engine thread. The queue decides, by the rules of scheduler/requests/admission_order, and
 * counts; request_queue.h acts. Places bound the number of generations at work; interactive ones have places of their
 * own. */
#ifndef COORDGEN_DAEMON_ADMISSION_H
#define COORDGEN_DAEMON_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/queue.h"
#include "daemon/users/user.h"

typedef struct Request Request;

enum {
    ADMISSION_E_FULL = 1, /* the queue has no room */
    ADMISSION_E_QUOTA,    /* the user's part of the queue has no room */
};

typedef struct AdmissionPlaces {
    unsigned int n_active;  /* generations with the engine thread */
    unsigned int n_running; /* part of n_active: have a place, neither paused nor resting */
    unsigned int n_resting; /* part of n_active */
    uint64_t clock_ns;      /* served_ns of the user who got the last place; a returning user begins there */
} AdmissionPlaces;

typedef struct Admission { /* all loop */
    Loop *loop;
    const Config *config;
    RequestList waiting;   /* not with the engine thread yet; by queue_link */
    RequestList submitted; /* with the engine thread; by queue_link */
    unsigned int n_waiting;
    unsigned int n_active;            /* generations with the engine thread */
    AdmissionPlaces places[_PLACE_N]; /* n_active by kind of place */
    unsigned int n_stalled;           /* generations in REQUEST_STALLED */
    unsigned int n_small;             /* other requests with the engine thread */
    uint64_t jitter;                  /* state of the random numbers of admission_retry_ms() */
    uint64_t mean_run_us;             /* moving average of a generation's time from start to end */
} Admission;

void admission_init(Admission *admission, Loop *loop, const Config *config);
/* Starts the request, whose job the caller then submits, or puts it at the end of the queue. The model must be ready or
 * on its way. 0 (the state says which), ADMISSION_E_FULL, ADMISSION_E_QUOTA. */
int admission_enter(Admission *admission, Request *request);
bool admission_can_start(Admission *admission, const Request *request); /* model, place and client are ready */
void admission_start(Admission *admission, Request *request);           /* starts a waiting request */
unsigned int admission_user_max(const Admission *admission);            /* how many requests of one user may wait */
void admission_leave(Admission *admission, Request *request);           /* takes a request that ends from all lists */
/* Pauses a generation whose client reads too slowly, or lets it go on. */
void admission_pause(Admission *admission, Request *request, bool paused);
/* Takes a generation's place, or gives it one again. */
void admission_rest(Admission *admission, Request *request, bool resting);
unsigned int admission_n_resting(const Admission *admission);  /* generations at rest, which wait for a turn */
void admission_let_go(Admission *admission, Request *request); /* lets it run to its end, neither paused nor resting */
bool admission_has_turn(Admission *admission, const Request *request); /* a place of the request's kind is free */
/* Lets further answers of requests run in places that nobody has or waits for. A request that is alone runs all. */
void admission_share_places(Admission *admission);
void admission_count_service(Admission *admission, uint64_t now_ns); /* counts time with a place up to now */
/* Returns the request that takes the next place; NULL: none. yieldingp: out: the request that gives its place up; NULL:
 * the place is free. */
Request *admission_next(Admission *admission, uint64_t now_ns, Request **yieldingp);
/* Finds a long-paused generation that keeps out a request that could have a turn; NULL: none. */
Request *admission_find_stalled(Admission *admission, uint64_t now_ns);
/* Finds a generation of another user whose client does not read, and whose memory is wanted; NULL: none. */
Request *admission_find_holder(const Admission *admission, const User *user);
/* Fills queue_position of all that wait: 1 is the next. Positions stay as they were if memory is short. */
void admission_number(Admission *admission, uint64_t now_ns);
PlaceKind admission_kind(const Request *request);                    /* which places a generation takes */
void admission_note_stalled(Admission *admission, Request *request); /* call this before its end */
void admission_wait_again(Admission *admission, Request *request);   /* back to the front: no memory */
void admission_note_run(Admission *admission, uint64_t run_us);
/* Returns when a refused client is to come again: 100 ms to a minute, by the queue's length, with jitter. */
uint32_t admission_retry_ms(Admission *admission);

#endif
