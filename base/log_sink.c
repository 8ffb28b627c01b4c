// SPDX-License-Identifier: Apache-2.0
#include "base/log_sink.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/cleanup.h"

static const char *const topic_names[_TOPIC_N] = {
    [TOPIC_BASE] = "base",     [TOPIC_MODEL] = "model",   [TOPIC_BACKEND] = "backend", [TOPIC_SCHED] = "sched",
    [TOPIC_ENGINE] = "engine", [TOPIC_DAEMON] = "daemon", [TOPIC_CLIENT] = "client",   [TOPIC_HTTP] = "http",
};

static const struct {
    const char *name;
    LogLevel level;
} level_names[] = {
    { "error", LOG_LEVEL_ERROR }, { "warning", LOG_LEVEL_WARN }, { "notice", LOG_LEVEL_NOTICE },
    { "info", LOG_LEVEL_INFO },   { "debug", LOG_LEVEL_DEBUG },
};

static void sink_stderr(LogLevel level, const char *topic, const char *line) {
    fprintf(stderr, "%s %s: %s\n", log_level_name(level), topic, line);
}

static _Atomic int current_level = LOG_LEVEL_NOTICE;
static LogSink *current_sink = sink_stderr; /* guarded by sink_lock */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;

void log_set_level(LogLevel level) {
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

LogLevel log_level(void) {
    return (LogLevel)atomic_load_explicit(&current_level, memory_order_relaxed);
}

const char *log_level_name(LogLevel level) {
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++)
        if (level_names[i].level == level)
            return level_names[i].name;
    return "?";
}

void log_set_sink(LogSink *sink) {
    pthread_mutex_lock(&sink_lock);
    current_sink = sink ? sink : sink_stderr;
    pthread_mutex_unlock(&sink_lock);
}

void log_emit(LogLevel level, LogTopic topic, const char *line) {
    pthread_mutex_lock(&sink_lock);
    current_sink(level, topic_names[topic], line);
    pthread_mutex_unlock(&sink_lock);
}
