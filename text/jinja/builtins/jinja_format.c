// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins/jinja_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/min_max.h"
#include "text/jinja/builtins/jinja_member.h"
#include "text/jinja/values/jinja_print.h"

#define FORMAT_WIDTH_MAX 100000
#define FORMAT_DIGITS_MAX 300

static const JinjaText space = JINJA_LITERAL(" "), zero = JINJA_LITERAL("0");

/* How a value is laid out. */
typedef struct FormatSpec {
    const JinjaText *fill;
    char align; /* 0: by the kind of the value */
    char sign;
    char separator; /* of thousands; 0: none */
    bool alternate;
    int64_t width, precision; /* precision -1: none */
    char type;
} FormatSpec;

/* --- layout ----------------------------------------------------------------------------------------------------- */

/* Writes sign and text, padded to the width. Alignment "=" pads between the two. */
static void write_padded(JinjaWriter *writer, const FormatSpec *spec, const char *sign, const JinjaText *text,
                         char align) {
    int64_t more = spec->width - (int64_t)(strlen(sign) + text->n_chars), left;

    more = MAX(more, 0);
    left = align == '<' || align == '=' ? 0 : align == '^' ? more / 2 : more;
    jinja_write_fill(writer, spec->fill, left);
    jinja_write_chars(writer, sign);
    jinja_write_fill(writer, spec->fill, align == '=' ? more : 0);
    jinja_write(writer, text);
    jinja_write_fill(writer, spec->fill, align == '=' ? 0 : more - left);
}

static void write_number(JinjaWriter *writer, const FormatSpec *spec, bool is_negative, char *digits, size_t room_bytes,
                         char align) {
    const char *sign = is_negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
    size_t n = strspn(digits, "0123456789"), len_bytes = strlen(digits);

    for (size_t at = n; spec->separator && at > 3 && len_bytes + 2 < room_bytes; len_bytes++) {
        at -= 3;
        memmove(digits + at + 1, digits + at, len_bytes - at + 1);
        digits[at] = spec->separator;
    }
    write_padded(writer, spec, sign,
                 &(JinjaText){ .data = digits, .len_bytes = (uint32_t)len_bytes, .n_chars = (uint32_t)len_bytes },
                 align);
}

