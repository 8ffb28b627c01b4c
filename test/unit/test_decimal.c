#undef NDEBUG
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/decimal.h"
#include "base/cleanup.h"

static void test_decimal_numbers(void **state) {
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        { "0", 0 },      { "4.5", 4.5 },    { ".5", 0.5 }, { "5.", 5 },     { "+3", 3 },          { "-3.25", -3.25 },
        { "1e3", 1000 }, { "25E-2", 0.25 }, { "007", 7 },  { "1e-400", 0 }, { "1e-310", 1e-310 }, { "0.1", 0.1 },
    };
    double value;
    float single;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        value = single = 77;
        if (!decimal_parse(rows[i].text, &value) || value != rows[i].value)
            fail_msg("%s: %g", rows[i].text, value);
        if (!decimal_parse_float(rows[i].text, &single) || single != (float)rows[i].value)
            fail_msg("%s: %g", rows[i].text, (double)single);
    }
}

static void test_decimal_nothing_else(void **state) {
    static const char *const texts[] = { "",    " ",    "x",     "3x",    "3 ",       " 3",    "\t3",   "0x4", "0x1p3",
                                         "inf", "-inf", "nan",   "NAN",   "1,5",      "--3",   "1e",    "e3",  ".",
                                         "+",   "-",    "1.2.3", "1e2e3", "infinity", "1e999", "-1e999" };
    double value = 77;
    float single = 77;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (decimal_parse(texts[i], &value) || value != 77)
            fail_msg("'%s' is taken as %g", texts[i], value);
        if (decimal_parse_float(texts[i], &single) || single != 77)
            fail_msg("'%s' is taken as %g", texts[i], (double)single);
    }
}

/* Between two floats lies a double that is nearer to one of them than the number is: 1 + 2^-24 + 2^-60. */
static void test_decimal_float_is_rounded_once(void **state) {
    static const char text[] = "1.00000005960464477626";
    double value;
    float single;

    assert_true(decimal_parse(text, &value) && decimal_parse_float(text, &single));
    assert_true((float)value == 1 && single == 1 + FLT_EPSILON);
    assert_true(decimal_parse("1e39", &value) && !decimal_parse_float("1e39", &single));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal_numbers),
        cmocka_unit_test(test_decimal_nothing_else),
        cmocka_unit_test(test_decimal_float_is_rounded_once),
    };

    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
