// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/spm.h"

#include "base/f16.h"
#include "base/strings/utf8.h"

/* Maps a score to a priority: the higher the score, the smaller the number. */
static uint32_t score_priority(float score) {
    uint32_t bits = f32_to_bits(score + 0.0f); /* -0 is 0 */

    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static bool spm_rule(const void *model, const char *text, const Symbol *left, const Symbol *right, uint32_t *priorityp,
                     uint32_t *idp) {
    const Vocab *vocab = model;
    uint32_t len_bytes = left->len_bytes + right->len_bytes, id;

    if (len_bytes > vocab->word_max_bytes)
        return false;
    id = text_index_find(&vocab->words, text + left->offset, len_bytes);
    if (id == UINT32_MAX)
        return false;
    *priorityp = score_priority(vocab->scores[id]);
    *idp = id;
    return true;
}

/* Adds a character without a token as its bytes. *is_addedp: false if a byte has no token either. */
static int add_bytes(const Vocab *vocab, const char *text, size_t len_bytes, TokenList *list, bool *is_addedp) {
    *is_addedp = false;
    for (size_t i = 0; i < len_bytes; i++)
        if (vocab->byte_ids[(uint8_t)text[i]] == UINT32_MAX)
            return 0;
    for (size_t i = 0; i < len_bytes; i++) {
        int r = token_list_add(list, vocab->byte_ids[(uint8_t)text[i]]);

        if (r)
            return r;
    }
    *is_addedp = true;
    return 0;
}

/* spm_encode() - merge the characters of the text and append the tokens
 *
 * A whole document is one fragment: O(n log n). A byte that is not UTF-8 is a character by itself. A merged text is a
 * token by construction, so only single characters can lack a token: these become bytes. In a model that lacks a byte's
 * token, a run of such characters becomes one unknown token, as in SentencePiece. Return: 0 or -ENOMEM. */
int spm_encode(const Vocab *vocab, uint32_t unknown_id, SymbolMerge *scratch, const char *text, size_t len_bytes,
               TokenList *list) {
    bool is_unknown = false; /* the character before was unknown too */
    int r;

    symbol_merge_clear(scratch);
    for (size_t i = 0, n; i < len_bytes; i += n) {
        Utf8Kind kind;

        n = utf8_step(text + i, len_bytes - i, &kind);
        if (kind != UTF8_WHOLE)
            n = 1;
        r = symbol_merge_add(scratch, (uint32_t)n, text_index_find(&vocab->words, text + i, n));
        if (r)
            return r;
    }
    r = symbol_merge_run(scratch, text, spm_rule, vocab);
    if (r)
        return r;
    for (size_t i = 0; i < scratch->n_symbols; i++) {
        const Symbol *symbol = &scratch->symbols[i];

        if (!symbol->len_bytes)
            continue;
        if (symbol->id != UINT32_MAX) {
            r = token_list_add(list, symbol->id);
            is_unknown = false;
        } else {
            bool is_added, was_unknown = is_unknown;

            r = add_bytes(vocab, text + symbol->offset, symbol->len_bytes, list, &is_added);
            is_unknown = !is_added;
            if (!r && is_unknown && !was_unknown)
                r = token_list_add(list, unknown_id);
        }
        if (r)
            return r;
    }
    return 0;
}
