// SPDX-License-Identifier: Apache-2.0
/* Prompts for a text with a gap (fill in the middle). */
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_private.h"

/* Adds one of the marks, then a text. */
static int add_part(const Tokenizer *tokenizer, InfillMark mark, const char *text, size_t len_bytes, unsigned int flags,
                    TokenList *list, ErrText *err) {
    int r = token_list_add(list, tokenizer->vocab.infill[mark]);

    return r ? r : tokenizer_encode(tokenizer, text, len_bytes, flags, list, err);
}

/**
 * tokenizer_encode_infill() - prefix mark, text before, suffix mark, text behind, middle mark
 *
 * Models were trained on this order ("PSM"). The text behind the gap goes on from the gap's last character, so a
 * SentencePiece-style tokenizer puts no space before it.
 */
int tokenizer_encode_infill(const Tokenizer *tokenizer, const char *before, size_t before_bytes, const char *behind,
                            size_t behind_bytes, TokenList *list, ErrText *err) {
    static const char *const names[] = {
        [INFILL_PREFIX] = "prefix", [INFILL_SUFFIX] = "suffix", [INFILL_MIDDLE] = "middle"
    };
    const size_t n_before = list->n;
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (tokenizer->vocab.infill[i] == UINT32_MAX)
            return err_set(err, TOKENIZER_E_NO_INFILL,
                           "suffix: the model's vocabulary has no token for a %s to fill in the middle: leave suffix "
                           "out, or use a model that was trained to fill in",
                           names[i]);
    if (tokenizer->adds_bos)
        r = token_list_add(list, tokenizer->bos);
    if (!r)
        r = add_part(tokenizer, INFILL_PREFIX, before, before_bytes, 0, list, err);
    if (!r)
        r = add_part(tokenizer, INFILL_SUFFIX, behind, behind_bytes, TOKENIZE_NO_SPACE_PREFIX, list, err);
    if (!r)
        r = token_list_add(list, tokenizer->vocab.infill[INFILL_MIDDLE]);
    if (r)
        list->n = n_before;
    return r;
}

bool tokenizer_is_infill_mark(const Tokenizer *tokenizer, uint32_t id) {
    for (size_t i = 0; i < _INFILL_MARK_N; i++)
        if (tokenizer->vocab.infill[i] == id)
            return id != UINT32_MAX;
    return false;
}
