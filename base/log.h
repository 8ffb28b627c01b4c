// SPDX-License-Identifier: Apache-2.0
/* Operator's log: topic, level, one line. Text of prompts and outputs never goes here (design, invariant 5). */
#ifndef COORDGEN_BASE_LOG_H
#define COORDGEN_BASE_LOG_H

#include <stdint.h>

typedef enum LogLevel { /* the syslog levels that we use */
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
    _TOPIC_N,
} LogTopic;

/* Receives one line without its newline; called from any thread, one call at a time. */
typedef void LogSink(LogLevel level, const char *topic, const char *line);

void log_set_level(LogLevel level);
LogLevel log_level(void);
const char *log_level_name(LogLevel level);
void log_set_sink(LogSink *sink); /* NULL: stderr */

#define LOG_NO_USER UINT32_MAX

/* Logs a line; repeats of a line are counted instead (base/log_rate.h). A line that a client can cause names its uid.
 * Debug lines are told one by one. kind: a constant text, whose address says which lines are the same; NULL: the
 * format. */
void log_write(LogLevel level, LogTopic topic, uint32_t uid, const char *kind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Writes a line, however many there are: for log_rate, which counts them. */
void log_emit(LogLevel level, LogTopic topic, const char *line);

#define log_error(topic, ...) log_write(LOG_LEVEL_ERROR, (topic), LOG_NO_USER, NULL, __VA_ARGS__)
#define log_warn(topic, ...) log_write(LOG_LEVEL_WARN, (topic), LOG_NO_USER, NULL, __VA_ARGS__)
#define log_notice(topic, ...) log_write(LOG_LEVEL_NOTICE, (topic), LOG_NO_USER, NULL, __VA_ARGS__)
#define log_info(topic, ...) log_write(LOG_LEVEL_INFO, (topic), LOG_NO_USER, NULL, __VA_ARGS__)
#define log_debug(topic, ...) log_write(LOG_LEVEL_DEBUG, (topic), LOG_NO_USER, NULL, __VA_ARGS__)

#define log_error_of(uid, topic, ...) log_write(LOG_LEVEL_ERROR, (topic), (uid), NULL, __VA_ARGS__)
#define log_warn_of(uid, topic, ...) log_write(LOG_LEVEL_WARN, (topic), (uid), NULL, __VA_ARGS__)
#define log_notice_of(uid, topic, ...) log_write(LOG_LEVEL_NOTICE, (topic), (uid), NULL, __VA_ARGS__)
#define log_info_of(uid, topic, ...) log_write(LOG_LEVEL_INFO, (topic), (uid), NULL, __VA_ARGS__)

#endif
