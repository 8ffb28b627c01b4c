// SPDX-License-Identifier: Apache-2.0
/* Ends requests with an error, and chooses the code, field and text for the client. Owned by the loop. */
#ifndef COORDGEN_DAEMON_REQUEST_FAILURE_H
#define COORDGEN_DAEMON_REQUEST_FAILURE_H

#include "daemon/requests/request_table.h"

#define REQUEST_RETRY_NO_MEMORY_MS 1000

/* Sends the error, if the client is still there, records the request and ends it. */
void request_fail(Request *request, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
void request_fail_by_result(Request *request, const JobNews *news); /* by the result of its job, which is not 0 */
/* The constraint could not be compiled: r is CONSTRAINT_SPEC_E_* or -errno. */
void request_fail_by_constraint(Request *request, int r, const ErrText *err);
void request_fail_by_shutdown(Request *request); /* the service ends before the request */
void request_fail_by_model(Request *request);    /* its model is neither loaded nor on its way */

#endif
