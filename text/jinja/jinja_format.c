// SPDX-License-Identifier: Apache-2.0
/* Formats: "%s" % value, and "{}".format(value). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "text/jinja/jinja_builtin.h"

#define FORMAT_WIDTH_MAX 100000
#define FORMAT_DIGITS_MAX 300

/* How a value is to be laid out. */
typedef struct FormatSpec {
    const JinjaText *fill; /* NULL: a space */
    size_t fill_at, fill_bytes;
    char align; /* 0: by kind */
    char sign;
    bool alternate, grouped_comma, grouped_line;
    int64_t width, precision; /* precision -1: none */
    char type;
} FormatSpec;

static void write_fill(JinjaWriter *writer, const FormatSpec *spec, int64_t n) {
    for (; n > 0 && !writer->failure; n--) {
        if (spec->fill)
            jinja_write_part(writer, spec->fill, spec->fill_at, spec->fill_at + spec->fill_bytes);
        else
            jinja_write_chars(writer, " ");
    }
}

static void write_padded(JinjaWriter *writer, const FormatSpec *spec, const JinjaText *text, char align) {
    int64_t more = spec->width > (int64_t)text->n_chars ? spec->width - text->n_chars : 0;
    int64_t left = align == '<' ? 0 : align == '^' ? more / 2 : more;

    write_fill(writer, spec, left);
    jinja_write(writer, text);
    write_fill(writer, spec, more - left);
}

/* A number's text: sign, digits, padding between them where the fill goes there. */
static void write_number_padded(JinjaWriter *writer, const FormatSpec *spec, const char *sign, const char *digits,
                                char align) {
    char all[FORMAT_DIGITS_MAX + 200];
    int64_t n = (int64_t)(strlen(sign) + strlen(digits));
    JinjaText text;

    if (align == '=') {
        jinja_write_chars(writer, sign);
        write_fill(writer, spec, spec->width - n);
        jinja_write_chars(writer, digits);
        return;
    }
    snprintf(all, sizeof(all), "%s%s", sign, digits);
    text = (JinjaText){ .data = all, .len_bytes = (uint32_t)strlen(all), .n_chars = (uint32_t)strlen(all) };
    write_padded(writer, spec, &text, align);
}

