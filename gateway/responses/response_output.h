// SPDX-License-Identifier: Apache-2.0
/* The output of a response: items (thinking, messages, calls of functions) that grow with the pieces of an answer, and
 * the events that tell of them. A streamed response and a whole one are made of the same pieces, and so have the same
 * items. Knows no HTTP. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_RESPONSE_OUTPUT_H
#define COORDGEN_GATEWAY_RESPONSE_OUTPUT_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "client/coordgen-client.h"
#include "gateway/responses/response_events.h"

typedef struct ResponseOutput ResponseOutput;

/* Makes an output without items. key: the random part of the response's id, which ids of items contain. The events
 * outlive the output. NULL: out of memory. */
ResponseOutput *response_output_new(const char *key, ResponseEvents *events);
/* NULL is fine; returns NULL. */
ResponseOutput *response_output_free(ResponseOutput *output);
DEFINE_CLEANUP(ResponseOutput, response_output_free)

/* Adds a piece: an event of the kind DELTA. */
void response_output_add(ResponseOutput *output, const CoordgenEvent *piece);
/* Adds fields to the next event that a piece makes, and releases them: timings. */
void response_output_attach(ResponseOutput *output, json_t *fields);
/* Ends the last item. An answer without a piece gets a message without text. is_cut: the last item is incomplete. */
void response_output_end(ResponseOutput *output, bool is_cut);
/* Returns the items that have ended, as a new reference. NULL: memory was short. */
json_t *response_output_items(const ResponseOutput *output);

#endif
