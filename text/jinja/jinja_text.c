// SPDX-License-Identifier: Apache-2.0
/* Texts with the origin of their bytes: pieces, concatenation, search. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "base/strings/utf8.h"
#include "text/jinja/jinja_value.h"

#define TEXT_BYTES_MAX ((size_t)1 << 30)
#define WRITER_FIRST_BYTES 64
#define BYTES_PER_STEP 64

/* --- looking ---------------------------------------------------------------------------------------------------- */

static size_t text_count_chars(const char *data, size_t len_bytes) {
    size_t n = 0;

    for (size_t i = 0; i < len_bytes; n++) {
        size_t step = (uint8_t)data[i] < 0x80 ? 1 : utf8_sequence(data + i, len_bytes - i);

        i += step ? step : 1;
    }
    return n;
}

size_t jinja_text_char(const JinjaText *text, size_t at_byte) {
    size_t n;

    if ((uint8_t)text->data[at_byte] < 0x80)
        return 1;
    n = utf8_sequence(text->data + at_byte, text->len_bytes - at_byte);
    return n ? n : 1;
}

size_t jinja_text_char_before(const JinjaText *text, size_t at) {
    size_t n = 1;

    while (n < at && n < 4 && ((uint8_t)text->data[at - n] & 0xc0) == 0x80)
        n++;
    return jinja_text_char(text, at - n) == n ? n : 1;
}

uint32_t jinja_text_code_point(const JinjaText *text, size_t at_byte, size_t *len_bytesp) {
    const uint8_t *byte = (const uint8_t *)text->data + at_byte;
    size_t n = jinja_text_char(text, at_byte);

    *len_bytesp = n;
    switch (n) {
    case 1:
        return byte[0] < 0x80 ? byte[0] : 0xfffd;
    case 2:
        return (uint32_t)(byte[0] & 0x1f) << 6 | (byte[1] & 0x3f);
    case 3:
        return (uint32_t)(byte[0] & 0x0f) << 12 | (uint32_t)(byte[1] & 0x3f) << 6 | (byte[2] & 0x3f);
    default:
        return (uint32_t)(byte[0] & 0x07) << 18 | (uint32_t)(byte[1] & 0x3f) << 12 | (uint32_t)(byte[2] & 0x3f) << 6 |
               (byte[3] & 0x3f);
    }
}

size_t jinja_text_offset(const JinjaText *text, size_t index) {
    size_t at = 0;

    if (index >= text->n_chars)
        return text->len_bytes;
    if (jinja_text_is_ascii(text))
        return index;
    for (; index && at < text->len_bytes; index--)
        at += jinja_text_char(text, at);
    return at;
}

bool jinja_text_is_own(const JinjaText *text, size_t at_byte) {
    return text->own ? text->own[at_byte] : text->is_own;
}

size_t jinja_text_find(const JinjaText *text, size_t from_byte, size_t to_byte, const JinjaText *needle) {
    const char *found;

    if (from_byte > to_byte || needle->len_bytes > to_byte - from_byte)
        return SIZE_MAX;
    if (!needle->len_bytes)
        return from_byte;
    found = memmem(text->data + from_byte, to_byte - from_byte, needle->data, needle->len_bytes);
    return found ? (size_t)(found - text->data) : SIZE_MAX;
}

size_t jinja_text_rfind(const JinjaText *text, size_t from_byte, size_t to_byte, const JinjaText *needle) {
    if (from_byte > to_byte || needle->len_bytes > to_byte - from_byte)
        return SIZE_MAX;
    if (!needle->len_bytes)
        return to_byte;
    /* By halves from the end, so that the time goes with what is looked at, not with all that matches. */
    for (size_t at = to_byte - needle->len_bytes + 1; at-- > from_byte;) {
        const char *last = memrchr(text->data + from_byte, needle->data[0], at - from_byte + 1);

        if (!last)
            return SIZE_MAX;
        at = (size_t)(last - text->data);
        if (!memcmp(last, needle->data, needle->len_bytes))
            return at;
    }
    return SIZE_MAX;
}

/* --- making ----------------------------------------------------------------------------------------------------- */

const JinjaText *jinja_text_of(JinjaArena *arena, const char *data, size_t len_bytes, bool is_own) {
    JinjaText *text;

    if (len_bytes > TEXT_BYTES_MAX) {
        arena->failure = JINJA_ARENA_E_LIMIT;
        return NULL;
    }
    text = jinja_arena_take(arena, sizeof(*text));
    if (!text)
        return NULL;
    *text = (JinjaText){ .data = len_bytes ? data : "",
                         .len_bytes = (uint32_t)len_bytes,
                         .n_chars = (uint32_t)text_count_chars(data, len_bytes),
                         .is_own = is_own };
    return text;
}

