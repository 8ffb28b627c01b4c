// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/vocab.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

#define TOKENS_MAX (1u << 22)
#define TEXTS_MAX_BYTES (1u << 28)

/* --- byte-level alphabet ---------------------------------------------------------------------------------------- */

/* Finds the byte that a code point of the alphabet stands for; -1: none. */
static int byte_of_code_point(uint32_t code_point) {
    if ((code_point >= 0x21 && code_point <= 0x7e) || (code_point >= 0xa1 && code_point <= 0xff && code_point != 0xad))
        return (int)code_point;
    if (code_point >= 0x100 && code_point <= 0x120) /* bytes 00 to 20 */
        return (int)code_point - 0x100;
    if (code_point >= 0x121 && code_point <= 0x142) /* bytes 7f to a0 */
        return (int)code_point - 0x121 + 0x7f;
    return code_point == 0x143 ? 0xad : -1;
}

bool byte_level_decode(const char *text, size_t len_bytes, char *bytes, size_t *n_bytesp) {
    const uint8_t *in = (const uint8_t *)text;
    size_t n = 0;

    for (size_t i = 0; i < len_bytes;) {
        uint32_t code_point = in[i++];
        int byte;

        if (code_point >= 0x80) {
            if ((code_point & 0xe0) != 0xc0 || i == len_bytes || (in[i] & 0xc0) != 0x80)
                return false;
            code_point = (code_point & 0x1f) << 6 | (in[i++] & 0x3f);
            if (code_point < 0x80)
                return false;
        }
        byte = byte_of_code_point(code_point);
        if (byte < 0)
            return false;
        bytes[n++] = (char)byte;
    }
    *n_bytesp = n;
    return true;
}

/* --- roles by text ---------------------------------------------------------------------------------------------- */

/* Many files give these tokens the wrong type, so programs go by their text (llama.cpp's list). */
static const char *const known_ends[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|return|>",
    "<|call|>",
    "<end_of_utterance>",
    ("<\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"),
    "<|calls|>",
    "<|flush|>",
};

/* Tokens of code infill by their text, as llama.cpp knows them. Several spellings belong to one mark. */
static const struct {
    const char *text;
    InfillMark mark;
} infill_marks[] = {
    { "<|fim_prefix|>", INFILL_PREFIX },
    { "<fim-prefix>", INFILL_PREFIX },
    { "<fim_prefix>", INFILL_PREFIX },
    { "<PRE>", INFILL_PREFIX },
    { "\xe2\x96\x81<PRE>", INFILL_PREFIX },
    { "<|code_prefix|>", INFILL_PREFIX },
    { "<|prefix|>", INFILL_PREFIX },
    { "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "begin\xef\xbd\x9c>",
      INFILL_PREFIX },
    { "<|fim_suffix|>", INFILL_SUFFIX },
    { "<fim-suffix>", INFILL_SUFFIX },
    { "<fim_suffix>", INFILL_SUFFIX },
    { "<SUF>", INFILL_SUFFIX },
    { "\xe2\x96\x81<SUF>", INFILL_SUFFIX },
    { "<|code_suffix|>", INFILL_SUFFIX },
    { "<|suffix|>", INFILL_SUFFIX },
    { "<\xef\xbd\x9c"
      "fim\xe2\x96\x81hole\xef\xbd\x9c>",
      INFILL_SUFFIX },
    { "<|fim_middle|>", INFILL_MIDDLE },
    { "<fim-middle>", INFILL_MIDDLE },
    { "<fim_middle>", INFILL_MIDDLE },
    { "<MID>", INFILL_MIDDLE },
    { "\xe2\x96\x81<MID>", INFILL_MIDDLE },
    { "<|code_middle|>", INFILL_MIDDLE },
    { "<|middle|>", INFILL_MIDDLE },
    { "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "end\xef\xbd\x9c>",
      INFILL_MIDDLE },
    { "<|fim_pad|>", INFILL_PADDING },
    { "<fim-pad>", INFILL_PADDING },
    { "<fim_pad>", INFILL_PADDING },
    { "<PAD>", INFILL_PADDING },
    { "[PAD]", INFILL_PADDING },
    { "<|fim_repo|>", INFILL_REPOSITORY },
    { "<|repo_name|>", INFILL_REPOSITORY },
    { "<fim-repo>", INFILL_REPOSITORY },
    { "<REPO>", INFILL_REPOSITORY },
    { "<reponame>", INFILL_REPOSITORY },
    { "<|file_sep|>", INFILL_FILE },
};

