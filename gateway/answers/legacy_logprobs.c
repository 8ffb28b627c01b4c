// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/legacy_logprobs.h"

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "base/strings/utf8.h"
#include "gateway/answers/answer_json.h"

static const char *const names[] = { "tokens", "token_logprobs", "top_logprobs", "text_offset" };

json_t *legacy_logprobs_new(void) {
    json_t *lists = json_object();

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        json_object_set_new(lists, names[i], json_array());
    return lists;
}

/* Writes the text of a token. A part of a character is written as OpenAI does, "bytes:\xe2\x80". */
static void put_piece(StrBuf *text, const CoordgenLogprob *one) {
    if (utf8_is_valid(one->piece, one->piece_bytes)) {
        str_buf_append(text, one->piece, one->piece_bytes);
        return;
    }
    str_buf_add(text, "bytes:");
    for (size_t i = 0; i < one->piece_bytes; i++)
        str_buf_addf(text, "\\x%02x", (unsigned char)one->piece[i]);
}

static json_t *piece_of(const CoordgenLogprob *one) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    put_piece(&text, one);
    return str_buf_failed(&text) ? NULL : json_stringn(text.data ? text.data : "", text.len_bytes);
}

/* Returns {text: log probability} of the most probable tokens and of the chosen one. */
static json_t *tops_of(const CoordgenTokenLogprobs *token) {
    json_t *tops = json_object();

    for (size_t i = 0; i <= token->n_top; i++) {
        const CoordgenLogprob *one = i < token->n_top ? &token->top[i] : &token->chosen;
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

        put_piece(&text, one);
        str_buf_add(&text, "");
        if (!str_buf_failed(&text) && !json_object_get(tops, text.data)) /* a NUL ends the key */
            json_object_set_new_nocheck(tops, text.data, answer_logprob(one->logprob));
    }
    return tops;
}

/* Counts characters by their first bytes. */
static size_t n_chars(const CoordgenLogprob *one) {
    size_t n = 0;

    for (size_t i = 0; i < one->piece_bytes; i++)
        n += ((unsigned char)one->piece[i] & 0xc0) != 0x80;
    return n;
}

void legacy_logprobs_add(json_t *lists, const CoordgenEvent *event, size_t *n_charsp) {
    for (size_t i = 0; i < event->n_logprobs; i++) {
        const CoordgenTokenLogprobs *token = &event->logprobs[i];

        json_array_append_new(json_object_get(lists, "tokens"), piece_of(&token->chosen));
        json_array_append_new(json_object_get(lists, "token_logprobs"), answer_logprob(token->chosen.logprob));
        json_array_append_new(json_object_get(lists, "top_logprobs"), token->n_top ? tops_of(token) : json_null());
        json_array_append_new(json_object_get(lists, "text_offset"), json_integer((json_int_t)*n_charsp));
        *n_charsp += n_chars(&token->chosen);
    }
}
