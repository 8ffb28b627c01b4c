// SPDX-License-Identifier: Apache-2.0
/* A generation that an exchange waits for, or several of one request: from the start in the service to the end of the
 * reply. A client that goes cancels them. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_TURN_H
#define COORDGEN_GATEWAY_TURN_H

#include <jansson.h>
#include <stdint.h>

#include "client/coordgen-client.h"
#include "gateway/request/generation_request.h"
#include "gateway/gateway.h"

typedef struct Turn Turn;
typedef struct TurnPart TurnPart;

/* How answers of an endpoint look. Each function may be NULL, except whole. */
typedef struct AnswerForm {
    /* Makes the body of a whole answer. reply: the first part's; turn->replies has all. NULL: out of memory. */
    json_t *(*whole)(const Turn *turn, const CoordgenReply *reply);
    /* Write events of a stream, by turn_send(): before the first piece, for a DELTA or PROGRESS, and behind the last
     * piece. */
    void (*begin)(Turn *turn);
    void (*piece)(Turn *turn, const CoordgenEvent *event);
    void (*end)(Turn *turn, const CoordgenReply *reply);
    /* Writes the event of an error in a stream that has begun; NULL: data: {"error": ...}. */
    void (*fail)(Turn *turn, const ApiError *error);
    /* Takes a DELTA of an answer that is sent whole. */
    void (*collect)(Turn *turn, const CoordgenEvent *event);
    /* Goes on with the ids of the request's texts, before the first part. 0 or API_E_REFUSED. */
    int (*take_texts)(Turn *turn, ApiError *error);
    /* Sets the prompt of a part, of a request with several. */
    void (*set_prompt)(const Turn *turn, size_t part, CoordgenGenerateOptions *options);
    void (*free_answer)(void *answer); /* of Turn.answer, not NULL */
} AnswerForm;

struct Turn {
    const AnswerForm *form;
    char id[40];        /* of the answer: "chatcmpl-..." */
    uint64_t created_s; /* seconds since 1970 */
    char *model; /* that the request names, or ""; replaced by the service's name of it as soon as that is known */
    bool is_stream;
    bool with_usage; /* of a stream: stream_options.include_usage */
    uint32_t ping_s; /* of a stream: seconds between comments while nothing else comes; 0: none */
    GenerationRequest *request;
    void *answer;            /* of the form */
    size_t n_parts;          /* generations; 1 unless the caller of turn_start_request() changes it */
    size_t part;             /* which one an event is of */
    CoordgenReply **replies; /* [n_parts]; NULL: that part has not ended */
    /* below: turn.c */
    Gateway *gateway;
    Exchange *exchange; /* NULL: the client has gone, or has its answer */
    TurnPart *parts;    /* [n_parts] */
    size_t n_started, n_over;
    size_t n_told; /* texts whose ids are known */
    struct event *ping;
    bool has_begun; /* the stream */
};

enum {
    TURN_PARTS_MAX = 64,
};

/* Makes a turn, which the caller fills in. prefix: of the id. NULL: out of memory. */
Turn *turn_new(Gateway *gateway, Exchange *exchange, const AnswerForm *form, const char *prefix);
Turn *turn_free(Turn *turn);
DEFINE_CLEANUP(Turn, turn_free)
/* Starts the generations of a request, which the turn takes over, and whose wishes it follows. Takes the turn over, and
 * replies to the exchange even if the start fails. */
void turn_start_request(Turn *turn, GenerationRequest *request);
/* Writes one event of a stream, "data: JSON", and releases the value. name: of the event, or NULL. */
void turn_send(Turn *turn, const char *name, json_t *value);
/* Writes an event that repeats what the client has sent or got. Its bytes do not count as unread, however long it
 * is. */
void turn_send_again(Turn *turn, const char *name, json_t *value);
/* Writes "data: TEXT". */
void turn_send_text(Turn *turn, const char *text);

#endif
