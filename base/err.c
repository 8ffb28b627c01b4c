// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/strings/printable.h"

int err_set(ErrText *err, int code, const char *format, ...) {
    va_list args;

    if (err) {
        va_start(args, format);
        printable_format(err->text, sizeof(err->text), format, args);
        va_end(args);
        err->limit = NULL;
    }
    return code;
}

void err_prefix(ErrText *err, const char *format, ...) {
    char prefix[256];
    va_list args;
    size_t len_bytes, room_bytes, text_bytes;

    if (!err)
        return;
    va_start(args, format);
    printable_format(prefix, sizeof(prefix) - 2, format, args);
    va_end(args);
    len_bytes = strlen(prefix);
    memcpy(prefix + len_bytes, ": ", 3);
    len_bytes += 2;
    room_bytes = sizeof(err->text) - 1 - len_bytes;
    text_bytes = utf8_prefix(err->text, room_bytes);
    memmove(err->text + len_bytes, err->text, text_bytes);
    memcpy(err->text, prefix, len_bytes);
    err->text[len_bytes + text_bytes] = 0;
}

static int err_report(int r, const char *verb, const char *file, int line, const char *func) {
    if (r)
        log_debug(TOPIC_BASE, "%s %s() %s:%d: %s", verb, func, file, line,
                  r < 0 ? strerror(-r) : "unhandled condition");
    return r;
}

int err_no_memory_at(ErrText *err, const char *file, int line, const char *func) {
    return err_report(err_set(err, -ENOMEM, "out of memory"), "raised in", file, line, func);
}

int err_raise_at(int r, const char *file, int line, const char *func) {
    return err_report(r, "raised in", file, line, func);
}

int err_trace_at(int r, const char *file, int line, const char *func) {
    return err_report(r, "passed by", file, line, func);
}

int err_fold_at(int r, const char *file, int line, const char *func) {
    if (r > 0) {
        err_report(r, "folded in", file, line, func);
        return -ENOTRECOVERABLE;
    }
    return err_report(r, "passed by", file, line, func);
}
