// SPDX-License-Identifier: Apache-2.0
#include "gateway/plain/plain_answer.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/json_text.h"
#include "gateway/answers/answer_json.h"
#include "gateway/answers/answer_stream.h"
#include "gateway/answers/stream_times.h"
#include "gateway/answers/token_lists.h"
#include "gateway/plain/sampling_json.h"

/* What an answer is made of beside the replies. A choice's index counts those of earlier prompts, too. */
typedef struct PlainAnswer {
    TokenLists *tokens;  /* of an answer that is sent whole */
    uint32_t *n_outputs; /* [n_choices] tokens of a stream so far */
    StreamTimes times;
} PlainAnswer;

static const PlainRequest *request_of(const Turn *turn) {
    return (const PlainRequest *)turn->request;
}

static size_t n_of(const GenerationRequest *request) {
    return request->options.n ? request->options.n : 1;
}

static bool wants_logprobs(const Turn *turn) {
    return turn->request->options.logprobs != COORDGEN_UNSET_COUNT;
}

static size_t index_of(const Turn *turn, const CoordgenEvent *event) {
    const size_t n = n_of(turn->request);

    return turn->part * n + (event->choice < n ? event->choice : n - 1);
}

static void free_answer(void *arg) {
    PlainAnswer *answer = arg;

    token_lists_free(answer->tokens);
    free(answer->n_outputs);
    free(answer);
}

void *plain_answer_new(const PlainRequest *request) {
    const size_t n = request->prompts.n * n_of(&request->request);
    PlainAnswer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return NULL;
    stream_times_begin(&answer->times);
    answer->tokens = token_lists_new(n);
    answer->n_outputs = calloc(n, sizeof(*answer->n_outputs));
    if (answer->tokens && answer->n_outputs)
        return answer;
    if (answer->tokens)
        token_lists_free(answer->tokens);
    free(answer->n_outputs);
    free(answer);
    return NULL;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

const char *plain_answer_stop_type(CoordgenEndReason reason) {
    switch (reason) {
    case COORDGEN_END_TOKEN:
    case COORDGEN_END_TOOL_CALLS:
        return "eos";
    case COORDGEN_END_STOP:
        return "word";
    default:
        return "limit";
    }
}

json_t *plain_answer_select(json_t *body, const json_t *fields) {
    json_t *chosen, *value;

    if (!body || !json_array_size(fields))
        return body;
    chosen = json_object();
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *path = json_string_value(json_array_get(fields, i)), *slash = path ? strchr(path, '/') : NULL;
        _cleanup_(freep) char *front = slash ? strndup(path, (size_t)(slash - path)) : NULL;

        value = !slash ? json_object_get(body, path) : json_object_get(json_object_get(body, front), slash + 1);
        if (value)
            json_object_set(chosen, path, value);
    }
    json_decref(body);
    return chosen;
}

/* Adds what only the end of an answer tells. */
static void add_end(json_t *object, const Turn *turn, size_t part, const CoordgenChoice *choice) {
    const CoordgenGenerateResult *result = coordgen_reply_generate(turn->replies[part]);
    const GenerationRequest *request = turn->request;
    const char *prompt = request_of(turn)->prompts.list[part].text;

    json_object_set_new(object, "model", json_text(turn->model));
    json_object_set_new(object, "tokens_predicted", json_integer(choice->output_tokens));
    json_object_set_new(object, "tokens_evaluated", json_integer(result->prompt_tokens));
    json_object_set_new(object, "tokens_cached", json_integer(result->cached_tokens));
    json_object_set_new(object, "generation_settings", sampling_json(result, request, choice->seed));
    if (prompt)
        json_object_set_new(object, "prompt", json_text(prompt));
    json_object_set_new(object, "has_new_line", json_boolean(memchr(choice->text, '\n', choice->text_bytes) != NULL));
    json_object_set_new(object, "truncated", json_boolean(choice->end_reason == COORDGEN_END_CONTEXT_FULL));
    json_object_set_new(object, "stop_type", json_string(plain_answer_stop_type(choice->end_reason)));
    if (choice->end_reason != COORDGEN_END_STOP || request->options.n_stops == 1)
        json_object_set_new(object, "stopping_word",
                            json_text(choice->end_reason == COORDGEN_END_STOP ? request->options.stops[0] : ""));
    json_object_set_new(object, "timings", answer_timings_of(result));
}

/* ---- a whole answer ---------------------------------------------------------------------------------------------- */

