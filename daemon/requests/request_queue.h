// SPDX-License-Identifier: Apache-2.0
/* How requests get their turns: the queue (admission.h) decides whose turn it is; the turn is given and taken here.
 * Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_QUEUE_H
#define COORDGEN_DAEMON_REQUEST_QUEUE_H

#include "daemon/requests/request_table.h"

/* Starts a request whose job is filled in, lets it wait for its turn or its model, or fails it. */
void request_queue_enter(Request *request);
void request_queue_pause(Request *request, bool paused); /* the client reads too slowly, or reads again */
/* Lets a request wait again that the engine thread had no memory for. false: each loaded model is in use, and nobody of
 * another user holds memory without reading; nothing changes. */
bool request_queue_wait_for_memory(Request *request);
/* Starts what can start, fails what never will, lets users take turns, and ends a stalled generation that keeps others
 * out. Once in each turn of the loop. */
void request_queue_settle(RequestTable *table);
void request_queue_tick(RequestTable *table); /* tells generations that wait how far they have come */

#endif
