// SPDX-License-Identifier: Apache-2.0
/* Helpers that fill in responses. */
#ifndef COORDGEN_DAEMON_REPLY_H
#define COORDGEN_DAEMON_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/coordgen.pb-c.h"

/* Initialises a response to a request; the caller sets op_case and its member. */
void reply_init(Coordgen__V1__Response *response, uint64_t request_id);
/* Initialises an error response, which points to error and to the texts; field may be NULL or "". */
void reply_init_error(Coordgen__V1__Response *response, Coordgen__V1__Error *error, uint64_t request_id,
                      Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field, const char *text);
const char *reply_code_name(Coordgen__V1__ErrorCode code); /* such as "busy" */

#endif
