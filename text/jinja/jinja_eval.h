// SPDX-License-Identifier: Apache-2.0
/* Evaluation of a parsed template: statements, expressions, macros and loops. */
#ifndef COORDGEN_TEXT_JINJA_EVAL_H
#define COORDGEN_TEXT_JINJA_EVAL_H

#include "text/jinja/jinja_scope.h"

/* Writes what the template makes of run->globals into run->out. */
void jinja_eval_template(JinjaRun *run);

#endif
