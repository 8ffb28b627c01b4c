// SPDX-License-Identifier: Apache-2.0
/* What a request is and holds, for the queue, which knows no more of it. What happens to it: request.h. */
#ifndef COORDGEN_DAEMON_REQUEST_STATE_H
#define COORDGEN_DAEMON_REQUEST_STATE_H

#include "daemon/engine/job.h"
#include "daemon/models/model_registry.h"
#include "daemon/net/peer.h"
#include "daemon/requests/session.h"

typedef enum RequestState {
    REQUEST_NEW,
    REQUEST_WAITING,   /* in the queue, for a turn or for its model */
    REQUEST_SUBMITTED, /* its job is with the engine thread */
    REQUEST_LOADING,   /* a ModelLoad or ModelUnload that waits for the model */
} RequestState;

typedef struct RequestTable RequestTable;

typedef struct Request { /* all loop; the job as job.h says */
    RequestTable *table; /* that it is in */
    Peer *peer;          /* NULL: the client is gone or was answered; waits for the engine thread to let go */
    uint64_t id;         /* the client's */
    uint64_t serial;     /* ours, for the log */
    User *user;          /* held */
    bool is_admin;       /* came through the administrators' socket */
    Coordgen__V1__Request *message; /* owned; the job's texts point into it */
    Model *model;
    RequestState state;
    bool is_cut_short; /* cancelled by the service, which ends */
    bool is_paused;    /* its client reads too slowly */
    bool is_resting;   /* has given its place up for another user's, and waits to get one again */
    bool has_place;
    bool was_stalled;  /* ended for that; the engine thread has not let go of it yet */
    bool has_draft;    /* counts as one of the model's n_drafted */
    bool needs_memory; /* found none, and starts again when who was ended for it has gone */
    Job job;
    ChatMessage *messages; /* what the session held before, then the message's */
    size_t n_own_messages; /* of those, the message's */
    Session *session;      /* that it runs in, or NULL; lives as long as the request at least */
    StrBuf raw;            /* in a session with a raw text: that, and the prompt */
    StrBuf answer;         /* in a session: what was written so far */
    Bill bill;

    uint64_t received_ns;
    uint64_t paused_ns;      /* when is_paused changed */
    uint64_t rested_ns;      /* when it began to rest */
    uint64_t placed_ns;      /* since when it has had its place */
    uint64_t served_ns;      /* up to when that was counted */
    uint64_t model_ready_ns; /* 0: not seen yet */
    uint64_t started_ns;     /* 0: not yet */
    uint64_t first_delta_ns;
    uint64_t progress_ns;    /* last progress message */
    uint32_t queue_position; /* while it waits, of the last admission_number() */
    uint32_t progress_position;
    uint32_t progress_prefilled;
    uint32_t progress_permille; /* of the model that it waits for */
    bool progress_sent;
    uint64_t n_deltas;
    GenerationUsage usage;
    bool chose_speculation; /* the request says which sources, not the setting */
    uint32_t context_tokens;

    TAILQ_ENTRY(Request) peer_link;
    TAILQ_ENTRY(Request) user_link;
    TAILQ_ENTRY(Request) queue_link; /* admission's lists, the loads, or none */
} Request;

static inline bool request_is_generation(const Request *request) {
    return request->job.kind == JOB_GENERATE;
}

#endif
