#include "daemon/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/clock.h"

static char last_status[512]; /* loop thread */

static void remember(const char *status) {
    snprintf(last_status, sizeof(last_status), "%s", status);
    /* A newline would begin another assignment. */
    for (char *at = last_status; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' ';
}

void notify_ready(const char *status) {
    remember(status);
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", last_status);
}

void notify_status(const char *status) {
    if (!strncmp(status, last_status, sizeof(last_status) - 1))
        return;
    remember(status);
    (void)sd_notifyf(0, "STATUS=%s", last_status);
}

void notify_reloading(void) {
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
}

void notify_stopping(const char *status, uint64_t timeout_us) {
    remember(status);
    (void)sd_notifyf(0, "STOPPING=1\nSTATUS=%s\nEXTEND_TIMEOUT_USEC=%" PRIu64, last_status, timeout_us);
}

void notify_extend_timeout(uint64_t timeout_us) {
    (void)sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRIu64, timeout_us);
}

uint64_t notify_watchdog_us(void) {
    uint64_t usec = 0;

    return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}

void notify_watchdog_ping(void) {
    (void)sd_notify(0, "WATCHDOG=1");
}
