// SPDX-License-Identifier: Apache-2.0
/* Sends lines with fields to systemd's journal: the only use of libsystemd. */
#ifndef COORDGEN_DAEMON_JOURNAL_SINK_H
#define COORDGEN_DAEMON_JOURNAL_SINK_H

#include "base/log_sink.h"
#include "daemon/systemd/journal_record.h"

typedef struct JournalSink {
    void (*line)(LogLevel level, const char *topic, const char *line);
    void (*request)(LogLevel level, const char *line, const RequestRecord *record);
} JournalSink;

/* NULL: this program was built without libsystemd (WITH_SYSTEMD=no). */
const JournalSink *journal_sink(void);

#endif
