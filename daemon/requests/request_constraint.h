// SPDX-License-Identifier: Apache-2.0
/* Brings requests with a schema, grammar or pattern through the thread that compiles them, while they wait in the
 * queue. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_CONSTRAINT_H
#define COORDGEN_DAEMON_REQUEST_CONSTRAINT_H

#include "daemon/constraint/constraint_store.h"
#include "daemon/requests/request_state.h"

/* Lets the request's constraint be compiled if nothing of it is under way. While the model is not loaded it is only
 * checked, so that errors come early. 0, ACCOUNT_E_LIMIT, -errno: there is no memory. */
int request_constraint_settle(Request *request, ConstraintStore *store);
/* Releases what the request has of its constraint, at its end. */
void request_constraint_end(Request *request);
/* Takes the next result of the store. false: there is none. *requestp: the request, or NULL if nobody waits for the
 * result any more; *rp: 0, CONSTRAINT_SPEC_E_*, -errno, with a text. */
bool request_constraint_take(ConstraintStore *store, Request **requestp, int *rp, ErrText *err);
/* Returns the field of the message that the constraint's text is from. */
const char *request_constraint_field(const Request *request);

#endif
