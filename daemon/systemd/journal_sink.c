// SPDX-License-Identifier: Apache-2.0
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "daemon/systemd/journal_sink.h"

#include <inttypes.h>
#include <systemd/sd-journal.h>

#define MESSAGE_ID_REQUEST "6f1d3a0c5f0b4b7f9f5f2c1de8a7b3c4"

static void send_line(LogLevel level, const char *topic, const char *line) {
    (void)sd_journal_send("MESSAGE=%s", line, "PRIORITY=%d", (int)level, "SYSLOG_IDENTIFIER=coordgend",
                          "COORDGEN_TOPIC=%s", topic, NULL);
}

static void send_request(LogLevel level, const char *line, const RequestRecord *record) {
    (void)sd_journal_send("MESSAGE=%s", line, "MESSAGE_ID=" MESSAGE_ID_REQUEST, "PRIORITY=%d", (int)level,
                          "SYSLOG_IDENTIFIER=coordgend", "COORDGEN_TOPIC=daemon", "COORDGEN_UID=%u",
                          (unsigned int)record->uid, "COORDGEN_REQUEST=%" PRIu64, record->serial, "COORDGEN_MODEL=%s",
                          record->model, "COORDGEN_CODE=%s", record->outcome, "COORDGEN_TTFT_USEC=%" PRIu64,
                          record->first_token_us, record->priority ? "COORDGEN_PRIORITY=%s" : NULL, record->priority,
                          NULL);
}

const JournalSink *journal_sink(void) {
    static const JournalSink sink = { .line = send_line, .request = send_request };

    return &sink;
}
