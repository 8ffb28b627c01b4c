// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/bpe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/printable.h"

#define MERGES_MAX (1u << 23)
#define MERGE_TEXT_MAX_BYTES 4096

static inline HashSlotState look(const void *merges, uint32_t at, const void *wanted) {
    const BpeMerge *slot = (const BpeMerge *)merges + at, *pair = wanted;

    if (slot->left == UINT32_MAX)
        return HASH_SLOT_FREE;
    return slot->left == pair->left && slot->right == pair->right ? HASH_SLOT_SAME : HASH_SLOT_OTHER;
}

static uint64_t hash_of(const Bpe *bpe, uint32_t left, uint32_t right) {
    return hash_key_u64(&bpe->table.key, (uint64_t)left << 32 | right);
}

/* Finds a text of a merge among words and marks. Byte-level text is looked up by the bytes that it stands for. */
static uint32_t find_part(const Vocab *vocab, const char *bytes, size_t len_bytes) {
    uint32_t id = text_index_find(&vocab->words, bytes, len_bytes);

    return id != UINT32_MAX ? id : text_index_find(&vocab->marks, bytes, len_bytes);
}

static bool is_closed(const Vocab *vocab, uint32_t id) {
    return vocab->types[id] == TOKEN_CONTROL || vocab->types[id] == TOKEN_UNKNOWN;
}

/* Joins the parts of a merge; the second is empty if the merge is in one piece. */
static int refuse_merge(const GgufFile *file, uint32_t rank, const GgufString parts[2], const char *why, ErrText *err) {
    Printable left, right;

    return err_set(err, VOCAB_E_CORRUPT,
                   "%s: key \"tokenizer.ggml.merges\": merge %" PRIu32 " \"%s%s%s\" %s: convert the model again",
                   gguf_path(file), rank, printable(&left, parts[0].data, parts[0].len_bytes),
                   parts[1].len_bytes ? " " : "", printable(&right, parts[1].data, parts[1].len_bytes), why);
}

/* Finds the token of a merged text. Tables list the results of merges in their order, so the token is mostly the one
 * after the last result. Trying that first saves the costly third of the look-ups. */
static uint32_t find_merged(const Vocab *vocab, const char *bytes, size_t len_bytes, uint32_t expected) {
    if (expected < vocab->n_tokens && vocab->types[expected] == TOKEN_NORMAL && !vocab->words.n_duplicates) {
        uint32_t expected_bytes;
        const char *text = vocab_text(vocab, expected, &expected_bytes);

        if (expected_bytes == len_bytes && !memcmp(text, bytes, len_bytes))
            return expected;
    }
    return find_part(vocab, bytes, len_bytes);
}

/* Adds the merge of two texts. *expectedp: the likely token of this merge; out: that of the next merge. */
static int add_merge(Bpe *bpe, const GgufFile *file, const GgufString parts[2], uint32_t rank, uint32_t *expectedp,
                     ErrText *err) {
    const Vocab *vocab = bpe->vocab;
    char bytes[MERGE_TEXT_MAX_BYTES];
    uint32_t left, right, id, at = HASH_TABLE_NONE;
    size_t n_left, n_right;
    BpeMerge merge;
    int r;

    if (parts[0].len_bytes + parts[1].len_bytes > sizeof(bytes))
        return refuse_merge(file, rank, parts, "is longer than 4096 bytes", err);
    if (!byte_level_decode(parts[0].data, parts[0].len_bytes, bytes, &n_left) ||
        !byte_level_decode(parts[1].data, parts[1].len_bytes, bytes + n_left, &n_right))
        return refuse_merge(file, rank, parts, "is not in the byte-level alphabet", err);
    left = find_part(vocab, bytes, n_left);
    right = find_part(vocab, bytes + n_left, n_right);
    id = find_merged(vocab, bytes, n_left + n_right, *expectedp);
    if (left == UINT32_MAX || right == UINT32_MAX || id == UINT32_MAX)
        return refuse_merge(file, rank, parts, "names a text that is no token", err);
    *expectedp = id + 1;
    /* Without this merge the parts stay apart, so that typed text does not grow into a control token. */
    if (is_closed(vocab, left) || is_closed(vocab, right) || is_closed(vocab, id))
        return 0;
    merge = (BpeMerge){ .left = left, .right = right, .rank = rank, .id = id };
    r = hash_table_place(&bpe->table, hash_of(bpe, left, right), look, bpe->merges, &merge, &at);
    if (r == HASH_TABLE_E_CLUSTER)
        return refuse_merge(file, rank, parts, "and thousands before it were made to collide in a hash table", err);
    if (!r) /* the first of equal merges counts */
        bpe->merges[at] = merge;
    return 0;
}

/* Whether the list has the two texts of each merge as two strings, one behind the other. No such text has a space in
 * it, because the alphabet has another character for that. */
