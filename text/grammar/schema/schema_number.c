// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "text/grammar/schema/schema_text.h"

/* --- sets --------------------------------------------------------------------------------------------------------- */

bool schema_number_is_any(const SchemaNumber *number) {
    return number->kind == SCHEMA_NUMBER_ANY && !number->low.is_set && !number->high.is_set && !number->n_multiples;
}

/* The narrower of two limits; sign: 1 for lower limits, -1 for upper ones. */
static SchemaLimit narrower(const SchemaLimit *a, const SchemaLimit *b, int sign) {
    int order;

    if (!a->is_set || !b->is_set)
        return a->is_set ? *a : *b;
    order = sign * schema_decimal_compare(&a->at, &b->at);
    return order > 0 || (!order && a->is_exclusive) ? *a : *b;
}

static bool range_is_empty(const SchemaNumber *number) {
    int order;

    if (!number->low.is_set || !number->high.is_set)
        return false;
    order = schema_decimal_compare(&number->low.at, &number->high.at);
    if (order)
        return order > 0;
    return number->low.is_exclusive || number->high.is_exclusive ||
           (number->kind == SCHEMA_NUMBER_WHOLE && !schema_decimal_is_whole(&number->low.at)) ||
           (number->kind == SCHEMA_NUMBER_FRACTION && schema_decimal_is_whole(&number->low.at));
}

bool schema_number_and(SchemaCompiler *c, const SchemaNumber *a, const SchemaNumber *b, SchemaNumber *both) {
    *both = *a;
    if (a->kind != b->kind && a->kind && b->kind)
        return false;
    both->kind = a->kind ? a->kind : b->kind;
    both->low = narrower(&a->low, &b->low, 1);
    both->high = narrower(&a->high, &b->high, -1);
    for (size_t i = 0; i < b->n_multiples; i++) {
        size_t k = 0;

        while (k < both->n_multiples && schema_decimal_compare(&both->multiples[k].divisor, &b->multiples[i].divisor))
            k++;
        if (k < both->n_multiples && both->multiples[k].is_negated != b->multiples[i].is_negated)
            return false;
        if (k < both->n_multiples)
            continue;
        if (both->n_multiples == SCHEMA_MULTIPLES_MAX) {
            schema_unsupported(c, NULL, "multipleOf", "more than %d together are not supported", SCHEMA_MULTIPLES_MAX);
            return false;
        }
        both->multiples[both->n_multiples++] = b->multiples[i];
    }
    return !range_is_empty(both);
}

size_t schema_number_not(const SchemaNumber *number, SchemaNumber *others) {
    size_t n = 0;

    for (size_t i = 0; i < number->n_multiples; i++) {
        others[n] = (SchemaNumber){ .multiples[0] = number->multiples[i], .n_multiples = 1 };
        others[n++].multiples[0].is_negated = !number->multiples[i].is_negated;
    }
    if (number->kind)
        others[n++] = (SchemaNumber){ .kind = number->kind == SCHEMA_NUMBER_WHOLE ? SCHEMA_NUMBER_FRACTION
                                                                                  : SCHEMA_NUMBER_WHOLE };
    if (number->low.is_set) {
        others[n] = (SchemaNumber){ .high = number->low };
        others[n++].high.is_exclusive = !number->low.is_exclusive;
    }
    if (number->high.is_set) {
        others[n] = (SchemaNumber){ .low = number->high };
        others[n++].low.is_exclusive = !number->high.is_exclusive;
    }
    return n;
}

/* Whether the limit itself is a whole number of the range. */
static bool has_whole_limit(const SchemaLimit *limit) {
    return !limit->is_exclusive && schema_decimal_is_whole(&limit->at);
}

bool schema_number_is_empty(SchemaCompiler *c, const SchemaNumber *number) {
    bool is_nothing = range_is_empty(number);
    int r;

    if (is_nothing || c->r || !number->low.is_set || !number->high.is_set)
        return is_nothing;
    if (!number->n_multiples &&
        (number->kind != SCHEMA_NUMBER_WHOLE || has_whole_limit(&number->low) || has_whole_limit(&number->high)))
        return false;
    r = grammar_builder_allows_nothing(c->builder, schema_number_part(c, number), &is_nothing, c->err);
    if (r && !c->r)
        c->r = r;
    return is_nothing;
}

