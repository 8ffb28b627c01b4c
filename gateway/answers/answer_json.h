// SPDX-License-Identifier: Apache-2.0
/* Parts of answers that several endpoints share, as JSON. Each function returns NULL when out of memory. */
#ifndef COORDGEN_GATEWAY_ANSWER_JSON_H
#define COORDGEN_GATEWAY_ANSWER_JSON_H

#include "gateway/answers/turn.h"

/* Returns {id, object, created, model, system_fingerprint}. */
json_t *answer_head(const Turn *turn, const char *object);
/* Returns "stop", "length" or "tool_calls". An answer that was broken off is one of "length". */
const char *answer_finish_reason(CoordgenEndReason reason);
/* Returns the number of answers of one generation: n, at least 1. */
size_t answer_n_choices(const CoordgenGenerateResult *result);
/* Returns a choice, also of a generation without choices; it points into the result. */
CoordgenChoice answer_choice(const CoordgenGenerateResult *result, size_t choice);
/* Returns OpenAI's usage of all parts that have ended. */
json_t *answer_usage(const Turn *turn);
/* Returns llama-server's timings of all parts that have ended, times in ms. */
json_t *answer_timings(const Turn *turn);
/* Returns the timings of one generation. */
json_t *answer_timings_of(const CoordgenGenerateResult *result);
/* Adds "coordgen", what the service tells of a generation with `explain`; nothing for others. */
void answer_add_explanation(json_t *body, const CoordgenReply *reply);
/* Returns OpenAI's list of calls. */
json_t *answer_calls(const CoordgenToolCall *calls, size_t n);

/* Returns the entry of a token in logprobs.content of a chat: {id, token, bytes, logprob, top_logprobs}. */
json_t *answer_token(const CoordgenTokenLogprobs *token);
/* Returns a log probability, which JSON can hold: -infinity is -9999, as OpenAI has it. */
json_t *answer_logprob(float logprob);

#endif
