// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "text/chat/mark_matcher.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/tokenizer_private.h"

#define TEXT_MAX_BYTES                                                                                                 \
    (64u << 20) /* bounds offsets of 32 bits in all modules below, and memory of some 50 bytes a byte */

/* --- list of tokens --------------------------------------------------------------------------------------------- */

/* --- loading ---------------------------------------------------------------------------------------------------- */

/* Reads the id of a special token. *idp keeps its default if the file has no such key, or a number that is no token:
 * converters write -1 for "none". The caller that needs the token refuses a file without one. */
static int get_id(const Tokenizer *tokenizer, const GgufFile *file, const char *key, uint32_t *idp, ErrText *err) {
    int64_t id = -1;
    ErrText why = { 0 };
    int r;

    r = gguf_get_i64(file, key, &id, &why);
    if (r == GGUF_E_MISSING)
        return 0;
    if (r && r != GGUF_E_RANGE)
        return err_set(err, r > 0 ? TOKENIZER_E_CORRUPT : r, "%s", why.text);
    if (id < 0 || id >= tokenizer->vocab.n_tokens) {
        if (!r)
            (void)err_set(&why, 0, "%s: key '%s' is %" PRId64, gguf_path(file), key, id);
        log_warn(TOPIC_ENGINE, "%s; the model has tokens 0 to %" PRIu32 ": the key is ignored", why.text,
                 tokenizer->vocab.n_tokens - 1);
        return 0;
    }
    *idp = (uint32_t)id;
    return 0;
}

static int get_flag(const GgufFile *file, const char *key, bool *flagp, ErrText *err) {
    int r;

    if (!gguf_key(file, key))
        return 0;
    r = gguf_get_bool(file, key, flagp, err);
    return r > 0 ? TOKENIZER_E_CORRUPT : r;
}

static int read_ids(Tokenizer *tokenizer, const GgufFile *file, ErrText *err) {
    const struct {
        const char *key;
        uint32_t *idp;
    } keys[] = {
        { "tokenizer.ggml.bos_token_id", &tokenizer->bos },
        { "tokenizer.ggml.eos_token_id", &tokenizer->eos },
        { "tokenizer.ggml.eot_token_id", &tokenizer->eot },
        { "tokenizer.ggml.eom_token_id", &tokenizer->eom },
        { "tokenizer.ggml.unknown_token_id", &tokenizer->unknown },
        { "tokenizer.ggml.padding_token_id", &tokenizer->padding },
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        r = get_id(tokenizer, file, keys[i].key, keys[i].idp, err);
        if (r)
            return r;
    }
    return 0;
}

/* Reads whether BOS and EOS are added, by the file or by the default of its kind. */
static int read_flags(Tokenizer *tokenizer, const GgufFile *file, ErrText *err) {
    static const char bos_key[] = "tokenizer.ggml.add_bos_token", eos_key[] = "tokenizer.ggml.add_eos_token";
    int r;

    r = get_flag(file, bos_key, &tokenizer->adds_bos, err);
    if (!r)
        r = get_flag(file, eos_key, &tokenizer->adds_eos, err);
    if (!r && !tokenizer->pretokenizer)
        r = get_flag(file, "tokenizer.ggml.add_space_prefix", &tokenizer->space_prefix, err);
    if (r)
        return r;
    if (tokenizer->adds_bos && tokenizer->bos == TOKEN_NONE) {
        if (gguf_key(file, bos_key))
            return err_set(err, TOKENIZER_E_CORRUPT,
                           "%s: key \"%s\" is true, but no token is named by \"tokenizer.ggml.bos_token_id\": "
                           "convert the model again",
                           gguf_path(file), bos_key);
        tokenizer->adds_bos = false;
    }
    if (tokenizer->adds_eos && tokenizer->eos == TOKEN_NONE)
        return err_set(err, TOKENIZER_E_CORRUPT,
                       "%s: key \"%s\" is true, but no token is named by \"tokenizer.ggml.eos_token_id\": "
                       "convert the model again",
                       gguf_path(file), eos_key);
    return 0;
}

