// SPDX-License-Identifier: Apache-2.0
/* The numbered events of a streamed response. Knows no HTTP. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_RESPONSE_EVENTS_H
#define COORDGEN_GATEWAY_RESPONSE_EVENTS_H

#include <jansson.h>
#include <stdint.h>

typedef struct ResponseEvents {
    /* Sends an event and releases it; an event that is NULL means that memory is short. NULL: nobody listens. */
    void (*send)(void *arg, const char *type, json_t *event);
    void *arg;
    uint64_t n_sent;
} ResponseEvents;

/* Sends an event of a type with its number and these fields, which are released. NULL: memory is short. */
void response_events_send(ResponseEvents *events, const char *type, json_t *fields);

#endif
