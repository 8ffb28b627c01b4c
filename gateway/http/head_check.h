// SPDX-License-Identifier: Apache-2.0
/* Checks of a request's head that libmicrohttpd leaves to its user: what is ambiguous is refused, since two programs
 * that read one request in two ways are what smuggled requests live on. */
#ifndef COORDGEN_GATEWAY_HEAD_CHECK_H
#define COORDGEN_GATEWAY_HEAD_CHECK_H

#include <microhttpd.h>
#include <stdbool.h>

#include "gateway/json/api_error.h"

/* Checks the lengths, the path and the query. has_nul: whether the path as it was sent has a NUL. 0 or
 * API_E_REFUSED. */
int head_check(struct MHD_Connection *mhd, const char *path, bool has_nul, size_t body_bytes_max, ApiError *error);
/* Sets the error of a body that is longer than that. Returns API_E_REFUSED. */
int head_check_too_long(size_t body_bytes_max, ApiError *error);
/* Whether a request's target, as it was sent, has a NUL before its query: %00, or the byte itself. */
bool head_check_has_nul(const char *target);

#endif
