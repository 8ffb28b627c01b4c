// SPDX-License-Identifier: Apache-2.0
/* Evaluation of expressions. */
#ifndef COORDGEN_TEXT_JINJA_EVALUATE_H
#define COORDGEN_TEXT_JINJA_EVALUATE_H

#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/jinja_scope.h"

JinjaValue jinja_evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node);
/* Applies filters to a block's text, which stands for JINJA_NODE_HOLE. */
JinjaValue jinja_filter_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *filters, JinjaValue hole);
/* Evaluates the arguments of a call. extra is one more named argument; NULL: none. nodes NULL: no arguments. */
JinjaArguments jinja_evaluate_arguments(JinjaRun *run, JinjaScope *scope, const JinjaArgumentNodes *nodes,
                                        const JinjaText *extra_name, const JinjaValue *extra);

#endif
