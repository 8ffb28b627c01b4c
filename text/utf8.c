// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

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
    switch (lead) { /* the second byte is narrower after these */
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
