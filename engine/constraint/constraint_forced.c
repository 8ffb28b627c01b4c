// SPDX-License-Identifier: Apache-2.0
/* What must come, as the tokens that the tokenizer would write. */
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "engine/constraint/constraint_run.h"
#include "engine/constraint/constraint_private.h"
#include "engine/constraint/constraint_run_private.h"

enum {
    FORCED_BYTES_MAX = 512, /* of a grammar at a time */
    TAIL_TOKENS_MAX = 8,    /* tokens before that may change how bytes become tokens */
};

typedef struct ForcedWork {
    const Tokenizer *tokenizer;
    const uint32_t *text; /* tokens before, of the answer */
    size_t n_text;
    uint32_t *tokens; /* out */
    size_t n, n_max;
} ForcedWork;

/* Appends the text of the last tokens before what is forced, as far as they are text. */
static void add_tail(const ForcedWork *work, StrBuf *tail) {
    size_t n = 0;

    while (n < MIN(work->n_text, (size_t)TAIL_TOKENS_MAX) &&
           !tokenizer_is_control(work->tokenizer, work->text[work->n_text - 1 - n]))
        n++;
    for (size_t i = work->n_text - n; i < work->n_text; i++)
        (void)tokenizer_piece(work->tokenizer, work->text[i], false, tail);
}

/* Takes those tokens of the list that spell the bytes behind the first tail_bytes of its text. Return: whether a token
 * begins there. Tokenizers may put a space before a text, which is not counted. */
static bool take_behind(ForcedWork *work, const TokenList *list, size_t tail_bytes, size_t all_bytes) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    size_t first = SIZE_MAX, added = 0;

    for (size_t i = 0; i < list->n; i++)
        (void)tokenizer_piece(work->tokenizer, list->ids[i], false, &text);
    if (str_buf_failed(&text) || text.len_bytes < all_bytes || text.len_bytes > all_bytes + 1)
        return false;
    added = text.len_bytes - all_bytes;
    str_buf_truncate(&text, 0);
    for (size_t i = 0; i < list->n && first == SIZE_MAX; i++) {
        if (text.len_bytes == tail_bytes + added)
            first = i;
        (void)tokenizer_piece(work->tokenizer, list->ids[i], false, &text);
    }
    if (first == SIZE_MAX)
        return false;
    while (first < list->n && work->n < work->n_max)
        work->tokens[work->n++] = list->ids[first++];
    return true;
}

/* Appends the tokens of bytes behind a tail. Return: 0; 1: no token begins at their begin; -errno. */
static int add_behind(ForcedWork *work, const StrBuf *tail, const char *bytes, size_t n_bytes) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ErrText err;
    int r;

    if (tail->len_bytes)
        str_buf_append(&text, tail->data, tail->len_bytes);
    str_buf_append(&text, bytes, n_bytes);
    if (str_buf_failed(&text))
        return err_raise(-ENOMEM);
    r = tokenizer_encode(work->tokenizer, text.data, text.len_bytes, 0, &list, &err);
    return r < 0 ? r : r || !take_behind(work, &list, tail->len_bytes, text.len_bytes);
}

/* Appends the tokens of bytes behind the answer's tail; if those would change the tail's own tokens, behind a line end,
 * which no token spans. */
static int add_bytes(ForcedWork *work, const StrBuf *bytes) {
    _cleanup_(str_buf_deinit) StrBuf tail = STR_BUF_NULL, line = STR_BUF_NULL;
    int r;

    if (!bytes->len_bytes)
        return 0;
    if (str_buf_failed(bytes))
        return err_raise(-ENOMEM);
    add_tail(work, &tail);
    str_buf_add(&line, "\n");
    if (str_buf_failed(&tail) || str_buf_failed(&line))
        return err_raise(-ENOMEM);
    r = add_behind(work, &tail, bytes->data, bytes->len_bytes);
    return r > 0 ? add_behind(work, &line, bytes->data, bytes->len_bytes) : r;
}

/* Appends the bytes that a grammar forces, and moves the state behind them. */
static int follow_grammar(ConstraintRun *run, ConstraintState *statep, StrBuf *bytes) {
    const ConstraintSegment *segment = constraint_run_segment(run, *statep);
    uint8_t forced[FORCED_BYTES_MAX];
    size_t n = 0;
    int r = constraint_run_end_call(
        run, segment,
        grammar_matcher_forced(constraint_run_begin_call(run, segment), statep->grammar, forced, sizeof(forced), &n));

    if (!r && n)
        r = constraint_run_end_call(run, segment,
                                    grammar_matcher_advance_bytes(constraint_run_begin_call(run, segment),
                                                                  statep->grammar, forced, n, &statep->grammar));
    if (!r)
        str_buf_append(bytes, forced, n);
    return r;
}

static void add_segment_tokens(ForcedWork *work, const ConstraintSegment *segment, uint32_t count) {
    while (count < segment->n_tokens && work->n < work->n_max)
        work->tokens[work->n++] = segment->tokens[count++];
}

/**
 * constraint_run_forced() - tokens of what must come
 * @text: tokens of the answer, whose last ones come before; those before the state's segment are not looked at
 *
 * Bytes of a grammar become tokens together, up to the place where the text can go on in two ways. A token that the
 * tokenizer would let span that place is among them: verification finds out.
 */
int constraint_run_forced(ConstraintRun *run, ConstraintState state, const uint32_t *text, size_t n_text,
                          uint32_t *tokens, size_t n_max, size_t *np) {
    _cleanup_(str_buf_deinit) StrBuf bytes = STR_BUF_NULL;
    const size_t n_own = MIN(n_text, (size_t)state.count);
    ForcedWork work = { .tokenizer = constraint_vocabulary_tokenizer(run->constraint->vocabulary),
                        .text = text ? text + (n_text - n_own) : NULL,
                        .n_text = n_own,
                        .tokens = tokens,
                        .n_max = n_max };
    int r = 0;

    for (uint32_t i = 0; i <= run->constraint->n_segments && state.segment != CONSTRAINT_END && work.n < n_max; i++) {
        const ConstraintSegment *segment = constraint_run_segment(run, state);
        const uint32_t before = state.segment;

        if (segment->kind == CONSTRAINT_FREE || segment->kind == CONSTRAINT_CHOICE)
            break;
        if (segment->kind == CONSTRAINT_GRAMMAR) {
            r = follow_grammar(run, &state, &bytes);
            if (r)
                return r;
            state = constraint_run_settle(run, state);
            if (state.segment == before)
                break;
            continue;
        }
        r = add_bytes(&work, &bytes);
        if (r)
            break;
        str_buf_truncate(&bytes, 0);
        work.n_text = 0; /* bytes of later grammars stand behind these tokens */
        add_segment_tokens(&work, segment, state.count);
        state.count = segment->n_tokens;
        state = constraint_run_settle(run, state);
    }
    if (!r)
        r = add_bytes(&work, &bytes);
    if (r < 0)
        return r;
    *np = work.n;
    return 0;
}