static int load_byte_level(Tokenizer *tokenizer, const GgufFile *file, const ChatMarks *marks, ErrText *err) {
    GgufString pre = { 0 };
    int r;

    if (gguf_key(file, "tokenizer.ggml.pre")) {
        r = gguf_get_string(file, "tokenizer.ggml.pre", &pre, err);
        if (r)
            return r > 0 ? TOKENIZER_E_CORRUPT : err_trace(r);
    } else {
        log_warn(TOPIC_ENGINE,
                 "%s: no key \"tokenizer.ggml.pre\": words are cut by the default rule, which may not be the model's",
                 gguf_path(file));
    }
    r = pretokenizer_new(&tokenizer->pretokenizer, pre.len_bytes ? pre.data : "", pre.len_bytes, err);
    if (r == PRETOKENIZER_E_UNKNOWN) {
        err_prefix(err, "%s: key \"tokenizer.ggml.pre\"", gguf_path(file));
        return TOKENIZER_E_UNSUPPORTED;
    }
    if (r)
        return err_trace(r);
    snprintf(tokenizer->name, sizeof(tokenizer->name), "gpt2/%s", pretokenizer_name(tokenizer->pretokenizer));
    tokenizer->adds_bos = pretokenizer_adds_bos(tokenizer->pretokenizer);
    r = vocab_init(&tokenizer->vocab, file, true, marks, err);
    if (r)
        return r > 0 ? TOKENIZER_E_CORRUPT : err_trace(r);
    r = bpe_init(&tokenizer->bpe, &tokenizer->vocab, file, pretokenizer_whole_words_first(tokenizer->pretokenizer),
                 err);
    return r > 0 ? TOKENIZER_E_CORRUPT : r;
}

static int load_sentencepiece(Tokenizer *tokenizer, const GgufFile *file, const ChatMarks *marks, ErrText *err) {
    const Vocab *vocab = &tokenizer->vocab;
    int r;

    r = vocab_init(&tokenizer->vocab, file, false, marks, err);
    if (r)
        return r > 0 ? TOKENIZER_E_CORRUPT : err_trace(r);
    snprintf(tokenizer->name, sizeof(tokenizer->name), "llama");
    tokenizer->adds_bos = true;
    tokenizer->space_prefix = true;
    /* Llama 2's ids, for files that leave them out */
    tokenizer->unknown = 0;
    tokenizer->bos = vocab->n_tokens > 1 ? 1 : TOKEN_NONE;
    tokenizer->eos = vocab->n_tokens > 2 ? 2 : TOKEN_NONE;
    return 0;
}

/* Whether a name holds a text, in either case. */
static bool name_has(const GgufString *name, const char *text) {
    size_t n = strlen(text);

    for (size_t i = 0; i + n <= name->len_bytes; i++)
        if (!strncasecmp(name->data + i, text, n))
            return true;
    return false;
}

/* Phi-3's special tokens take the spaces behind them, except three. Files have no key for that, so models are known by
 * their names, as in llama.cpp. */
static void read_strips(Tokenizer *tokenizer, const GgufFile *file) {
    static const char *const keep[] = { "<unk>", "<s>", "<|endoftext|>" };
    GgufString name;

    if (!gguf_key(file, "general.name") || gguf_get_string(file, "general.name", &name, NULL))
        return;
    tokenizer->strips_right = name_has(&name, "phi-3") || name_has(&name, "phi3");
    for (size_t i = 0; i < ARRAY_LEN(keep); i++)
        tokenizer->keep_right[i] = vocab_find(&tokenizer->vocab, keep[i], strlen(keep[i]));
}

static void find_ends(Tokenizer *tokenizer) {
    const uint32_t ids[] = { tokenizer->eos, tokenizer->eot, tokenizer->eom };

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (ids[i] != TOKEN_NONE)
            tokenizer->vocab.roles[ids[i]] = TOKEN_ROLE_END;
}

