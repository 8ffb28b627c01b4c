// SPDX-License-Identifier: Apache-2.0
/* What happens to requests that take time: news of the engine thread, a client that cancels, the end of the service.
 * Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_H
#define COORDGEN_DAEMON_REQUEST_H

#include "daemon/requests/request_table.h"

/* Sends what the news bring, and ends the request if they are the last. */
void request_on_news(Request *request, JobNews *news);
/* Ends the request as its client asked: GenerateDone with reason cancelled, or an error. */
void request_cancel(Request *request);
/* Turns away the requests that have no turn yet, because the service ends: nothing is lost if they are sent again. */
void request_turn_away_all(RequestTable *table);
/* Ends all requests with an error that says that the service ends, behind what was sent. */
void request_cut_short_all(RequestTable *table);

#endif
