// SPDX-License-Identifier: Apache-2.0
/* The gateway as a process: its loop, signals, watchdog, and its end. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_HTTPD_H
#define COORDGEN_GATEWAY_HTTPD_H

#include "gateway/process/httpd_settings.h"

enum {
    HTTPD_E_SETTINGS = 1, /* what a setting names cannot be used */
};

/* Serves until SIGTERM, SIGINT or the time without clients is over. The first signal lets running requests end, the
 * second one does not. 0, HTTPD_E_SETTINGS or -errno, with a text. */
int httpd_run(HttpdSettings *settings, ErrText *err);

#endif
