// SPDX-License-Identifier: Apache-2.0
#include "base/strings/base64.h"

#include <stdint.h>

#include "base/min_max.h"

void base64_append(StrBuf *buf, const void *data, size_t len_bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len_bytes; i += 3) {
        const size_t n = MIN(len_bytes - i, 3);
        const uint32_t group =
            (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (n > 2 ? bytes[i + 2] : 0);
        const char text[4] = { digits[group >> 18], digits[group >> 12 & 63], n > 1 ? digits[group >> 6 & 63] : '=',
                               n > 2 ? digits[group & 63] : '=' };

        str_buf_append(buf, text, sizeof(text));
    }
}