static void write_integer(JinjaWriter *writer, const FormatSpec *spec, int64_t value, char align) {
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char mark[3] = { '0', spec->type, 0 };
    const int base = spec->type == 'b' ? 2 : spec->type == 'o' ? 8 : (spec->type | 0x20) == 'x' ? 16 : 10;
    char digits[160], *at = digits + 100;

    at[0] = 0;
    do
        *--at = (spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[size % (unsigned)base];
    while (size /= (unsigned)base);
    if (spec->alternate && base != 10) {
        at -= 2;
        memcpy(at, mark, 2);
    }
    memmove(digits, at, strlen(at) + 1);
    write_number(writer, spec, value < 0, digits, sizeof(digits), align);
}

static void write_real(JinjaWriter *writer, const FormatSpec *spec, double value, char align) {
    char digits[FORMAT_DIGITS_MAX + 400], format[8];
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    double size = fabs(value);

    if (!spec->type && spec->precision < 0) {
        jinja_float_text(size, digits);
    } else {
        char type = spec->type == '%' || spec->type == 'n' ? 'f' : spec->type ? spec->type : 'g';

        snprintf(format, sizeof(format), "%%.*%c%s", type, spec->type == '%' ? "%%" : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(digits, sizeof(digits), format, precision || spec->type ? precision : 1,
                 spec->type == '%' ? size * 100 : size);
#pragma GCC diagnostic pop
    }
    write_number(writer, spec, signbit(value) && !isnan(value), digits, sizeof(digits), align);
}

/* Writes a text cut to the precision. */
static void write_text(JinjaWriter *writer, const FormatSpec *spec, const JinjaText *text, char align) {
    if (spec->precision >= 0)
        text = jinja_text_slice(writer->run, text, 0, jinja_text_offset(text, (size_t)spec->precision));
    write_padded(writer, spec, "", text, align);
}

static void write_character(JinjaWriter *writer, JinjaValue value) {
    int64_t integer;

    if (!jinja_as_int(value, &integer) || integer < 0 || integer >= 0x110000 || (integer >= 0xd800 && integer < 0xe000))
        jinja_fail(writer->run, "format 'c' needs a character");
    jinja_write_code_point(writer, (uint32_t)integer, false);
}

/* --- places in a format ----------------------------------------------------------------------------------------- */

/* The byte at a place; 0: the format ends there. */
static char byte_at(const JinjaText *format, size_t at, size_t end) {
    return at < end ? format->data[at] : 0;
}

static bool is_one_of(char c, const char *set) {
    return c && strchr(set, c);
}

/* Reads a number at *atp. */
static int64_t read_count(JinjaRun *run, const JinjaText *format, size_t *atp, size_t end) {
    int64_t count = 0;

    for (char c; (c = byte_at(format, *atp, end)) >= '0' && c <= '9'; (*atp)++) {
        count = count * 10 + (c - '0');
        if (count > FORMAT_WIDTH_MAX)
            jinja_fail(run, "a width or precision of more than %d in a format", FORMAT_WIDTH_MAX);
    }
    return count;
}

static int64_t read_precision(JinjaRun *run, const JinjaText *format, size_t *atp, size_t end) {
    if (byte_at(format, *atp, end) != '.')
        return -1;
    (*atp)++;
    return read_count(run, format, atp, end);
}

static void check_digits(JinjaRun *run, const FormatSpec *spec) {
    if (spec->precision > FORMAT_DIGITS_MAX)
        jinja_fail(run, "a precision of more than %d in a format", FORMAT_DIGITS_MAX);
}

static JinjaValue named_argument(JinjaRun *run, const JinjaArguments *arguments, const JinjaDict *dict,
                                 const JinjaText *name) {
    const JinjaValue *found = NULL;

    for (uint32_t i = 0; i < arguments->n_named; i++)
        if (jinja_text_equal(arguments->names[i], name))
            found = &arguments->named[i];
    if (!found && dict)
        found = jinja_dict_get_text(run, dict, name);
    if (!found)
        jinja_fail(run, "the format names '%.*s', which is not given", (int)name->len_bytes, name->data);
    return *found;
}

/* --- "%s" % value ----------------------------------------------------------------------------------------------- */

typedef struct PercentArguments {
    const JinjaArguments *all;
    uint32_t at;
    const JinjaDict *dict; /* the only argument, for %(name)s; NULL: the argument is no dict */
} PercentArguments;

static JinjaValue next_argument(JinjaRun *run, PercentArguments *arguments) {
    if (arguments->at >= arguments->all->n)
        jinja_fail(run, "not enough arguments for format string");
    return arguments->all->items[arguments->at++];
}

static void write_percent(JinjaWriter *writer, const FormatSpec *spec, JinjaValue value) {
    JinjaRun *run = writer->run;
    int64_t integer;

    if (is_one_of(spec->type, "sra")) {
        write_text(writer, spec, spec->type == 's' ? jinja_to_text(run, value) : jinja_repr(run, value), spec->align);
    } else if (is_one_of(spec->type, "diuxXo")) {
        if (value.type == JINJA_FLOAT && is_one_of(spec->type, "diu") && fabs(value.real) < 9e18)
            integer = (int64_t)value.real;
        else if (!jinja_as_int(value, &integer))
            jinja_fail(run, "%%%c needs a number, not '%s'", spec->type, jinja_type_name(value));
        write_integer(writer, spec, integer, spec->align);
    } else if (is_one_of(spec->type, "eEfFgG")) {
        if (!jinja_is_number(value))
            jinja_fail(run, "%%%c needs a number, not '%s'", spec->type, jinja_type_name(value));
        write_real(writer, spec, jinja_as_float(value), spec->align);
    } else if (spec->type != 'c') {
        jinja_fail(run, "unsupported format character '%c'", spec->type);
    } else if (value.type == JINJA_TEXT && value.text->n_chars == 1) {
        write_padded(writer, spec, "", value.text, spec->align);
    } else {
        write_character(writer, value);
    }
}

/* Reads flags and width of a conversion. */
static void read_flags(JinjaRun *run, const JinjaText *format, size_t *atp, PercentArguments *arguments,
                       FormatSpec *spec) {
    const size_t end = format->len_bytes;
    JinjaValue value;

    for (char c; is_one_of(c = byte_at(format, *atp, end), "-+ 0#"); (*atp)++) {
        if (c == '-')
            spec->align = '<';
        else if (c == '0')
            spec->fill = &zero;
        else if (c == '#')
            spec->alternate = true;
        else if (spec->sign != '+')
            spec->sign = c;
    }
    if (byte_at(format, *atp, end) != '*') {
        spec->width = read_count(run, format, atp, end);
        return;
    }
    (*atp)++;
    value = next_argument(run, arguments);
    if (!jinja_as_int(value, &spec->width) || spec->width > FORMAT_WIDTH_MAX || spec->width < -FORMAT_WIDTH_MAX)
        jinja_fail(run, "* wants an integer");
    if (spec->width < 0) {
        spec->align = '<';
        spec->width = -spec->width;
    }
}

/* Writes one conversion, whose place is behind its "%". Returns the place behind the conversion. */
static size_t convert_percent(JinjaWriter *writer, const JinjaText *format, size_t at, PercentArguments *arguments) {
    FormatSpec spec = { .fill = &space, .precision = -1, .align = '>' };
    const size_t end = format->len_bytes;
    JinjaRun *run = writer->run;
    JinjaValue value = JINJA_NO_VALUE;

    if (byte_at(format, at, end) == '(') {
        const char *close = memchr(format->data + at, ')', end - at);
        const size_t to = close ? (size_t)(close - format->data) : 0;

        if (!close)
            jinja_fail(run, "incomplete format key");
        value = named_argument(run, arguments->all, arguments->dict, jinja_text_slice(run, format, at + 1, to));
        at = to + 1;
    }
    read_flags(run, format, &at, arguments, &spec);
    spec.precision = read_precision(run, format, &at, end);
    while (is_one_of(byte_at(format, at, end), "hlL"))
        at++;
    if (at == end)
        jinja_fail(run, "incomplete format");
    spec.type = format->data[at++];
    if (spec.type == '%') {
        jinja_write_part(writer, format, at - 1, at);
        return at;
    }
    if (!is_one_of(spec.type, "sra"))
        check_digits(run, &spec);
    if (spec.align == '<' || is_one_of(spec.type, "srac"))
        spec.fill = &space; /* zeroes are for numbers, and stand before them only */
    if (spec.fill == &zero)
        spec.align = '=';
    write_percent(writer, &spec, jinja_given(value) ? value : next_argument(run, arguments));
    return at;
}

JinjaValue jinja_format_percent(JinjaRun *run, const JinjaText *format, const JinjaArguments *arguments, bool is_one) {
    const JinjaType type = is_one ? arguments->items[0].type : JINJA_MISSING;
    PercentArguments left = { .all = arguments, .dict = type == JINJA_DICT ? arguments->items[0].dict : NULL };
    /* A value that has items may be left over unless it is a text: Python takes it for a mapping. */
    const bool may_be_left = arguments->n_named || type == JINJA_DICT || type == JINJA_LIST || type == JINJA_RANGE;
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    for (size_t at = 0; at < format->len_bytes;) {
        const char *percent = memchr(format->data + at, '%', format->len_bytes - at);
        size_t to = percent ? (size_t)(percent - format->data) : format->len_bytes;

        jinja_write_part(&writer, format, at, to);
        at = percent ? convert_percent(&writer, format, to + 1, &left) : to;
    }
    if (left.at < arguments->n && !may_be_left)
        jinja_fail(run, "not all arguments converted during string formatting");
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_filter_format(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    if (arguments->n && arguments->n_named)
        jinja_fail(run, "filter 'format' takes arguments with names or without, not both");
    return jinja_format_percent(run, self.text, arguments, false);
}

/* --- "{}".format(value) ----------------------------------------------------------------------------------------- */

typedef struct BraceFormat {
    const JinjaText *format;
    const JinjaArguments *arguments;
    uint32_t next; /* index of the argument for the next "{}" */
    bool is_numbered;
} BraceFormat;

/* Reads a number that fills all bytes; false: they are none. */
static bool read_index(const JinjaText *format, size_t from, size_t to, uint64_t *indexp) {
    *indexp = 0;
    for (size_t i = from; i < to; i++) {
        if (format->data[i] < '0' || format->data[i] > '9' || *indexp >= UINT32_MAX)
            return false;
        *indexp = *indexp * 10 + (uint64_t)(format->data[i] - '0');
    }
    return to > from;
}

/* The argument that a field begins with: an index, a name, or nothing for the next argument. */
static JinjaValue field_argument(JinjaRun *run, BraceFormat *braces, size_t from, size_t to) {
    uint64_t index = 0;

    if (to == from) {
        if (braces->is_numbered)
            jinja_fail(run, "cannot switch from manual field specification to automatic field numbering");
        index = braces->next++;
    } else if (read_index(braces->format, from, to, &index)) {
        braces->is_numbered = true;
    } else {
        return named_argument(run, braces->arguments, NULL, jinja_text_slice(run, braces->format, from, to));
    }
    if (index >= braces->arguments->n)
        jinja_fail(run, "replacement index %" PRIu64 " out of range for the arguments of format()", index);
    return braces->arguments->items[index];
}

/* The value that a field names: 0, name, name.attribute, name[key]. */
static JinjaValue find_field(JinjaRun *run, BraceFormat *braces, size_t from, size_t to) {
    const JinjaText *format = braces->format, *name;
    size_t at = from, begin, end;
    JinjaValue value;

    while (at < to && !is_one_of(format->data[at], ".["))
        at++;
    value = field_argument(run, braces, from, at);
    for (uint64_t index; at < to; at = end) {
        const bool is_item = format->data[at] == '[';

        begin = end = at + 1;
        while (end < to && (is_item ? format->data[end] != ']' : !is_one_of(format->data[end], ".[")))
            end++;
        if (end == begin || (is_item && end == to))
            jinja_fail(run, "a field of a format is not complete");
        name = jinja_text_slice(run, format, begin, end);
        if (is_item && read_index(format, begin, end, &index))
            value = jinja_item(run, value, jinja_int((int64_t)index));
        else
            value = is_item ? jinja_item(run, value, jinja_str(name)) : jinja_attribute(run, value, name);
        end += is_item;
    }
    return value;
}

/* Reads the bytes behind the colon of a field. */
static FormatSpec read_spec(JinjaRun *run, const JinjaText *format, size_t at, size_t to) {
    FormatSpec spec = { .fill = &space, .precision = -1 };
    size_t n = at < to ? jinja_text_char(format, at) : 0;

    if (n && is_one_of(byte_at(format, at + n, to), "<>^=")) {
        spec.fill = jinja_text_slice(run, format, at, at + n);
        spec.align = format->data[at + n];
        at += n + 1;
    } else if (is_one_of(byte_at(format, at, to), "<>^=")) {
        spec.align = format->data[at++];
    }
    if (is_one_of(byte_at(format, at, to), "+- "))
        spec.sign = format->data[at++];
    if (byte_at(format, at, to) == '#') {
        spec.alternate = true;
        at++;
    }
    if (byte_at(format, at, to) == '0' && spec.fill == &space) {
        spec.fill = &zero;
        spec.align = spec.align ? spec.align : '=';
        at++;
    }
    spec.width = read_count(run, format, &at, to);
    if (is_one_of(byte_at(format, at, to), ",_"))
        spec.separator = format->data[at++];
    spec.precision = read_precision(run, format, &at, to);
    if (at < to)
        spec.type = format->data[at++];
    if (at != to)
        jinja_fail(run, "invalid format specifier");
    return spec;
}

static void write_formatted_number(JinjaWriter *writer, const FormatSpec *spec, JinjaValue value) {
    const bool is_real = value.type == JINJA_FLOAT || is_one_of(spec->type, "eEfFgG%");
    const char align = spec->align ? spec->align : '>';
    int64_t integer;

    check_digits(writer->run, spec);
    if (spec->type && !is_one_of(spec->type, is_real ? "eEfFgG%n" : "bcdoxXn"))
        jinja_fail(writer->run, "unknown format code '%c' for %s", spec->type, is_real ? "a float" : "an integer");
    if (is_real)
        write_real(writer, spec, jinja_as_float(value), align);
    else if (spec->type == 'c')
        write_character(writer, value);
    else if (jinja_as_int(value, &integer))
        write_integer(writer, spec, integer, align);
}

static void write_formatted(JinjaWriter *writer, const FormatSpec *spec, bool has_spec, JinjaValue value) {
    JinjaRun *run = writer->run;

    if (jinja_is_number(value) && has_spec && !(value.type == JINJA_BOOL && !spec->type)) {
        write_formatted_number(writer, spec, value);
        return;
    }
    if (has_spec && value.type != JINJA_TEXT && value.type != JINJA_BOOL)
        jinja_fail(run, "unsupported format string for a value of type '%s'", jinja_type_name(value));
    if (spec->type && spec->type != 's')
        jinja_fail(run, "unknown format code '%c' for a string", spec->type);
    write_text(writer, spec, jinja_to_text(run, value), is_one_of(spec->align, "<>^") ? spec->align : '<');
}

/* Writes one field, whose bytes stand between its braces. Fields in the format of a field are not known. */
static void convert_field(JinjaWriter *writer, BraceFormat *braces, size_t from, size_t to) {
    const JinjaText *format = braces->format;
    JinjaRun *run = writer->run;
    size_t at = from;
    FormatSpec spec;
    JinjaValue value;
    bool has_spec;

    while (at < to && !is_one_of(format->data[at], ":!")) {
        const char *close = format->data[at] == '[' ? memchr(format->data + at, ']', to - at) : NULL;

        at = close ? (size_t)(close - format->data) : at + 1;
    }
    value = find_field(run, braces, from, at);
    if (byte_at(format, at, to) == '!') {
        const char conversion = byte_at(format, at + 1, to);

        at += 2;
        if (!is_one_of(conversion, "rsa") || (at < to && format->data[at] != ':'))
            jinja_fail(run, "a conversion that format() does not have");
        value = jinja_str(conversion == 's' ? jinja_to_text(run, value) : jinja_repr(run, value));
    }
    has_spec = at + 1 < to;
    spec = read_spec(run, format, has_spec ? at + 1 : to, to);
    write_formatted(writer, &spec, has_spec, value);
}

JinjaValue jinja_format_braces(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    const JinjaText *format = self.text;
    BraceFormat braces = { .format = format, .arguments = arguments };
    JinjaWriter writer;

    jinja_spend(run, format->len_bytes / 16);
    jinja_writer_init(&writer, run);
    for (size_t at = 0, end; at < format->len_bytes; at = end) {
        const char c = format->data[at];

        end = at;
        if (c != '{' && c != '}') {
            while (end < format->len_bytes && !is_one_of(format->data[end], "{}"))
                end++;
            jinja_write_part(&writer, format, at, end);
        } else if (byte_at(format, at + 1, format->len_bytes) == c) {
            jinja_write_part(&writer, format, at, at + 1);
            end += 2;
        } else if (c == '}') {
            jinja_fail(run, "single '}' encountered in format string");
        } else {
            while (end < format->len_bytes && format->data[end] != '}')
                end++;
            if (end == format->len_bytes || memchr(format->data + at + 1, '{', end - at - 1))
                jinja_fail(run, "a field of a format is not closed, or has fields in it");
            convert_field(&writer, &braces, at + 1, end);
            end++;
        }
    }
    return jinja_str(jinja_writer_finish(&writer));
}
