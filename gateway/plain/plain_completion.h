// SPDX-License-Identifier: Apache-2.0
/* Generations that answer in llama-server's own form. */
#ifndef COORDGEN_GATEWAY_PLAIN_COMPLETION_H
#define COORDGEN_GATEWAY_PLAIN_COMPLETION_H

#include "gateway/gateway.h"
#include "gateway/plain/plain_request.h"

/* Reads the body of the exchange as plain_request_read() does, starts its generations, and answers the exchange. */
void plain_completion_run(Gateway *gateway, Exchange *exchange, size_t struct_bytes, const FieldTable *table,
                          int (*settle)(PlainRequest *request, ApiError *error));

#endif