/* Other tokenizer models that files name, for the text of a refusal. */
static const char *kind_of_model(const GgufString *model) {
    static const struct {
        const char *name, *kind;
    } known[] = {
        { "t5", " (Unigram)" },
        { "bert", " (WordPiece)" },
        { "rwkv", " (greedy, of RWKV)" },
        { "plamo2", " (of PLaMo 2)" },
        { "gemma4", " (BPE without bytes, of Gemma 4)" },
        { "hybriddna", " (of DNA)" },
        { "whitespace", " (words between spaces)" },
        { "no_vocab", " (none: token ids only)" },
        { "none", " (none: token ids only)" },
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strlen(known[i].name) == model->len_bytes && !memcmp(known[i].name, model->data, model->len_bytes))
            return known[i].kind;
    return "";
}

static int tokenizer_read(Tokenizer *tokenizer, const GgufFile *file, const ChatMarks *marks, ErrText *err) {
    static const char key[] = "tokenizer.ggml.model";
    GgufString model;
    Printable shown;
    int r;

    r = gguf_get_string(file, key, &model, err);
    if (r)
        return r > 0 ? TOKENIZER_E_CORRUPT : err_trace(r);
    if (model.len_bytes == 4 && !memcmp(model.data, "gpt2", 4))
        r = load_byte_level(tokenizer, file, marks, err);
    else if (model.len_bytes == 5 && !memcmp(model.data, "llama", 5))
        r = load_sentencepiece(tokenizer, file, marks, err);
    else
        return err_set(err, TOKENIZER_E_UNSUPPORTED,
                       "%s: key \"%s\": tokenizer \"%s\"%s is not supported; supported are \"gpt2\" "
                       "(byte-level BPE) and \"llama\" (SentencePiece-style): use a model with one of these",
                       gguf_path(file), key, printable(&shown, model.data, model.len_bytes), kind_of_model(&model));
    if (r)
        return r;
    r = read_ids(tokenizer, file, err);
    if (r)
        return r;
    r = read_flags(tokenizer, file, err);
    if (r)
        return r;
    find_ends(tokenizer);
    read_strips(tokenizer, file);
    r = mark_matcher_init(&tokenizer->user_marks, &tokenizer->vocab, 1u << TOKEN_USER_DEFINED, gguf_path(file), err);
    if (!r)
        r = mark_matcher_init(&tokenizer->all_marks, &tokenizer->vocab,
                              1u << TOKEN_USER_DEFINED | 1u << TOKEN_CONTROL | 1u << TOKEN_UNKNOWN, gguf_path(file),
                              err);
    return r > 0 ? TOKENIZER_E_CORRUPT : r;
}

/* Numbers are hashed little-endian, because the hash outlives this process. */
static void hash_number(struct sha256_ctx *sum, uint32_t number) {
    const uint8_t bytes[] = { (uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
                              (uint8_t)(number >> 24) };

    sha256_update(sum, sizeof(bytes), bytes);
}

static void hash_tokens(const Vocab *vocab, uint8_t hash[TOKENIZER_HASH_BYTES]) {
    struct sha256_ctx sum;

    sha256_init(&sum);
    hash_number(&sum, vocab->n_tokens);
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        uint32_t len_bytes;
        const char *text = vocab_text(vocab, id, &len_bytes);

        hash_number(&sum, len_bytes);
        sha256_update(&sum, len_bytes, (const uint8_t *)text);
    }
    sha256_update(&sum, vocab->n_tokens, vocab->types);
    sha256_digest(&sum, TOKENIZER_HASH_BYTES, hash);
}

/* Reads a text of the file; empty if the file has none. */
static GgufString text_of_key(const GgufFile *file, const char *key) {
    GgufString text = { 0 };

    if (gguf_key(file, key))
        (void)gguf_get_string(file, key, &text, NULL);
    return text.len_bytes ? text : (GgufString){ .data = "" };
}