/* --- texts of ranges ---------------------------------------------------------------------------------------------- */

#define ANY_FRACTION "(?:\\.[0-9]+)?"
#define WHOLE "(?:0|[1-9][0-9]*)"

/* Appends "|text" for the digits that follow a common beginning: a digit from first to last, n more digits, the end. */
static void add_digits(StrBuf *out, const char *prefix, size_t n_prefix, char first, char last, size_t n,
                       const char *end) {
    if (first > last)
        return;
    str_buf_add(out, "|");
    str_buf_append(out, prefix, n_prefix);
    str_buf_addf(out, "[%c-%c]", first, last);
    if (n)
        str_buf_addf(out, "[0-9]{%zu}", n);
    str_buf_add(out, end);
}

/* Appends texts of the numbers from decimal (not negative) on, or above it if it is excluded. */
static void write_from(StrBuf *out, const SchemaDecimal *decimal, bool is_exclusive) {
    const char *whole = decimal->whole, *fraction = decimal->fraction;
    size_t n = strlen(whole), n_fraction = strlen(fraction);

    str_buf_addf(out, "[1-9][0-9]{%zu,}" ANY_FRACTION, n);
    for (size_t i = 0; i < n; i++)
        add_digits(out, whole, i, (char)(whole[i] + 1), '9', n - 1 - i, ANY_FRACTION);
    str_buf_addf(out, "|%s", whole);
    if (!n_fraction) {
        str_buf_add(out, is_exclusive ? "\\.[0-9]*[1-9][0-9]*" : ANY_FRACTION);
        return;
    }
    str_buf_addf(out, "\\.(?:%s%s", fraction, is_exclusive ? "[0-9]*[1-9][0-9]*" : "[0-9]*");
    for (size_t i = 0; i < n_fraction; i++)
        add_digits(out, fraction, i, (char)(fraction[i] + 1), '9', 0, "[0-9]*");
    str_buf_add(out, ")");
}

/* Appends texts of the numbers from 0 to decimal, or below it if it is excluded. The texts may hold some that are no
 * number ("", "1.x"): the caller intersects them with numbers. */
static void write_up_to(StrBuf *out, const SchemaDecimal *decimal, bool is_exclusive) {
    const char *whole = decimal->whole, *fraction = decimal->fraction;
    size_t n = strlen(whole), n_fraction = strlen(fraction);

    if (n > 1)
        str_buf_addf(out, "(?:0|[1-9][0-9]{0,%zu})" ANY_FRACTION, n - 2);
    for (size_t i = 0; i < n; i++)
        add_digits(out, whole, i, i || n == 1 ? '0' : '1', (char)(whole[i] - 1), n - 1 - i, ANY_FRACTION);
    if (!n_fraction) {
        if (!is_exclusive)
            str_buf_addf(out, "|%s(?:\\.0+)?", whole);
        return;
    }
    str_buf_addf(out, "|%s(?:\\.(?:", whole);
    str_buf_addf(out, "%s%s", fraction, is_exclusive ? "[^0-9]" : "0*");
    for (size_t i = 0; i < n_fraction; i++) {
        add_digits(out, fraction, i, '0', (char)(fraction[i] - 1), 0, "[0-9]*");
        if (i)
            str_buf_addf(out, "|%.*s", (int)i, fraction);
    }
    str_buf_add(out, "))?");
}

typedef void WriteRange(StrBuf *out, const SchemaDecimal *decimal, bool is_exclusive);

static GrammarPart range_part(SchemaCompiler *c, WriteRange *write, const SchemaLimit *limit) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    write(&text, &limit->at, limit->is_exclusive);
    if (str_buf_failed(&text)) {
        if (!c->r)
            c->r = err_no_memory(c->err);
        return grammar_part_nothing(c->builder);
    }
    return schema_plain_regex(c, text.data);
}

/* --- texts of multiples ------------------------------------------------------------------------------------------- */

enum {
    SUFFIXES_MAX = 1024,
    REMAINDER_MAX = 9,
};

/* A divisor as 2^a 5^b rest x 10^-places: the texts depend on the last digits, and on the sum over all for the rest. */
typedef struct Divisor {
    uint64_t suffix; /* 2^a 5^b */
    uint64_t rest;
    uint64_t power; /* 10^max(a, b) */
    size_t n_digits;
    size_t n_places;
} Divisor;

