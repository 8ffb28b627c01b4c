// SPDX-License-Identifier: Apache-2.0
/* The operator's log: topic, level, one line. Texts of prompts and answers never go here (docs/privacy.md). */
#ifndef COORDGEN_BASE_LOG_H
#define COORDGEN_BASE_LOG_H

#include <stdint.h>

#include "base/log_sink.h"

/* Logs a line, and counts its repeats instead of telling them (base/log_rate.h); debug lines are told one by one. uid:
 * the user whose request causes the line, or LOG_NO_USER. kind: a constant text whose address tells lines of one kind
 * from others; NULL: the format. */
void log_write(LogLevel level, LogTopic topic, uint32_t uid, const char *kind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

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