/* Makes a tokenizer whose control tokens are the file's and the marks. */
static int new_with_marks(Tokenizer **tokenizerp, const GgufFile *file, const ChatMarks *marks, ErrText *err) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));
    int r;

    if (!tokenizer)
        return err_raise(-ENOMEM);
    tokenizer->bos = tokenizer->eos = tokenizer->eot = tokenizer->eom = TOKEN_NONE;
    tokenizer->unknown = tokenizer->padding = TOKEN_NONE;
    r = tokenizer_read(tokenizer, file, marks, err);
    if (r)
        return r;
    hash_tokens(&tokenizer->vocab, tokenizer->hash);
    *tokenizerp = steal(&tokenizer);
    return 0;
}

int tokenizer_new(Tokenizer **tokenizerp, const GgufFile *file, ErrText *err) {
    const GgufString text = text_of_key(file, TOKENIZER_KEY_CHAT_TEMPLATE),
                     tools = text_of_key(file, TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS);
    _cleanup_(chat_marks_deinit) ChatMarks marks = { 0 };
    int r = chat_marks_init(&marks, text.data, text.len_bytes);

    if (!r)
        r = chat_marks_add(&marks, tools.data, tools.len_bytes);
    return r ? err_set(err, r, "out of memory") : new_with_marks(tokenizerp, file, &marks, err);
}

int tokenizer_new_for_chat(Tokenizer **tokenizerp, const GgufFile *file, const char *chat_template, size_t len_bytes,
                           ErrText *err) {
    _cleanup_(chat_marks_deinit) ChatMarks marks = { 0 };
    int r = chat_marks_init(&marks, chat_template, len_bytes);

    return r ? err_set(err, r, "out of memory") : new_with_marks(tokenizerp, file, &marks, err);
}

Tokenizer *tokenizer_free(Tokenizer *tokenizer) {
    if (!tokenizer)
        return NULL;
    mark_matcher_deinit(&tokenizer->user_marks);
    mark_matcher_deinit(&tokenizer->all_marks);
    bpe_deinit(&tokenizer->bpe);
    pretokenizer_free(tokenizer->pretokenizer);
    vocab_deinit(&tokenizer->vocab);
    free(tokenizer);
    return NULL;
}

/* --- text to tokens --------------------------------------------------------------------------------------------- */

typedef struct EncodeScratch {
    SymbolMerge merge;
    PieceList pieces;
    StrBuf escaped; /* SentencePiece-style: the fragment with U+2581 for spaces */
} EncodeScratch;

static void encode_scratch_deinit(EncodeScratch *scratch) {
    symbol_merge_deinit(&scratch->merge);
    piece_list_deinit(&scratch->pieces);
    str_buf_deinit(&scratch->escaped);
}

static int encode_byte_level(const Tokenizer *tokenizer, EncodeScratch *scratch, const char *text, size_t len_bytes,
                             TokenList *list, ErrText *err) {
    int r;

    r = pretokenizer_split(tokenizer->pretokenizer, text, len_bytes, &scratch->pieces, err);
    if (r)
        return r;
    for (size_t i = 0; i < scratch->pieces.n; text += scratch->pieces.len_bytes[i++]) {
        r = bpe_encode_word(&tokenizer->bpe, &scratch->merge, text, scratch->pieces.len_bytes[i], list);
        if (r)
            return r;
    }
    return 0;
}

static int encode_sentencepiece(const Tokenizer *tokenizer, EncodeScratch *scratch, const char *text, size_t len_bytes,
                                bool with_prefix, TokenList *list) {
    const char *end = text + len_bytes;

    str_buf_truncate(&scratch->escaped, 0);
    if (with_prefix)
        str_buf_append(&scratch->escaped, SPM_SPACE, SPM_SPACE_BYTES);
    while (text < end) {
        const char *space = memchr(text, ' ', (size_t)(end - text));

        str_buf_append(&scratch->escaped, text, (size_t)((space ? space : end) - text));
        if (space)
            str_buf_append(&scratch->escaped, SPM_SPACE, SPM_SPACE_BYTES);
        text = space ? space + 1 : end;
    }
    if (str_buf_failed(&scratch->escaped))
        return err_raise(-ENOMEM);
    return spm_encode(&tokenizer->vocab, tokenizer->unknown, &scratch->merge, scratch->escaped.data,
                      scratch->escaped.len_bytes, list);
}

