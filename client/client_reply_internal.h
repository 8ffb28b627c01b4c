// SPDX-License-Identifier: Apache-2.0
/* The inside of a reply: the response, and the public structures that point into it. */
#ifndef COORDGEN_CLIENT_CLIENT_REPLY_INTERNAL_H
#define COORDGEN_CLIENT_CLIENT_REPLY_INTERNAL_H

#include "client/client_internal.h"
#include "client/sampling/client_sampling.h"

typedef struct ClientExplanation {
    CoordgenExplanation explanation;
    CoordgenDraftSource *sources;
    const CoordgenDraftSource **source_list;
} ClientExplanation;

/* The parts of a reply, by the requests that they answer. The lists are owned. */

typedef struct ReplyGenerate {
    CoordgenGenerateResult result;
    CoordgenSamplingOrigins origins;
    ClientSamplingReply sampling;
    ClientAnswer answer;
    CoordgenToolCall *calls; /* of the answer */
    ClientChoices further;
    CoordgenChoice *choices; /* [result.n_choices] */
} ReplyGenerate;

typedef struct ReplyModels {
    CoordgenModel *list;
    size_t n;
    CoordgenModelPair *pairs;          /* [n_pairs], or one for each model */
    size_t n_pairs;                    /* 0 in a reply about models */
    CoordgenSamplingDefaults sampling; /* of a single model */
} ReplyModels;

typedef struct ReplyStatus { /* the models are in ReplyModels */
    CoordgenStatus status;
    CoordgenMemory *memory;
    size_t n_memory;
} ReplyStatus;

typedef struct ReplyRequests {
    CoordgenRequestInfo *list;
    size_t n;
    ClientExplanation *explanations; /* of each request, or of the generation */
    size_t n_explanations;
} ReplyRequests;

typedef struct ReplyFiles {
    CoordgenFile *list;
    size_t n;
    CoordgenFileSystem *systems;
    size_t n_systems;
} ReplyFiles;

typedef struct ReplyDraftDb {
    CoordgenDraftDb db;
    CoordgenDraftDbUser *users;
    size_t n_users;
} ReplyDraftDb;

struct CoordgenReply {
    _Atomic unsigned n_refs;
    ClientFailure failure;
    RequestKind kind;
    Coordgen__V1__Response *response; /* NULL: the request ended without one */
    ReplyGenerate generate;
    ReplyModels models;
    ReplyStatus status;
    ReplyRequests requests;
    ReplyFiles files;
    ReplyDraftDb draft_db;
};

/* Fill in the public structures of a reply. false: out of memory; coordgen_reply_unref() frees what is there. */
void client_pair_fill(CoordgenModelPair *to, const Coordgen__V1__ModelPair *from);
bool client_pairs_fill(CoordgenReply *reply, Coordgen__V1__ModelPair *const *pairs, size_t n);
bool client_files_fill(CoordgenReply *reply, const Coordgen__V1__FilesReply *files);
bool client_draft_db_fill(CoordgenReply *reply);
bool client_requests_fill(CoordgenReply *reply, Coordgen__V1__RequestInfo *const *requests, size_t n);
bool client_explanation_fill(CoordgenReply *reply, const Coordgen__V1__Explanation *explanation); /* of a generation */
void client_requests_deinit(CoordgenReply *reply);

static inline bool client_reply_holds(const CoordgenReply *reply, Coordgen__V1__Response__OpCase op) {
    return reply && reply->response && reply->response->op_case == op;
}

static inline const char *client_or_empty(const char *text) {
    return text ? text : "";
}

#endif