/* Keys that name a token of code infill. A mark may have a newer key and an older one; the older one holds if both are
 * there. */
static const struct {
    const char *key;
    InfillMark mark;
} infill_keys[] = {
    { "tokenizer.ggml.fim_pre_token_id", INFILL_PREFIX },     { "tokenizer.ggml.fim_suf_token_id", INFILL_SUFFIX },
    { "tokenizer.ggml.fim_mid_token_id", INFILL_MIDDLE },     { "tokenizer.ggml.fim_pad_token_id", INFILL_PADDING },
    { "tokenizer.ggml.fim_rep_token_id", INFILL_REPOSITORY }, { "tokenizer.ggml.fim_sep_token_id", INFILL_FILE },
    { "tokenizer.ggml.prefix_token_id", INFILL_PREFIX },      { "tokenizer.ggml.suffix_token_id", INFILL_SUFFIX },
    { "tokenizer.ggml.middle_token_id", INFILL_MIDDLE },
};

/* Padding, repository and file marks end any answer; the others only an answer that fills in. */
static TokenRole role_of_infill(InfillMark mark) {
    return mark == INFILL_PREFIX || mark == INFILL_SUFFIX || mark == INFILL_MIDDLE ? TOKEN_ROLE_MARK : TOKEN_ROLE_END;
}

static bool is_text(const char *known, const char *text, size_t len_bytes) {
    return strlen(known) == len_bytes && !memcmp(known, text, len_bytes);
}

/* Finds the role of a token by its text, by the file's type, and by the chat template's marks. A token of code infill
 * is noted in infill. */
static TokenRole role_of_text(uint32_t id, const char *text, size_t len_bytes, int32_t type, const ChatMarks *marks,
                              uint32_t *infill) {
    char last = len_bytes ? text[len_bytes - 1] : 0;

    if (last != '>' && last != ']') /* searching the table for every token would be too slow */
        return TOKEN_ROLE_NONE;
    for (size_t i = 0; i < ARRAY_LEN(known_ends); i++)
        if (is_text(known_ends[i], text, len_bytes))
            return TOKEN_ROLE_END;
    for (size_t i = 0; i < ARRAY_LEN(infill_marks); i++)
        if (is_text(infill_marks[i].text, text, len_bytes)) {
            if (infill[infill_marks[i].mark] == UINT32_MAX)
                infill[infill_marks[i].mark] = id;
            return role_of_infill(infill_marks[i].mark);
        }
    if (!chat_marks_has(marks, text, len_bytes))
        return TOKEN_ROLE_NONE;
    if (chat_mark_is_control(text, len_bytes))
        return TOKEN_ROLE_MARK;
    return type == TOKEN_USER_DEFINED ? TOKEN_ROLE_TAG : TOKEN_ROLE_NONE;
}

/* --- tables from the file --------------------------------------------------------------------------------------- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Reads the byte of "<0xXX>"; -1: the text is another one. Two hex digits are taken and nothing else, because signs
 * have been used to write past tables. */
