// SPDX-License-Identifier: Apache-2.0
/* Requests that load or unload a model, and wait for the model instead of a turn. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_LOAD_H
#define COORDGEN_DAEMON_REQUEST_LOAD_H

#include "daemon/requests/request_table.h"

void request_load_wait(Request *request); /* waits for a load or unload that is under way */
/* Sends progress, answers or errors to waiting requests, if a model has changed since the last call. */
void request_load_settle(RequestTable *table);

#endif
