// SPDX-License-Identifier: Apache-2.0
/* Whether a request that names no model can be served now. */
#ifndef COORDGEN_GATEWAY_HEALTH_H
#define COORDGEN_GATEWAY_HEALTH_H

#include "client/coordgen-client.h"
#include "gateway/json/api_error.h"

/* Judges the default model (NULL: there is none). 0, or API_E_REFUSED with an error of status 503. */
int health_check(const CoordgenModel *model, ApiError *error);

#endif
