// SPDX-License-Identifier: Apache-2.0
/* Inside of a request: what request.c (life, errors, tokens) shares with request_queue.c (turns), request_generation.c
 * (deltas, progress and end of a generation) and request_load.c (model loads and unloads). All on the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_PRIVATE_H
#define COORDGEN_DAEMON_REQUEST_PRIVATE_H

#include "daemon/requests/request.h"

#define REQUEST_RETRY_NO_MEMORY_MS 1000
#define REQUEST_PROGRESS_INTERVAL_NS (UINT64_C(250) * 1000 * 1000)

/* 0 where one of the two has not come yet. */
uint64_t request_since_us(uint64_t from_ns, uint64_t to_ns);
/* Of the prompt: kept from earlier requests, or computed. */
uint32_t request_n_read_tokens(const Request *request);
/* One line in the journal and the counters, once a request. */
void request_record(Request *request, const char *outcome, TallyOutcome tally);
/* The answer is out or nobody waits for it: leaves all lists; freed now, or when the engine thread lets go of it. */
void request_end(Request *request);
/* Ends the request with the error of a job that did not succeed. */
void request_fail_by_result(Request *request, const JobNews *news);
void request_fail_by_shutdown(Request *request); /* of one that was cut short */
void request_fail_by_model(Request *request);    /* of a model that is not on its way */

/* Lets a request wait again that the engine thread had no memory for. false: each loaded model is in use, and nobody of
 * another user holds memory without reading; nothing changes. */
bool request_wait_for_memory(Request *request);
void request_tick(Request *request, uint64_t now_ns); /* progress of a waiting generation */
void request_on_model_change(Request *request);       /* progress and end of a load or unload */

void request_generation_on_news(Request *request, const JobNews *news);
/* The last message of a generation, and its end. */
void request_generation_finish(Request *request, GenerationEnd end);

#endif
