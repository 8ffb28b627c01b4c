// SPDX-License-Identifier: Apache-2.0
/* Functions that several string methods and filters share. Every byte keeps its origin. */
#ifndef COORDGEN_TEXT_JINJA_STRING_H
#define COORDGEN_TEXT_JINJA_STRING_H

#include "text/jinja/values/jinja_unicode.h"
#include "text/jinja/values/jinja_value.h"

/* Counts the steps that a search takes at most. */
void jinja_spend_search(JinjaRun *run, const JinjaText *text, const JinjaText *needle, bool backwards);
/* Writes text[from, to) in another case. */
void jinja_write_case(JinjaWriter *writer, const JinjaText *text, size_t from, size_t to, JinjaCase to_case);

#endif