static int byte_of_text(const char *text, size_t len_bytes) {
    int high, low;

    if (len_bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>')
        return -1;
    high = hex_digit(text[3]);
    low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Checks that a list beside the table has an element for each token. r is the result of its getter; *arrayp becomes
 * NULL if the file has no such list. */
static int check_parallel(const GgufFile *file, const char *key, uint32_t n_tokens, int r, const GgufArray **arrayp,
                          ErrText *err) {
    if (r == GGUF_E_MISSING) {
        *arrayp = NULL;
        return 0;
    }
    if (r)
        return r > 0 ? VOCAB_E_CORRUPT : err_trace(r);
    if ((*arrayp)->n != n_tokens)
        return err_set(err, VOCAB_E_CORRUPT,
                       "%s: key \"%s\" has %" PRIu64 " elements for %" PRIu32 " tokens; they must be as many: "
                       "convert the model again",
                       gguf_path(file), key, (*arrayp)->n, n_tokens);
    return 0;
}

/* Gets the id of BOS or EOS, which chats are written with too; UINT32_MAX: the file has no valid number. */
static uint32_t get_id(const GgufFile *file, const char *key) {
    uint32_t id;

    return gguf_key(file, key) && !gguf_get_u32(file, key, &id, NULL) ? id : UINT32_MAX;
}

/* Notes the tokens of code infill that the file names by keys, which go before those known by their text. A number that
 * is no token is ignored: converters write -1 for "none". */
static int read_infill(Vocab *vocab, const GgufFile *file, ErrText *err) {
    for (size_t i = 0; i < ARRAY_LEN(infill_keys); i++) {
        const char *key = infill_keys[i].key;
        int64_t id = -1;
        ErrText why = { 0 };
        int r = gguf_get_i64(file, key, &id, &why);

        if (r == GGUF_E_MISSING)
            continue;
        if (r && r != GGUF_E_RANGE)
            return err_set(err, r > 0 ? VOCAB_E_CORRUPT : r, "%s", why.text);
        if (id < 0 || id >= vocab->n_tokens) {
            log_warn(TOPIC_ENGINE,
                     "%s: key '%s' is no token: the model has tokens 0 to %" PRIu32 ": the key is ignored",
                     gguf_path(file), key, vocab->n_tokens - 1);
            continue;
        }
        vocab->infill[infill_keys[i].mark] = (uint32_t)id;
        vocab->roles[id] = (uint8_t)role_of_infill(infill_keys[i].mark);
        vocab->types[id] = TOKEN_CONTROL; /* no text becomes this token */
    }
    return 0;
}

/* Logs types that no token can have. Such a token counts as one without a type, as in llama.cpp. */
static void warn_of_types(const GgufFile *file, const GgufArray *types, uint32_t first, uint32_t n) {
    if (n)
        log_warn(TOPIC_ENGINE,
                 "%s: key \"tokenizer.ggml.token_type\": token %" PRIu32 " has type %" PRId64 ", and %" PRIu32
                 " tokens in all have none of the types 0 to %d: they are taken as undefined (0)",
                 gguf_path(file), first, gguf_array_i64(types, first), n, _TOKEN_TYPE_N - 1);
}

static int read_types(Vocab *vocab, const GgufFile *file, const GgufArray *tokens, const ChatMarks *marks,
                      ErrText *err) {
    static const char key[] = "tokenizer.ggml.token_type";
    uint32_t bos = get_id(file, "tokenizer.ggml.bos_token_id"), eos = get_id(file, "tokenizer.ggml.eos_token_id");
    uint32_t first_unknown = 0, n_unknown = 0;
    const GgufArray *types = NULL;
    int r;

    r = check_parallel(file, key, vocab->n_tokens, gguf_get_integers(file, key, INT64_MIN, INT64_MAX, &types, err),
                       &types, err);
    if (r)
        return r;
    for (size_t i = 0; i < _INFILL_MARK_N; i++)
        vocab->infill[i] = UINT32_MAX;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        const GgufString *text = &tokens->strings[id];
        int64_t type = types ? gguf_array_i64(types, id) : TOKEN_NORMAL;

        if (type < 0 || type >= _TOKEN_TYPE_N) {
            if (!n_unknown++)
                first_unknown = id;
            type = TOKEN_UNDEFINED;
        }
        if (!types && !vocab->byte_level && byte_of_text(text->data, text->len_bytes) >= 0)
            type = TOKEN_BYTE;
        vocab->roles[id] = (uint8_t)role_of_text(id, text->data, text->len_bytes, (int32_t)type, marks, vocab->infill);
        if (vocab->roles[id] != TOKEN_ROLE_NONE && chat_marks_has(marks, text->data, text->len_bytes))
            vocab->n_chat = id + 1;
        /* Text that everyone takes for a mark must not be open to a user who types it: with the marks of the model's
         * own template a message could take another role. Converters write added tokens as user defined. */
        if (vocab->roles[id] == TOKEN_ROLE_MARK || vocab->roles[id] == TOKEN_ROLE_END ||
            ((id == bos || id == eos) && (type == TOKEN_USER_DEFINED ||
                                          (type == TOKEN_NORMAL && chat_mark_is_control(text->data, text->len_bytes)))))
            type = TOKEN_CONTROL;
        vocab->types[id] = (uint8_t)type;
    }
    warn_of_types(file, types, first_unknown, n_unknown);
    return read_infill(vocab, file, err);
}

/* Reads the scores that a SentencePiece-style table merges by. Without the list all scores are 0, as in llama.cpp. */
static int read_scores(Vocab *vocab, const GgufFile *file, ErrText *err) {
    static const char key[] = "tokenizer.ggml.scores";
    const GgufArray *scores = NULL;
    int r;

    if (vocab->byte_level)
        return 0;
    r = check_parallel(file, key, vocab->n_tokens, gguf_get_numbers(file, key, &scores, err), &scores, err);
    if (r)
        return r;
    vocab->scores = calloc(vocab->n_tokens, sizeof(*vocab->scores));
    if (!vocab->scores)
        return err_raise(-ENOMEM);
    if (!scores)
        log_warn(TOPIC_ENGINE,
                 "%s: no key \"%s\": all scores are 0, and texts may become other tokens than the model was trained on",
                 gguf_path(file), key);
    for (uint32_t id = 0; scores && id < vocab->n_tokens; id++) {
        vocab->scores[id] = gguf_array_f32(scores, id);
        if (!isfinite(vocab->scores[id]))
            return err_set(err, VOCAB_E_CORRUPT,
                           "%s: key \"%s\": the score of token %" PRIu32 " is not a finite number: "
                           "convert the model again",
                           gguf_path(file), key, id);
    }
    return 0;
}

/* Whether ordinary text may become this token: control and unknown tokens never, bytes only by fallback. */
static bool type_is_word(uint8_t type) {
    return type == TOKEN_NORMAL || type == TOKEN_UNUSED || type == TOKEN_UNDEFINED || type == TOKEN_USER_DEFINED;
}

/* Copies a text into the arena; *is_wordp: the text goes into the index of words. */
static size_t copy_text(const Vocab *vocab, uint32_t id, const GgufString *text, char *out, bool *is_wordp) {
    uint8_t type = vocab->types[id];
    size_t n;

    *is_wordp = text->len_bytes && type_is_word(type);
    if (vocab->byte_level && type != TOKEN_CONTROL && type != TOKEN_UNKNOWN && text->len_bytes) {
        /* A user-defined token is text as it stands. The token is a word too if the alphabet does not change it. */
        if (!byte_level_decode(text->data, text->len_bytes, out, &n) ||
            (type == TOKEN_USER_DEFINED && (n != text->len_bytes || memcmp(out, text->data, n))))
            *is_wordp = false;
        else
            return *is_wordp = true, n;
    }
    if (text->len_bytes)
        memcpy(out, text->data, text->len_bytes);
    return text->len_bytes;
}

static TextSpan text_of(const void *owner, uint32_t id) {
    uint32_t len_bytes;
    const char *text = vocab_text(owner, id, &len_bytes);

    return (TextSpan){ text, len_bytes };
}

static int index_texts(Vocab *vocab, const GgufFile *file, const bool *is_word, uint32_t n_marks, ErrText *err) {
    int r;

    r = text_index_init(&vocab->words, vocab->n_tokens - n_marks, text_of, vocab);
    if (r)
        return err_trace(r);
    r = text_index_init(&vocab->marks, n_marks, text_of, vocab);
    if (r)
        return err_trace(r);
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (vocab->offsets[id] == vocab->offsets[id + 1])
            continue; /* no text becomes a token without a text */
        r = text_index_add(is_word[id] ? &vocab->words : &vocab->marks, id);
        if (r)
            return err_set(err, VOCAB_E_CORRUPT,
                           "%s: key \"tokenizer.ggml.tokens\": token %" PRIu32
                           " and thousands before it were made to collide in a hash table: refused",
                           gguf_path(file), id);
    }
    return 0;
}

