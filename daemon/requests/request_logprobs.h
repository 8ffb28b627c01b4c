// SPDX-License-Identifier: Apache-2.0
/* The message of a token's log probabilities. */
#ifndef COORDGEN_DAEMON_REQUEST_LOGPROBS_H
#define COORDGEN_DAEMON_REQUEST_LOGPROBS_H

#include "daemon/engine/job_logprobs.h"
#include "proto/frame.h"

/* Room for the messages of one token; they point into each other. */
typedef struct RequestLogprobs {
    Coordgen__V1__TokenLogprobs token, *tokens[1];
    Coordgen__V1__Logprob list[JOB_LOGPROBS_ENTRIES_MAX], *top[LOGPROBS_TOP_MAX];
} RequestLogprobs;

/* Fills in the delta's log probabilities from entries [from, to): one token's, or none. The delta points into room and
 * logprobs. */
void request_logprobs_fill(RequestLogprobs *room, const JobLogprobs *logprobs, size_t from, size_t to,
                           Coordgen__V1__GenerateDelta *delta);

#endif
