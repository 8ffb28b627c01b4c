// SPDX-License-Identifier: Apache-2.0
/* The status of the service in Prometheus's text format. */
#ifndef COORDGEN_GATEWAY_METRICS_TEXT_H
#define COORDGEN_GATEWAY_METRICS_TEXT_H

#include "base/strings/str_buf.h"
#include "client/coordgen-client.h"

/* Appends all metrics of the reply of coordgen_status(). Figures that the service keeps from users who are no
 * administrators are left out. */
void metrics_text(StrBuf *text, const CoordgenReply *reply);

/* Appends a label's value, with Prometheus's escapes. */
void metrics_add_label(StrBuf *text, const char *value);

#endif
