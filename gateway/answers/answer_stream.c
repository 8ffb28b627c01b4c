// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/answer_stream.h"

json_t *answer_chunk(const Turn *turn, const char *object, json_t *choice) {
    json_t *chunk = answer_head(turn, object);

    json_object_set_new(chunk, "choices", json_pack("[o]", choice));
    if (turn->with_usage)
        json_object_set_new(chunk, "usage", json_null()); /* the last chunk has it */
    return chunk;
}

json_t *answer_chunk_choice(const json_t *chunk) {
    return json_array_get(json_object_get(chunk, "choices"), 0);
}

void answer_stream_close(Turn *turn, const char *object, json_t *chunk) {
    json_t *last = chunk;

    if (turn->with_usage) {
        turn_send(turn, NULL, chunk);
        last = answer_head(turn, object);
        json_object_set_new(last, "choices", json_array());
        json_object_set_new(last, "usage", answer_usage(turn));
    }
    json_object_set_new(last, "timings", answer_timings(turn));
    answer_add_explanation(last, turn->replies[0]);
    turn_send(turn, NULL, last);
    turn_send_text(turn, "[DONE]");
}

json_t *answer_event_ids(const CoordgenEvent *event) {
    json_t *ids = json_array();

    for (size_t i = 0; i < event->n_tokens; i++)
        json_array_append_new(ids, json_integer(event->tokens[i]));
    return ids;
}