static bool read_divisor(const SchemaDecimal *decimal, Divisor *divisor) {
    char digits[2 * SCHEMA_DIGITS_MAX + 2];
    uint64_t value;
    size_t a = 0, b = 0;

    snprintf(digits, sizeof(digits), "%s%s", decimal->whole, decimal->fraction);
    *divisor = (Divisor){ .suffix = 1, .power = 1, .n_places = strlen(decimal->fraction) };
    if (decimal->is_negative || strlen(digits) > 15)
        return false;
    value = strtoull(digits, NULL, 10);
    if (!value)
        return false;
    for (; value % 2 == 0; value /= 2, a++)
        divisor->suffix *= 2;
    for (; value % 5 == 0; value /= 5, b++)
        divisor->suffix *= 5;
    divisor->rest = value;
    divisor->n_digits = a > b ? a : b;
    for (size_t i = 0; i < divisor->n_digits; i++)
        divisor->power *= 10;
    if (divisor->power / divisor->suffix > SUFFIXES_MAX || divisor->rest > REMAINDER_MAX)
        return false;
    return !divisor->n_places || (divisor->rest == 1 && divisor->n_digits <= divisor->n_places);
}

bool schema_number_can_divide(const SchemaDecimal *decimal) {
    Divisor divisor;

    return read_divisor(decimal, &divisor);
}

/* Whole numbers whose last digits are a multiple of the divisor's suffix, ".0" behind them allowed. */
static void write_suffixes(StrBuf *out, const Divisor *divisor) {
    str_buf_add(out, "(?:0");
    for (uint64_t value = divisor->suffix; value < divisor->power; value += divisor->suffix)
        str_buf_addf(out, "|%" PRIu64, value);
    str_buf_add(out, "|[1-9][0-9]*");
    if (divisor->n_digits) {
        str_buf_add(out, "(?:");
        for (uint64_t value = 0; value < divisor->power; value += divisor->suffix)
            str_buf_addf(out, "%s%0*" PRIu64, value ? "|" : "", (int)divisor->n_digits, value);
        str_buf_add(out, ")");
    }
    str_buf_add(out, ")(?:\\.0+)?");
}

/* Numbers of which at most n_places digits stand behind the point, the last of them by the suffix. */
static void write_places(StrBuf *out, const Divisor *divisor) {
    int n_free = (int)(divisor->n_places - divisor->n_digits);

    str_buf_add(out, WHOLE "(?:\\.(?:0+");
    if (!divisor->n_digits) {
        str_buf_addf(out, "|[0-9]{1,%d}0*", n_free);
    } else {
        for (uint64_t value = 0; value < divisor->power; value += divisor->suffix) {
            char digits[32];
            int n = snprintf(digits, sizeof(digits), "%0*" PRIu64, (int)divisor->n_digits, value);

            while (n && digits[n - 1] == '0')
                n--;
            str_buf_addf(out, n ? "|[0-9]{%d}%.*s0*" : "|[0-9]{1,%d}%.*s0*",
                         n        ? n_free
                         : n_free ? n_free
                                  : 1,
                         n, digits);
            if (!n && !n_free)
                str_buf_truncate(out, strlen(out->data) - strlen("|[0-9]{1,1}0*"));
        }
    }
    str_buf_add(out, "))?");
}

/* Digits whose number divides by rest without a remainder: the automaton of remainders, state by state taken out. */
static GrammarPart remainder_part(SchemaCompiler *c, uint64_t rest) {
    GrammarBuilder *b = c->builder;
    GrammarPart way[REMAINDER_MAX][REMAINDER_MAX];

    for (uint64_t i = 0; i < rest; i++)
        for (uint64_t k = 0; k < rest; k++) {
            GrammarRange ranges[10];
            size_t n = 0;

            for (uint32_t digit = 0; digit < 10; digit++)
                if ((i * 10 + digit) % rest == k)
                    ranges[n++] = (GrammarRange){ '0' + digit, '0' + digit };
            way[i][k] = n ? grammar_part_class(b, ranges, n, 0) : grammar_part_nothing(b);
        }
    for (uint64_t out = rest - 1; out; out--) {
        GrammarPart loop = grammar_part_repeat(b, way[out][out], 0, GRAMMAR_NO_MAX);

        for (uint64_t i = 0; i < out; i++)
            for (uint64_t k = 0; k < out; k++) {
                GrammarPart round = grammar_part_sequence(b, (GrammarPart[]){ way[i][out], loop, way[out][k] }, 3);

                way[i][k] = grammar_part_choice(b, (GrammarPart[]){ way[i][k], round }, 2);
            }
    }
    return grammar_part_sequence(
        b, (GrammarPart[]){ grammar_part_repeat(b, way[0][0], 1, GRAMMAR_NO_MAX), schema_plain_regex(c, "(?:\\.0+)?") },
        2);
}

