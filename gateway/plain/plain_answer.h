// SPDX-License-Identifier: Apache-2.0
/* Answers of llama-server's own form. */
#ifndef COORDGEN_GATEWAY_PLAIN_ANSWER_H
#define COORDGEN_GATEWAY_PLAIN_ANSWER_H

#include "gateway/answers/turn.h"
#include "gateway/plain/plain_request.h"

/* Form of turns whose request is a PlainRequest. */
extern const AnswerForm plain_answer_form;
/* Makes Turn.answer of the form. NULL: out of memory. */
void *plain_answer_new(const PlainRequest *request);

/* Returns llama-server's name of an end: "eos", "word", "limit". */
const char *plain_answer_stop_type(CoordgenEndReason reason);
/* Returns an object with the listed members of the body; "a/b" is the member b of a. A member that the body has not is
 * left out. Releases the body. fields NULL or empty: returns the body. NULL: out of memory. */
json_t *plain_answer_select(json_t *body, const json_t *fields);

#endif
