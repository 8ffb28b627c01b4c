// SPDX-License-Identifier: Apache-2.0
/* A generation that an exchange waits for: from its start in the service to the end of the reply. A client that goes
 * cancels the generation. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_TURN_H
#define COORDGEN_GATEWAY_TURN_H

#include <jansson.h>
#include <stdint.h>

#include "client/coordgen-client.h"
#include "gateway/gateway.h"

typedef struct Turn Turn;

/* How answers of an endpoint look. */
typedef struct AnswerForm {
    /* Makes the body of a whole answer. NULL: out of memory. */
    json_t *(*whole)(const Turn *turn, const CoordgenReply *reply);
    /* Write events of a stream, by turn_send(): before the first piece, for a DELTA or PROGRESS, and behind the last
     * piece. Each may be NULL. */
    void (*begin)(Turn *turn);
    void (*piece)(Turn *turn, const CoordgenEvent *event);
    void (*end)(Turn *turn, const CoordgenReply *reply);
} AnswerForm;

struct Turn {
    const AnswerForm *form;
    char id[40];        /* of the answer: "chatcmpl-..." */
    uint64_t created_s; /* seconds since 1970 */
    char *model; /* that the request names, or ""; replaced by the service's name of it as soon as that is known */
    bool is_stream;
    bool with_usage; /* of a stream: stream_options.include_usage */
    /* below: turn.c */
    Gateway *gateway;
    Exchange *exchange; /* NULL: the client has gone */
    CoordgenClient *client;
    uint64_t request_id;
    bool has_begun; /* the stream */
};

/* Makes a turn, which the caller fills in. prefix: of the id. NULL: out of memory. */
Turn *turn_new(Gateway *gateway, Exchange *exchange, const AnswerForm *form, const char *prefix);
Turn *turn_free(Turn *turn);
DEFINE_CLEANUP(Turn, turn_free)
/* Starts the generation. Takes the turn over, and replies to the exchange even if the start fails. */
void turn_start(Turn *turn, const CoordgenGenerateOptions *options);
/* Writes one event of a stream, "data: JSON", and releases the value. name: of the event, or NULL. */
void turn_send(Turn *turn, const char *name, json_t *value);
/* Writes "data: TEXT". */
void turn_send_text(Turn *turn, const char *text);

#endif
