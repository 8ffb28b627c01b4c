// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/jinja/syntax/jinja_lexer.h"

#include <ctype.h>
#include <errno.h>

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "text/jinja/values/jinja_unicode.h"

/* --- errors and memory ------------------------------------------------------------------------------------------ */

int jinja_lexer_attempt(JinjaLexer *lexer, void (*work)(JinjaLexer *lexer, void *context), void *context) {
    lexer->failure = 0;
    if (!setjmp(lexer->failed))
        work(lexer, context);
    return lexer->failure;
}

_Noreturn void jinja_lexer_throw(JinjaLexer *lexer, int code) {
    lexer->failure = code;
    longjmp(lexer->failed, 1);
}

static _Noreturn void lexer_fail(JinjaLexer *lexer, const char *what, const char *data, size_t len_bytes) {
    Printable shown;

    jinja_lexer_throw(lexer,
                      err_set(lexer->err, JINJA_E_SYNTAX, "chat template line %u: %s%s%s%s", lexer->line, what,
                              data ? " '" : "", data ? printable(&shown, data, len_bytes) : "", data ? "'" : ""));
}

static _Noreturn void fail_memory(JinjaLexer *lexer) {
    if (lexer->arena->failure == -ENOMEM)
        jinja_lexer_throw(lexer, err_set(lexer->err, -ENOMEM, "out of memory for the chat template"));
    jinja_lexer_throw(
        lexer, err_set(lexer->err, JINJA_E_LIMIT, "chat template line %u: it takes too much memory", lexer->line));
}

void *jinja_lexer_take(JinjaLexer *lexer, size_t n, size_t each_bytes) {
    void *data = jinja_arena_take(lexer->arena, n * each_bytes); /* n goes with the source, which is bounded */

    if (!data)
        fail_memory(lexer);
    return data;
}

const JinjaText *jinja_lexer_text(JinjaLexer *lexer, const char *data, size_t len_bytes) {
    const JinjaText *text = jinja_text_of(lexer->arena, data, len_bytes, true);

    if (!text)
        fail_memory(lexer);
    return text;
}

/* --- places ----------------------------------------------------------------------------------------------------- */

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

/* Bytes of the white space character at a place; 0: there is none. */
static size_t space_at(const char *data, size_t len_bytes) {
    const JinjaText text = { .data = data, .len_bytes = (uint32_t)len_bytes };
    size_t n;

    return len_bytes && jinja_unicode_is_space(jinja_text_code_point(&text, 0, &n)) ? n : 0;
}

static size_t spaces_at(const char *data, size_t len_bytes) {
    size_t all = 0, n;

    while ((n = space_at(data + all, len_bytes - all)))
        all += n;
    return all;
}

static size_t without_spaces_at_end(const char *data, size_t len_bytes) {
    const JinjaText text = { .data = data, .len_bytes = (uint32_t)len_bytes };
    size_t at = len_bytes;

    while (at) {
        size_t n = jinja_text_char_before(&text, at);

        if (space_at(data + at - n, n) != n)
            break;
        at -= n;
    }
    return at;
}

