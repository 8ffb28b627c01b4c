/* The queue in front of the engine thread: first come, first served, with a bounded number of generations at work. */
#ifndef COORDGEN_DAEMON_ADMISSION_H
#define COORDGEN_DAEMON_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef struct Connection Connection;
typedef struct Request Request;
typedef struct Server Server;

TAILQ_HEAD(RequestList, Request);
typedef struct RequestList RequestList;

enum {
    ADMISSION_E_FULL = 1, /* the queue has no room */
};

typedef struct Admission { /* all loop */
    Server *server;
    RequestList waiting; /* not with the engine thread yet; by queue_link */
    unsigned int n_waiting;
    unsigned int n_active; /* generations with the engine thread */
    unsigned int n_paused; /* of them, those whose client reads too slowly */
    unsigned int n_small;  /* other requests with the engine thread */
    uint64_t mean_run_us;  /* of generations, from start to end; moving average */
} Admission;

void admission_init(Admission *admission, Server *server);
/* Starts the request or puts it at the end of the queue; its model is ready or on its way. ADMISSION_E_FULL. */
int admission_enter(Admission *admission, Request *request);
void admission_leave(Admission *admission, Request *request); /* at its end, wherever it is */
void admission_pause(Admission *admission, Request *request, bool paused);
void admission_pump(Admission *admission); /* starts what can start, fails what never will */
void admission_note_run(Admission *admission, uint64_t run_us);
/* Requests before this one that wait, plus one; 0: it is with the engine thread. */
uint32_t admission_position(const Admission *admission, const Request *request);
uint32_t admission_retry_ms(const Admission *admission); /* until a place in the queue is likely to be free */

#endif
