// SPDX-License-Identifier: Apache-2.0
/* A request that takes time, with its state, as the queue needs it. request.h handles the events of requests. */
#ifndef COORDGEN_DAEMON_REQUEST_STATE_H
#define COORDGEN_DAEMON_REQUEST_STATE_H

#include "daemon/constraint/constraint_store.h"
#include "daemon/engine/job.h"
#include "daemon/models/model.h"
#include "daemon/net/peer.h"
#include "daemon/requests/request_answer.h"
#include "daemon/requests/session.h"

typedef enum RequestState {
    REQUEST_NEW,
    REQUEST_WAITING,            /* in the queue, for a turn or for its model */
    REQUEST_WAITING_FOR_MEMORY, /* in the queue again: the engine thread had no memory for it */
    REQUEST_LOADING,            /* a ModelLoad or ModelUnload that waits for the model */
    /* The job is with the engine thread. */
    REQUEST_RUNNING,        /* a generation has a place */
    REQUEST_PAUSED,         /* no place: its client reads too slowly */
    REQUEST_RESTING,        /* no place: given up for another user's request until the next turn */
    REQUEST_RESTING_PAUSED, /* no place, for both reasons */
    REQUEST_STALLED,        /* has a place until its end: ended because it was paused while others waited */
    REQUEST_ENDED,          /* in no list of the queue any more */
    _REQUEST_STATE_N,
} RequestState;

typedef struct RequestTable RequestTable;

/* The parts of a request. All are the loop's. */

typedef struct RequestConstraint { /* of a generation */
    ConstraintSpec spec;           /* texts point into the message; form NONE: there is no constraint */
    ConstraintStore *store;        /* of errand */
    ConstraintErrand *errand;      /* under way; NULL: none */
    bool is_checked;               /* an errand has begun */
    Constraint *it;                /* NULL: not compiled yet */
} RequestConstraint;

typedef struct RequestInput {
    ChatMessage *messages;  /* messages of the session, then those of this request */
    size_t n_own_messages;  /* how many of messages are from this request */
    StrBuf raw;             /* in a session with a raw text: that text, then the prompt */
    SamplerBias *biases;    /* of the sampling options */
    bool chose_speculation; /* sources of drafts come from the request, not from the setting */
    RequestConstraint constraint;
} RequestInput;

typedef struct RequestAnswer { /* of a generation */
    KeptAnswer kept;           /* in a session: the answer so far */
    uint64_t n_deltas;
    GenerationUsage usage;
    uint32_t context_tokens; /* effective limit on prompt and output; 0: not known yet */
} RequestAnswer;

typedef struct RequestTimes {
    uint64_t received_ns;
    uint64_t paused_ns;      /* when it was paused, or went on after that */
    uint64_t rested_ns;      /* when it began to rest, or had a place again; 0: never */
    uint64_t placed_ns;      /* when it got its place */
    uint64_t served_ns;      /* up to when its time with a place is counted */
    uint64_t model_ready_ns; /* 0: not seen yet */
    uint64_t started_ns;     /* 0: not yet */
    uint64_t first_delta_ns;
} RequestTimes;

typedef struct RequestProgress {
    uint32_t queue_position; /* while it waits: by the last admission_number() */
    /* The last progress message, with what the client knows from it. */
    uint64_t told_ns; /* 0: none yet */
    uint32_t position;
    uint32_t prefilled;
    uint32_t permille; /* of the model's load */
    bool has_begun;    /* the prompt's begin was told, of a request that wants each progress */
} RequestProgress;

typedef struct Request { /* all loop; the job as job.h says */
    RequestTable *table; /* the table that it is in */
    Peer *peer;          /* NULL: the client is gone or was answered, and the engine thread still has the job */
    uint64_t id;         /* chosen by the client */
    uint64_t serial;     /* unique in the service, for the log */
    User *user;          /* held */
    bool is_admin;       /* from the administrators' socket */
    Coordgen__V1__Request *message; /* owned; texts of the job point into the message */
    Model *model;
    RequestState state;
    bool is_cut_short; /* cancelled because the service ends */
    Job job;           /* with a draft_pairp it counts in the model's draft.n_generations */
    RequestInput input;
    Session *session; /* the session that it runs in, which lives at least as long; NULL: none */
    RequestAnswer answer;
    RequestTimes times;
    RequestProgress progress;
    Bill bill;

    TAILQ_ENTRY(Request) peer_link;
    TAILQ_ENTRY(Request) user_link;
    TAILQ_ENTRY(Request) queue_link; /* admission's lists, the loads, or none */
} Request;

/* Whether a waiting request lacks nothing but a place: model and constraint are ready. */
bool request_can_run(const Request *request);
/* Moves the request to its next state, and asserts that the state may follow. The only writer of Request.state. */
void request_set_state(Request *request, RequestState state);

static inline bool request_is_waiting(const Request *request) { /* in the queue */
    return request->state == REQUEST_WAITING || request->state == REQUEST_WAITING_FOR_MEMORY;
}

static inline bool request_is_submitted(const Request *request) { /* with the engine thread */
    return request->state >= REQUEST_RUNNING && request->state <= REQUEST_STALLED;
}

static inline bool request_is_paused(const Request *request) {
    return request->state == REQUEST_PAUSED || request->state == REQUEST_RESTING_PAUSED;
}

static inline bool request_is_resting(const Request *request) {
    return request->state == REQUEST_RESTING || request->state == REQUEST_RESTING_PAUSED;
}

static inline bool request_is_generation(const Request *request) {
    return request->job.kind == JOB_GENERATE;
}

#endif
