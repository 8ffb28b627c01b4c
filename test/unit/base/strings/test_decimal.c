// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/decimal.h"

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

/* A number between two floats, for which the nearest double is nearer to the other float: 1 + 2^-24 + 2^-60. */
static void test_decimal_float_is_rounded_once(void **state) {
    static const char text[] = "1.00000005960464477626";
    double value;
    float single;

    assert_true(decimal_parse(text, &value) && decimal_parse_float(text, &single));
    assert_true((float)value == 1 && single == 1 + FLT_EPSILON);
    assert_true(decimal_parse("1e39", &value) && !decimal_parse_float("1e39", &single));
}

static void test_decimal_whole_numbers(void **state) {
    static const struct {
        const char *text;
        uint64_t value;
        size_t n_digits; /* 0: refused */
    } rows[] = {
        { "0", 0, 1 },
        { "0012", 12, 4 },
        { "7K", 7, 1 },
        { "3 ", 3, 1 },
        { "1.5", 1, 1 },
        { "0x10", 0, 1 },
        { "", 77, 0 },
        { "K", 77, 0 },
        { " 3", 77, 0 },
        { "+3", 77, 0 },
        { "-3", 77, 0 },
        { "18446744073709551615", UINT64_MAX, 20 },
        { "18446744073709551616", 77, 0 },
        { "18446744073709551620", 77, 0 },
        { "99999999999999999999999K", 77, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t read = 77, parsed = 77;
        const char *end = decimal_read_u64(rows[i].text, &read);
        bool is_all = rows[i].n_digits && !rows[i].text[rows[i].n_digits];

        if (end != (rows[i].n_digits ? rows[i].text + rows[i].n_digits : NULL) || read != rows[i].value)
            fail_msg("'%s': %ju", rows[i].text, (uintmax_t)read);
        if (decimal_parse_u64(rows[i].text, &parsed) != is_all || parsed != (is_all ? rows[i].value : 77))
            fail_msg("'%s' as a whole: %ju", rows[i].text, (uintmax_t)parsed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal_numbers),
        cmocka_unit_test(test_decimal_nothing_else),
        cmocka_unit_test(test_decimal_float_is_rounded_once),
        cmocka_unit_test(test_decimal_whole_numbers),
    };

    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