static const char *sign_of(bool negative, char sign) {
    return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

/* Separators between thousands of the integer part. */
static void group_digits(char *digits, size_t room_bytes, char separator) {
    size_t n = strspn(digits, "0123456789"), len_bytes = strlen(digits);

    for (size_t at = n; at > 3 && len_bytes + 2 < room_bytes;) {
        at -= 3;
        memmove(digits + at + 1, digits + at, len_bytes - at + 1);
        digits[at] = separator;
        len_bytes++;
    }
}

static int format_integer(JinjaRun *run, const FormatSpec *spec, int64_t value, char *digits, size_t room_bytes) {
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t n = 0;

    switch (spec->type) {
    case 'x':
        snprintf(digits, room_bytes, "%s%" PRIx64, spec->alternate ? "0x" : "", size);
        break;
    case 'X':
        snprintf(digits, room_bytes, "%s%" PRIX64, spec->alternate ? "0X" : "", size);
        break;
    case 'o':
        snprintf(digits, room_bytes, "%s%" PRIo64, spec->alternate ? "0o" : "", size);
        break;
    case 'b':
        if (spec->alternate)
            n = (size_t)snprintf(digits, room_bytes, "0b");
        for (int bit = size ? 63 - __builtin_clzll(size) : 0; bit >= 0; bit--)
            digits[n++] = (char)('0' + (size >> bit & 1));
        digits[n] = 0;
        break;
    default:
        snprintf(digits, room_bytes, "%" PRIu64, size);
        break;
    }
    return 0;
}

static void format_real(const FormatSpec *spec, double value, char *digits, size_t room_bytes) {
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;

    value = fabs(value);
    switch (spec->type) {
    case 'e':
        snprintf(digits, room_bytes, "%.*e", precision, value);
        break;
    case 'E':
        snprintf(digits, room_bytes, "%.*E", precision, value);
        break;
    case 'F':
        snprintf(digits, room_bytes, "%.*F", precision, value);
        break;
    case 'g':
        snprintf(digits, room_bytes, "%.*g", precision, value);
        break;
    case 'G':
        snprintf(digits, room_bytes, "%.*G", precision, value);
        break;
    case '%':
        snprintf(digits, room_bytes, "%.*f%%", precision, value * 100);
        break;
    case 0:
        if (spec->precision < 0)
            jinja_float_text(value, digits);
        else
            snprintf(digits, room_bytes, "%.*g", precision ? precision : 1, value);
        break;
    default:
        snprintf(digits, room_bytes, "%.*f", precision, value);
        break;
    }
}

static void write_real(JinjaWriter *writer, const FormatSpec *spec, double value, char align) {
    char digits[FORMAT_DIGITS_MAX + 400];

    format_real(spec, value, digits, sizeof(digits));
    if (spec->grouped_comma || spec->grouped_line)
        group_digits(digits, sizeof(digits), spec->grouped_comma ? ',' : '_');
    write_number_padded(writer, spec, sign_of(signbit(value) && !isnan(value), spec->sign), digits, align);
}

static void write_integer(JinjaWriter *writer, const FormatSpec *spec, int64_t value, char align) {
    char digits[160];

    format_integer(writer->run, spec, value, digits, sizeof(digits));
    if (spec->grouped_comma || spec->grouped_line)
        group_digits(digits, sizeof(digits), spec->grouped_comma ? ',' : '_');
    write_number_padded(writer, spec, sign_of(value < 0, spec->sign), digits, align);
}

/* A width or precision that stands at *atp. */
static int read_count(JinjaRun *run, const JinjaText *format, size_t *atp, int64_t max, int64_t *countp) {
    int64_t count = 0;

    for (; *atp < format->len_bytes && format->data[*atp] >= '0' && format->data[*atp] <= '9'; (*atp)++) {
        count = count * 10 + (format->data[*atp] - '0');
        if (count > max)
            return jinja_fail(run, "a width or precision of more than %" PRId64 " in a format", max);
    }
    *countp = count;
    return 0;
}

/* --- "%s" % value ----------------------------------------------------------------------------------------------- */

typedef struct PercentArguments {
    const JinjaArguments *all;
    uint32_t at;
    const JinjaDict *dict; /* of a single argument: for %(name)s */
} PercentArguments;

static int next_argument(JinjaRun *run, PercentArguments *arguments, JinjaValue *valuep) {
    if (arguments->at >= arguments->all->n)
        return jinja_fail(run, "not enough arguments for format string");
    *valuep = arguments->all->items[arguments->at++];
    return 0;
}

static int named_argument(JinjaRun *run, const PercentArguments *arguments, const JinjaText *format, size_t from,
                          size_t to, JinjaValue *valuep) {
    const JinjaText name = { .data = format->data + from, .len_bytes = (uint32_t)(to - from) };
    const JinjaValue *found = NULL;
    int r = 0;

    for (uint32_t i = 0; i < arguments->all->n_named; i++)
        if (jinja_text_equal(arguments->all->names[i], &name))
            found = &arguments->all->named[i];
    if (!found && arguments->dict)
        r = jinja_dict_get(run, arguments->dict, (JinjaValue){ .type = JINJA_TEXT, .text = &name }, &found);
    if (!r && !found)
        return jinja_fail(run, "the format names '%.*s', which is not given", (int)(to - from), name.data);
    if (!r)
        *valuep = *found;
    return r;
}

static int write_percent(JinjaWriter *writer, const FormatSpec *spec, JinjaValue value, char align) {
    JinjaRun *run = writer->run;
    const JinjaText *text;
    JinjaWriter part;
    JinjaValue made;
    int64_t integer;
    size_t end;
    int r;

    switch (spec->type) {
    case 's':
    case 'r':
    case 'a':
        jinja_writer_init(&part, run);
        if (spec->type == 's')
            jinja_write_value(&part, value);
        else
            jinja_write_repr(&part, value);
        r = jinja_writer_finish(&part, &made);
        if (r)
            return r;
        text = made.text;
        end = spec->precision >= 0 ? jinja_text_offset(text, (size_t)spec->precision) : text->len_bytes;
        r = jinja_text_slice(run, text, 0, end, &made);
        if (!r)
            write_padded(writer, spec, made.text, align == '<' ? '<' : '>');
        return r ? r : writer->failure;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (value.type == JINJA_FLOAT && strchr("diu", spec->type) && fabs(value.real) < 9e18)
            integer = (int64_t)value.real;
        else if (!jinja_as_int(value, &integer))
            return jinja_fail(run, "%%%c needs a number, not '%s'", spec->type, jinja_type_name(value));
        write_integer(writer, spec, integer, align);
        return writer->failure;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!jinja_is_number(value))
            return jinja_fail(run, "%%%c needs a number, not '%s'", spec->type, jinja_type_name(value));
        write_real(writer, spec, jinja_as_float(value), align);
        return writer->failure;
    case 'c':
        if (value.type == JINJA_TEXT && value.text->n_chars == 1)
            write_padded(writer, spec, value.text, align == '<' ? '<' : '>');
        else if (jinja_as_int(value, &integer) && integer >= 0 && integer < 0x110000 &&
                 (integer < 0xd800 || integer >= 0xe000))
            jinja_write_code_point(writer, (uint32_t)integer, false);
        else
            return jinja_fail(run, "%%c needs a character");
        return writer->failure;
    default:
        return jinja_fail(run, "unsupported format character '%c'", spec->type);
    }
}

