// SPDX-License-Identifier: Apache-2.0
#include "base/strings/str_buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for len_bytes more and a NUL. */
static bool reserve(StrBuf *buf, size_t len_bytes) {
    size_t room_bytes = buf->room_bytes ? buf->room_bytes : 64;
    char *data;

    if (buf->failed)
        return false;
    if (len_bytes >= SIZE_MAX / 4 - buf->len_bytes) {
        buf->failed = true;
        return false;
    }
    while (room_bytes <= buf->len_bytes + len_bytes)
        room_bytes *= 2;
    if (room_bytes != buf->room_bytes) {
        data = realloc(buf->data, room_bytes);
        if (!data) {
            buf->failed = true;
            return false;
        }
        buf->data = data;
        buf->room_bytes = room_bytes;
    }
    return true;
}

void str_buf_append(StrBuf *buf, const void *data, size_t len_bytes) {
    if (!reserve(buf, len_bytes))
        return;
    if (len_bytes)
        memcpy(buf->data + buf->len_bytes, data, len_bytes);
    buf->len_bytes += len_bytes;
    buf->data[buf->len_bytes] = 0;
}

void str_buf_add(StrBuf *buf, const char *text) {
    str_buf_append(buf, text, strlen(text));
}

void str_buf_addf(StrBuf *buf, const char *format, ...) {
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !reserve(buf, (size_t)n)) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(buf->data + buf->len_bytes, (size_t)n + 1, format, args);
    va_end(args);
    buf->len_bytes += (size_t)n;
}

void str_buf_truncate(StrBuf *buf, size_t len_bytes) {
    if (len_bytes < buf->len_bytes) {
        buf->len_bytes = len_bytes;
        buf->data[len_bytes] = 0;
    }
}

char *str_buf_steal(StrBuf *buf) {
    char *data;

    str_buf_append(buf, "", 0);
    data = buf->failed ? NULL : buf->data;
    if (buf->failed)
        free(buf->data);
    *buf = STR_BUF_NULL;
    return data;
}

void str_buf_deinit(StrBuf *buf) {
    free(buf->data);
    *buf = STR_BUF_NULL;
}