/* Encodes the text between special tokens. Each such fragment gets a space of its own, as the model was trained. */
static int encode_fragment(const Tokenizer *tokenizer, EncodeScratch *scratch, const char *text, size_t len_bytes,
                           unsigned int flags, TokenList *list, ErrText *err) {
    if (!len_bytes)
        return 0;
    if (tokenizer->pretokenizer)
        return encode_byte_level(tokenizer, scratch, text, len_bytes, list, err);
    return encode_sentencepiece(tokenizer, scratch, text, len_bytes,
                                tokenizer->space_prefix && !(flags & TOKENIZE_NO_SPACE_PREFIX), list);
}

/* Finds the place at which the text goes on behind a special token. Spaces that the token takes end before a longer
 * special token. Shorter ones, made of spaces, are taken too, because these are looked for later. */
static size_t end_of_hit(const Tokenizer *tokenizer, const MarkHit *hit, size_t n_hits, const char *text,
                         size_t len_bytes) {
    uint32_t mark_bytes, other_bytes;
    size_t at;

    vocab_text(&tokenizer->vocab, hit->id, &mark_bytes);
    at = (size_t)hit->offset + mark_bytes;
    if (!tokenizer->strips_right)
        return at;
    for (size_t i = 0; i < ARRAY_LEN(tokenizer->keep_right); i++)
        if (tokenizer->keep_right[i] == hit->id)
            return at;
    while (at < len_bytes && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')))
        at++;
    for (size_t i = 1; i < n_hits && hit[i].offset < at; i++) {
        vocab_text(&tokenizer->vocab, hit[i].id, &other_bytes);
        if (other_bytes > mark_bytes)
            return hit[i].offset;
    }
    return at;
}

static int encode(const Tokenizer *tokenizer, const char *text, size_t len_bytes, unsigned int flags,
                  const uint8_t *own, TokenList *list, ErrText *err) {
    const MarkMatcher *marks = flags & TOKENIZE_PARSE_SPECIAL ? &tokenizer->all_marks : &tokenizer->user_marks;
    _cleanup_(encode_scratch_deinit) EncodeScratch scratch = { 0 };
    _cleanup_(freep) MarkHit *hits = NULL;
    size_t n_hits = 0, at = 0;
    int r;

    if (flags & TOKENIZE_ADD_BOS && tokenizer->adds_bos) {
        r = token_list_add(list, tokenizer->bos);
        if (r)
            return r;
    }
    r = mark_matcher_find(marks, text, len_bytes, own, &hits, &n_hits);
    if (r)
        return r;
    for (size_t i = 0; i < n_hits; i++) {
        if (hits[i].offset < at)
            continue;
        r = encode_fragment(tokenizer, &scratch, text + at, hits[i].offset - at, flags, list, err);
        if (!r)
            r = token_list_add(list, hits[i].id);
        if (r)
            return r;
        at = end_of_hit(tokenizer, &hits[i], n_hits - i, text, len_bytes);
    }
    r = encode_fragment(tokenizer, &scratch, text + at, len_bytes - at, flags, list, err);
    if (!r && flags & TOKENIZE_ADD_EOS && tokenizer->adds_eos)
        r = token_list_add(list, tokenizer->eos);
    return r;
}

static int encode_text(const Tokenizer *tokenizer, const char *text, size_t len_bytes, unsigned int flags,
                       const uint8_t *own, TokenList *list, ErrText *err) {
    size_t n_before = list->n;
    int r;

    if (len_bytes > TEXT_MAX_BYTES)
        return err_set(err, TOKENIZER_E_TOO_LONG,
                       "a text of %zu bytes cannot be tokenized in one piece; at most %u bytes can: "
                       "shorten it",
                       len_bytes, TEXT_MAX_BYTES);
    r = encode(tokenizer, len_bytes ? text : "", len_bytes, flags, own, list, err);
    if (r == -ENOMEM)
        err_set(err, r, "out of memory while tokenizing a text of %zu bytes", len_bytes);
    if (r)
        list->n = n_before;
    return r;
}

int tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t len_bytes, unsigned int flags,
                     TokenList *list, ErrText *err) {
    return encode_text(tokenizer, text, len_bytes, flags, NULL, list, err);
}

