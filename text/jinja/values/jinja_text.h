// SPDX-License-Identifier: Apache-2.0
/* Texts of a template. A text knows of each byte whether the template itself had it: see docs/chat-templates.md. */
#ifndef COORDGEN_TEXT_JINJA_TEXT_H
#define COORDGEN_TEXT_JINJA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "text/jinja/values/jinja_arena.h"

typedef struct JinjaRun JinjaRun;

/* Memory that a text ends in and may be continued in: a text that grows by bits is not copied each time. */
typedef struct JinjaTextBlock {
    char *data;
    uint8_t *own; /* as JinjaText.own */
    uint32_t used_bytes, room_bytes;
} JinjaTextBlock;

/* A text never changes. Bytes are the template's own if they stand in the template itself. All other bytes came from
 * outside or were computed (numbers, brackets of lists, escapes). */
typedef struct JinjaText {
    const char *data;
    const uint8_t *own; /* [len_bytes] 1: the template's own; NULL: every byte is as is_own says */
    uint32_t len_bytes;
    uint32_t n_chars;
    bool is_own;
    bool is_safe;          /* made by the filters "safe" and "escape": what "+" adds to such a text is escaped */
    JinjaTextBlock *block; /* NULL: the text cannot be continued in place */
} JinjaText;

/* Initializes a computed text of ASCII characters. */
#define JINJA_LITERAL(text)                                                                                            \
    { .data = (text), .len_bytes = sizeof(text) - 1, .n_chars = sizeof(text) - 1 }

/* A text while it is written. */
typedef struct JinjaWriter {
    JinjaRun *run;
    char *data;
    uint8_t *own;
    uint32_t len_bytes, room_bytes;
    uint32_t n_chars, n_own_bytes;
    uint32_t limit_bytes; /* 0: only the rendering's memory bounds the text */
} JinjaWriter;

void jinja_writer_init(JinjaWriter *writer, JinjaRun *run);
void jinja_write(JinjaWriter *writer, const JinjaText *text);
void jinja_write_part(JinjaWriter *writer, const JinjaText *text, size_t from_byte, size_t to_byte);
/* Writes computed ASCII characters. */
void jinja_write_chars(JinjaWriter *writer, const char *text);
void jinja_write_fill(JinjaWriter *writer, const JinjaText *text, int64_t n_times);
void jinja_write_code_point(JinjaWriter *writer, uint32_t code_point, bool is_own);
const JinjaText *jinja_writer_finish(JinjaWriter *writer);

/* Wraps bytes that outlive the arena. NULL: arena->failure says why. */
const JinjaText *jinja_text_of(JinjaArena *arena, const char *data, size_t len_bytes, bool is_own);
/* Copies computed bytes, which are UTF-8. */
const JinjaText *jinja_text_new(JinjaRun *run, const char *data, size_t len_bytes);
const JinjaText *jinja_text_slice(JinjaRun *run, const JinjaText *text, size_t from_byte, size_t to_byte);
const JinjaText *jinja_text_concat(JinjaRun *run, const JinjaText *a, const JinjaText *b);

/* Byte at which a character begins; len_bytes if the text has no more than index characters. */
size_t jinja_text_offset(const JinjaText *text, size_t index);
/* Bytes of the character at a byte. A byte that is no UTF-8 counts as a character of its own. */
size_t jinja_text_char(const JinjaText *text, size_t at_byte);
/* Bytes of the character that ends before a byte; at_byte > 0. */
size_t jinja_text_char_before(const JinjaText *text, size_t at_byte);
/* The character at a byte, or U+FFFD for a byte that is no UTF-8. */
uint32_t jinja_text_code_point(const JinjaText *text, size_t at_byte, size_t *len_bytesp);
bool jinja_text_is_own(const JinjaText *text, size_t at_byte);
/* Byte at which needle is found in text[from, to), SIZE_MAX if nowhere. An empty needle is found at once. */
size_t jinja_text_find(const JinjaText *text, size_t from_byte, size_t to_byte, const JinjaText *needle);
size_t jinja_text_rfind(const JinjaText *text, size_t from_byte, size_t to_byte, const JinjaText *needle);
/* Writes a character as UTF-8. Returns its bytes, 1 to 4. */
size_t jinja_put_code_point(char out[4], uint32_t code_point);

/* Reads n hexadecimal digits; false: there are fewer. */
bool jinja_hex_read(const char *data, size_t left, size_t n, uint32_t *valuep);
/* Whether a word is one of several, which have spaces between. */
bool jinja_is_among(const char *word, size_t len_bytes, const char *words);

static inline bool jinja_text_is_ascii(const JinjaText *text) {
    return text->n_chars == text->len_bytes;
}
static inline bool jinja_text_is(const JinjaText *text, const char *word) {
    return text->len_bytes == strlen(word) && !memcmp(text->data, word, text->len_bytes);
}
static inline bool jinja_text_equal(const JinjaText *a, const JinjaText *b) {
    return a == b || (a->len_bytes == b->len_bytes && (!a->len_bytes || !memcmp(a->data, b->data, a->len_bytes)));
}

#endif
