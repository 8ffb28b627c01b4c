// SPDX-License-Identifier: Apache-2.0
/* Requests that take time, from their message to their end: generate, tokenize, detokenize, model load and unload.
 * Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_H
#define COORDGEN_DAEMON_REQUEST_H

#include "daemon/engine/engine_thread.h"
#include "daemon/requests/admission.h"
#include "daemon/requests/explanation.h"
#include "daemon/requests/request_state.h"
#include "daemon/users/tally.h"

struct RequestTable { /* all loop */
    Loop *loop;
    const Config *config;
    EngineThread *engine_thread;
    Admission admission;
    TallyTable tallies;
    ExplanationTable explanations; /* of generations that have begun and ended */
    RequestList loads;             /* ModelLoad and ModelUnload requests that wait for their model; by queue_link */
    unsigned int n_loads;
    bool models_changed; /* and those have not heard of it yet */
    uint64_t last_serial;
};

void request_table_init(RequestTable *table, Loop *loop, const Config *config);
void request_table_deinit(RequestTable *table); /* no request is there any more */
bool request_table_is_empty(const RequestTable *table);
/* At the top of the loop: what waits for a model hears of it, what can start starts, users take turns, what never will
 * start fails, and a stalled generation that keeps others out ends. */
void request_table_settle(RequestTable *table);
void request_table_tick(RequestTable *table); /* those that wait hear how far they have come */
/* The service ends. Requests that have no turn yet: nothing is lost when their clients ask again. */
void request_table_turn_away(RequestTable *table);
/* The others: an error that says so, behind what was sent. */
void request_table_cut_short(RequestTable *table);

/* Takes the message on success; model may not be NULL. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int request_new(Request **requestp, RequestTable *table, Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes,
                Model *model);
/* Its job is filled in: it starts, waits for its turn or its model, or fails. */
void request_enter(Request *request);
void request_wait_for_model(Request *request); /* instead: a ModelLoad or ModelUnload that is under way */
void request_pause(Request *request, bool paused);
void request_on_news(Request *request, JobNews *news);
void request_abandon(Request *request); /* the client is gone */
/* Ends the request as its client asked: GenerateDone with reason cancelled, or an error. */
void request_cancel(Request *request);
/* Ends the request with an error and counts it. */
void request_fail(Request *request, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
Request *request_find(Peer *peer, uint64_t id);

#endif
