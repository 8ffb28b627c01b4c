// SPDX-License-Identifier: Apache-2.0
/* Every step works on the held bytes as a whole and depends on their contents alone, so cutting the answer elsewhere
 * gives the same parts. */
#define _GNU_SOURCE
#include "text/chat/answer_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

/* White space that may be held back; a longer run cannot belong to a mark. */
#define SPACE_HELD_MAX 256u

typedef enum PartsState {
    PARTS_FRONT, /* nothing but white space so far, or since the last thinking or call: thinking may begin */
    PARTS_THINKING,
    PARTS_TEXT,
    PARTS_CALL,
} PartsState;

struct AnswerParts {
    const Tokenizer *tokenizer;
    AnswerFormat format;
    uint32_t start_ids[CALL_STARTS_MAX]; /* TOKEN_NONE: the mark is text */
    uint32_t token_ids[CALL_TOKENS_MAX];
    PartsState state;
    bool drops_space; /* the white space that comes next stands beside a mark */
    StrBuf held;      /* bytes that may still become a mark, or white space beside one */
    void *parser;     /* [format.calls->parser_bytes]: of the call */
    StrBuf raw;       /* the call's bytes from the start mark on, until its first piece */
    bool has_piece;   /* the call has given out a piece */
    uint32_t n_calls;
    AnswerPieceFn *fn; /* fn and arg: the callback of the function under way */
    void *arg;
};

/* --- life --------------------------------------------------------------------------------------------------------- */

int answer_parts_new(AnswerParts **partsp, const Tokenizer *tokenizer, const AnswerFormat *format) {
    _cleanup_(answer_parts_freep) AnswerParts *parts = calloc(1, sizeof(*parts));
    const CallFormat *calls = format->calls;

    if (!parts)
        return err_raise(-ENOMEM);
    parts->tokenizer = tokenizer;
    parts->format = *format;
    parts->state = format->is_thinking ? PARTS_THINKING : PARTS_FRONT;
    parts->drops_space = format->is_thinking || format->is_behind;
    if (calls) {
        for (size_t i = 0; i < calls->n_starts; i++)
            parts->start_ids[i] = tokenizer_find_added(tokenizer, calls->starts[i].text);
        for (size_t i = 0; i < calls->n_tokens; i++)
            parts->token_ids[i] = tokenizer_find_added(tokenizer, calls->tokens[i]);
        parts->parser = calloc(1, calls->parser_bytes ? calls->parser_bytes : 1);
        if (!parts->parser)
            return err_raise(-ENOMEM);
    }
    *partsp = steal(&parts);
    return 0;
}

AnswerParts *answer_parts_free(AnswerParts *parts) {
    if (!parts)
        return NULL;
    if (parts->state == PARTS_CALL)
        parts->format.calls->deinit(parts->parser);
    free(parts->parser);
    str_buf_deinit(&parts->held);
    str_buf_deinit(&parts->raw);
    free(parts);
    return NULL;
}

bool answer_parts_is_thinking(const AnswerParts *parts) {
    return parts->state == PARTS_THINKING;
}

uint32_t answer_parts_n_calls(const AnswerParts *parts) {
    return parts->n_calls;
}

/* --- pieces out --------------------------------------------------------------------------------------------------- */

static void give(AnswerParts *parts, AnswerPart part, const char *text, size_t len_bytes) {
    if (len_bytes)
        parts->fn(parts->arg, &(AnswerPiece){ .part = part, .text = text, .len_bytes = len_bytes });
}

/* Takes bytes from the front of what is held. */
static void drop_held(AnswerParts *parts, size_t len_bytes) {
    StrBuf *held = &parts->held;

    if (!len_bytes)
        return;
    memmove(held->data, held->data + len_bytes, held->len_bytes - len_bytes);
    str_buf_truncate(held, held->len_bytes - len_bytes);
}

