// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <stdint.h>
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

const char *printable(Printable *p, const void *data, size_t len_bytes) {
    const size_t room_bytes = sizeof(p->text) - 4;
    const char *s = data;
    size_t at = 0;

    for (size_t i = 0, n; i < len_bytes; i += n) {
        size_t sequence = utf8_sequence(s + i, len_bytes - i);
        /* C0 and C1 controls move a terminal's cursor or worse. */
        int plain = sequence > 1 ? !((uint8_t)s[i] == 0xc2 && (uint8_t)s[i + 1] < 0xa0)
                                 : sequence && (uint8_t)s[i] >= 0x20 && s[i] != 0x7f;

        n = sequence ? sequence : 1;
        if (at + n > room_bytes) {
            memcpy(p->text + at, "...", 3);
            at += 3;
            break;
        }
        if (plain) {
            memcpy(p->text + at, s + i, n);
            at += n;
        } else {
            p->text[at++] = '?';
        }
    }
    p->text[at] = 0;
    return p->text;
}