static GrammarPart multiple_part(SchemaCompiler *c, const SchemaMultiple *multiple) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Divisor divisor;
    GrammarPart part;

    if (!read_divisor(&multiple->divisor, &divisor))
        return grammar_part_nothing(c->builder); /* the keyword was refused already */
    if (divisor.n_places)
        write_places(&text, &divisor);
    else
        write_suffixes(&text, &divisor);
    if (str_buf_failed(&text)) {
        if (!c->r)
            c->r = err_no_memory(c->err);
        return grammar_part_nothing(c->builder);
    }
    part = schema_plain_regex(c, text.data);
    if (divisor.rest != 1)
        part = grammar_part_and(c->builder, part, remainder_part(c, divisor.rest));
    return multiple->is_negated ? grammar_part_not(c->builder, part) : part;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static const char *const plain_texts[] = {
    [SCHEMA_NUMBER_ANY] = WHOLE ANY_FRACTION,
    [SCHEMA_NUMBER_WHOLE] = WHOLE,
    [SCHEMA_NUMBER_FRACTION] = WHOLE "\\.[0-9]*[1-9][0-9]*",
};

static const char with_exponent[] = WHOLE ANY_FRACTION "(?:[eE][+-]?[0-9]+)?";

/* Numbers from low to high, neither of them negative, without a sign. */
static GrammarPart positive_part(SchemaCompiler *c, const SchemaNumber *number, const SchemaLimit *low,
                                 const SchemaLimit *high) {
    GrammarPart part;

    if (number->kind == SCHEMA_NUMBER_ANY && !number->n_multiples && !high->is_set &&
        (!low->is_set || (schema_decimal_is_zero(&low->at) && !low->is_exclusive)))
        return schema_fixed_regex(c, with_exponent);
    part = schema_fixed_regex(c, plain_texts[number->kind]);
    if (low->is_set && (low->is_exclusive || !schema_decimal_is_zero(&low->at)))
        part = grammar_part_and(c->builder, part, range_part(c, write_from, low));
    if (high->is_set)
        part = grammar_part_and(c->builder, part, range_part(c, write_up_to, high));
    for (size_t i = 0; i < number->n_multiples; i++)
        part = grammar_part_and(c->builder, part, multiple_part(c, &number->multiples[i]));
    return part;
}

/* The limit of the number without its sign. */
static SchemaLimit mirrored(const SchemaLimit *limit) {
    SchemaLimit other = *limit;

    other.at.is_negative = false;
    return other;
}

GrammarPart schema_number_part(SchemaCompiler *c, const SchemaNumber *number) {
    const SchemaLimit none = { 0 }, *low = &number->low, *high = &number->high;
    bool high_is_positive =
        !high->is_set || (!high->at.is_negative && !(schema_decimal_is_zero(&high->at) && high->is_exclusive));
    bool low_is_negative = !low->is_set || low->at.is_negative;
    GrammarPart parts[2];
    size_t n = 0;

    if (high_is_positive)
        parts[n++] = positive_part(c, number, low->is_set && !low->at.is_negative ? low : &none, high);
    if (low_is_negative) {
        bool both_negative = high->is_set && (high->at.is_negative || schema_decimal_is_zero(&high->at));
        SchemaLimit least = both_negative ? mirrored(high) : none, most = low->is_set ? mirrored(low) : none;
        GrammarPart minus = grammar_part_bytes(c->builder, "-", 1);

        parts[n++] =
            grammar_part_sequence(c->builder, (GrammarPart[]){ minus, positive_part(c, number, &least, &most) }, 2);
    }
    return grammar_part_choice(c->builder, parts, n);
}
