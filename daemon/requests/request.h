// SPDX-License-Identifier: Apache-2.0
/* Handles events of requests that take time: news of the engine thread, cancellation by the client, the end of the
 * service. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_H
#define COORDGEN_DAEMON_REQUEST_H

#include "daemon/requests/request_table.h"

/* Sends the content of the news, and ends the request if the news are its last. */
void request_on_news(Request *request, JobNews *news);
/* Takes the results of the thread that compiles constraints: requests whose constraint is refused end with an error. */
void request_on_constraints(RequestTable *table);
/* Ends the request as its client asked: GenerateDone with reason cancelled, or an error. */
void request_cancel(Request *request);
/* Refuses the requests that have had no turn yet, because the service ends; clients can send them again without loss.
 * */
void request_turn_away_all(RequestTable *table);
/* Ends all requests with the error that the service ends, behind the deltas already sent. */
void request_cut_short_all(RequestTable *table);

#endif
