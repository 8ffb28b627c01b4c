// SPDX-License-Identifier: Apache-2.0
#include "base/strings/json_text.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/printable.h"
#include "base/strings/str_buf.h"

json_t *json_text_n(const char *data, size_t len_bytes) {
    _cleanup_(str_buf_deinit) StrBuf clean = STR_BUF_NULL;

    for (size_t i = 0, n; i < len_bytes; i += n) {
        n = utf8_sequence(data + i, len_bytes - i);
        if (n) {
            str_buf_append(&clean, data + i, n);
        } else {
            str_buf_add(&clean, "\xef\xbf\xbd");
            n = 1;
        }
    }
    return str_buf_failed(&clean) ? NULL : json_stringn(clean.data ? clean.data : "", clean.len_bytes);
}

json_t *json_text(const char *text) {
    return json_text_n(text, strlen(text));
}
