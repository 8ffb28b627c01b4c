// SPDX-License-Identifier: Apache-2.0
/* The table of all requests that take time, with their counts. Requests enter and leave the table here. Owned by the
 * loop. */
#ifndef COORDGEN_DAEMON_REQUEST_TABLE_H
#define COORDGEN_DAEMON_REQUEST_TABLE_H

#include "daemon/engine/engine_thread.h"
#include "daemon/requests/admission.h"
#include "daemon/requests/explanation.h"
#include "daemon/requests/request_state.h"
#include "daemon/users/tally.h"

#define REQUEST_PROGRESS_INTERVAL_NS (UINT64_C(250) * 1000 * 1000) /* between two progress messages of a request */

struct RequestTable { /* all loop */
    Loop *loop;
    const Config *config;
    EngineThread *engine_thread;
    ConstraintStore *constraints;
    Admission admission;
    TallyTable tallies;
    ExplanationTable explanations; /* of generations that have begun and ended */
    RequestList loads;             /* ModelLoad and ModelUnload requests that wait for their model; by queue_link */
    unsigned int n_loads;
    bool models_changed; /* a model has changed since the requests in loads last heard of their models */
    uint64_t last_serial;
};

void request_table_init(RequestTable *table, Loop *loop, const Config *config);
void request_table_deinit(RequestTable *table); /* the table must be empty */
bool request_table_is_empty(const RequestTable *table);

/* Takes the message on success; model may not be NULL. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int request_new(Request **requestp, RequestTable *table, Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes,
                Model *model);
Request *request_find(Peer *peer, uint64_t id); /* the client's request of that number; NULL: none */
/* Writes one line into the journal and counts the request, once a request. outcome: a word for the journal. */
void request_record(Request *request, const char *outcome, TallyOutcome tally);
/* Frees a request whose answer is sent or not wanted any more; the engine thread must have released its job. */
void request_end(Request *request);
/* Forgets the client, which has gone. The request ends now, or when the engine thread releases its job. */
void request_abandon(Request *request);

const char *request_operation_name(const Request *request);  /* a word for journal and error fields */
uint32_t request_n_read_tokens(const Request *request);      /* tokens of the prompt: kept before, or computed */
uint64_t request_since_us(uint64_t from_ns, uint64_t to_ns); /* 0 if one of the two has not come yet */
/* Fills in the times of a request that ends now. */
void request_fill_timings(const Request *request, uint64_t now_ns, Coordgen__V1__Timings *timings);

#endif