static void give_held(AnswerParts *parts, AnswerPart part, size_t len_bytes) {
    give(parts, part, parts->held.data, len_bytes);
    drop_held(parts, len_bytes);
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t leading_space(const AnswerParts *parts) {
    size_t n = 0;

    while (n < parts->held.len_bytes && is_space(parts->held.data[n]))
        n++;
    return n;
}

/* Returns the length of the first `len_bytes` held bytes without the white space at their end, as far as it may be
 * held back. */
static size_t without_space(const AnswerParts *parts, size_t len_bytes) {
    size_t n = len_bytes;

    while (n && len_bytes - n < SPACE_HELD_MAX && is_space(parts->held.data[n - 1]))
        n--;
    return n;
}

/* --- marks in text ------------------------------------------------------------------------------------------------ */

/* Returns how many bytes at the end of the held ones could begin a mark. */
static size_t cut_mark(const AnswerParts *parts, const char *mark) {
    const size_t len_bytes = parts->held.len_bytes;
    size_t n = strlen(mark) - 1;

    for (n = MIN(n, len_bytes); n; n--)
        if (!memcmp(parts->held.data + len_bytes - n, mark, n))
            return n;
    return 0;
}

/* What stands at a place of the held bytes. */
typedef enum MarkHere {
    MARK_NONE,
    MARK_CUT, /* the beginning of a mark, where the held bytes end */
    MARK_OPEN,
    MARK_START, /* of a call */
} MarkHere;

/* Compares the held bytes from a place on with a mark: MARK_NONE, MARK_CUT, or @whole. */
static MarkHere compare(const AnswerParts *parts, size_t at, const char *mark, MarkHere whole) {
    const size_t n = strlen(mark), left_bytes = parts->held.len_bytes - at;

    if (memcmp(parts->held.data + at, mark, MIN(n, left_bytes)) != 0)
        return MARK_NONE;
    return left_bytes < n ? MARK_CUT : whole;
}

/* Finds the mark that begins at a place, the longest one of several. */
static MarkHere mark_at(const AnswerParts *parts, size_t at, size_t *startp) {
    const AnswerFormat *format = &parts->format;
    const bool is_front = parts->state == PARTS_FRONT;
    MarkHere found = MARK_NONE, here;
    size_t longest = 0;

    if (is_front && format->thinking.open && !thinking_marks_are_tokens(&format->thinking)) {
        found = compare(parts, at, format->thinking.open, MARK_OPEN);
        longest = strlen(format->thinking.open);
    }
    for (size_t i = 0; format->calls && i < format->calls->n_starts; i++) {
        const CallStart *start = &format->calls->starts[i];

        if (parts->start_ids[i] != TOKEN_NONE || (start->is_at_front && !is_front))
            continue;
        here = compare(parts, at, start->text, MARK_START);
        if (here == MARK_NONE || (found != MARK_NONE && strlen(start->text) < longest))
            continue;
        found = here;
        longest = strlen(start->text);
        *startp = i;
    }
    return found;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static void give_call(void *arg, const CallPiece *piece) {
    AnswerParts *parts = arg;
    CallPiece numbered = *piece;

    parts->n_calls += piece->name != NULL;
    numbered.index = parts->n_calls ? parts->n_calls - 1 : 0;
    parts->has_piece = true;
    parts->fn(parts->arg, &(AnswerPiece){ .part = ANSWER_CALL, .text = "", .call = &numbered });
}

/* Leaves the call: what was no call becomes text. */
static void end_call(AnswerParts *parts, CallState state) {
    parts->format.calls->deinit(parts->parser);
    parts->state = PARTS_FRONT;
    parts->drops_space = true;
    if (state == CALL_IS_TEXT && !parts->has_piece) {
        parts->state = PARTS_TEXT;
        parts->drops_space = false;
        give(parts, ANSWER_TEXT, parts->raw.data, parts->raw.len_bytes);
    }
    str_buf_truncate(&parts->raw, 0);
}

/* Hands bytes to the parser. Returns how many belong to the call; fewer than all: the call has ended. */
static size_t push_call(AnswerParts *parts, const char *text, size_t len_bytes, bool is_token, const char *shown,
                        int *rp) {
    size_t n_taken = len_bytes;
    const CallState state =
        parts->format.calls->push(parts->parser, text, len_bytes, is_token, &n_taken, give_call, parts);

    if (state == CALL_GOES_ON || state == CALL_FAILED)
        n_taken = len_bytes;
    if (state == CALL_FAILED)
        *rp = -ENOMEM;
    if (!parts->has_piece) /* a token is shown as a whole or not at all */
        str_buf_append(&parts->raw, shown, is_token ? (n_taken ? strlen(shown) : 0) : n_taken);
    if (str_buf_failed(&parts->raw))
        *rp = -ENOMEM;
    if (state == CALL_OVER || state == CALL_IS_TEXT)
        end_call(parts, state);
    return n_taken;
}

/* Begins a call at a start mark. @space: white space before the mark. @shown: what the text has instead of the mark if
 * this turns out to be no call. */
static int begin_call(AnswerParts *parts, size_t start, bool is_token, const char *space, size_t space_bytes,
                      const char *shown) {
    const CallFormat *calls = parts->format.calls;
    const char *mark = calls->starts[start].text;
    int r = 0;

    str_buf_truncate(&parts->raw, 0);
    str_buf_append(&parts->raw, space, parts->drops_space ? 0 : space_bytes);
    if (!calls->starts[start].is_argument)
        str_buf_add(&parts->raw, shown);
    memset(parts->parser, 0, calls->parser_bytes);
    parts->has_piece = false;
    parts->state = PARTS_CALL;
    calls->begin(parts->parser, start, parts->format.tools);
    if (calls->starts[start].is_argument)
        (void)push_call(parts, mark, strlen(mark), is_token, shown, &r);
    return r ? r : str_buf_failed(&parts->raw) ? -ENOMEM : 0;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Each step returns whether the held bytes have to be looked at again. */

static bool step_thinking(AnswerParts *parts) {
    const ThinkingMarks *marks = &parts->format.thinking;
    const bool is_text = !thinking_marks_are_tokens(marks);
    const char *close;
    size_t n;

    if (parts->drops_space)
        drop_held(parts, leading_space(parts));
    if (!parts->held.len_bytes)
        return false;
    close = is_text ? memmem(parts->held.data, parts->held.len_bytes, marks->close, strlen(marks->close)) : NULL;
    if (close) {
        n = (size_t)(close - parts->held.data);
        give(parts, ANSWER_REASONING, parts->held.data, without_space(parts, n));
        drop_held(parts, n + strlen(marks->close));
        parts->state = PARTS_FRONT;
        parts->drops_space = true;
        return true;
    }
    n = without_space(parts, parts->held.len_bytes - (is_text ? cut_mark(parts, marks->close) : 0));
    parts->drops_space = parts->drops_space && !n;
    give_held(parts, ANSWER_REASONING, n);
    return false;
}

static bool step_front(AnswerParts *parts, int *rp) {
    const size_t n_space = leading_space(parts);
    size_t start = 0;

    if (parts->drops_space && n_space) {
        drop_held(parts, n_space);
        return true;
    }
    if (n_space == parts->held.len_bytes && n_space <= SPACE_HELD_MAX)
        return false;
    switch (n_space > SPACE_HELD_MAX ? MARK_NONE : mark_at(parts, n_space, &start)) {
    case MARK_CUT:
        return false;
    case MARK_OPEN:
        drop_held(parts, n_space + strlen(parts->format.thinking.open));
        parts->state = PARTS_THINKING;
        parts->drops_space = true;
        return true;
    case MARK_START:
        *rp = begin_call(parts, start, false, parts->held.data, n_space, parts->format.calls->starts[start].text);
        drop_held(parts, n_space + strlen(parts->format.calls->starts[start].text));
        return true;
    case MARK_NONE:
        break;
    }
    parts->state = PARTS_TEXT;
    parts->drops_space = false;
    return true;
}

static bool step_text(AnswerParts *parts, int *rp) {
    const size_t len_bytes = parts->held.len_bytes;
    size_t start = 0;

    for (size_t i = 0; parts->format.calls && i < len_bytes; i++)
        switch (mark_at(parts, i, &start)) {
        case MARK_START:
            give_held(parts, ANSWER_TEXT, i);
            *rp = begin_call(parts, start, false, "", 0, parts->format.calls->starts[start].text);
            drop_held(parts, strlen(parts->format.calls->starts[start].text));
            return true;
        case MARK_CUT:
            give_held(parts, ANSWER_TEXT, i);
            return false;
        case MARK_NONE:
        case MARK_OPEN:
            break;
        }
    give_held(parts, ANSWER_TEXT, len_bytes);
    return false;
}

static int work(AnswerParts *parts) {
    bool goes_on = true;
    int r = 0;

    if (str_buf_failed(&parts->held))
        return err_raise(-ENOMEM);
    while (!r && goes_on && parts->held.len_bytes)
        switch (parts->state) {
        case PARTS_FRONT:
            goes_on = step_front(parts, &r);
            break;
        case PARTS_THINKING:
            goes_on = step_thinking(parts);
            break;
        case PARTS_TEXT:
            goes_on = step_text(parts, &r);
            break;
        case PARTS_CALL:
            drop_held(parts, push_call(parts, parts->held.data, parts->held.len_bytes, false, parts->held.data, &r));
            break;
        }
    return r ? err_trace(r) : 0;
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

/* Gives out what is held back, because no text mark reaches across a token. */
static void settle(AnswerParts *parts) {
    size_t n = parts->held.len_bytes;

    if (parts->state == PARTS_THINKING)
        give_held(parts, ANSWER_REASONING, n);
    else if (parts->state != PARTS_CALL)
        give_held(parts, ANSWER_TEXT, n);
}

static bool find_id(const uint32_t *ids, size_t n, uint32_t token, size_t *atp) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == token) {
            *atp = i;
            return true;
        }
    return false;
}

static bool find_start(const AnswerParts *parts, uint32_t token, size_t *startp) {
    return parts->format.calls && find_id(parts->start_ids, parts->format.calls->n_starts, token, startp);
}

bool answer_parts_has_token(const AnswerParts *parts, uint32_t token) {
    const ThinkingMarks *thinking = &parts->format.thinking;
    size_t at;

    if (thinking->open && thinking_marks_are_tokens(thinking) &&
        (token == thinking->open_id || token == thinking->close_id))
        return true;
    return find_start(parts, token, &at) ||
           (parts->format.calls && find_id(parts->token_ids, parts->format.calls->n_tokens, token, &at));
}

/* Takes a token that is no mark where it stands: its text, if it has one. */
static int take_as_text(AnswerParts *parts, const char *shown) {
    str_buf_add(&parts->held, shown);
    return work(parts);
}

/* Ends the thinking at its closing token. */
static void close_thinking(AnswerParts *parts) {
    const size_t n = without_space(parts, parts->held.len_bytes);

    give(parts, ANSWER_REASONING, parts->held.data, n);
    drop_held(parts, parts->held.len_bytes);
    parts->state = PARTS_FRONT;
    parts->drops_space = true;
}

/* Begins a call at a start token, behind text or at the front. */
static int start_call(AnswerParts *parts, size_t start, const char *shown) {
    const bool is_front = parts->state == PARTS_FRONT;
    int r;

    if (!is_front)
        settle(parts);
    r = begin_call(parts, start, true, parts->held.data ? parts->held.data : "", is_front ? parts->held.len_bytes : 0,
                   shown);
    drop_held(parts, parts->held.len_bytes);
    return r;
}

static int take_token(AnswerParts *parts, uint32_t token, const char *name, const char *shown) {
    const ThinkingMarks *thinking = &parts->format.thinking;
    const bool has_ids = thinking->open && thinking_marks_are_tokens(thinking);
    bool is_thinking, is_front;
    size_t start;
    int r = 0;

    if (parts->state == PARTS_FRONT && leading_space(parts) < parts->held.len_bytes) {
        settle(parts); /* the beginning of a text mark, which the token cuts off */
        parts->state = PARTS_TEXT;
    }
    is_thinking = parts->state == PARTS_THINKING;
    is_front = parts->state == PARTS_FRONT;
    if (parts->state == PARTS_CALL) {
        if (!push_call(parts, name, strlen(name), true, shown, &r) && parts->state != PARTS_CALL)
            return take_token(parts, token, name, shown);
        return r;
    }
    if (has_ids && is_thinking && token == thinking->close_id) {
        close_thinking(parts);
        return 0;
    }
    if (has_ids && token == thinking->open_id && is_front) {
        drop_held(parts, parts->held.len_bytes);
        parts->state = PARTS_THINKING;
        parts->drops_space = true;
        return 0;
    }
    if (has_ids && token == thinking->open_id && is_thinking && parts->drops_space)
        return 0; /* the prompt has opened the thinking, and the model opens it once more */
    if (!is_thinking && find_start(parts, token, &start) &&
        (is_front || !parts->format.calls->starts[start].is_at_front))
        return start_call(parts, start, shown);
    if (*shown && !is_front)
        settle(parts);
    return take_as_text(parts, shown);
}

int answer_parts_token(AnswerParts *parts, uint32_t token, AnswerPieceFn *fn, void *arg) {
    _cleanup_(str_buf_deinit) StrBuf name = STR_BUF_NULL, shown = STR_BUF_NULL;
    int r = tokenizer_piece(parts->tokenizer, token, true, &name);

    if (!r)
        r = tokenizer_piece(parts->tokenizer, token, false, &shown);
    if (r)
        return r;
    parts->fn = fn;
    parts->arg = arg;
    return take_token(parts, token, name.data ? name.data : "", shown.data ? shown.data : "");
}

int answer_parts_text(AnswerParts *parts, const char *text, size_t len_bytes, AnswerPieceFn *fn, void *arg) {
    parts->fn = fn;
    parts->arg = arg;
    str_buf_append(&parts->held, text, len_bytes);
    return work(parts);
}

int answer_parts_finish(AnswerParts *parts, AnswerPieceFn *fn, void *arg) {
    parts->fn = fn;
    parts->arg = arg;
    if (parts->state == PARTS_CALL)
        end_call(parts, parts->format.calls->finish(parts->parser, give_call, parts));
    settle(parts);
    return str_buf_failed(&parts->held) || str_buf_failed(&parts->raw) ? err_raise(-ENOMEM) : 0;
}
