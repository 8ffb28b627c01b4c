// SPDX-License-Identifier: Apache-2.0
/* A growing byte string. After a failed allocation it stays failed and str_buf_failed() tells; one check at the end. */
#ifndef COORDGEN_BASE_STR_BUF_H
#define COORDGEN_BASE_STR_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct StrBuf {
    char *data; /* NUL-terminated when not NULL; the NUL is not counted */
    size_t len_bytes;
    size_t room_bytes;
    bool failed;
} StrBuf;

#define STR_BUF_NULL ((StrBuf){ 0 })

void str_buf_append(StrBuf *buf, const void *data, size_t len_bytes);
void str_buf_add(StrBuf *buf, const char *text);
void str_buf_addf(StrBuf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As text within XML: escaped, and without control characters, for which XML has no place. */
void str_buf_add_xml(StrBuf *buf, const char *text);
void str_buf_truncate(StrBuf *buf, size_t len_bytes);
/* The text, owned by the caller (free()); the buffer is empty again. NULL when it failed; never NULL otherwise. */
char *str_buf_steal(StrBuf *buf);
void str_buf_deinit(StrBuf *buf);

static inline bool str_buf_failed(const StrBuf *buf) {
    return buf->failed;
}

#endif
