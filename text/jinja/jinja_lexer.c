// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/jinja/jinja_lexer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/strings/decimal.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "text/jinja/jinja_unicode.h"

/* --- places and errors ------------------------------------------------------------------------------------------ */

static int lexer_fail(const JinjaLexer *lexer, const char *what, const char *data, size_t len_bytes) {
    Printable shown;

    return err_set(lexer->err, JINJA_E_SYNTAX, "chat template line %u: %s%s%s%s", lexer->line, what, data ? " '" : "",
                   data ? printable(&shown, data, len_bytes) : "", data ? "'" : "");
}

static int lexer_fail_memory(const JinjaLexer *lexer) {
    if (lexer->arena->failure == -ENOMEM)
        return err_set(lexer->err, -ENOMEM, "out of memory for the chat template");
    return err_set(lexer->err, JINJA_E_LIMIT, "chat template line %u: it takes too much memory", lexer->line);
}

static const char *lexer_here(const JinjaLexer *lexer) {
    return lexer->source + lexer->at;
}

static size_t lexer_left(const JinjaLexer *lexer) {
    return lexer->len_bytes - lexer->at;
}

static bool lexer_sees(const JinjaLexer *lexer, const char *word) {
    size_t n = strlen(word);

    return lexer_left(lexer) >= n && !memcmp(lexer_here(lexer), word, n);
}

static void lexer_skip(JinjaLexer *lexer, size_t n) {
    for (; n; n--)
        lexer->line += lexer->source[lexer->at++] == '\n';
}

/* Bytes of the white space at a place; 0: there is none. */
static size_t space_at(const char *data, size_t len_bytes) {
    const JinjaText text = { .data = data, .len_bytes = (uint32_t)len_bytes };
    size_t n;

    if (!len_bytes)
        return 0;
    return jinja_unicode_is_space(jinja_text_code_point(&text, 0, &n)) ? n : 0;
}

static size_t spaces_at(const char *data, size_t len_bytes) {
    size_t all = 0, n;

    while ((n = space_at(data + all, len_bytes - all)))
        all += n;
    return all;
}

static size_t without_spaces_at_end(const char *data, size_t len_bytes) {
    while (len_bytes) {
        size_t n = 1;

        while (n < len_bytes && n < 4 && ((uint8_t)data[len_bytes - n] & 0xc0) == 0x80)
            n++;
        if (space_at(data + len_bytes - n, n) != n)
            break;
        len_bytes -= n;
    }
    return len_bytes;
}