/* One conversion behind its "%". */
static int convert_percent(JinjaWriter *writer, const JinjaText *format, size_t *atp, PercentArguments *arguments) {
    static const JinjaText zero = { .data = "0", .len_bytes = 1, .n_chars = 1 };
    FormatSpec spec = { .precision = -1 };
    JinjaRun *run = writer->run;
    JinjaValue value = JINJA_NO_VALUE;
    size_t at = *atp, close;
    char align = '>';
    bool zeroes = false;
    int64_t number;
    int r = 0;

    if (at < format->len_bytes && format->data[at] == '(') {
        for (close = at; close < format->len_bytes && format->data[close] != ')';)
            close++;
        if (close == format->len_bytes)
            return jinja_fail(run, "incomplete format key");
        r = named_argument(run, arguments, format, at + 1, close, &value);
        at = close + 1;
    }
    for (; !r && at < format->len_bytes && format->data[at] && strchr("-+ 0#", format->data[at]); at++) {
        char c = format->data[at];

        if (c == '-')
            align = '<';
        else if (c == '0')
            zeroes = true;
        else if (c == '#')
            spec.alternate = true;
        else if (spec.sign != '+')
            spec.sign = c;
    }
    if (!r && at < format->len_bytes && format->data[at] == '*') {
        at++;
        r = next_argument(run, arguments, &value);
        if (!r && (!jinja_as_int(value, &number) || number > FORMAT_WIDTH_MAX || number < -FORMAT_WIDTH_MAX))
            return jinja_fail(run, "* wants an integer");
        if (!r) {
            align = number < 0 ? '<' : align;
            spec.width = number < 0 ? -number : number;
        }
        value = JINJA_NO_VALUE;
    } else if (!r) {
        r = read_count(run, format, &at, FORMAT_WIDTH_MAX, &spec.width);
    }
    if (!r && at < format->len_bytes && format->data[at] == '.') {
        at++;
        r = read_count(run, format, &at, FORMAT_WIDTH_MAX, &spec.precision);
    }
    while (!r && at < format->len_bytes && format->data[at] && strchr("hlL", format->data[at]))
        at++;
    if (r)
        return r;
    if (at == format->len_bytes)
        return jinja_fail(run, "incomplete format");
    spec.type = format->data[at++];
    *atp = at;
    if (spec.type == '%') {
        jinja_write_part(writer, format, at - 1, at);
        return writer->failure;
    }
    if (spec.type != 's' && spec.type != 'r' && spec.type != 'a' && spec.precision > FORMAT_DIGITS_MAX)
        return jinja_fail(run, "a precision of more than %d in a format", FORMAT_DIGITS_MAX);
    if (zeroes && align == '>' && !strchr("srac", spec.type)) {
        align = '=';
        spec.fill = &zero;
        spec.fill_bytes = 1;
    }
    if (!jinja_given(value))
        r = next_argument(run, arguments, &value);
    return r ? r : write_percent(writer, &spec, value, align);
}

