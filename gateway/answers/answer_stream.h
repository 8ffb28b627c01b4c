// SPDX-License-Identifier: Apache-2.0
/* Streams of chunks, as chats and completions of OpenAI have them. */
#ifndef COORDGEN_GATEWAY_ANSWER_STREAM_H
#define COORDGEN_GATEWAY_ANSWER_STREAM_H

#include "gateway/answers/answer_json.h"

/* Makes a chunk with one choice, which it takes over. NULL: out of memory. */
json_t *answer_chunk(const Turn *turn, const char *object, json_t *choice);
/* Returns the choice of a chunk, which stays the chunk's. */
json_t *answer_chunk_choice(const json_t *chunk);
/* Sends the last chunk that has a choice, which it takes over, with usage and times beside it or in a chunk of their
 * own, then the end mark. */
void answer_stream_close(Turn *turn, const char *object, json_t *chunk);
/* Returns the ids of a delta. */
json_t *answer_event_ids(const CoordgenEvent *event);

#endif