int jinja_lexer_init(JinjaLexer *lexer, JinjaArena *arena, const char *source, size_t len_bytes, ErrText *err) {
    char *copy;
    size_t n = 0;

    *lexer = (JinjaLexer){ .arena = arena, .err = err, .line = 1, .at_line_start = true };
    if (len_bytes > JINJA_SOURCE_BYTES_MAX)
        return err_set(err, JINJA_E_LIMIT, "the chat template has %zu bytes; at most %u are taken", len_bytes,
                       JINJA_SOURCE_BYTES_MAX);
    copy = jinja_arena_take(arena, len_bytes + 1);
    if (!copy)
        return lexer_fail_memory(lexer);
    for (size_t i = 0; i < len_bytes; i++) {
        if (source[i] == '\r' && i + 1 < len_bytes && source[i + 1] == '\n')
            continue;
        copy[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n && copy[n - 1] == '\n')
        n--;
    lexer->source = copy;
    lexer->len_bytes = n;
    return 0;
}

/* --- text between tags ------------------------------------------------------------------------------------------ */

static int give_data(JinjaLexer *lexer, JinjaToken *token, const char *data, size_t len_bytes) {
    const JinjaText *text = jinja_text_of(lexer->arena, data, len_bytes, true);

    if (!text)
        return lexer_fail_memory(lexer);
    *token = (JinjaToken){ .kind = JINJA_TOKEN_DATA,
                           .line = lexer->line,
                           .data = data,
                           .len_bytes = len_bytes,
                           .value = { .type = JINJA_TEXT, .text = text } };
    return 0;
}

/* What is left of the text before a tag: sign is what stands behind the tag's beginning. */
static size_t cut_before_tag(const JinjaLexer *lexer, const char *data, size_t len_bytes, char sign, bool is_print) {
    const char *line;
    size_t from;

    if (sign == '-')
        return without_spaces_at_end(data, len_bytes);
    if (sign == '+' || is_print)
        return len_bytes;
    line = len_bytes ? memrchr(data, '\n', len_bytes) : NULL;
    from = line ? (size_t)(line + 1 - data) : 0;
    if (!line && !lexer->at_line_start)
        return len_bytes;
    return spaces_at(data + from, len_bytes - from) == len_bytes - from ? from : len_bytes;
}

/* Behind the end of a tag: "%}" and "#}" take a line break with them, a minus all white space. */
static void skip_tag_end(JinjaLexer *lexer, char sign, bool takes_newline) {
    size_t n = 0;

    if (sign == '-')
        n = spaces_at(lexer_here(lexer), lexer_left(lexer));
    else if (sign != '+' && takes_newline && lexer_sees(lexer, "\n"))
        n = 1;
    lexer_skip(lexer, n);
    lexer->at_line_start = n && lexer->source[lexer->at - 1] == '\n';
}

static int skip_comment(JinjaLexer *lexer) {
    const char *end = memmem(lexer_here(lexer), lexer_left(lexer), "#}", 2);
    char sign = 0;

    if (!end)
        return lexer_fail(lexer, "a comment that is not closed by '#}'", NULL, 0);
    if (end > lexer_here(lexer) && (end[-1] == '-' || end[-1] == '+'))
        sign = end[-1];
    lexer_skip(lexer, (size_t)(end + 2 - lexer_here(lexer)));
    skip_tag_end(lexer, sign, true);
    return 0;
}

/* "raw" and the end of its tag, if that is what stands here: its bytes, and the sign before the end. */
static size_t word_tag(const JinjaLexer *lexer, size_t at, const char *word, char *signp) {
    const char *data = lexer->source + at;
    size_t left = lexer->len_bytes - at, n = spaces_at(data, left), len_bytes = strlen(word);

    if (left - n < len_bytes || memcmp(data + n, word, len_bytes))
        return 0;
    n += len_bytes;
    n += spaces_at(data + n, left - n);
    *signp = 0;
    if (left > n && (data[n] == '-' || data[n] == '+'))
        *signp = data[n++];
    return left - n >= 2 && data[n] == '%' && data[n + 1] == '}' ? n + 2 : 0;
}

/* All up to {% endraw %}. */
static int next_raw(JinjaLexer *lexer, JinjaToken *token) {
    const char *from = lexer_here(lexer), *end = lexer->source + lexer->len_bytes;
    int r;

    for (const char *tag = from; (tag = memmem(tag, (size_t)(end - tag), "{%", 2)); tag += 2) {
        char sign = 0, end_sign;
        size_t at = (size_t)(tag + 2 - lexer->source), n;

        if (at < lexer->len_bytes && (tag[2] == '-' || tag[2] == '+')) {
            sign = tag[2];
            at++;
        }
        n = word_tag(lexer, at, "endraw", &end_sign);
        if (!n)
            continue;
        r = give_data(lexer, token, from, cut_before_tag(lexer, from, (size_t)(tag - from), sign, false));
        lexer_skip(lexer, at + n - lexer->at);
        skip_tag_end(lexer, end_sign, true);
        lexer->state = JINJA_LEXER_TEXT;
        return r;
    }
    return lexer_fail(lexer, "'raw' that is not closed by 'endraw'", NULL, 0);
}

/* The text up to the next tag, which is entered. */
static int next_text(JinjaLexer *lexer, JinjaToken *token) {
    const char *from = lexer_here(lexer), *tag = from, *end = lexer->source + lexer->len_bytes;
    size_t begin_bytes = 2, raw_bytes;
    char sign = 0, end_sign;
    int r;

    while ((tag = memchr(tag, '{', (size_t)(end - tag))) &&
           (end - tag < 2 || (tag[1] != '{' && tag[1] != '%' && tag[1] != '#')))
        tag++;
    if (!tag) {
        r = give_data(lexer, token, from, (size_t)(end - from));
        lexer_skip(lexer, lexer_left(lexer));
        return r;
    }
    if (end - tag > 2 && (tag[2] == '-' || tag[2] == '+')) {
        sign = tag[2];
        begin_bytes++;
    }
    r = give_data(lexer, token, from, cut_before_tag(lexer, from, (size_t)(tag - from), sign, tag[1] == '{'));
    if (r)
        return r;
    lexer_skip(lexer, (size_t)(tag - from) + begin_bytes);
    if (tag[1] == '#')
        return skip_comment(lexer);
    raw_bytes = tag[1] == '%' ? word_tag(lexer, lexer->at, "raw", &end_sign) : 0;
    if (raw_bytes && end_sign != '+') {
        lexer_skip(lexer, raw_bytes);
        skip_tag_end(lexer, end_sign, false);
        lexer->state = JINJA_LEXER_RAW;
        return 0;
    }
    lexer->state = tag[1] == '%' ? JINJA_LEXER_BLOCK : JINJA_LEXER_PRINT;
    lexer->has_tag = true;
    return 0;
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static bool is_digit_of(char c, int base) {
    if (base == 16)
        return isxdigit((unsigned char)c);
    return c >= '0' && c < '0' + base;
}

/* Digits with single "_" between them, which may be where the first one is looked for if leads is set. */
static size_t digits_at(const char *data, size_t len_bytes, int base, bool leads) {
    size_t n = 0;

    for (;;) {
        size_t skip = n + (n < len_bytes && data[n] == '_' && (n || leads));

        if (skip >= len_bytes || !is_digit_of(data[skip], base))
            return n;
        n = skip + 1;
    }
}

/* Bytes of a float; 0: it is none. */
static size_t float_at(const JinjaLexer *lexer) {
    const char *data = lexer_here(lexer);
    size_t left = lexer_left(lexer), n = digits_at(data, left, 10, false), more, exponent;

    if (!n || (lexer->at && data[-1] == '.'))
        return 0;
    more = n < left && data[n] == '.' ? digits_at(data + n + 1, left - n - 1, 10, false) : 0;
    if (more)
        n += 1 + more;
    if (n < left && (data[n] == 'e' || data[n] == 'E')) {
        exponent = n + 1;
        exponent += exponent < left && (data[exponent] == '+' || data[exponent] == '-');
        exponent = exponent < left && digits_at(data + exponent, left - exponent, 10, false)
                       ? exponent + digits_at(data + exponent, left - exponent, 10, false)
                       : 0;
        if (exponent)
            return exponent;
    }
    return more ? n : 0;
}

static int read_float(JinjaLexer *lexer, JinjaToken *token, size_t n) {
    char text[400];
    double value;
    size_t len_bytes = 0;

    for (size_t i = 0; i < n && len_bytes < sizeof(text) - 1; i++)
        if (token->data[i] != '_')
            text[len_bytes++] = token->data[i];
    text[len_bytes] = 0;
    if (len_bytes == sizeof(text) - 1 || !decimal_parse(text, &value))
        return lexer_fail(lexer, "a number that cannot be held:", token->data, n);
    token->value = jinja_float(value);
    token->len_bytes = n;
    return 0;
}

static int read_number(JinjaLexer *lexer, JinjaToken *token) {
    const char *data = token->data;
    size_t left = lexer_left(lexer), n = float_at(lexer), from = 0;
    int base = 10;
    int64_t value = 0;

    if (n)
        return read_float(lexer, token, n);
    if (left > 2 && data[0] == '0' && strchr("bBoOxX", data[1])) {
        base = data[1] == 'b' || data[1] == 'B' ? 2 : data[1] == 'o' || data[1] == 'O' ? 8 : 16;
        n = digits_at(data + 2, left - 2, base, true);
        from = n ? 2 : 0;
        base = n ? base : 10;
    }
    if (!n)
        n = data[0] == '0' ? digits_at(data, left, 1, false) : digits_at(data, left, 10, false);
    n += from;
    for (size_t i = from; i < n; i++) {
        int digit = data[i] <= '9' ? data[i] - '0' : (data[i] | 0x20) - 'a' + 10;

        if (data[i] == '_')
            continue;
        if (__builtin_mul_overflow(value, (int64_t)base, &value) || __builtin_add_overflow(value, digit, &value))
            return lexer_fail(lexer, "an integer past 64 bits:", data, n);
    }
    token->value = jinja_int(value);
    token->len_bytes = n;
    return 0;
}

/* --- texts in quotes -------------------------------------------------------------------------------------------- */

/* Hexadecimal digits behind \x, \u and \U. */
static int read_hex(JinjaLexer *lexer, const char *data, size_t left, size_t n, uint32_t *code_pointp) {
    uint32_t code_point = 0;

    for (size_t i = 0; i < n; i++) {
        if (i >= left || !isxdigit((unsigned char)data[i]))
            return lexer_fail(lexer, "an escape in a text that has too few hexadecimal digits", NULL, 0);
        code_point = code_point << 4 | (uint32_t)(data[i] <= '9' ? data[i] - '0' : (data[i] | 0x20) - 'a' + 10);
    }
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
        return lexer_fail(lexer, "an escape in a text that is no character", NULL, 0);
    *code_pointp = code_point;
    return 0;
}

static size_t put_code_point(char *out, uint32_t code_point) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xc0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3f));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xe0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code_point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code_point & 0x3f));
    return 4;
}

