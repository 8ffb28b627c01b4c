// SPDX-License-Identifier: Apache-2.0
/* Building answers. */
#ifndef COORDGEN_DAEMON_REPLY_H
#define COORDGEN_DAEMON_REPLY_H

#include "daemon/connection.h"

/* Initialises a response to a request; the caller sets op_case and its member. */
void reply_init(Coordgen__V1__Response *response, uint64_t request_id);
void reply_error(Connection *connection, uint64_t request_id, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms,
                 const char *field, const char *format, ...) __attribute__((format(printf, 6, 7)));
const char *reply_code_name(Coordgen__V1__ErrorCode code); /* "busy" */

#endif
