// SPDX-License-Identifier: Apache-2.0
/* Values as text, as Python's str() and repr() write them. */
#ifndef COORDGEN_TEXT_JINJA_PRINT_H
#define COORDGEN_TEXT_JINJA_PRINT_H

#include "text/jinja/values/jinja_value.h"

/* str(): a text itself, an empty text for an undefined value. */
const JinjaText *jinja_to_text(JinjaRun *run, JinjaValue value);
void jinja_write_value(JinjaWriter *writer, JinjaValue value);
/* repr(). */
const JinjaText *jinja_repr(JinjaRun *run, JinjaValue value);
void jinja_write_repr(JinjaWriter *writer, JinjaValue value);
/* Writes the shortest digits that read back as the number. Returns their bytes. */
size_t jinja_float_text(double value, char text[static 32]);

#endif