int jinja_format_percent(JinjaRun *run, const JinjaText *format, const JinjaArguments *arguments, bool is_one,
                         JinjaValue *valuep) {
    PercentArguments left = { .all = arguments };
    JinjaWriter writer;
    size_t at = 0;
    bool may_be_left;
    int r = 0;

    if (is_one && arguments->items[0].type == JINJA_DICT)
        left.dict = arguments->items[0].dict;
    /* What has items, but is no text, may be left over: Python takes it for a mapping. */
    may_be_left =
        arguments->n_named ||
        (is_one && (left.dict || arguments->items[0].type == JINJA_LIST || arguments->items[0].type == JINJA_RANGE));
    jinja_writer_init(&writer, run);
    while (!r && at < format->len_bytes) {
        const char *percent = memchr(format->data + at, '%', format->len_bytes - at);
        size_t to = percent ? (size_t)(percent - format->data) : format->len_bytes;

        jinja_write_part(&writer, format, at, to);
        at = to + 1;
        r = percent ? convert_percent(&writer, format, &at, &left) : writer.failure;
    }
    if (!r && left.at < arguments->n && !may_be_left)
        return jinja_fail(run, "not all arguments converted during string formatting");
    return r ? r : jinja_writer_finish(&writer, valuep);
}

/* --- "{}".format(value) ----------------------------------------------------------------------------------------- */

typedef struct BraceFormat {
    const JinjaText *format;
    const JinjaArguments *arguments;
    uint32_t next; /* of "{}" */
    bool is_numbered;
} BraceFormat;

/* The value that a field names: 0, name, name.attribute, name[key]. */
static int find_field(JinjaRun *run, BraceFormat *braces, size_t from, size_t to, JinjaValue *valuep) {
    const JinjaText *format = braces->format;
    size_t at = from;
    uint64_t index = 0;
    int r = 0;

    while (at < to && format->data[at] != '.' && format->data[at] != '[')
        at++;
    if (at == from) {
        if (braces->is_numbered)
            return jinja_fail(run, "cannot switch from manual field specification to automatic field numbering");
        index = braces->next++;
    } else if (format->data[from] >= '0' && format->data[from] <= '9') {
        braces->is_numbered = true;
        for (size_t i = from; i < at && index < UINT32_MAX; i++)
            index = index * 10 + (uint64_t)(format->data[i] - '0');
    } else {
        const JinjaText name = { .data = format->data + from, .len_bytes = (uint32_t)(at - from) };
        uint32_t i = 0;

        while (i < braces->arguments->n_named && !jinja_text_equal(braces->arguments->names[i], &name))
            i++;
        if (i == braces->arguments->n_named)
            return jinja_fail(run, "the format names '%.*s', which is not given", (int)(at - from), name.data);
        *valuep = braces->arguments->named[i];
        index = UINT64_MAX;
    }
    if (index != UINT64_MAX && index >= braces->arguments->n)
        return jinja_fail(run, "replacement index %" PRIu64 " out of range for the arguments of format()", index);
    if (index != UINT64_MAX)
        *valuep = braces->arguments->items[index];
    while (!r && at < to) {
        size_t begin = at + 1, end = begin;
        bool is_item = format->data[at] == '[', is_number = true;
        JinjaValue name;

        while (end < to && (is_item ? format->data[end] != ']' : format->data[end] != '.' && format->data[end] != '['))
            end++;
        if (end == begin || (is_item && end == to))
            return jinja_fail(run, "a field of a format is not complete");
        r = jinja_text_slice(run, format, begin, end, &name);
        index = 0;
        for (size_t i = begin; i < end && is_number; i++) {
            is_number = format->data[i] >= '0' && format->data[i] <= '9' && index < UINT32_MAX;
            index = index * 10 + (uint64_t)(format->data[i] - '0');
        }
        if (!r && is_item)
            r = jinja_item(run, *valuep, is_number ? jinja_int((int64_t)index) : name, valuep);
        else if (!r)
            r = jinja_attribute(run, *valuep, name.text, valuep);
        at = end + is_item;
    }
    return r;
}

