// SPDX-License-Identifier: Apache-2.0
/* Where lines of the log go, their levels and topics. Modules log through base/log.h. */
#ifndef COORDGEN_BASE_LOG_SINK_H
#define COORDGEN_BASE_LOG_SINK_H

#include <stdint.h>

typedef enum LogLevel { /* the levels of syslog that coordgen uses */
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARN = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
} LogLevel;

typedef enum LogTopic {
    TOPIC_BASE,
    TOPIC_MODEL,
    TOPIC_BACKEND,
    TOPIC_SCHED,
    TOPIC_ENGINE,
    TOPIC_DAEMON,
    TOPIC_CLIENT,
    TOPIC_HTTP,
    _TOPIC_N,
} LogTopic;

/* Receives one line without its newline. Any thread calls it, one call at a time. */
typedef void LogSink(LogLevel level, const char *topic, const char *line);

void log_set_level(LogLevel level);
LogLevel log_level(void);
const char *log_level_name(LogLevel level);
void log_set_sink(LogSink *sink); /* NULL: standard error */
/* Writes a line, however often it repeats; log_write() (base/log.h) counts repeats before. */
void log_emit(LogLevel level, LogTopic topic, const char *line);

#define LOG_NO_USER UINT32_MAX /* the uid of lines that the service logs for itself */

#endif