int jinja_text_new(JinjaRun *run, const char *data, size_t len_bytes, JinjaValue *valuep) {
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    jinja_write_ascii(&writer, data, len_bytes);
    return jinja_writer_finish(&writer, valuep);
}

int jinja_text_slice(JinjaRun *run, const JinjaText *text, size_t from_byte, size_t to_byte, JinjaValue *valuep) {
    size_t len_bytes = to_byte > from_byte ? to_byte - from_byte : 0;
    JinjaText *part;
    int r = jinja_spend(run, 1 + (jinja_text_is_ascii(text) ? 0 : len_bytes / BYTES_PER_STEP));

    if (r)
        return r;
    part = jinja_take(run, 1, sizeof(*part));
    if (!part)
        return jinja_fail_memory(run);
    *part = (JinjaText){ .data = text->data + from_byte,
                         .own = text->own ? text->own + from_byte : NULL,
                         .len_bytes = (uint32_t)len_bytes,
                         .is_own = text->is_own,
                         .is_safe = text->is_safe,
                         .block = text->block };
    part->n_chars = jinja_text_is_ascii(text) ? part->len_bytes : (uint32_t)text_count_chars(part->data, len_bytes);
    *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = part };
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

void jinja_writer_init(JinjaWriter *writer, JinjaRun *run) {
    *writer = (JinjaWriter){ .run = run };
}

/* Room for so many bytes more. */
static bool writer_reserve(JinjaWriter *writer, size_t len_bytes) {
    size_t room_bytes = writer->room_bytes ? writer->room_bytes : WRITER_FIRST_BYTES, needed_bytes;
    char *data;

    if (writer->failure)
        return false;
    needed_bytes = writer->len_bytes + len_bytes;
    if (writer->limit_bytes && needed_bytes > writer->limit_bytes) {
        writer->failure = err_set(writer->run->err, JINJA_E_LIMIT,
                                  "chat template line %u: the prompt passes %u bytes: shorten the conversation",
                                  writer->run->line, writer->limit_bytes);
        return false;
    }
    if (len_bytes > TEXT_BYTES_MAX || needed_bytes > TEXT_BYTES_MAX) {
        writer->run->arena.failure = JINJA_ARENA_E_LIMIT;
        writer->failure = jinja_fail_memory(writer->run);
        return false;
    }
    writer->failure = jinja_spend(writer->run, len_bytes / BYTES_PER_STEP);
    if (writer->failure)
        return false;
    if (needed_bytes <= writer->room_bytes)
        return true;
    while (room_bytes < needed_bytes)
        room_bytes *= 2;
    data = jinja_take(writer->run, 2 * room_bytes, 1);
    if (!data) {
        writer->failure = jinja_fail_memory(writer->run);
        return false;
    }
    if (writer->len_bytes) {
        memcpy(data, writer->data, writer->len_bytes);
        memcpy(data + room_bytes, writer->own, writer->len_bytes);
    }
    writer->data = data;
    writer->own = (uint8_t *)data + room_bytes;
    writer->room_bytes = (uint32_t)room_bytes;
    return true;
}

void jinja_write_part(JinjaWriter *writer, const JinjaText *text, size_t from_byte, size_t to_byte) {
    size_t len_bytes = to_byte > from_byte ? to_byte - from_byte : 0;

    if (!len_bytes || !writer_reserve(writer, len_bytes))
        return;
    memcpy(writer->data + writer->len_bytes, text->data + from_byte, len_bytes);
    if (text->own) {
        memcpy(writer->own + writer->len_bytes, text->own + from_byte, len_bytes);
        for (size_t i = from_byte; i < to_byte; i++)
            writer->n_own_bytes += text->own[i];
    } else {
        memset(writer->own + writer->len_bytes, text->is_own, len_bytes);
        writer->n_own_bytes += text->is_own ? (uint32_t)len_bytes : 0;
    }
    writer->n_chars += jinja_text_is_ascii(text)      ? (uint32_t)len_bytes
                       : len_bytes == text->len_bytes ? text->n_chars
                                                      : (uint32_t)text_count_chars(text->data + from_byte, len_bytes);
    writer->len_bytes += (uint32_t)len_bytes;
}

void jinja_write(JinjaWriter *writer, const JinjaText *text) {
    jinja_write_part(writer, text, 0, text->len_bytes);
}

