// SPDX-License-Identifier: Apache-2.0
/* Messages of a generation to its client: progress while it waits, a delta for each step, and the end with usage and
 * timings. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_GENERATION_H
#define COORDGEN_DAEMON_REQUEST_GENERATION_H

#include "daemon/requests/request_table.h"

void request_generation_tick(Request *request, uint64_t now_ns); /* sends progress of a waiting generation, if due */
/* Sends the deltas or the progress in the news. The request does not end here, even if the news are its last. */
void request_generation_tell(Request *request, JobNews *news);
/* Sends the last message of a generation and ends the request. */
void request_generation_finish(Request *request, GenerationEnd end);

#endif
