// SPDX-License-Identifier: Apache-2.0
/* Answers that are split, written down as one line, with vocabularies that have tokens of the marks or have none, and a
 * format of calls that is made up: <call>NAME:ARGUMENTS</call>, with @ in place of <call> at the front. */
#ifndef COORDGEN_TEST_UNIT_PARTS_CHECK_H
#define COORDGEN_TEST_UNIT_PARTS_CHECK_H

#include <assert.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "text/chat/answer_parts.h"
#include "text/tokenizer/vocab.h"

enum {
    PARTS_MERGED = FIXTURE_BYTES, /* "aa": a table needs a merge */
    PARTS_OPEN,
    PARTS_CLOSE,
    PARTS_CALL,
    PARTS_CALL_END,
    PARTS_CONTROL, /* a control token that is no mark */
    PARTS_THINK,   /* the control tokens [THINK] and [/THINK] */
    PARTS_THINK_END,
    PARTS_END, /* ends answers */
    PARTS_VOCAB,
};

/* In a script a byte from 1 on stands for the token PARTS_OPEN, and so on; there is no line break's code among them. */
#define PARTS_LAST_BYTE (PARTS_VOCAB - PARTS_OPEN)
#define OPEN "\x01"
#define CLOSE "\x02"
#define CALL "\x03"
#define CALL_END "\x04"
#define CONTROL "\x05"

typedef struct PartsVocab {
    TokenizerFixture fixture;
    Tokenizer *tokenizer;
} PartsVocab;

/* @n_marks: how many of the marks are tokens. @template: may be NULL. */
static inline void parts_vocab_init(PartsVocab *vocab, unsigned int n_marks, const char *template) {
    static const char *const marks[] = { "<think>",  "</think>", "<call>",   "</call>",
                                         "<|none|>", "[THINK]",  "[/THINK]", "<|im_end|>" };
    static const char *const merges[] = { "a a" };
    static char byte_texts[FIXTURE_BYTES][3];
    const char *tokens[PARTS_VOCAB];
    int32_t types[PARTS_VOCAB];
    TokenizerSpec spec = {
        .model = "gpt2", .pre = "qwen2", .tokens = tokens, .types = types, .chat_template = template
    };

    for (unsigned int i = 0; i < PARTS_OPEN + n_marks; i++) {
        tokens[i] = i < FIXTURE_BYTES ? fixture_byte_text(i, byte_texts[i])
                    : i < PARTS_OPEN  ? "aa"
                                      : marks[i - PARTS_OPEN];
        types[i] = i < PARTS_OPEN ? TOKEN_NORMAL : i < PARTS_CONTROL ? TOKEN_USER_DEFINED : TOKEN_CONTROL;
    }
    spec.merges = merges;
    spec.n_merges = 1;
    spec.n_tokens = spec.n_types = PARTS_OPEN + n_marks;
    if (fixture_init(&vocab->fixture, &spec) ||
        tokenizer_new(&vocab->tokenizer, vocab->fixture.file, &vocab->fixture.err)) {
        fprintf(stderr, "%s\n", vocab->fixture.err.text);
        abort();
    }
}

static inline void parts_vocab_deinit(PartsVocab *vocab) {
    tokenizer_free(vocab->tokenizer);
    fixture_deinit(&vocab->fixture);
}

/* --- the made-up format ------------------------------------------------------------------------------------------- */

typedef struct ToyCall {
    char name[16];
    size_t n_name;
    bool has_name;
    size_t n_end; /* bytes of "</call>" so far */
} ToyCall;

static inline void toy_begin(void *parser, size_t start, const CallTools *tools) {
}

static inline void toy_deinit(void *parser) {
}

/* A name has small letters; arguments end at the end mark. */
static inline CallState toy_push(void *parser, const char *text, size_t len_bytes, bool is_token, size_t *n_takenp,
                                 CallPieceFn *fn, void *arg) {
    static const char end[] = "</call>";
    ToyCall *call = parser;

    for (size_t i = 0; i < len_bytes; i++) {
        *n_takenp = i;
        if (text[i] == '@' && !call->has_name && !call->n_name)
            continue;
        if (!call->has_name && text[i] == ':' && call->n_name) {
            call->has_name = true;
            fn(arg, &(CallPiece){ .name = call->name, .name_bytes = call->n_name });
        } else if (!call->has_name) {
            if (text[i] < 'a' || text[i] > 'z' || call->n_name == sizeof(call->name))
                return CALL_IS_TEXT;
            call->name[call->n_name++] = text[i];
        } else if (text[i] == end[call->n_end]) {
            if (++call->n_end == sizeof(end) - 1) {
                *n_takenp = i + 1;
                return CALL_OVER;
            }
        } else {
            if (call->n_end)
                fn(arg, &(CallPiece){ .arguments = end, .arguments_bytes = call->n_end });
            call->n_end = text[i] == end[0];
            if (!call->n_end)
                fn(arg, &(CallPiece){ .arguments = text + i, .arguments_bytes = 1 });
        }
    }
    return CALL_GOES_ON;
}