/* What stands behind the colon. */
static int read_spec(JinjaRun *run, const JinjaText *format, size_t at, size_t to, FormatSpec *spec) {
    static const JinjaText zero = { .data = "0", .len_bytes = 1, .n_chars = 1 };
    size_t n = at < to ? jinja_text_char(format, at) : 0;
    int r = 0;

    *spec = (FormatSpec){ .precision = -1 };
    if (at + n < to && strchr("<>^=", format->data[at + n]) && format->data[at + n]) {
        spec->fill = format;
        spec->fill_at = at;
        spec->fill_bytes = n;
        spec->align = format->data[at + n];
        at += n + 1;
    } else if (n && format->data[at] && strchr("<>^=", format->data[at])) {
        spec->align = format->data[at++];
    }
    if (at < to && (format->data[at] == '+' || format->data[at] == '-' || format->data[at] == ' '))
        spec->sign = format->data[at++];
    if (at < to && format->data[at] == '#') {
        spec->alternate = true;
        at++;
    }
    if (at < to && format->data[at] == '0' && !spec->fill) {
        spec->fill = &zero;
        spec->fill_at = 0;
        spec->fill_bytes = 1;
        spec->align = spec->align ? spec->align : '=';
        at++;
    }
    r = read_count(run, format, &at, FORMAT_WIDTH_MAX, &spec->width);
    if (!r && at < to && (format->data[at] == ',' || format->data[at] == '_')) {
        spec->grouped_comma = format->data[at] == ',';
        spec->grouped_line = !spec->grouped_comma;
        at++;
    }
    if (!r && at < to && format->data[at] == '.') {
        at++;
        r = read_count(run, format, &at, FORMAT_WIDTH_MAX, &spec->precision);
    }
    if (!r && at < to)
        spec->type = format->data[at++];
    return r || at == to ? r : jinja_fail(run, "invalid format specifier");
}

static int write_formatted(JinjaWriter *writer, const FormatSpec *spec, bool has_spec, JinjaValue value) {
    JinjaRun *run = writer->run;
    int64_t integer;
    const JinjaText *text;
    JinjaValue part;
    int r;

    if (jinja_is_number(value) && has_spec && !(value.type == JINJA_BOOL && !spec->type)) {
        char align = spec->align ? spec->align : '>';

        if (spec->precision > FORMAT_DIGITS_MAX)
            return jinja_fail(run, "a precision of more than %d in a format", FORMAT_DIGITS_MAX);
        if (value.type == JINJA_FLOAT || (spec->type && strchr("eEfFgG%", spec->type))) {
            if (spec->type && !strchr("eEfFgG%n", spec->type))
                return jinja_fail(run, "unknown format code '%c' for a float", spec->type);
            write_real(writer, spec, jinja_as_float(value), align);
            return writer->failure;
        }
        if (spec->type && !strchr("bcdoxXn", spec->type))
            return jinja_fail(run, "unknown format code '%c' for an integer", spec->type);
        (void)jinja_as_int(value, &integer);
        if (spec->type == 'c') {
            if (integer < 0 || integer >= 0x110000 || (integer >= 0xd800 && integer < 0xe000))
                return jinja_fail(run, "format code 'c' needs the number of a character");
            jinja_write_code_point(writer, (uint32_t)integer, false);
            return writer->failure;
        }
        write_integer(writer, spec, integer, align);
        return writer->failure;
    }
    if (has_spec && value.type != JINJA_TEXT && value.type != JINJA_BOOL)
        return jinja_fail(run, "unsupported format string for a value of type '%s'", jinja_type_name(value));
    if (spec->type && spec->type != 's')
        return jinja_fail(run, "unknown format code '%c' for a string", spec->type);
    r = jinja_to_text(run, value, &text);
    if (!r)
        r = jinja_text_slice(run, text, 0,
                             spec->precision >= 0 ? jinja_text_offset(text, (size_t)spec->precision) : text->len_bytes,
                             &part);
    if (!r)
        write_padded(writer, spec, part.text, spec->align && spec->align != '=' ? spec->align : '<');
    return r ? r : writer->failure;
}

