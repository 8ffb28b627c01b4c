// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/generation_state.h"

/* Returns where the first stop string begins in the pending text, or -1. */
static ssize_t find_stop(const Generation *generation) {
    const char *text = generation->text.pending.data, *first = NULL;

    for (size_t i = 0; text && i < generation->options.n_stops; i++) {
        const char *stop = generation->options.stops[i];
        const char *found = memmem(text, generation->text.pending.len_bytes, stop, strlen(stop));

        if (found && (!first || found < first))
            first = found;
    }
    return first ? first - text : -1;
}

/* Returns how many bytes at the end of the pending text could be the beginning of a stop string. */
static size_t held_back(const Generation *generation) {
    size_t len_bytes = generation->text.pending.len_bytes, longest = 0;

    for (size_t i = 0; i < generation->options.n_stops; i++) {
        const char *stop = generation->options.stops[i];
        size_t n = strlen(stop) - 1;

        for (n = MIN(n, len_bytes); n > longest; n--)
            if (!memcmp(generation->text.pending.data + len_bytes - n, stop, n))
                longest = n;
    }
    return longest;
}

/* Says whether a stop string is the text of this control token, which the output never shows. */
static bool is_stop_mark(const Generation *generation, uint32_t token) {
    const Tokenizer *tokenizer = engine_tokenizer(generation->engine);

    for (size_t i = 0; i < generation->options.n_stops; i++)
        if (tokenizer_is_control_named(tokenizer, token, generation->options.stops[i]))
            return true;
    return false;
}

static void call_out(const Generation *generation, GenerationDeltaFn *fn, void *arg, AnswerPart part, const char *text,
                     size_t len_bytes, const uint32_t *token) {
    if (fn && (len_bytes || token))
        fn(arg, &(GenerationDelta){ .part = part,
                                    .text = len_bytes ? text : "",
                                    .len_bytes = len_bytes,
                                    .tokens = token,
                                    .n_tokens = token ? 1 : 0,
                                    .logprobs = token ? generation_sampling_logprobs(&generation->sampling) : NULL });
}