/* Finds the token of each single byte. Byte-level tables may lack some; "llama" ones name them "<0xXX>". */
static int find_bytes(Vocab *vocab, const GgufFile *file, ErrText *err) {
    uint32_t len_bytes;

    memset(vocab->byte_ids, 0xff, sizeof(vocab->byte_ids));
    for (uint32_t id = 0; !vocab->byte_level && id < vocab->n_tokens; id++) {
        const char *text = vocab_text(vocab, id, &len_bytes);
        int byte;

        if (vocab->types[id] != TOKEN_BYTE)
            continue;
        byte = byte_of_text(text, len_bytes);
        if (byte < 0)
            return err_set(err, VOCAB_E_CORRUPT,
                           "%s: key \"tokenizer.ggml.tokens\": token %" PRIu32
                           " is a byte token but its text is not of the form <0x00> to <0xFF>: convert the model again",
                           gguf_path(file), id);
        if (vocab->byte_ids[byte] == UINT32_MAX)
            vocab->byte_ids[byte] = id;
    }
    for (unsigned int byte = 0; byte < 256; byte++)
        if (vocab->byte_ids[byte] == UINT32_MAX)
            vocab->byte_ids[byte] = text_index_find(&vocab->words, &(uint8_t){ (uint8_t)byte }, 1);
    return 0;
}

