// SPDX-License-Identifier: Apache-2.0
/* The log of coordgen-httpd: standard error, with the levels of sd-daemon(3) under systemd. Texts of requests and of
 * answers never go there. */
#ifndef COORDGEN_GATEWAY_HTTPD_LOG_H
#define COORDGEN_GATEWAY_HTTPD_LOG_H

#include "base/log.h"

void httpd_log_open(LogLevel level);

#endif
