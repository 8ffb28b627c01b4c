// SPDX-License-Identifier: Apache-2.0
/* Target of log lines: the journal, with fields, or stderr. */
#ifndef COORDGEN_DAEMON_JOURNAL_H
#define COORDGEN_DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/log.h"
#include "daemon/systemd/journal_record.h"

typedef enum LogTarget {
    LOG_TARGET_AUTO, /* the journal when stderr is connected to it */
    LOG_TARGET_JOURNAL,
    LOG_TARGET_STDERR,
} LogTarget;

/* Checks that this build has the target. 0, or -EINVAL with a text. */
int journal_check(LogTarget target, ErrText *err);
/* Opens a target that journal_check() accepts. To call before the first thread starts. */
void journal_open(LogTarget target);
bool journal_takes_priorities(void); /* log lines reach the journal, not a terminal or a pipe */

/* Logs a user's first hundred requests with one outcome in half a minute, and counts further ones. */
void journal_request(LogLevel level, const RequestRecord *record);

#endif