void jinja_lexer_init(JinjaLexer *lexer, const char *source, size_t len_bytes) {
    char *copy;
    size_t n = 0;

    lexer->line = 1;
    lexer->at_line_start = true;
    if (len_bytes > JINJA_SOURCE_BYTES_MAX)
        jinja_lexer_throw(lexer,
                          err_set(lexer->err, JINJA_E_LIMIT, "the chat template has %zu bytes; at most %u are taken",
                                  len_bytes, JINJA_SOURCE_BYTES_MAX));
    copy = jinja_lexer_take(lexer, len_bytes + 1, 1);
    for (size_t i = 0; i < len_bytes; i++) {
        if (source[i] == '\r' && i + 1 < len_bytes && source[i + 1] == '\n')
            continue;
        copy[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    lexer->source = copy;
    lexer->len_bytes = n && copy[n - 1] == '\n' ? n - 1 : n;
}

/* --- text between tags ------------------------------------------------------------------------------------------ */

static JinjaToken data_token(JinjaLexer *lexer, const char *data, size_t len_bytes) {
    return (JinjaToken){ .kind = JINJA_TOKEN_DATA,
                         .line = lexer->line,
                         .data = data,
                         .len_bytes = len_bytes,
                         .value = jinja_str(jinja_lexer_text(lexer, data, len_bytes)) };
}

/* Bytes of the text that stay before a tag; sign stands behind the tag's beginning. */
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

/* Skips what the end of a tag takes with it: "%}" and "#}" a line break, a minus all white space. */
static void skip_tag_end(JinjaLexer *lexer, char sign, bool takes_newline) {
    size_t n = 0;

    if (sign == '-')
        n = spaces_at(lexer_here(lexer), lexer_left(lexer));
    else if (sign != '+' && takes_newline && lexer_sees(lexer, "\n"))
        n = 1;
    lexer_skip(lexer, n);
    lexer->at_line_start = n && lexer->source[lexer->at - 1] == '\n';
}

static void skip_comment(JinjaLexer *lexer) {
    const char *end = memmem(lexer_here(lexer), lexer_left(lexer), "#}", 2);
    char sign = 0;

    if (!end)
        lexer_fail(lexer, "a comment that is not closed by '#}'", NULL, 0);
    if (end > lexer_here(lexer) && (end[-1] == '-' || end[-1] == '+'))
        sign = end[-1];
    lexer_skip(lexer, (size_t)(end + 2 - lexer_here(lexer)));
    skip_tag_end(lexer, sign, true);
}

/* Reads the text up to the next tag, and enters that tag. */
static JinjaToken next_text(JinjaLexer *lexer) {
    const char *from = lexer_here(lexer), *tag = from, *end = lexer->source + lexer->len_bytes;
    JinjaToken token;
    char sign = 0;

    while ((tag = memchr(tag, '{', (size_t)(end - tag))) &&
           (end - tag < 2 || (tag[1] != '{' && tag[1] != '%' && tag[1] != '#')))
        tag++;
    if (!tag) {
        token = data_token(lexer, from, (size_t)(end - from));
        lexer_skip(lexer, lexer_left(lexer));
        return token;
    }
    if (end - tag > 2 && (tag[2] == '-' || tag[2] == '+'))
        sign = tag[2];
    token = data_token(lexer, from, cut_before_tag(lexer, from, (size_t)(tag - from), sign, tag[1] == '{'));
    lexer_skip(lexer, (size_t)(tag - from) + (sign ? 3 : 2));
    if (tag[1] == '#') {
        skip_comment(lexer);
        return token;
    }
    lexer->state = tag[1] == '%' ? JINJA_LEXER_BLOCK : JINJA_LEXER_PRINT;
    lexer->has_tag = true;
    return token;
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

/* Reads decimal digits, perhaps with a fraction and an exponent. In "list.0.1" there are two integers. */
static void read_number(JinjaLexer *lexer, JinjaToken *token) {
    token->len_bytes = jinja_number_at(token->data, lexer_left(lexer), token->data[-1] == '.');
    if (!jinja_number_read(token->data, token->len_bytes, &token->value))
        lexer_fail(lexer, "a number of too many digits, or an integer past 64 bits:", token->data, token->len_bytes);
}

/* --- texts in quotes -------------------------------------------------------------------------------------------- */

/* Reads the character behind \x, \u or \U. */
static uint32_t read_hex(JinjaLexer *lexer, const char *data, size_t left, size_t n) {
    uint32_t code_point;

    if (!jinja_hex_read(data, left, n, &code_point))
        lexer_fail(lexer, "an escape in a text that has too few hexadecimal digits", NULL, 0);
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
        lexer_fail(lexer, "an escape in a text that is no character", NULL, 0);
    return code_point;
}

/* Reads one escape behind its backslash. Returns the bytes that were read, at least as many as were written less one.
 */
static size_t read_escape(JinjaLexer *lexer, const char *data, size_t left, char *out, size_t *n_outp) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *simple = data[0] ? strchr(from, data[0]) : NULL;
    size_t n;

    *n_outp = data[0] == '\n' ? 0 : 1;
    if (simple) {
        out[0] = to[simple - from];
        return 1;
    }
    if (data[0] == '\n')
        return 1;
    if (data[0] == 'x' || data[0] == 'u' || data[0] == 'U') {
        n = data[0] == 'x' ? 2 : data[0] == 'u' ? 4 : 8;
        *n_outp = jinja_put_code_point(out, read_hex(lexer, data + 1, left - 1, n));
        return 1 + n;
    }
    if (data[0] == 'N' || (data[0] >= '0' && data[0] <= '7'))
        lexer_fail(lexer, "escapes by name (\\N) and in octal digits are not supported in chat templates", NULL, 0);
    out[0] = '\\'; /* an unknown escape stays as it is */
    return 0;
}

static void read_text(JinjaLexer *lexer, JinjaToken *token) {
    const char *data = token->data, quote = data[0];
    size_t left = lexer_left(lexer), n = 1, len_bytes = 0, n_out;
    char *text;

    while (n < left && data[n] != quote)
        n += data[n] == '\\' ? 2 : 1;
    if (n >= left)
        lexer_fail(lexer, "a text in quotes that is not closed:", data, MIN(left, 20));
    text = jinja_lexer_take(lexer, n, 1);
    for (size_t i = 1; i < n;) {
        if (data[i] != '\\') {
            text[len_bytes++] = data[i++];
            continue;
        }
        i += 1 + read_escape(lexer, data + i + 1, n - i - 1, text + len_bytes, &n_out);
        len_bytes += n_out;
    }
    token->len_bytes = n + 1;
    token->value = jinja_str(jinja_lexer_text(lexer, text, len_bytes));
}

/* --- words in tags ---------------------------------------------------------------------------------------------- */

static bool is_name_byte(char c) {
    return isalnum((unsigned char)c) || c == '_' || (uint8_t)c >= 0x80;
}

static void read_operator(JinjaLexer *lexer, JinjaToken *token) {
    static const char pairs[][3] = { "//", "==", "!=", ">=", "<=" };
    const JinjaText rest = { .data = token->data, .len_bytes = (uint32_t)lexer_left(lexer) };
    const char c = token->data[0];

    if (lexer_sees(lexer, "**"))
        lexer_fail(lexer, "not supported in chat templates:", "**", 2);
    token->len_bytes = 1;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        if (lexer_sees(lexer, pairs[i]))
            token->len_bytes = 2;
    if (token->len_bytes == 1 && (!c || !strchr("+-/*%~[](){}><=.:|,;", c)))
        lexer_fail(lexer, "an unexpected character", token->data, jinja_text_char(&rest, 0));
    if (strchr("([{", c))
        lexer->n_open++;
    else if (strchr(")]}", c))
        lexer->n_open -= lexer->n_open > 0;
}

/* Reads the end of the tag. false: it is not here, or a bracket is open. */
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

static JinjaToken next_word(JinjaLexer *lexer) {
    JinjaToken token;
    char c;

    lexer_skip(lexer, spaces_at(lexer_here(lexer), lexer_left(lexer)));
    token = (JinjaToken){ .kind = JINJA_TOKEN_END, .line = lexer->line, .data = lexer_here(lexer) };
    if (!lexer_left(lexer) || read_tag_end(lexer, &token))
        return token;
    c = token.data[0];
    if (isdigit((unsigned char)c)) {
        token.kind = JINJA_TOKEN_NUMBER;
        read_number(lexer, &token);
    } else if (is_name_byte(c)) {
        token.kind = JINJA_TOKEN_NAME;
        while (token.len_bytes < lexer_left(lexer) && is_name_byte(token.data[token.len_bytes]))
            token.len_bytes++;
    } else if (c == '\'' || c == '"') {
        token.kind = JINJA_TOKEN_TEXT;
        read_text(lexer, &token);
    } else {
        token.kind = JINJA_TOKEN_OPERATOR;
        read_operator(lexer, &token);
    }
    lexer_skip(lexer, token.len_bytes);
    return token;
}

/* Empty texts are left out. */
JinjaToken jinja_lexer_next(JinjaLexer *lexer) {
    JinjaToken token;

    do {
        if (lexer->has_tag) {
            lexer->has_tag = false;
            return (JinjaToken){ .kind = lexer->state == JINJA_LEXER_BLOCK ? JINJA_TOKEN_BLOCK_BEGIN
                                                                           : JINJA_TOKEN_PRINT_BEGIN,
                                 .line = lexer->line };
        }
        if (lexer->state != JINJA_LEXER_TEXT)
            return next_word(lexer);
        if (!lexer_left(lexer))
            return (JinjaToken){ .kind = JINJA_TOKEN_END, .line = lexer->line };
        token = next_text(lexer);
    } while (!token.len_bytes);
    return token;
}