/* One escape behind its backslash; writes at most as many bytes as it reads, and the backslash's. */
static int read_escape(JinjaLexer *lexer, const char *data, size_t left, size_t *n_readp, char *out, size_t *n_outp) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *simple = data[0] ? strchr(from, data[0]) : NULL;
    uint32_t code_point = 0;
    size_t n = 0;
    int r;

    *n_readp = 1;
    *n_outp = 1;
    if (simple) {
        out[0] = to[simple - from];
        return 0;
    }
    if (data[0] == '\n') {
        *n_outp = 0;
        return 0;
    }
    if (data[0] >= '0' && data[0] <= '7') {
        for (; n < 3 && n < left && data[n] >= '0' && data[n] <= '7'; n++)
            code_point = code_point << 3 | (uint32_t)(data[n] - '0');
        *n_readp = n;
        *n_outp = put_code_point(out, code_point);
        return 0;
    }
    if (data[0] == 'x' || data[0] == 'u' || data[0] == 'U') {
        n = data[0] == 'x' ? 2 : data[0] == 'u' ? 4 : 8;
        r = read_hex(lexer, data + 1, left - 1, n, &code_point);
        *n_readp = 1 + n;
        *n_outp = put_code_point(out, code_point);
        return r;
    }
    if (data[0] == 'N')
        return lexer_fail(lexer, "the escape \\N in a text: characters by name are not known", NULL, 0);
    out[0] = '\\'; /* an unknown one stays as it is */
    *n_readp = 0;
    return 0;
}

