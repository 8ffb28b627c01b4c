// SPDX-License-Identifier: Apache-2.0
/* JSON text as a value. The filter tojson is a row of jinja_builtin.inc. */
#ifndef COORDGEN_TEXT_JINJA_JSON_H
#define COORDGEN_TEXT_JINJA_JSON_H

#include "text/jinja/values/jinja_value.h"

/* Reads JSON text from outside, whose bytes are copied. The error names the byte. */
JinjaValue jinja_json_read(JinjaRun *run, const char *data, size_t len_bytes);

#endif
