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

/* Gives out the first n bytes of the pending text, with the token of this step. */
static void give_out(Generation *generation, size_t n, const uint32_t *token, GenerationDeltaFn *fn, void *arg) {
    StrBuf *pending = &generation->text.pending;

    if (fn && (n || token))
        fn(arg, &(GenerationDelta){ .part = ANSWER_TEXT,
                                    .text = n ? pending->data : "",
                                    .len_bytes = n,
                                    .tokens = token,
                                    .n_tokens = token ? 1 : 0,
                                    .logprobs = token ? generation_sampling_logprobs(generation) : NULL });
    if (n) {
        memmove(pending->data, pending->data + n, pending->len_bytes - n);
        str_buf_truncate(pending, pending->len_bytes - n);
    }
}

/* Ends the output. A character that the end cuts off is left out and counted: the next token could have completed it.
 * At the end of the model's turn no token could; the character is U+FFFD then, as anywhere else in the text. Text
 * behind a stop string is no output. */
int generation_finish(Generation *generation, GenerationEnd end, const uint32_t *token, GenerationDeltaFn *fn,
                      void *arg) {
    int r = 0;

    if (end == GENERATION_END_TOKEN)
        r = detokenizer_finish(&generation->text.detokenizer, &generation->text.pending);
    if (end != GENERATION_END_STOP) {
        generation->usage.n_incomplete_bytes = (uint32_t)detokenizer_held(&generation->text.detokenizer);
        give_out(generation, generation->text.pending.len_bytes, token, fn, arg);
    }
    generation->end = end;
    return r;
}

/* Ends the output before a control token that is a stop string: all text up to there is output. */
static int finish_at_mark(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg) {
    int r = detokenizer_finish(&generation->text.detokenizer, &generation->text.pending);

    give_out(generation, generation->text.pending.len_bytes, &token, fn, arg);
    return r ? r : generation_finish(generation, GENERATION_END_STOP, NULL, fn, arg);
}

int generation_constraint_error(int r) {
    return r == -ENOBUFS ? GENERATION_E_MEMORY : r == CONSTRAINT_E_TOO_COMPLEX ? GENERATION_E_COMPLEX : r;
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
    const Tokenizer *tokenizer = engine_tokenizer(generation->engine);
    ssize_t stop;
    int r = generation->constraint ? take_constrained(generation) : 0;

    if (r)
        return r;
    if (!generation->options.ignore_end && tokenizer_is_end(tokenizer, token))
        return generation_finish(generation, GENERATION_END_TOKEN, NULL, fn, arg);
    generation->tokens.ids[generation->tokens.n++] = token;
    generation->usage.n_output_tokens++;
    if (is_stop_mark(generation, token))
        return finish_at_mark(generation, token, fn, arg);
    if (token < tokenizer_n_tokens(tokenizer)) { /* an embedding may be padded past the tokenizer's table */
        r = detokenizer_push(&generation->text.detokenizer, token, &generation->text.pending);
        if (r)
            return r;
    }
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
    give_out(generation, generation->text.pending.len_bytes - held_back(generation), &token, fn, arg);
    return 0;
}
