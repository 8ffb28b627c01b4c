// SPDX-License-Identifier: Apache-2.0
/* Arithmetic and comparisons, as Python does it, on 64 bits: a result that does not fit is an error. */
#ifndef COORDGEN_TEXT_JINJA_OPERATOR_H
#define COORDGEN_TEXT_JINJA_OPERATOR_H

#include "text/jinja/syntax/jinja_tree.h"

JinjaValue jinja_operate(JinjaRun *run, JinjaOperator op, JinjaValue a, JinjaValue b);
JinjaValue jinja_negate(JinjaRun *run, JinjaValue value);

#endif
