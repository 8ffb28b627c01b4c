// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/jinja/values/jinja_text.h"

#include <ctype.h>

#include "base/strings/utf8.h"
#include "text/jinja/values/jinja_run.h"

#define TEXT_BYTES_MAX ((size_t)1 << 30)
#define WRITER_FIRST_BYTES 64
#define BYTES_PER_STEP 64

/* --- looking ---------------------------------------------------------------------------------------------------- */

static uint32_t count_chars(const char *data, size_t len_bytes) {
    const JinjaText text = { .data = data, .len_bytes = (uint32_t)len_bytes };
    uint32_t n = 0;

    for (size_t at = 0; at < len_bytes; n++)
        at += jinja_text_char(&text, at);
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
    uint32_t code_point;

    *len_bytesp = n;
    if (n == 1)
        return byte[0] < 0x80 ? byte[0] : 0xfffd;
    code_point = byte[0] & (0x7f >> n);
    for (size_t i = 1; i < n; i++)
        code_point = code_point << 6 | (byte[i] & 0x3f);
    return code_point;
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
    /* The search begins at the end, so that its time goes with the bytes behind the match. */
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

size_t jinja_put_code_point(char out[4], uint32_t code_point) {
    size_t n = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; code_point >>= 6)
        out[i] = (char)(0x80 | (code_point & 0x3f));
    out[0] = (char)(n == 1 ? code_point : (0xf00u >> n & 0xff) | code_point);
    return n;
}

bool jinja_hex_read(const char *data, size_t left, size_t n, uint32_t *valuep) {
    *valuep = 0;
    for (size_t i = 0; i < n; i++) {
        if (i >= left || !isxdigit((unsigned char)data[i]))
            return false;
        *valuep = *valuep << 4 | (uint32_t)(data[i] <= '9' ? data[i] - '0' : (data[i] | 0x20) - 'a' + 10);
    }
    return true;
}

bool jinja_is_among(const char *word, size_t len_bytes, const char *words) {
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (n == len_bytes && !memcmp(words, word, n))
            return true;
    }
    return false;
}

/* --- making ----------------------------------------------------------------------------------------------------- */

static const JinjaText *text_keep(JinjaRun *run, JinjaText text) {
    JinjaText *kept = jinja_take(run, 1, sizeof(*kept));

    *kept = text;
    return kept;
}

const JinjaText *jinja_text_of(JinjaArena *arena, const char *data, size_t len_bytes, bool is_own) {
    JinjaText *text;

    if (len_bytes > TEXT_BYTES_MAX) {
        arena->failure = JINJA_ARENA_E_LIMIT;
        return NULL;
    }
    text = jinja_arena_take(arena, sizeof(*text));
    if (text)
        *text = (JinjaText){ .data = len_bytes ? data : "",
                             .len_bytes = (uint32_t)len_bytes,
                             .n_chars = count_chars(data, len_bytes),
                             .is_own = is_own };
    return text;
}

const JinjaText *jinja_text_new(JinjaRun *run, const char *data, size_t len_bytes) {
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    jinja_write(&writer, &(JinjaText){
                             .data = data, .len_bytes = (uint32_t)len_bytes, .n_chars = count_chars(data, len_bytes) });
    return jinja_writer_finish(&writer);
}

