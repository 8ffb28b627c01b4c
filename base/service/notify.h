// SPDX-License-Identifier: Apache-2.0
/* Messages to the service manager: readiness, status text, watchdog. Without a manager nothing is sent. Loop thread. */
#ifndef COORDGEN_BASE_NOTIFY_H
#define COORDGEN_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

void notify_ready(const char *status);
void notify_status(const char *status); /* sent if it has changed and the socket has room */
void notify_reloading(void);
void notify_stopping(const char *status, uint64_t timeout_us);
uint64_t notify_watchdog_us(void); /* interval of the watchdog; 0: none */
void notify_watchdog_ping(void);

#endif
