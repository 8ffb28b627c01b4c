// SPDX-License-Identifier: Apache-2.0
/* The service manager: readiness, status text, watchdog. Does nothing when there is none. Loop thread. */
#ifndef COORDGEN_DAEMON_NOTIFY_H
#define COORDGEN_DAEMON_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

void notify_ready(const char *status);
void notify_status(const char *status); /* sent when it differs from the last one, and there is room */
void notify_reloading(void);
void notify_stopping(const char *status, uint64_t timeout_us);
uint64_t notify_watchdog_us(void); /* 0: none is wanted */
void notify_watchdog_ping(void);

#endif
