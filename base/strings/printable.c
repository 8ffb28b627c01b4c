// SPDX-License-Identifier: Apache-2.0
#include "base/strings/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

size_t printable_put(char *out, size_t room_bytes, const void *data, size_t len_bytes) {
    static const char hex[] = "0123456789abcdef";
    const uint8_t *s = data;
    size_t at = 0, fits = 0; /* fits: the end of the last character that leaves room for "..." */

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
    /* vsnprintf() may have cut a character, which is no broken text. */
    return printable_put(out, room_bytes, text,
                         (size_t)n < sizeof(text) ? (size_t)n : utf8_prefix(text, sizeof(text) - 1));
}

const char *printable(Printable *p, const void *data, size_t len_bytes) {
    printable_put(p->text, sizeof(p->text), data, len_bytes);
    return p->text;
}

char *printable_dup(const char *text, size_t max_bytes) {
    size_t len_bytes = strlen(text), room_bytes = len_bytes < max_bytes / 4 ? 4 * len_bytes + 1 : max_bytes + 1;
    char *out = malloc(MAX(4, room_bytes));

    if (out)
        printable_put(out, MAX(4, room_bytes), text, len_bytes);
    return out;
}