/* Gives out the first n bytes of the pending text, with the token of this step. */
static void give_out(Generation *generation, size_t n, const uint32_t *token, GenerationDeltaFn *fn, void *arg) {
    StrBuf *pending = &generation->text.pending;

    call_out(generation, fn, arg, ANSWER_TEXT, pending->data, n, token);
    if (n) {
        memmove(pending->data, pending->data + n, pending->len_bytes - n);
        str_buf_truncate(pending, pending->len_bytes - n);
    }
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

typedef struct PartSink {
    Generation *generation;
    GenerationDeltaFn *fn;
    void *arg;
    bool has_stopped; /* a stop string is in the pending text, which nothing follows */
} PartSink;

static void give_reasoning(Generation *generation, const uint32_t *token, GenerationDeltaFn *fn, void *arg) {
    StrBuf *reasoning = &generation->text.reasoning;

    call_out(generation, fn, arg, ANSWER_REASONING, reasoning->data, reasoning->len_bytes, token);
    str_buf_truncate(reasoning, 0);
}

/* Takes a piece of the output. A change of the part ends what may be held back for a stop string. */
static void take_piece(void *arg, const AnswerPiece *piece) {
    PartSink *sink = arg;
    Generation *generation = sink->generation;

    if (sink->has_stopped)
        return;
    if (piece->part != ANSWER_REASONING && generation->text.reasoning.len_bytes)
        give_reasoning(generation, NULL, sink->fn, sink->arg);
    if (piece->part != ANSWER_TEXT && generation->text.pending.len_bytes)
        give_out(generation, generation->text.pending.len_bytes, NULL, sink->fn, sink->arg);
    generation->text.part = piece->part;
    if (piece->part == ANSWER_TEXT) {
        str_buf_append(&generation->text.pending, piece->text, piece->len_bytes);
        sink->has_stopped = find_stop(generation) >= 0;
    } else if (piece->part == ANSWER_REASONING) {
        str_buf_append(&generation->text.reasoning, piece->text, piece->len_bytes);
    } else if (sink->fn) {
        sink->fn(sink->arg, &(GenerationDelta){ .part = ANSWER_CALL, .text = "", .call = piece->call });
    }
}

/* Hands the text that was not split yet to the splitter. */
static int split_text(PartSink *sink) {
    GenerationText *text = &sink->generation->text;
    int r = str_buf_failed(&text->unsplit) ? err_raise(-ENOMEM) : 0;

    if (!r && text->unsplit.len_bytes)
        r = answer_parts_text(text->parts, text->unsplit.data, text->unsplit.len_bytes, take_piece, sink);
    str_buf_truncate(&text->unsplit, 0);
    return r;
}

/* Adds a token's text to the parts. A mark cuts off an incomplete character. */
static int split_token(PartSink *sink, uint32_t token) {
    GenerationText *text = &sink->generation->text;
    const bool is_mark = answer_parts_has_token(text->parts, token),
               was_thinking = answer_parts_is_thinking(text->parts);
    int r = is_mark ? detokenizer_finish(&text->detokenizer, &text->unsplit)
                    : detokenizer_push(&text->detokenizer, token, &text->unsplit);

    if (!r)
        r = split_text(sink);
    if (!r && is_mark) {
        text->detokenizer.at_start = false;
        r = answer_parts_token(text->parts, token, take_piece, sink);
    }
    sink->generation->usage.n_reasoning_tokens += was_thinking || answer_parts_is_thinking(text->parts);
    sink->generation->usage.n_calls = answer_parts_n_calls(text->parts);
    return r ? r : str_buf_failed(&text->pending) || str_buf_failed(&text->reasoning) ? err_raise(-ENOMEM) : 0;
}

/* Gives the parts everything that is held back, at the end of the output. */
static int split_rest(PartSink *sink, bool ends_character) {
    GenerationText *text = &sink->generation->text;
    int r = ends_character ? detokenizer_finish(&text->detokenizer, &text->unsplit) : 0;

    if (!r)
        r = split_text(sink);
    if (!r)
        r = answer_parts_finish(text->parts, take_piece, sink);
    sink->generation->usage.n_calls = answer_parts_n_calls(text->parts);
    return r;
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

/* Gives out what a token has brought, except the last `n_held` bytes of text. */
static void give_token(Generation *generation, size_t n_held, const uint32_t *token, GenerationDeltaFn *fn, void *arg) {
    GenerationText *text = &generation->text;

    if (text->reasoning.len_bytes || (text->parts && text->part == ANSWER_REASONING))
        give_reasoning(generation, token, fn, arg);
    else if (text->parts && text->part == ANSWER_CALL)
        call_out(generation, fn, arg, ANSWER_CALL, "", 0, token);
    else
        give_out(generation, text->pending.len_bytes - n_held, token, fn, arg);
}

/* Ends the output. A character that the end cuts off is left out and counted: the next token could have completed it.
 * At the end of the model's turn no token could; the character is U+FFFD then, as anywhere else in the text. Text
 * behind a stop string is no output. */
int generation_finish(Generation *generation, GenerationEnd end, const uint32_t *token, GenerationDeltaFn *fn,
                      void *arg) {
    PartSink sink = { .generation = generation, .fn = fn, .arg = arg };
    const bool ends_turn = end == GENERATION_END_TOKEN;
    int r = 0;

    if (generation->text.parts && end != GENERATION_END_STOP)
        r = split_rest(&sink, ends_turn);
    else if (ends_turn)
        r = detokenizer_finish(&generation->text.detokenizer, &generation->text.pending);
    if (sink.has_stopped) { /* the text that was held back has a stop string */
        give_out(generation, (size_t)find_stop(generation), token, fn, arg);
        end = GENERATION_END_STOP;
    } else if (end != GENERATION_END_STOP) {
        generation->usage.n_incomplete_bytes = (uint32_t)detokenizer_held(&generation->text.detokenizer);
        give_token(generation, 0, token, fn, arg);
    }
    generation->end = ends_turn && end != GENERATION_END_STOP && generation->usage.n_calls ? GENERATION_END_CALLS : end;
    return r;
}

/* Ends the output before a control token that is a stop string: all text up to there is output. */
static int finish_at_mark(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg) {
    PartSink sink = { .generation = generation, .fn = fn, .arg = arg };
    int r = generation->text.parts ? split_rest(&sink, true)
                                   : detokenizer_finish(&generation->text.detokenizer, &generation->text.pending);

    give_token(generation, sink.has_stopped ? generation->text.pending.len_bytes - (size_t)find_stop(generation) : 0,
               &token, fn, arg);
    return r ? r : generation_finish(generation, GENERATION_END_STOP, NULL, fn, arg);
}

bool generation_ends_with(const Generation *generation, uint32_t token) {
    const Tokenizer *tokenizer = engine_tokenizer(generation->engine);

    if (generation->options.ignore_end)
        return false;
    return tokenizer_is_end(tokenizer, token) ||
           (generation->options.is_infill && tokenizer_is_infill_mark(tokenizer, token));
}

/* Adds a token's text to the output. An embedding may be padded past the tokenizer's table. */
static int add_text(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg) {
    PartSink sink = { .generation = generation, .fn = fn, .arg = arg };

    if (token >= tokenizer_n_tokens(engine_tokenizer(generation->engine)))
        return 0;
    if (generation->text.parts)
        return split_token(&sink, token);
    return detokenizer_push(&generation->text.detokenizer, token, &generation->text.pending);
}

int generation_constraint_error(int r) {
    switch (r) {
    case -ENOBUFS:
        return GENERATION_E_MEMORY;
    case CONSTRAINT_E_TOO_COMPLEX:
        return GENERATION_E_COMPLEX;
    case CONSTRAINT_E_DEAD_END:
        return GENERATION_E_DEAD_END;
    default:
        return r;
    }
}

/* Moves the constraint behind the token. */
static int take_constrained(Generation *generation) {
    int r = generation_constraint_error(answer_constraint_take(generation->constraint));

    generation->usage.ended_in_time = answer_constraint_was_hurried(generation->constraint);
    return r;
}

/* Tells whether the constraint has its end, so that no further token need be computed: nothing may follow, or the text
 * was made whole for the end of its room. */
static bool has_all(const Generation *generation) {
    const AnswerConstraint *constraint = generation->constraint;

    return constraint && (answer_constraint_is_complete(constraint) ||
                          (!generation_tokens_left(generation) && answer_constraint_was_hurried(constraint) &&
                           answer_constraint_is_whole(constraint)));
}

int generation_take_token(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg) {
    ssize_t stop;
    int r = generation->constraint ? take_constrained(generation) : 0;

    if (r)
        return r;
    if (generation_ends_with(generation, token))
        return generation_finish(generation, GENERATION_END_TOKEN, NULL, fn, arg);
    generation->tokens.ids[generation->tokens.n++] = token;
    generation->usage.n_output_tokens++;
    if (is_stop_mark(generation, token))
        return finish_at_mark(generation, token, fn, arg);
    r = add_text(generation, token, fn, arg);
    if (r)
        return r;
    stop = find_stop(generation);
    if (stop >= 0) {
        give_out(generation, (size_t)stop, &token, fn, arg);
        return generation_finish(generation, GENERATION_END_STOP, NULL, fn, arg);
    }
    if (has_all(generation))
        return generation_finish(generation, GENERATION_END_TOKEN, &token, fn, arg);
    if (generation->usage.n_output_tokens == generation->options.max_tokens)
        return generation_finish(generation, GENERATION_END_MAX, &token, fn, arg);
    if (generation->tokens.n == generation->capacity_tokens)
        return generation_finish(generation, GENERATION_END_CONTEXT, &token, fn, arg);
    if (generation->options.ends_repetition &&
        repetition_check_push(&generation->text.repetition, generation->tokens.ids + generation->n_prompt,
                              generation->tokens.n - generation->n_prompt))
        return generation_finish(generation, GENERATION_END_REPETITION, &token, fn, arg);
    give_token(generation, held_back(generation), &token, fn, arg);
    return 0;
}
