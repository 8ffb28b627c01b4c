// SPDX-License-Identifier: Apache-2.0
#include "base/strings/utf8.h"

#include <stdint.h>
#include <string.h>

size_t utf8_step(const void *data, size_t len_bytes, Utf8Kind *kindp) {
    const uint8_t *byte = data;
    uint8_t lead = byte[0], low = 0x80, high = 0xbf;
    size_t n;

    *kindp = UTF8_WHOLE;
    if (lead < 0x80)
        return 1;
    *kindp = UTF8_BROKEN;
    if (lead < 0xc2 || lead > 0xf4)
        return 1;
    n = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    switch (lead) { /* these lead bytes narrow the range of the second byte */
    case 0xe0:
        low = 0xa0;
        break;
    case 0xed:
        high = 0x9f;
        break;
    case 0xf0:
        low = 0x90;
        break;
    case 0xf4:
        high = 0x8f;
        break;
    default:
        break;
    }
    for (size_t i = 1; i < n; i++) {
        if (i == len_bytes) {
            *kindp = UTF8_CUT;
            return i;
        }
        if (byte[i] < low || byte[i] > high)
            return i;
        low = 0x80;
        high = 0xbf;
    }
    *kindp = UTF8_WHOLE;
    return n;
}

size_t utf8_sequence(const void *data, size_t len_bytes) {
    Utf8Kind kind;
    size_t n;

    if (!len_bytes)
        return 0;
    n = utf8_step(data, len_bytes, &kind);
    return kind == UTF8_WHOLE ? n : 0;
}

bool utf8_is_valid(const void *data, size_t len_bytes) {
    const uint8_t *at = data, *end = at + len_bytes;

    while (at < end) {
        size_t n = *at < 0x80 ? 1 : utf8_sequence(at, (size_t)(end - at)); /* ASCII is the common case */

        if (!n)
            return false;
        at += n;
    }
    return true;
}

/* Whether the end cuts a character: the bytes begin a sequence that more bytes could complete. */
static bool is_cut(const char *at, size_t len_bytes) {
    Utf8Kind kind;

    return utf8_step(at, len_bytes, &kind) == len_bytes && kind == UTF8_CUT;
}

size_t utf8_prefix(const char *text, size_t max_bytes) {
    size_t len_bytes = strnlen(text, max_bytes);

    for (size_t back = 1; len_bytes == max_bytes && back <= 3 && back <= len_bytes; back++)
        if (is_cut(text + len_bytes - back, back))
            return len_bytes - back;
    return len_bytes;
}
