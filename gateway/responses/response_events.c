// SPDX-License-Identifier: Apache-2.0
#include "gateway/responses/response_events.h"

void response_events_send(ResponseEvents *events, const char *type, json_t *fields) {
    json_t *event = NULL;

    if (events->send && fields)
        event = json_pack("{ss, sI}", "type", type, "sequence_number", (json_int_t)events->n_sent++);
    if (event && json_object_update(event, fields)) {
        json_decref(event);
        event = NULL;
    }
    json_decref(fields);
    if (events->send)
        events->send(events->arg, type, event);
}