int tokenizer_encode_own(const Tokenizer *tokenizer, const char *text, const uint8_t *own, size_t len_bytes,
                         TokenList *list, ErrText *err) {
    return encode_text(tokenizer, text, len_bytes, TOKENIZE_PARSE_SPECIAL, own, list, err);
}

/* --- what the tables say ---------------------------------------------------------------------------------------- */

uint32_t tokenizer_n_tokens(const Tokenizer *tokenizer) {
    return tokenizer->vocab.n_tokens;
}

uint32_t tokenizer_bos(const Tokenizer *tokenizer) {
    return tokenizer->bos;
}

uint32_t tokenizer_eos(const Tokenizer *tokenizer) {
    return tokenizer->eos;
}

uint32_t tokenizer_unknown(const Tokenizer *tokenizer) {
    return tokenizer->unknown;
}

uint32_t tokenizer_padding(const Tokenizer *tokenizer) {
    return tokenizer->padding;
}

bool tokenizer_adds_bos(const Tokenizer *tokenizer) {
    return tokenizer->adds_bos;
}

bool tokenizer_is_end(const Tokenizer *tokenizer, uint32_t id) {
    return id < tokenizer->vocab.n_tokens && tokenizer->vocab.roles[id] == TOKEN_ROLE_END;
}

bool tokenizer_is_control(const Tokenizer *tokenizer, uint32_t id) {
    return id < tokenizer->vocab.n_tokens &&
           (tokenizer->vocab.types[id] == TOKEN_CONTROL || tokenizer->vocab.types[id] == TOKEN_UNKNOWN);
}

bool tokenizer_is_control_named(const Tokenizer *tokenizer, uint32_t id, const char *text) {
    uint32_t len_bytes;
    const char *own;

    if (!tokenizer_is_control(tokenizer, id))
        return false;
    own = vocab_text(&tokenizer->vocab, id, &len_bytes);
    return strlen(text) == len_bytes && !memcmp(own, text, len_bytes);
}

uint32_t tokenizer_find(const Tokenizer *tokenizer, const char *text) {
    return vocab_find(&tokenizer->vocab, text, strlen(text));
}

uint32_t tokenizer_find_added(const Tokenizer *tokenizer, const char *text) {
    const uint32_t id = tokenizer_find(tokenizer, text);

    return id != TOKEN_NONE && (tokenizer_is_control(tokenizer, id) || tokenizer->vocab.types[id] == TOKEN_USER_DEFINED)
               ? id
               : TOKEN_NONE;
}

const char *tokenizer_model_name(const Tokenizer *tokenizer) {
    return tokenizer->name;
}

const uint8_t *tokenizer_hash(const Tokenizer *tokenizer) {
    return tokenizer->hash;
}

uint64_t tokenizer_memory_bytes(const Tokenizer *tokenizer) {
    return sizeof(*tokenizer) + vocab_memory_bytes(&tokenizer->vocab) + bpe_memory_bytes(&tokenizer->bpe) +
           mark_matcher_memory_bytes(&tokenizer->all_marks) + mark_matcher_memory_bytes(&tokenizer->user_marks) +
           (tokenizer->pretokenizer ? pretokenizer_memory_bytes(tokenizer->pretokenizer) : 0);
}