static int read_text(JinjaLexer *lexer, JinjaToken *token) {
    const char *data = token->data, quote = data[0];
    size_t left = lexer_left(lexer), n = 1, len_bytes = 0;
    char *text;

    while (n < left && data[n] != quote)
        n += data[n] == '\\' ? 2 : 1;
    if (n >= left)
        return lexer_fail(lexer, "a text in quotes that is not closed:", data, left < 20 ? left : 20);
    text = jinja_arena_take(lexer->arena, n);
    if (!text)
        return lexer_fail_memory(lexer);
    for (size_t i = 1; i < n;) {
        size_t n_read, n_out;
        int r;

        if (data[i] != '\\') {
            text[len_bytes++] = data[i++];
            continue;
        }
        r = read_escape(lexer, data + i + 1, n - i - 1, &n_read, text + len_bytes, &n_out);
        if (r)
            return r;
        i += 1 + n_read;
        len_bytes += n_out;
    }
    token->len_bytes = n + 1;
    token->value = (JinjaValue){ .type = JINJA_TEXT, .text = jinja_text_of(lexer->arena, text, len_bytes, true) };
    return token->value.text ? 0 : lexer_fail_memory(lexer);
}

/* --- words in tags ---------------------------------------------------------------------------------------------- */

static bool is_name_byte(char c) {
    return isalnum((unsigned char)c) || c == '_' || (uint8_t)c >= 0x80;
}

