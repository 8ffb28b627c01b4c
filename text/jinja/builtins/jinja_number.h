// SPDX-License-Identifier: Apache-2.0
/* Numbers in texts. The filters of numbers are rows of jinja_builtin.inc. */
#ifndef COORDGEN_TEXT_JINJA_NUMBER_H
#define COORDGEN_TEXT_JINJA_NUMBER_H

#include "text/jinja/values/jinja_value.h"

/* Reads an integer as Python's int() does; false: there is none. One past 64 bits fails. base 0: by its mark. */
bool jinja_text_to_int(JinjaRun *run, const JinjaText *text, int base, int64_t *integerp);

#endif
