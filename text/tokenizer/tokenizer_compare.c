// SPDX-License-Identifier: Apache-2.0
/* Compares two token tables: whether two models mean the same by the same ids. */
#include <inttypes.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_private.h"

/* Counts tokens up to the last one in use, because files pad their tables to a size that suits the matrices. */
static uint32_t n_used(const Tokenizer *tokenizer) {
    uint32_t n = tokenizer->vocab.n_tokens;

    while (n && tokenizer->vocab.types[n - 1] == TOKEN_UNUSED)
        n--;
    return n;
}

/* Counts tokens up to the last one that chats are written with, or that ends an answer. */
static uint32_t n_needed(const Tokenizer *tokenizer) {
    const uint32_t ids[] = { tokenizer->bos, tokenizer->eos, tokenizer->eot, tokenizer->eom };
    uint32_t n = tokenizer->vocab.n_chat;

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (ids[i] != TOKEN_NONE && ids[i] >= n)
            n = ids[i] + 1;
    return n;
}

/* The kind of a token beside its bytes. Other differences of types come from converters and change no output. */
static const char *kind_of(const Tokenizer *tokenizer, uint32_t id) {
    const bool is_control = tokenizer_is_control(tokenizer, id);

    if (tokenizer_is_end(tokenizer, id))
        return is_control ? "control, ends an answer" : "text, ends an answer";
    return is_control ? "control" : tokenizer->vocab.types[id] == TOKEN_BYTE ? "byte" : "text";
}

static const char *shown(Printable *p, const Tokenizer *tokenizer, uint32_t id) {
    uint32_t len_bytes;
    const char *text = vocab_text(&tokenizer->vocab, id, &len_bytes);

    return printable(p, text, len_bytes);
}

static bool is_same(const Tokenizer *a, const Tokenizer *b, uint32_t id) {
    uint32_t a_bytes, b_bytes;
    const char *a_text = vocab_text(&a->vocab, id, &a_bytes), *b_text = vocab_text(&b->vocab, id, &b_bytes);

    return a_bytes == b_bytes && !memcmp(a_text, b_text, a_bytes) && !strcmp(kind_of(a, id), kind_of(b, id));
}

static int differ(const Tokenizer *a, const char *a_name, const Tokenizer *b, const char *b_name, uint32_t id,
                  ErrText *err) {
    const Tokenizer *longer = id < a->vocab.n_tokens ? a : b, *shorter = longer == a ? b : a;
    Printable p, q;

    if (id >= shorter->vocab.n_tokens)
        return err_set(err, TOKENIZER_E_DIFFERENT, "token %" PRIu32 " is '%s' in %s, and %s has %" PRIu32 " tokens", id,
                       shown(&p, longer, id), longer == a ? a_name : b_name, longer == a ? b_name : a_name,
                       shorter->vocab.n_tokens);
    return err_set(err, TOKENIZER_E_DIFFERENT, "token %" PRIu32 " is '%s' (%s) in %s, and '%s' (%s) in %s", id,
                   shown(&p, a, id), kind_of(a, id), a_name, shown(&q, b, id), kind_of(b, id), b_name);
}

/**
 * tokenizer_compare() - compare the tokens that both tables begin with
 * @a_name, @b_name: names for the error
 * @n_tokensp:       out: how many tokens are shared; ids below it mean the same in both
 *
 * The shared beginning ends where the shorter table ends. Unused tokens behind all others are padding and do not count,
 * so each table may have any number of them, or tokens of its own. Shared tokens have the same bytes and the same kind:
 * text, byte, control token, end of an answer. Tokens that chats are written with, BOS and ends of answers must be
 * shared, because a table without them cannot read a chat at all.
 *
 * Merges, scores and patterns do not matter: they turn text into tokens and do not change the meaning of tokens. Tables
 * that spell spaces differently (byte-level, SentencePiece) differ in the first token that has one.
 *
 * Return: 0; TOKENIZER_E_DIFFERENT with a text that names the first token that differs.
 */
int tokenizer_compare(const Tokenizer *a, const char *a_name, const Tokenizer *b, const char *b_name,
                      uint32_t *n_tokensp, ErrText *err) {
    const uint32_t a_used = n_used(a), b_used = n_used(b), n = MIN(a_used, b_used);
    const uint32_t a_needed = n_needed(a), b_needed = n_needed(b), needed = MAX(a_needed, b_needed);

    for (uint32_t id = 0; id < n; id++)
        if (!is_same(a, b, id))
            return differ(a, a_name, b, b_name, id, err);
    if (!n || needed > n)
        return differ(a, a_name, b, b_name, needed ? needed - 1 : 0, err);
    *n_tokensp = n;
    return 0;
}