const JinjaText *jinja_text_slice(JinjaRun *run, const JinjaText *text, size_t from_byte, size_t to_byte) {
    size_t len_bytes = to_byte > from_byte ? to_byte - from_byte : 0;
    JinjaText part = *text;

    jinja_spend(run, 1 + (jinja_text_is_ascii(text) ? 0 : len_bytes / BYTES_PER_STEP));
    part.data += from_byte;
    part.own = text->own ? text->own + from_byte : NULL;
    part.len_bytes = (uint32_t)len_bytes;
    part.n_chars = jinja_text_is_ascii(text) ? part.len_bytes : count_chars(part.data, len_bytes);
    return text_keep(run, part);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

void jinja_writer_init(JinjaWriter *writer, JinjaRun *run) {
    *writer = (JinjaWriter){ .run = run };
}

/* Makes room for so many bytes more. */
static void writer_reserve(JinjaWriter *writer, size_t len_bytes) {
    size_t room_bytes = writer->room_bytes ? writer->room_bytes : WRITER_FIRST_BYTES;
    size_t needed_bytes = writer->len_bytes + len_bytes;
    JinjaRun *run = writer->run;
    char *data;

    if (writer->limit_bytes && needed_bytes > writer->limit_bytes)
        jinja_throw(run, err_set(run->err, JINJA_E_LIMIT,
                                 "chat template line %u: the prompt passes %u bytes: shorten the conversation",
                                 run->line, writer->limit_bytes));
    if (len_bytes > TEXT_BYTES_MAX || needed_bytes > TEXT_BYTES_MAX) {
        run->arena.failure = JINJA_ARENA_E_LIMIT;
        jinja_fail_memory(run);
    }
    jinja_spend(run, len_bytes / BYTES_PER_STEP);
    if (needed_bytes <= writer->room_bytes)
        return;
    while (room_bytes < needed_bytes)
        room_bytes *= 2;
    data = jinja_take(run, 2 * room_bytes, 1);
    if (writer->len_bytes) {
        memcpy(data, writer->data, writer->len_bytes);
        memcpy(data + room_bytes, writer->own, writer->len_bytes);
    }
    writer->data = data;
    writer->own = (uint8_t *)data + room_bytes;
    writer->room_bytes = (uint32_t)room_bytes;
}

void jinja_write_part(JinjaWriter *writer, const JinjaText *text, size_t from_byte, size_t to_byte) {
    size_t len_bytes = to_byte > from_byte ? to_byte - from_byte : 0;

    if (!len_bytes)
        return;
    writer_reserve(writer, len_bytes);
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
                                                      : count_chars(text->data + from_byte, len_bytes);
    writer->len_bytes += (uint32_t)len_bytes;
}

void jinja_write(JinjaWriter *writer, const JinjaText *text) {
    jinja_write_part(writer, text, 0, text->len_bytes);
}

void jinja_write_chars(JinjaWriter *writer, const char *text) {
    const uint32_t n = (uint32_t)strlen(text);

    jinja_write_part(writer, &(JinjaText){ .data = text, .len_bytes = n, .n_chars = n }, 0, n);
}

void jinja_write_fill(JinjaWriter *writer, const JinjaText *text, int64_t n_times) {
    for (; n_times > 0; n_times--) {
        jinja_spend(writer->run, 1);
        jinja_write(writer, text);
    }
}

void jinja_write_code_point(JinjaWriter *writer, uint32_t code_point, bool is_own) {
    char bytes[4];
    size_t n = jinja_put_code_point(bytes, code_point);

    jinja_write(writer, &(JinjaText){ .data = bytes, .len_bytes = (uint32_t)n, .n_chars = 1, .is_own = is_own });
}

const JinjaText *jinja_writer_finish(JinjaWriter *writer) {
    const bool is_mixed = writer->n_own_bytes && writer->n_own_bytes != writer->len_bytes;
    JinjaTextBlock *block = jinja_take(writer->run, 1, sizeof(*block));

    *block = (JinjaTextBlock){
        .data = writer->data, .own = writer->own, .used_bytes = writer->len_bytes, .room_bytes = writer->room_bytes
    };
    return text_keep(writer->run, (JinjaText){ .data = writer->len_bytes ? writer->data : "",
                                               .own = is_mixed ? writer->own : NULL,
                                               .len_bytes = writer->len_bytes,
                                               .n_chars = writer->n_chars,
                                               .is_own = writer->n_own_bytes == writer->len_bytes,
                                               .block = block });
}

/* --- concatenation ---------------------------------------------------------------------------------------------- */

/* Writes b behind a in a's block, which is free there. Text a stays what it is. */
static const JinjaText *text_continue(JinjaRun *run, const JinjaText *a, const JinjaText *b) {
    JinjaTextBlock *block = a->block;
    uint8_t *own = block->own + block->used_bytes;
    const bool is_mixed = a->own || b->own || a->is_own != b->is_own;

    jinja_spend(run, 1 + b->len_bytes / BYTES_PER_STEP);
    memcpy(block->data + block->used_bytes, b->data, b->len_bytes);
    if (b->own)
        memcpy(own, b->own, b->len_bytes);
    else
        memset(own, b->is_own, b->len_bytes);
    block->used_bytes += b->len_bytes;
    return text_keep(run, (JinjaText){ .data = a->data,
                                       .own = is_mixed ? block->own + (a->data - block->data) : NULL,
                                       .len_bytes = a->len_bytes + b->len_bytes,
                                       .n_chars = a->n_chars + b->n_chars,
                                       .is_own = a->is_own,
                                       .block = block });
}

const JinjaText *jinja_text_concat(JinjaRun *run, const JinjaText *a, const JinjaText *b) {
    const JinjaTextBlock *block = a->block;
    JinjaWriter writer;

    if (!a->len_bytes || !b->len_bytes) {
        jinja_spend(run, 1);
        return a->len_bytes ? a : b;
    }
    if (block && a->data + a->len_bytes == block->data + block->used_bytes &&
        b->len_bytes <= block->room_bytes - block->used_bytes)
        return text_continue(run, a, b);
    jinja_writer_init(&writer, run);
    if (block) /* a text that grows is copied into twice its room, so that it is copied a few times, not each time */
        writer_reserve(&writer, (size_t)a->len_bytes * 2 + b->len_bytes);
    jinja_write(&writer, a);
    jinja_write(&writer, b);
    return jinja_writer_finish(&writer);
}
