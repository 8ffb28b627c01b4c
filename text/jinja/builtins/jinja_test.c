// SPDX-License-Identifier: Apache-2.0
/* Tests: the words behind "is". */
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/values/jinja_operator.h"

#define TEST(name, condition)                                                                                          \
    JinjaValue jinja_test_##name(JinjaRun *run, JinjaValue self, const JinjaValue *values) {                           \
        return jinja_bool(condition);                                                                                  \
    }

/* --- types ------------------------------------------------------------------------------------------------------ */

TEST(defined, self.type != JINJA_UNDEFINED)
TEST(undefined, self.type == JINJA_UNDEFINED)
TEST(none, self.type == JINJA_NONE)
TEST(boolean, self.type == JINJA_BOOL)
TEST(true, self.type == JINJA_BOOL && self.boolean)
TEST(false, self.type == JINJA_BOOL && !self.boolean)
TEST(integer, self.type == JINJA_INT)
TEST(float, self.type == JINJA_FLOAT)
TEST(number, jinja_is_number(self))
TEST(string, self.type == JINJA_TEXT)
TEST(mapping, self.type == JINJA_DICT)
TEST(iterable, jinja_is_iterable(self) || self.type == JINJA_LOOP)
TEST(sequence, self.type == JINJA_TEXT || self.type == JINJA_LIST || self.type == JINJA_TUPLE ||
                   self.type == JINJA_DICT || self.type == JINJA_RANGE || self.type == JINJA_UNDEFINED)
/* --- numbers and order ------------------------------------------------------------------------------------------ */

static bool has_rest(JinjaRun *run, JinjaValue value, JinjaValue divisor, int64_t rest) {
    return jinja_equal(run, jinja_operate(run, JINJA_MODULO, value, divisor), jinja_int(rest));
}

TEST(odd, has_rest(run, self, jinja_int(2), 1))
TEST(even, has_rest(run, self, jinja_int(2), 0))
TEST(divisibleby, has_rest(run, self, values[0], 0))
TEST(eq, jinja_equal(run, self, values[0]))
TEST(ne, !jinja_equal(run, self, values[0]))
TEST(gt, jinja_operate(run, JINJA_GREATER, self, values[0]).boolean)
TEST(ge, jinja_operate(run, JINJA_GREATER_EQUAL, self, values[0]).boolean)
TEST(lt, jinja_operate(run, JINJA_LESS, self, values[0]).boolean)
TEST(le, jinja_operate(run, JINJA_LESS_EQUAL, self, values[0]).boolean)
TEST(in, jinja_contains(run, values[0], self))

/* Equal texts and numbers may or may not be one object in Python: here they are. */
TEST(sameas,
     self.type == values[0].type && (self.type == JINJA_LIST || self.type == JINJA_TUPLE || self.type == JINJA_DICT
                                         ? self.list == values[0].list
                                         : jinja_equal(run, self, values[0])))
