// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/**
 * utf8_sequence() - length in bytes (1..4) of the UTF-8 sequence at the start of data; 0 when there is none
 *
 * Unicode 15, table 3-7: no overlong forms, no surrogates, nothing past U+10FFFF.
 */
size_t utf8_sequence(const void *data, size_t len_bytes) {
    const uint8_t *s = data;
    uint8_t low = 0x80, high = 0xbf;
    size_t n;

    if (!len_bytes)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n > len_bytes)
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* A character that is cut off at the end, not broken: the beginning of a sequence, which more bytes could complete. */
static bool is_cut(const uint8_t *s, size_t len_bytes) {
    uint8_t whole[4] = { 0 };

    if (!len_bytes || len_bytes > 3 || s[0] < 0xc2 || s[0] > 0xf4)
        return false;
    memcpy(whole, s, len_bytes);
    for (size_t n = len_bytes; n < sizeof(whole); n++) {
        /* 0xa0 and 0x90 follow the two leads that take no lower byte, 0x80 all others. */
        whole[n] = n > 1 ? 0x80 : whole[0] == 0xe0 ? 0xa0 : whole[0] == 0xf0 ? 0x90 : 0x80;
        if (utf8_sequence(whole, n + 1) == n + 1)
            return true;
    }
    return false;
}

size_t utf8_prefix(const char *text, size_t max_bytes) {
    size_t len_bytes = strnlen(text, max_bytes);

    for (size_t back = 1; len_bytes == max_bytes && back <= 3 && back <= len_bytes; back++)
        if (is_cut((const uint8_t *)text + len_bytes - back, back))
            return len_bytes - back;
    return len_bytes;
}

size_t printable_put(char *out, size_t room_bytes, const void *data, size_t len_bytes) {
    static const char hex[] = "0123456789abcdef";
    const uint8_t *s = data;
    size_t at = 0, fits = 0; /* fits: where the last character ends that leaves room for "..." */

    for (size_t i = 0, n; i < len_bytes; i += n) {
        size_t sequence = utf8_sequence(s + i, len_bytes - i), n_out;
        /* C0 and C1 controls move a terminal's cursor or worse. */
        bool plain = sequence > 1 ? !(s[i] == 0xc2 && s[i + 1] < 0xa0) : sequence && s[i] >= 0x20 && s[i] != 0x7f;

        n = plain ? sequence : 1;
        n_out = plain ? sequence : 4;
        if (at + n_out >= room_bytes) {
            memcpy(out + fits, "...", 4);
            return fits + 3;
        }
        if (plain)
            memcpy(out + at, s + i, n);
        else
            memcpy(out + at, (char[]){ '\\', 'x', hex[s[i] >> 4], hex[s[i] & 15] }, 4);
        at += n_out;
        if (at + 4 <= room_bytes)
            fits = at;
    }
    out[at] = 0;
    return at;
}

size_t printable_format(char *out, size_t room_bytes, const char *format, va_list args) {
    char text[PRINTABLE_FORMAT_BYTES_MAX];
    int n = vsnprintf(text, sizeof(text), format, args);

    if (n < 0)
        n = 0;
    /* The formatting itself may have cut a character, and that is no broken text. */
    return printable_put(out, room_bytes, text,
                         (size_t)n < sizeof(text) ? (size_t)n : utf8_prefix(text, sizeof(text) - 1));
}

const char *printable(Printable *p, const void *data, size_t len_bytes) {
    printable_put(p->text, sizeof(p->text), data, len_bytes);
    return p->text;
}

char *printable_dup(const char *text, size_t max_bytes) {
    size_t len_bytes = strlen(text), room_bytes = len_bytes < max_bytes / 4 ? 4 * len_bytes + 1 : max_bytes + 1;
    char *out = malloc(room_bytes < 4 ? 4 : room_bytes);

    if (out)
        printable_put(out, room_bytes < 4 ? 4 : room_bytes, text, len_bytes);
    return out;
}