/* One field between its braces. Fields in the format of a field are not known. */
static int convert_field(JinjaWriter *writer, BraceFormat *braces, size_t from, size_t to) {
    const JinjaText *format = braces->format;
    JinjaRun *run = writer->run;
    FormatSpec spec;
    size_t name_end = from;
    char conversion = 0;
    JinjaValue value;
    bool has_spec;
    int r;

    while (name_end < to && format->data[name_end] != ':' && format->data[name_end] != '!')
        name_end += format->data[name_end] == '[' && memchr(format->data + name_end, ']', to - name_end)
                        ? (size_t)((const char *)memchr(format->data + name_end, ']', to - name_end) -
                                   (format->data + name_end))
                        : 1;
    r = find_field(run, braces, from, name_end, &value);
    if (r)
        return r;
    if (name_end < to && format->data[name_end] == '!') {
        conversion = name_end + 1 < to ? format->data[name_end + 1] : 0;
        name_end += 2;
        if (!conversion || !strchr("rsa", conversion) || (name_end < to && format->data[name_end] != ':'))
            return jinja_fail(run, "a conversion that format() does not have");
    }
    if (conversion) {
        JinjaWriter part;

        jinja_writer_init(&part, run);
        if (conversion == 's')
            jinja_write_value(&part, value);
        else
            jinja_write_repr(&part, value);
        r = jinja_writer_finish(&part, &value);
    }
    has_spec = name_end + 1 < to;
    if (!r)
        r = read_spec(run, format, has_spec ? name_end + 1 : to, to, &spec);
    return r ? r : write_formatted(writer, &spec, has_spec, value);
}

int jinja_format_braces(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    BraceFormat braces = { .format = self.text, .arguments = arguments };
    const JinjaText *format = self.text;
    JinjaWriter writer;
    int r = jinja_spend(run, format->len_bytes / 16);

    jinja_writer_init(&writer, run);
    for (size_t at = 0; at < format->len_bytes && !r;) {
        char c = format->data[at];
        size_t end = at;

        if (c != '{' && c != '}') {
            while (end < format->len_bytes && format->data[end] != '{' && format->data[end] != '}')
                end++;
            jinja_write_part(&writer, format, at, end);
            at = end;
            r = writer.failure;
            continue;
        }
        if (at + 1 < format->len_bytes && format->data[at + 1] == c) {
            jinja_write_part(&writer, format, at, at + 1);
            at += 2;
            r = writer.failure;
            continue;
        }
        if (c == '}')
            return jinja_fail(run, "single '}' encountered in format string");
        while (end < format->len_bytes && format->data[end] != '}')
            end++;
        if (end == format->len_bytes || memchr(format->data + at + 1, '{', end - at - 1))
            return jinja_fail(run, "a field of a format is not closed, or has fields in it");
        r = convert_field(&writer, &braces, at + 1, end);
        at = end + 1;
    }
    return r ? r : jinja_writer_finish(&writer, valuep);
}
