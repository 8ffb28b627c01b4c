// SPDX-License-Identifier: Apache-2.0
/* Python's formats: "%s" % value. The method format() of strings is a row of jinja_builtin.inc. */
#ifndef COORDGEN_TEXT_JINJA_FORMAT_H
#define COORDGEN_TEXT_JINJA_FORMAT_H

#include "text/jinja/builtins/jinja_builtin.h"

/* is_one: the only argument is the value behind "%", and not one of a tuple. */
JinjaValue jinja_format_percent(JinjaRun *run, const JinjaText *format, const JinjaArguments *arguments, bool is_one);

#endif