static inline CallState toy_finish(void *parser, CallPieceFn *fn, void *arg) {
    return ((ToyCall *)parser)->has_name ? CALL_OVER : CALL_IS_TEXT;
}

static const CallFormat toy_format = {
    .name = "toy",
    .starts = { { .text = "<call>" }, { .text = "@", .is_at_front = true, .is_argument = true } },
    .n_starts = 2,
    .tokens = { "</call>" },
    .n_tokens = 1,
    .parser_bytes = sizeof(ToyCall),
    .begin = toy_begin,
    .push = toy_push,
    .finish = toy_finish,
    .deinit = toy_deinit,
};

/* --- answers as lines --------------------------------------------------------------------------------------------- */

typedef struct PartsLine {
    StrBuf text; /* "[t]text[r]thinking[c]0 name(arguments" */
    char part;
    uint32_t call;
} PartsLine;

static inline void parts_take(void *arg, const AnswerPiece *piece) {
    static const char names[] = { [ANSWER_TEXT] = 't', [ANSWER_REASONING] = 'r', [ANSWER_CALL] = 'c' };
    const char part = names[piece->part];
    PartsLine *line = arg;

    assert(piece->part == ANSWER_CALL ? piece->call && !piece->len_bytes : !piece->call && piece->len_bytes);
    if (part != line->part || (piece->call && piece->call->name))
        str_buf_addf(&line->text, "[%c]", part);
    line->part = part;
    if (!piece->call) {
        str_buf_append(&line->text, piece->text, piece->len_bytes);
        return;
    }
    if (piece->call->name)
        str_buf_addf(&line->text, "%u %.*s(", piece->call->index, (int)piece->call->name_bytes, piece->call->name);
    str_buf_append(&line->text, piece->call->arguments ? piece->call->arguments : "", piece->call->arguments_bytes);
}

/* Returns the token that a byte of a script stands for; TOKEN_NONE: it is text. */
static inline uint32_t parts_token(const Tokenizer *tokenizer, char byte) {
    const uint32_t token = PARTS_OPEN + (uint32_t)(uint8_t)byte - 1;

    return byte > 0 && byte <= PARTS_LAST_BYTE && token < tokenizer_n_tokens(tokenizer) ? token : TOKEN_NONE;
}

/* Splits a script. Texts between tokens come in pieces of at most `cut` bytes; 0: of 1 to 4 bytes. The caller frees the
 * line's text. */
static inline void parts_split(const Tokenizer *tokenizer, const AnswerFormat *format, const char *script,
                               size_t len_bytes, size_t cut, PartsLine *line) {
    _cleanup_(answer_parts_freep) AnswerParts *parts = NULL;
    uint32_t salt = 1;
    int r;

    *line = (PartsLine){ 0 };
    r = answer_parts_new(&parts, tokenizer, format);
    assert(!r);
    for (size_t i = 0; i < len_bytes;) {
        const uint32_t token = parts_token(tokenizer, script[i]);
        size_t n = 0, most = cut ? cut : 1 + (salt >> 16) % 4;

        salt = salt * 1103515245 + 12345;
        if (token != TOKEN_NONE) {
            i++;
            r = answer_parts_has_token(parts, token) ? answer_parts_token(parts, token, parts_take, line) : 0;
            assert(!r);
            continue;
        }
        while (i + n < len_bytes && n < most && parts_token(tokenizer, script[i + n]) == TOKEN_NONE)
            n++;
        r = answer_parts_text(parts, script + i, n, parts_take, line);
        assert(!r);
        i += n;
    }
    r = answer_parts_finish(parts, parts_take, line);
    assert(!r && !str_buf_failed(&line->text));
}

/* Splits a script cut in several ways and checks that the parts are the same. */
static inline void parts_check(const Tokenizer *tokenizer, const AnswerFormat *format, const char *script,
                               size_t len_bytes, PartsLine *line) {
    parts_split(tokenizer, format, script, len_bytes, len_bytes, line);
    for (size_t cut = 0; cut < 3; cut++) {
        PartsLine other;

        parts_split(tokenizer, format, script, len_bytes, cut, &other);
        if (other.text.len_bytes != line->text.len_bytes ||
            (line->text.len_bytes && memcmp(other.text.data, line->text.data, line->text.len_bytes) != 0)) {
            fprintf(stderr, "cut into %zu:\n%s\nwhole:\n%s\n", cut, other.text.data ? other.text.data : "",
                    line->text.data ? line->text.data : "");
            abort();
        }
        str_buf_deinit(&other.text);
    }
}

#endif
