// SPDX-License-Identifier: Apache-2.0
/* The error contract. 0: ok. Negative: -errno, fatal for the operation, forwarded. Positive: a condition that the
 * module's header lists, handled or translated by the caller. */
#ifndef COORDGEN_BASE_ERR_H
#define COORDGEN_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

/* The text of an error for a user: what failed, where, at which value, and the remedy. The text goes into replies, so
 * it is valid UTF-8 without control characters, whatever the values are (base/strings/printable.h). */
typedef struct ErrText {
    char text[768];
    const char *limit; /* setting that refused memory, a static string of account_refused(); NULL: none. err_set()
                          clears it, err_prefix() and copies keep it. */
} ErrText;

/* Sets the text (err may be NULL) and returns code: `return err_set(err, GGUF_E_CORRUPT, "...", ...)`. */
int err_set(ErrText *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "prefix: " before the text of err. */
void err_prefix(ErrText *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the text "out of memory" (err may be NULL) and returns -ENOMEM, for a failed allocation. A function without an
 * ErrText returns err_raise(-ENOMEM). */
#define err_no_memory(err) err_no_memory_at((err), __FILE__, __LINE__, __func__)

/* err_raise() marks where a fatal error starts, err_trace() where one passes through. err_fold() makes a fatal error
 * of a condition that the caller does not expect. */
#define err_raise(r) err_raise_at((r), __FILE__, __LINE__, __func__)
#define err_trace(r) err_trace_at((r), __FILE__, __LINE__, __func__)
#define err_fold(r) err_fold_at((r), __FILE__, __LINE__, __func__)

int err_no_memory_at(ErrText *err, const char *file, int line, const char *func);
int err_raise_at(int r, const char *file, int line, const char *func);
int err_trace_at(int r, const char *file, int line, const char *func);
int err_fold_at(int r, const char *file, int line, const char *func);

#endif
