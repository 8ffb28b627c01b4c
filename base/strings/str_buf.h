// SPDX-License-Identifier: Apache-2.0
/* A growing byte string. After a failed allocation the buffer stays failed, so one check by str_buf_failed() at the end
 * suffices. */
#ifndef COORDGEN_BASE_STR_BUF_H
#define COORDGEN_BASE_STR_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct StrBuf {
    char *data; /* NULL or NUL-terminated; the NUL is not counted */
    size_t len_bytes;
    size_t room_bytes;
    bool failed;
} StrBuf;

#define STR_BUF_NULL ((StrBuf){ 0 })

void str_buf_append(StrBuf *buf, const void *data, size_t len_bytes);
void str_buf_add(StrBuf *buf, const char *text);
void str_buf_addf(StrBuf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void str_buf_truncate(StrBuf *buf, size_t len_bytes);
/* Returns the text, which the caller frees by free(), and empties the buffer. NULL only if the buffer has failed. */
char *str_buf_steal(StrBuf *buf);
void str_buf_deinit(StrBuf *buf);

static inline bool str_buf_failed(const StrBuf *buf) {
    return buf->failed;
}

#endif