static bool has_pairs(const GgufArray *merges) {
    return merges->n && merges->n % 2 == 0 && !memchr(merges->strings[0].data, ' ', merges->strings[0].len_bytes) &&
           !memchr(merges->strings[1].data, ' ', merges->strings[1].len_bytes);
}

/* Cuts a merge "LEFT RIGHT" at its space. */
static int cut_merge(const GgufFile *file, const GgufString *merge, uint32_t rank, GgufString parts[2], ErrText *err) {
    const char *space = merge->len_bytes > 2 ? memchr(merge->data + 1, ' ', merge->len_bytes - 1) : NULL;

    if (!space || space + 1 == merge->data + merge->len_bytes)
        return refuse_merge(file, rank, (GgufString[2]){ *merge }, "is not two texts with a space between", err);
    parts[0] = (GgufString){ merge->data, (size_t)(space - merge->data) };
    parts[1] = (GgufString){ space + 1, merge->len_bytes - parts[0].len_bytes - 1 };
    return 0;
}

int bpe_init(Bpe *bpe, const Vocab *vocab, const GgufFile *file, bool whole_words_first, ErrText *err) {
    const GgufArray *merges;
    uint32_t expected = 0;
    size_t n_slots;
    uint64_t n_merges;
    bool pairs;
    int r;

    *bpe = (Bpe){ .vocab = vocab, .whole_words_first = whole_words_first };
    r = gguf_get_strings(file, "tokenizer.ggml.merges", &merges, err);
    if (r)
        return r > 0 ? VOCAB_E_CORRUPT : err_trace(r);
    pairs = has_pairs(merges);
    n_merges = pairs ? merges->n / 2 : merges->n;
    if (n_merges > MERGES_MAX)
        return err_set(err, VOCAB_E_CORRUPT,
                       "%s: key \"tokenizer.ggml.merges\" has %" PRIu64 " merges; at most %u can be used",
                       gguf_path(file), n_merges, MERGES_MAX);
    r = hash_table_init(&bpe->table, n_merges, 67, &n_slots);
    if (r)
        return err_trace(r);
    bpe->merges = malloc(n_slots * sizeof(*bpe->merges));
    if (!bpe->merges)
        return err_raise(-ENOMEM);
    memset(bpe->merges, 0xff, n_slots * sizeof(*bpe->merges));
    for (uint32_t rank = 0; rank < n_merges; rank++) {
        GgufString parts[2];

        if (pairs)
            memcpy(parts, &merges->strings[2 * (size_t)rank], sizeof(parts));
        else
            r = cut_merge(file, &merges->strings[rank], rank, parts, err);
        if (!r)
            r = add_merge(bpe, file, parts, rank, &expected, err);
        if (r)
            return r;
    }
    return 0;
}

void bpe_deinit(Bpe *bpe) {
    free(bpe->merges);
    *bpe = (Bpe){ 0 };
}

uint64_t bpe_memory_bytes(const Bpe *bpe) {
    return bpe->merges ? ((uint64_t)bpe->table.mask + 1) * sizeof(*bpe->merges) : 0;
}

static bool bpe_rule(const void *model, const char *text, const Symbol *left, const Symbol *right, uint32_t *priorityp,
                     uint32_t *idp) {
    const Bpe *bpe = model;
    const BpeMerge wanted = { .left = left->id, .right = right->id };
    uint32_t at;

    if (left->id == UINT32_MAX || right->id == UINT32_MAX)
        return false;
    at = hash_table_find(&bpe->table, hash_of(bpe, left->id, right->id), look, bpe->merges, &wanted);
    if (at == HASH_TABLE_NONE)
        return false;
    *priorityp = bpe->merges[at].rank;
    *idp = bpe->merges[at].id;
    return true;
}

/* bpe_encode_word() - append the tokens of one word
 *
 * A byte without a token is left out, as every program for these models does. SmolLM2, for example, lacks a few control
 * characters and bytes that UTF-8 hardly uses. Return: 0 or -ENOMEM. */
int bpe_encode_word(const Bpe *bpe, SymbolMerge *scratch, const char *word, size_t len_bytes, TokenList *list) {
    uint32_t id;
    int r;

    if (bpe->whole_words_first) {
        id = text_index_find(&bpe->vocab->words, word, len_bytes);
        if (id != UINT32_MAX)
            return token_list_add(list, id);
    }
    symbol_merge_clear(scratch);
    for (size_t i = 0; i < len_bytes; i++) {
        r = symbol_merge_add(scratch, 1, bpe->vocab->byte_ids[(uint8_t)word[i]]);
        if (r)
            return r;
    }
    r = symbol_merge_run(scratch, word, bpe_rule, bpe);
    if (r)
        return r;
    for (size_t i = 0; i < scratch->n_symbols; i++) {
        const Symbol *symbol = &scratch->symbols[i];

        if (!symbol->len_bytes || symbol->id == UINT32_MAX)
            continue;
        r = token_list_add(list, symbol->id);
        if (r)
            return r;
    }
    return 0;
}