void jinja_write_ascii(JinjaWriter *writer, const char *text, size_t len_bytes) {
    if (!len_bytes || !writer_reserve(writer, len_bytes))
        return;
    memcpy(writer->data + writer->len_bytes, text, len_bytes);
    memset(writer->own + writer->len_bytes, 0, len_bytes);
    writer->n_chars += (uint32_t)len_bytes;
    writer->len_bytes += (uint32_t)len_bytes;
}

void jinja_write_chars(JinjaWriter *writer, const char *text) {
    jinja_write_ascii(writer, text, strlen(text));
}

void jinja_write_code_point(JinjaWriter *writer, uint32_t code_point, bool is_own) {
    char bytes[4];
    size_t n = 0;

    if (code_point < 0x80) {
        bytes[n++] = (char)code_point;
    } else if (code_point < 0x800) {
        bytes[n++] = (char)(0xc0 | code_point >> 6);
        bytes[n++] = (char)(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
        bytes[n++] = (char)(0xe0 | code_point >> 12);
        bytes[n++] = (char)(0x80 | (code_point >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (code_point & 0x3f));
    } else {
        bytes[n++] = (char)(0xf0 | code_point >> 18);
        bytes[n++] = (char)(0x80 | (code_point >> 12 & 0x3f));
        bytes[n++] = (char)(0x80 | (code_point >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (code_point & 0x3f));
    }
    jinja_write_part(writer, &(JinjaText){ .data = bytes, .len_bytes = (uint32_t)n, .n_chars = 1, .is_own = is_own }, 0,
                     n);
}

int jinja_writer_finish(JinjaWriter *writer, JinjaValue *valuep) {
    JinjaTextBlock *block;
    JinjaText *text;

    if (writer->failure)
        return writer->failure;
    text = jinja_take(writer->run, 1, sizeof(*text) + sizeof(*block));
    if (!text)
        return jinja_fail_memory(writer->run);
    block = (JinjaTextBlock *)(text + 1);
    *block = (JinjaTextBlock){
        .data = writer->data, .own = writer->own, .used_bytes = writer->len_bytes, .room_bytes = writer->room_bytes
    };
    *text = (JinjaText){ .data = writer->len_bytes ? writer->data : "",
                         .len_bytes = writer->len_bytes,
                         .n_chars = writer->n_chars,
                         .is_own = writer->n_own_bytes == writer->len_bytes,
                         .block = block };
    if (writer->n_own_bytes && writer->n_own_bytes != writer->len_bytes)
        text->own = writer->own;
    *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = text };
    return 0;
}

/* --- concatenation ---------------------------------------------------------------------------------------------- */

/* The end of a's block is free: b goes there, and a stays what it is. */
static int text_continue(JinjaRun *run, const JinjaText *a, const JinjaText *b, JinjaValue *valuep) {
    JinjaTextBlock *block = a->block;
    uint8_t *own = block->own + block->used_bytes;
    JinjaText *text;
    int r = jinja_spend(run, 1 + b->len_bytes / BYTES_PER_STEP);

    if (r)
        return r;
    text = jinja_take(run, 1, sizeof(*text));
    if (!text)
        return jinja_fail_memory(run);
    memcpy(block->data + block->used_bytes, b->data, b->len_bytes);
    if (b->own)
        memcpy(own, b->own, b->len_bytes);
    else
        memset(own, b->is_own, b->len_bytes);
    block->used_bytes += b->len_bytes;
    *text = (JinjaText){ .data = a->data,
                         .len_bytes = a->len_bytes + b->len_bytes,
                         .n_chars = a->n_chars + b->n_chars,
                         .is_own = a->is_own,
                         .block = block };
    if (a->own || b->own || a->is_own != b->is_own)
        text->own = block->own + (a->data - block->data);
    *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = text };
    return 0;
}

int jinja_text_concat(JinjaRun *run, const JinjaText *a, const JinjaText *b, JinjaValue *valuep) {
    const JinjaTextBlock *block = a->block;
    JinjaWriter writer;

    if (!a->len_bytes || !b->len_bytes) {
        *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = a->len_bytes ? a : b };
        return jinja_spend(run, 1);
    }
    if (block && a->data + a->len_bytes == block->data + block->used_bytes &&
        b->len_bytes <= block->room_bytes - block->used_bytes)
        return text_continue(run, a, b, valuep);
    jinja_writer_init(&writer, run);
    /* Room for as much again, so that a text that grows is copied a few times, not each time. */
    if (block && writer_reserve(&writer, (size_t)a->len_bytes * 2 + b->len_bytes))
        writer.len_bytes = 0;
    jinja_write(&writer, a);
    jinja_write(&writer, b);
    return jinja_writer_finish(&writer, valuep);
}
