// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log_rate.h"
#include "base/strings/printable.h"

void log_write(LogLevel level, LogTopic topic, uint32_t uid, const char *kind, const char *format, ...) {
    const LogKind counted = { kind ? kind : format, uid, level, topic,
                              uid == LOG_NO_USER ? LOG_RATE_OF_SERVICE : LOG_RATE_OF_USER };
    char line[1024];
    int saved = errno;
    va_list args;

    if (level > log_level())
        return;
    va_start(args, format);
    /* Values from files and peers may hold control bytes; the log keeps to one line. */
    printable_format(line, sizeof(line), format, args);
    va_end(args);
    if (level == LOG_LEVEL_DEBUG || log_rate_admits(&counted, line, clock_now_ns()))
        log_emit(level, topic, line);
    errno = saved;
}
