// SPDX-License-Identifier: Apache-2.0
/* Members of values. As Jinja's immutable sandbox has it, lists and dicts cannot be changed, and names with underscores
 * around them are Python's own. A member that does not exist is undefined. */
#ifndef COORDGEN_TEXT_JINJA_MEMBER_H
#define COORDGEN_TEXT_JINJA_MEMBER_H

#include "text/jinja/values/jinja_value.h"

JinjaValue jinja_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name);
JinjaValue jinja_item(JinjaRun *run, JinjaValue object, JinjaValue key);
/* bounds: start, stop, step; JINJA_NONE or JINJA_MISSING: not given. */
JinjaValue jinja_slice(JinjaRun *run, JinjaValue object, const JinjaValue bounds[3]);

#endif
