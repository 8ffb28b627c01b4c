// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "base/strings/utf8.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_private.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static int byte_of_token(const char *text) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    const char *high = strchr(digits, text[3]), *low = strchr(digits, text[4]);

    return (int)((high - digits) & 15) << 4 | (int)((low - digits) & 15); /* vocab_init() has checked the form */
}

/* Adds an ordinary text of a SentencePiece-style table, in which U+2581 stands for a space. */
static void add_unescaped(const char *text, size_t len_bytes, StrBuf *out) {
    const char *end = text + len_bytes;

    while (text < end) {
        const char *space = memmem(text, (size_t)(end - text), SPM_SPACE, SPM_SPACE_BYTES);

        str_buf_append(out, text, (size_t)((space ? space : end) - text));
        if (space)
            str_buf_append(out, " ", 1);
        text = space ? space + SPM_SPACE_BYTES : end;
    }
}

int tokenizer_piece(const Tokenizer *tokenizer, uint32_t id, bool with_special, StrBuf *text) {
    const Vocab *vocab = &tokenizer->vocab;
    const char *data;
    uint32_t len_bytes;

    if (id >= vocab->n_tokens)
        return -EINVAL;
    data = vocab_text(vocab, id, &len_bytes);
    if (tokenizer_is_control(tokenizer, id)) {
        if (with_special)
            str_buf_append(text, data, len_bytes);
    } else if (vocab->byte_level || vocab->types[id] == TOKEN_USER_DEFINED) {
        str_buf_append(text, data, len_bytes);
    } else if (vocab->types[id] == TOKEN_BYTE) {
        str_buf_append(text, &(uint8_t){ (uint8_t)byte_of_token(data) }, 1);
    } else {
        add_unescaped(data, len_bytes, text);
    }
    return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
}

void detokenizer_init(Detokenizer *detokenizer, const Tokenizer *tokenizer, bool at_start, bool with_special) {
    *detokenizer = (Detokenizer){ .tokenizer = tokenizer, .at_start = at_start, .with_special = with_special };
}

/* Gives out the held bytes whose characters are certain. */
static void detokenizer_settle(Detokenizer *detokenizer, StrBuf *text) {
    while (detokenizer->n_held) {
        Utf8Kind kind;
        size_t n = utf8_step(detokenizer->held, detokenizer->n_held, &kind);

        if (kind == UTF8_CUT)
            return;
        if (kind == UTF8_WHOLE)
            str_buf_append(text, detokenizer->held, n);
        else
            str_buf_add(text, REPLACEMENT);
        detokenizer->n_held -= (uint8_t)n;
        memmove(detokenizer->held, detokenizer->held + n, detokenizer->n_held);
    }
}

/* detokenizer_push() - append the text that a token completes
 *
 * A sequence that the token leaves incomplete is held until the next token. Bytes that can never become a sequence are
 * U+FFFD, one for each maximal subpart (Unicode, chapter 3, "U+FFFD substitution of maximal subparts"). The text does
 * not depend on the division of bytes among tokens. The token's own bytes lie behind the text meanwhile, so that a
 * token takes no memory if the text has room. */
int detokenizer_push(Detokenizer *detokenizer, uint32_t id, StrBuf *text) {
    const Tokenizer *tokenizer = detokenizer->tokenizer;
    const size_t start = text->len_bytes;
    size_t at = start, end;
    int r;

    r = tokenizer_piece(tokenizer, id, detokenizer->with_special, text);
    if (r)
        return r;
    end = text->len_bytes;
    if (at < end && detokenizer->at_start && !tokenizer_is_control(tokenizer, id)) {
        if (tokenizer->space_prefix && text->data[at] == ' ')
            at++;
        detokenizer->at_start = false;
    }
    for (; at < end; at++) {
        detokenizer->held[detokenizer->n_held++] = (uint8_t)text->data[at];
        detokenizer_settle(detokenizer, text);
    }
    if (end > start) {
        memmove(text->data + start, text->data + end, text->len_bytes - end);
        str_buf_truncate(text, text->len_bytes - (end - start));
    }
    return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
}

int detokenizer_finish(Detokenizer *detokenizer, StrBuf *text) {
    if (detokenizer->n_held)
        str_buf_add(text, REPLACEMENT); /* the incomplete sequence is one maximal subpart */
    detokenizer->n_held = 0;
    return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
}

size_t detokenizer_held(const Detokenizer *detokenizer) {
    return detokenizer->n_held;
}
