// SPDX-License-Identifier: Apache-2.0
/* Building answers. */
#ifndef COORDGEN_DAEMON_REPLY_H
#define COORDGEN_DAEMON_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/coordgen.pb-c.h"

/* Initialises a response to a request; the caller sets op_case and its member. */
void reply_init(Coordgen__V1__Response *response, uint64_t request_id);
/* A response that is an error, whose members it points to; field may be NULL or "". */
void reply_init_error(Coordgen__V1__Response *response, Coordgen__V1__Error *error, uint64_t request_id,
                      Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field, const char *text);
const char *reply_code_name(Coordgen__V1__ErrorCode code); /* "busy" */

#endif
