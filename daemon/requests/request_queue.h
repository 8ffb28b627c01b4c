// SPDX-License-Identifier: Apache-2.0
/* Gives turns to requests and takes them back, as the queue (admission.h) decides. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_QUEUE_H
#define COORDGEN_DAEMON_REQUEST_QUEUE_H

#include "daemon/requests/request_table.h"

/* Starts a request whose job is filled in, lets it wait for its turn or its model, or fails it. */
void request_queue_enter(Request *request);
void request_queue_pause(Request *request, bool paused); /* the client reads too slowly, or reads again */
/* Lets a request wait again for which the engine thread had no memory. false: nothing changes, since each loaded model
 * is in use, and no client of another user holds memory without reading. */
bool request_queue_wait_for_memory(Request *request);
/* Starts requests that can start, fails requests that never will, lets users take turns, and ends a stalled generation
 * that keeps others out. The loop calls this once a round. */
void request_queue_settle(RequestTable *table);
void request_queue_tick(RequestTable *table); /* sends progress of waiting generations to their clients */

#endif
