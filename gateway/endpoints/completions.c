// SPDX-License-Identifier: Apache-2.0
/* POST /v1/completions */
#include "base/strings/json_text.h"
#include "gateway/answers/answer_stream.h"
#include "gateway/request/generation_fields.h"
#include "gateway/answers/legacy_logprobs.h"
#include "gateway/request/prompts.h"
#include "gateway/answers/stream_times.h"
#include "gateway/answers/token_lists.h"
#include "gateway/json/body.h"

static const char object_name[] = "text_completion";

enum {
    DEFAULT_TOKENS = 16, /* of OpenAI's interface */
};

typedef struct CompletionRequest {
    GenerationRequest request;
    const json_t *prompt;
    PromptList prompts;
    uint32_t best_of; /* 0: absent */
} CompletionRequest;

/* What an answer is made of beside the replies; a choice's index counts those of earlier prompts, too. */
typedef struct CompletionAnswer {
    json_t *logprobs;   /* [n_choices] lists of an answer that is sent whole */
    TokenLists *tokens; /* of an answer that is sent whole */
    size_t *n_chars;    /* [n_choices] of the tokens so far */
    StreamTimes times;
} CompletionAnswer;

static const CompletionRequest *request_of(const Turn *turn) {
    return (const CompletionRequest *)turn->request;
}

static void free_answer(void *arg) {
    CompletionAnswer *answer = arg;

    json_decref(answer->logprobs);
    token_lists_free(answer->tokens);
    free(answer->n_chars);
    free(answer);
}

static bool wants_logprobs(const Turn *turn) {
    return turn->request->options.logprobs != COORDGEN_UNSET_COUNT;
}

static size_t n_of(const GenerationRequest *request) {
    return request->options.n ? request->options.n : 1;
}

static size_t index_of(const Turn *turn, const CoordgenEvent *event) {
    const size_t n = n_of(turn->request);

    return turn->part * n + (event->choice < n ? event->choice : n - 1);
}

/* ---- a whole answer ---------------------------------------------------------------------------------------------- */

static json_t *choice_of(const Turn *turn, const CoordgenChoice *choice, size_t index) {
    const CompletionAnswer *answer = turn->answer;
    json_t *object =
        json_pack("{si, so, so, ss}", "index", (int)index, "text", json_text_n(choice->text, choice->text_bytes),
                  "logprobs", wants_logprobs(turn) ? json_incref(json_array_get(answer->logprobs, index)) : json_null(),
                  "finish_reason", answer_finish_reason(choice->end_reason));

    if (turn->request->wishes.with_tokens)
        json_object_set(object, "tokens", token_lists_ids(answer->tokens, index));
    return object;
}

static json_t *whole(const Turn *turn, const CoordgenReply *reply) {
    json_t *body = answer_head(turn, object_name), *choices = json_array();

    for (size_t part = 0; part < turn->n_parts; part++) {
        const CoordgenGenerateResult *result = coordgen_reply_generate(turn->replies[part]);

        for (size_t i = 0; i < answer_n_choices(result); i++) {
            const CoordgenChoice choice = answer_choice(result, i);

            json_array_append_new(choices, choice_of(turn, &choice, json_array_size(choices)));
        }
    }
    json_object_set_new(body, "choices", choices);
    json_object_set_new(body, "usage", answer_usage(turn));
    json_object_set_new(body, "timings", answer_timings(turn));
    answer_add_explanation(body, reply);
    return body;
}