/* vocab_init() - copy the token table of a file and index it
 * @byte_level: the texts are written in the byte-level alphabet (tokenizer model "gpt2")
 * @marks: marks of the chat template that the model is used with
 *
 * If two tokens have the same text, that text becomes the first of them; both can be shown. An empty text is never
 * matched. Return: 0, VOCAB_E_CORRUPT, -ENOMEM; vocab_deinit() is due in any case. */
int vocab_init(Vocab *vocab, const GgufFile *file, bool byte_level, const ChatMarks *marks, ErrText *err) {
    static const char key[] = "tokenizer.ggml.tokens";
    _cleanup_(freep) bool *is_word = NULL;
    const GgufArray *tokens;
    uint64_t len_bytes = 0;
    uint32_t n_marks = 0;
    int r;

    *vocab = (Vocab){ .byte_level = byte_level };
    r = gguf_get_strings(file, key, &tokens, err);
    if (r)
        return r > 0 ? VOCAB_E_CORRUPT : err_trace(r);
    if (tokens->n < 1 || tokens->n > TOKENS_MAX)
        return err_set(err, VOCAB_E_CORRUPT, "%s: key \"%s\" has %" PRIu64 " tokens; 1 to %u can be used",
                       gguf_path(file), key, tokens->n, TOKENS_MAX);
    vocab->n_tokens = (uint32_t)tokens->n;
    for (uint32_t id = 0; id < vocab->n_tokens && len_bytes <= TEXTS_MAX_BYTES; id++)
        len_bytes += tokens->strings[id].len_bytes;
    if (len_bytes > TEXTS_MAX_BYTES)
        return err_set(err, VOCAB_E_CORRUPT, "%s: key \"%s\": the texts of the tokens pass %u bytes: refused",
                       gguf_path(file), key, TEXTS_MAX_BYTES);

    vocab->types = malloc(vocab->n_tokens);
    vocab->roles = malloc(vocab->n_tokens);
    vocab->offsets = malloc(((size_t)vocab->n_tokens + 1) * sizeof(*vocab->offsets));
    vocab->texts = malloc(len_bytes ? len_bytes : 1);
    is_word = malloc(vocab->n_tokens * sizeof(*is_word));
    if (!vocab->types || !vocab->roles || !vocab->offsets || !vocab->texts || !is_word)
        return err_raise(-ENOMEM);

    r = read_types(vocab, file, tokens, marks, err);
    if (r)
        return r;
    r = read_scores(vocab, file, err);
    if (r)
        return r;
    vocab->offsets[0] = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        uint32_t at = vocab->offsets[id];

        vocab->offsets[id + 1] =
            at + (uint32_t)copy_text(vocab, id, &tokens->strings[id], vocab->texts + at, &is_word[id]);
        n_marks += !is_word[id];
        if (is_word[id] && vocab->offsets[id + 1] - at > vocab->word_max_bytes)
            vocab->word_max_bytes = vocab->offsets[id + 1] - at;
    }
    r = index_texts(vocab, file, is_word, n_marks, err);
    if (r)
        return r;
    return find_bytes(vocab, file, err);
}

void vocab_deinit(Vocab *vocab) {
    free(vocab->texts);
    free(vocab->offsets);
    free(vocab->types);
    free(vocab->roles);
    free(vocab->scores);
    text_index_deinit(&vocab->words);
    text_index_deinit(&vocab->marks);
    *vocab = (Vocab){ 0 };
}

uint64_t vocab_memory_bytes(const Vocab *vocab) {
    uint64_t per_token = sizeof(*vocab->offsets) + 2 + (vocab->scores ? sizeof(*vocab->scores) : 0);

    return vocab->offsets[vocab->n_tokens] + sizeof(*vocab->offsets) + vocab->n_tokens * per_token +
           text_index_memory_bytes(&vocab->words) + text_index_memory_bytes(&vocab->marks);
}

uint32_t vocab_find(const Vocab *vocab, const char *text, size_t len_bytes) {
    _cleanup_(freep) char *bytes = NULL;
    uint32_t id = text_index_find(&vocab->marks, text, len_bytes);
    size_t n;

    if (id != UINT32_MAX)
        return id;
    if (!vocab->byte_level)
        return text_index_find(&vocab->words, text, len_bytes);
    bytes = malloc(len_bytes + 1);
    if (!bytes || !byte_level_decode(text, len_bytes, bytes, &n))
        return UINT32_MAX;
    return text_index_find(&vocab->words, bytes, n);
}
