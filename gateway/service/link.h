// SPDX-License-Identifier: Apache-2.0
/* The gateway's connections to the service, driven by the loop. A connection is made when a request needs it, and again
 * after its end; making one never waits. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_LINK_H
#define COORDGEN_GATEWAY_LINK_H

#include <event2/event.h>

#include "base/cleanup.h"
#include "client/coordgen-client.h"
#include "gateway/json/api_error.h"

typedef struct Link Link;

/* Makes a link that is not connected. socket_path NULL: where libcoordgen-client looks; it outlives the link. 0 or
 * -ENOMEM. */
int link_new(Link **linkp, struct event_base *base, const char *socket_path);
/* Cancels all requests, waits up to 2 s for their last events, and ends the connections. NULL is fine; returns NULL. */
Link *link_free(Link *link);
DEFINE_CLEANUP(Link, link_free)

/* Finds a connected client for one more request. The client lives as long as the link, and several requests may have
 * different clients. 0 or API_E_REFUSED. */
int link_client(Link *link, CoordgenClient **clientp, ApiError *error);
/* Makes the loop wait for what the client waits for; to call after each _start() and coordgen_cancel(). */
void link_settle(Link *link);

#endif