static json_t *object_of(const Turn *turn, size_t part, const CoordgenChoice *choice, size_t index) {
    const PlainAnswer *answer = turn->answer;
    json_t *object = json_pack("{si, so, sb, si}", "index", (int)index, "content",
                               json_text_n(choice->text, choice->text_bytes), "stop", 1, "id_slot", -1);

    if (turn->request->wishes.with_tokens)
        json_object_set(object, "tokens", token_lists_ids(answer->tokens, index));
    else
        json_object_set_new(object, "tokens", json_array());
    if (wants_logprobs(turn))
        json_object_set(object, "completion_probabilities", token_lists_logprobs(answer->tokens, index));
    add_end(object, turn, part, choice);
    answer_add_explanation(object, turn->replies[part]);
    return plain_answer_select(object, request_of(turn)->response_fields);
}

/* Returns an object for one answer and an array for several, as llama-server does. */
static json_t *whole(const Turn *turn, const CoordgenReply *reply) {
    json_t *list = json_array(), *only;

    for (size_t part = 0; part < turn->n_parts; part++) {
        const CoordgenGenerateResult *result = coordgen_reply_generate(turn->replies[part]);

        for (size_t i = 0; i < answer_n_choices(result); i++) {
            const CoordgenChoice choice = answer_choice(result, i);

            if (json_array_append_new(list, object_of(turn, part, &choice, json_array_size(list)))) {
                json_decref(list);
                return NULL;
            }
        }
    }
    if (json_array_size(list) != 1)
        return list;
    only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

static void collect(Turn *turn, const CoordgenEvent *event) {
    PlainAnswer *answer = turn->answer;

    if (turn->request->wishes.with_tokens || wants_logprobs(turn))
        token_lists_add(answer->tokens, index_of(turn, event), event, answer_token);
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

static json_t *piece_of(const Turn *turn, size_t index, json_t *content, json_t *tokens) {
    const PlainAnswer *answer = turn->answer;

    return json_pack("{si, so, so, sb, si, sI}", "index", (int)index, "content", content, "tokens", tokens, "stop", 0,
                     "id_slot", -1, "tokens_predicted", (json_int_t)answer->n_outputs[index]);
}

static void send_progress(Turn *turn, const CoordgenEvent *event) {
    PlainAnswer *answer = turn->answer;
    json_t *progress = stream_times_progress(&answer->times, event), *object;

    if (!progress)
        return;
    object = piece_of(turn, turn->part * n_of(turn->request), json_string(""), json_array());
    json_object_set_new(object, "prompt_progress", progress);
    if (turn->request->wishes.with_timings)
        json_object_set_new(object, "timings", stream_times_prompt(&answer->times));
    turn_send(turn, NULL, object);
}

static json_t *probabilities_of(const CoordgenEvent *event) {
    json_t *list = json_array();

    for (size_t i = 0; i < event->n_logprobs; i++)
        json_array_append_new(list, answer_token(&event->logprobs[i]));
    return list;
}

static void piece(Turn *turn, const CoordgenEvent *event) {
    const AnswerWishes *wishes = &turn->request->wishes;
    PlainAnswer *answer = turn->answer;
    json_t *object;

    if (event->kind == COORDGEN_EVENT_PROGRESS) {
        if (wishes->with_progress)
            send_progress(turn, event);
        return;
    }
    answer->n_outputs[index_of(turn, event)] += (uint32_t)event->n_tokens;
    object =
        piece_of(turn, index_of(turn, event), json_text_n(event->text, event->text_bytes), answer_event_ids(event));
    if (wants_logprobs(turn))
        json_object_set_new(object, "completion_probabilities", probabilities_of(event));
    if (wishes->with_timings)
        json_object_set_new(object, "timings", stream_times_so_far(&answer->times, event));
    turn_send(turn, NULL, object);
}

static void end(Turn *turn, const CoordgenReply *reply) {
    size_t index = 0;

    for (size_t part = 0; part < turn->n_parts; part++) {
        const CoordgenGenerateResult *result = coordgen_reply_generate(turn->replies[part]);

        for (size_t i = 0; i < answer_n_choices(result); i++) {
            const CoordgenChoice choice = answer_choice(result, i);
            json_t *object = piece_of(turn, index++, json_string(""), json_array());

            json_object_set_new(object, "stop", json_true());
            add_end(object, turn, part, &choice);
            answer_add_explanation(object, turn->replies[part]);
            turn_send(turn, NULL, plain_answer_select(object, request_of(turn)->response_fields));
        }
    }
}

static void set_prompt(const Turn *turn, size_t part, CoordgenGenerateOptions *options) {
    prompt_set(&request_of(turn)->prompts.list[part], options);
}

static int take_texts(Turn *turn, ApiError *error) {
    return prompts_join(&((PlainRequest *)turn->request)->prompts, turn->request, error);
}

const AnswerForm plain_answer_form = { .whole = whole,
                                       .piece = piece,
                                       .end = end,
                                       .collect = collect,
                                       .take_texts = take_texts,
                                       .set_prompt = set_prompt,
                                       .free_answer = free_answer };