static void collect(Turn *turn, const CoordgenEvent *event) {
    CompletionAnswer *answer = turn->answer;
    const size_t index = index_of(turn, event);

    if (wants_logprobs(turn))
        legacy_logprobs_add(json_array_get(answer->logprobs, index), event, &answer->n_chars[index]);
    if (turn->request->wishes.with_tokens)
        token_lists_add(answer->tokens, index, event, answer_token);
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

static json_t *chunk_of(const Turn *turn, size_t index, json_t *text, const char *finish) {
    return answer_chunk(turn, object_name,
                        json_pack("{si, so, sn, so}", "index", (int)index, "text", text, "logprobs", "finish_reason",
                                  finish ? json_string(finish) : json_null()));
}

static void send_progress(Turn *turn, const CoordgenEvent *event) {
    CompletionAnswer *answer = turn->answer;
    json_t *progress = stream_times_progress(&answer->times, event), *chunk;

    if (!progress)
        return;
    chunk = chunk_of(turn, turn->part * n_of(turn->request), json_string(""), NULL);
    json_object_set_new(chunk, "prompt_progress", progress);
    turn_send(turn, NULL, chunk);
}

static void piece(Turn *turn, const CoordgenEvent *event) {
    const AnswerWishes *wishes = &turn->request->wishes;
    CompletionAnswer *answer = turn->answer;
    const size_t index = index_of(turn, event);
    json_t *chunk, *lists;

    if (event->kind == COORDGEN_EVENT_PROGRESS) {
        if (wishes->with_progress)
            send_progress(turn, event);
        return;
    }
    if (!event->text_bytes && !(wants_logprobs(turn) && event->n_logprobs) && !(wishes->with_tokens && event->n_tokens))
        return; /* the tokens of text that is held back */
    chunk = chunk_of(turn, index, json_text_n(event->text, event->text_bytes), NULL);
    if (wants_logprobs(turn)) {
        lists = legacy_logprobs_new();
        legacy_logprobs_add(lists, event, &answer->n_chars[index]);
        json_object_set_new(answer_chunk_choice(chunk), "logprobs", lists);
    }
    if (wishes->with_tokens)
        json_object_set_new(answer_chunk_choice(chunk), "tokens", answer_event_ids(event));
    if (wishes->with_timings)
        json_object_set_new(chunk, "timings", stream_times_so_far(&answer->times, event));
    turn_send(turn, NULL, chunk);
}

static void end(Turn *turn, const CoordgenReply *reply) {
    json_t *last = NULL;
    size_t index = 0;

    for (size_t part = 0; part < turn->n_parts; part++) {
        const CoordgenGenerateResult *result = coordgen_reply_generate(turn->replies[part]);

        for (size_t i = 0; i < answer_n_choices(result); i++) {
            if (last)
                turn_send(turn, NULL, last);
            last = chunk_of(turn, index++, json_string(""), answer_finish_reason(answer_choice(result, i).end_reason));
        }
    }
    answer_stream_close(turn, object_name, last);
}

static void set_prompt(const Turn *turn, size_t part, CoordgenGenerateOptions *options) {
    prompt_set(&request_of(turn)->prompts.list[part], options);
}

static int take_texts(Turn *turn, ApiError *error) {
    return prompts_join(&((CompletionRequest *)turn->request)->prompts, turn->request, error);
}

static const AnswerForm form = { .whole = whole,
                                 .piece = piece,
                                 .end = end,
                                 .collect = collect,
                                 .take_texts = take_texts,
                                 .set_prompt = set_prompt,
                                 .free_answer = free_answer };

/* ---- the request ------------------------------------------------------------------------------------------------- */

#define AT(member) offsetof(CompletionRequest, member)

static const Field fields[] = {
    { "prompt", field_set_any, AT(prompt), 0, 0 },
    { "suffix", field_set_text, AT(request.options.suffix), 0, 0 },
    { "echo", field_set_bool, AT(request.options.echo), 0, 0 },
    { "best_of", field_set_u32, AT(best_of), 1, 16 },
    { "logprobs", field_set_u32, AT(request.options.logprobs), 0, 20 },
};
static const FieldTable table = { fields, ARRAY_LEN(fields) };

/* Settles what several fields say together. */
static int settle(CompletionRequest *completion, ApiError *error) {
    CoordgenGenerateOptions *options = &completion->request.options;
    int r =
        prompts_read(&completion->prompts, &completion->request, completion->prompt, TURN_PARTS_MAX, "prompt", error);

    if (r)
        return r;
    if (completion->best_of && completion->best_of != n_of(&completion->request))
        return api_error_field(error, "best_of", "best_of must be equal to n: the service gives every answer");
    if (options->echo && options->logprobs != COORDGEN_UNSET_COUNT)
        return api_error_field(error, "logprobs",
                               "logprobs of the prompt are not supported: leave out echo, or logprobs");
    if (options->explain && completion->prompts.n > 1)
        return api_error_field(error, "explain", "explain is for one prompt: send them one by one");
    if (!completion->request.names.max_tokens)
        options->max_tokens = DEFAULT_TOKENS;
    if (options->suffix && !*options->suffix)
        options->suffix = NULL;
    return 0;
}

static CompletionAnswer *new_answer(const CompletionRequest *completion) {
    const size_t n = completion->prompts.n * n_of(&completion->request);
    CompletionAnswer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return NULL;
    stream_times_begin(&answer->times);
    answer->n_chars = calloc(n, sizeof(*answer->n_chars));
    answer->tokens = token_lists_new(n);
    answer->logprobs = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(answer->logprobs, legacy_logprobs_new());
    if (answer->n_chars && answer->tokens && json_array_size(answer->logprobs) == n)
        return answer;
    free_answer(answer);
    return NULL;
}

void endpoint_completions(Gateway *gateway, Exchange *exchange) {
    _cleanup_(generation_request_freep) GenerationRequest *request = NULL;
    _cleanup_(turn_freep) Turn *turn = NULL;
    CompletionRequest *completion;
    ApiError error;
    json_t *body = body_parse(exchange, &error);

    if (!body) {
        exchange_refuse(exchange, &error);
        return;
    }
    request = generation_request_new(sizeof(*completion), body);
    completion = (CompletionRequest *)request;
    turn = turn_new(gateway, exchange, &form, "cmpl-");
    if (request && turn &&
        (generation_fields_read(request, GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT, &table, 1, &error) ||
         settle(completion, &error))) {
        exchange_refuse(exchange, &error);
        return;
    }
    if (request && turn)
        turn->answer = new_answer(completion);
    if (!request || !turn || !turn->answer) {
        api_error_no_memory(&error);
        exchange_refuse(exchange, &error);
        return;
    }
    turn->n_parts = completion->prompts.n;
    turn_start_request(steal(&turn), steal(&request));
}
