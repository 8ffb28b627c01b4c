// SPDX-License-Identifier: Apache-2.0
/* The answer to a request for vectors. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_EMBEDDING_H
#define COORDGEN_DAEMON_REQUEST_EMBEDDING_H

#include "daemon/requests/request_state.h"

static inline bool request_is_embedding(const Request *request) {
    return request->job.texts.n > 0;
}

/* Sends the vectors, or the error that a cancel has ended the request, and ends the request. */
void request_embedding_finish(Request *request, GenerationEnd end);

#endif