static int read_operator(JinjaLexer *lexer, JinjaToken *token) {
    static const char pairs[][3] = { "//", "**", "==", "!=", ">=", "<=" };
    const char c = token->data[0];

    token->len_bytes = 1;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        if (lexer_sees(lexer, pairs[i]))
            token->len_bytes = 2;
    if (token->len_bytes == 1 && (!c || !strchr("+-/*%~[](){}><=.:|,;", c)))
        return lexer_fail(
            lexer, "an unexpected character", token->data,
            jinja_text_char(&(JinjaText){ .data = token->data, .len_bytes = (uint32_t)lexer_left(lexer) }, 0));
    if (strchr("([{", c)) {
        if (lexer->n_open == JINJA_NESTING_MAX)
            return err_set(lexer->err, JINJA_E_LIMIT, "chat template line %u: brackets nested more than %d deep",
                           lexer->line, JINJA_NESTING_MAX);
        lexer->open[lexer->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (!lexer->n_open || lexer->open[--lexer->n_open] != c)
            return lexer_fail(lexer, "a bracket that was not opened:", token->data, 1);
    }
    return 0;
}

/* The end of the tag, if it is here and no bracket is open. */
static bool read_tag_end(JinjaLexer *lexer, JinjaToken *token) {
    const bool is_block = lexer->state == JINJA_LEXER_BLOCK;
    const char sign = *token->data;
    const bool is_signed = sign == '-' || (is_block && sign == '+');

    if (lexer->n_open || lexer_left(lexer) < (is_signed ? 3 : 2) ||
        memcmp(token->data + is_signed, is_block ? "%}" : "}}", 2))
        return false;
    token->kind = is_block ? JINJA_TOKEN_BLOCK_END : JINJA_TOKEN_PRINT_END;
    lexer_skip(lexer, is_signed ? 3 : 2);
    skip_tag_end(lexer, is_signed ? sign : 0, is_block);
    lexer->state = JINJA_LEXER_TEXT;
    return true;
}

static int next_word(JinjaLexer *lexer, JinjaToken *token) {
    int r = 0;
    char c;

    lexer_skip(lexer, spaces_at(lexer_here(lexer), lexer_left(lexer)));
    *token = (JinjaToken){ .line = lexer->line, .data = lexer_here(lexer) };
    if (!lexer_left(lexer)) {
        token->kind = JINJA_TOKEN_END;
        return 0;
    }
    if (read_tag_end(lexer, token))
        return 0;
    c = token->data[0];
    if (isdigit((unsigned char)c)) {
        token->kind = JINJA_TOKEN_NUMBER;
        r = read_number(lexer, token);
    } else if (is_name_byte(c)) {
        token->kind = JINJA_TOKEN_NAME;
        while (token->len_bytes < lexer_left(lexer) && is_name_byte(token->data[token->len_bytes]))
            token->len_bytes++;
    } else if (c == '\'' || c == '"') {
        token->kind = JINJA_TOKEN_TEXT;
        r = read_text(lexer, token);
    } else {
        token->kind = JINJA_TOKEN_OPERATOR;
        r = read_operator(lexer, token);
    }
    if (!r)
        lexer_skip(lexer, token->len_bytes);
    return r;
}

/* Texts that are empty are left out. */
int jinja_lexer_next(JinjaLexer *lexer, JinjaToken *token) {
    int r = 0;

    for (;;) {
        if (lexer->has_tag) {
            lexer->has_tag = false;
            *token = (JinjaToken){ .kind = lexer->state == JINJA_LEXER_BLOCK ? JINJA_TOKEN_BLOCK_BEGIN
                                                                             : JINJA_TOKEN_PRINT_BEGIN,
                                   .line = lexer->line };
            return 0;
        }
        if (lexer->state == JINJA_LEXER_BLOCK || lexer->state == JINJA_LEXER_PRINT)
            return next_word(lexer, token);
        if (lexer->state == JINJA_LEXER_TEXT && !lexer_left(lexer)) {
            *token = (JinjaToken){ .kind = JINJA_TOKEN_END, .line = lexer->line };
            return 0;
        }
        r = lexer->state == JINJA_LEXER_RAW ? next_raw(lexer, token) : next_text(lexer, token);
        if (r || token->len_bytes)
            return r;
    }
}
