// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/gbnf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/text_index.h"
#include "base/strings/utf8.h"

enum {
    NESTING_MAX = 200,
    COUNT_MAX = 1000000,
};

typedef struct GbnfRule {
    uint32_t begin, n; /* of the name in the text */
    GrammarPart part;
} GbnfRule;

typedef struct Gbnf {
    GrammarBuilder *builder;
    const char *text;
    size_t n, at;
    GbnfRule *rules;
    uint32_t n_rules, room_rules;
    TextIndex index;    /* names of rules */
    GrammarPart *parts; /* stack of lists under construction */
    size_t n_parts, room_parts;
    int nesting;
    ErrText *err;
} Gbnf;

static void gbnf_deinit(Gbnf *gbnf) {
    text_index_deinit(&gbnf->index);
    free(gbnf->rules);
    free(gbnf->parts);
}

static int refuse(const Gbnf *gbnf, int r, const char *what) {
    size_t line = 1, begin = 0;

    for (size_t i = 0; i < gbnf->at; i++)
        if (gbnf->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    return err_set(gbnf->err, r, "line %zu of the grammar, byte %zu: %s", line, gbnf->at - begin + 1, what);
}

/* --- characters --------------------------------------------------------------------------------------------------- */

static char next_char(const Gbnf *gbnf) {
    return gbnf->at < gbnf->n ? gbnf->text[gbnf->at] : '\0';
}

static bool take(Gbnf *gbnf, const char *text) {
    const size_t n = strlen(text);

    if (gbnf->n - gbnf->at < n || memcmp(gbnf->text + gbnf->at, text, n))
        return false;
    gbnf->at += n;
    return true;
}

/* Passes by spaces and comments, and line ends where the rule goes on behind them. */
static void skip_space(Gbnf *gbnf, bool with_lines) {
    for (; gbnf->at < gbnf->n; gbnf->at++) {
        const char c = gbnf->text[gbnf->at];

        if (c == '#') {
            while (gbnf->at + 1 < gbnf->n && gbnf->text[gbnf->at + 1] != '\n' && gbnf->text[gbnf->at + 1] != '\r')
                gbnf->at++;
        } else if (c != ' ' && c != '\t' && !(with_lines && (c == '\n' || c == '\r'))) {
            break;
        }
    }
}

static bool is_word(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '_';
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Takes a character of a literal or a class, with its escape. */
static int take_point(Gbnf *gbnf, uint32_t *pointp) {
    static const char escapes[][2] = { { 't', '\t' }, { 'r', '\r' }, { 'n', '\n' }, { '\\', '\\' }, { '"', '"' },
                                       { '[', '[' },  { ']', ']' },  { '-', '-' },  { '^', '^' } };
    const uint8_t *bytes = (const uint8_t *)gbnf->text + gbnf->at;
    size_t n;
    char c;

    if (!take(gbnf, "\\")) {
        n = utf8_sequence(bytes, gbnf->n - gbnf->at);
        if (!n)
            return refuse(gbnf, GRAMMAR_E_SYNTAX, "malformed UTF-8");
        *pointp = n == 1 ? bytes[0] : bytes[0] & (0x3fu >> (n - 1));
        for (size_t i = 1; i < n; i++)
            *pointp = *pointp << 6 | (bytes[i] & 0x3f);
        gbnf->at += n;
        return 0;
    }
    c = next_char(gbnf);
    gbnf->at += gbnf->at < gbnf->n;
    for (size_t i = 0; i < ARRAY_LEN(escapes); i++)
        if (c == escapes[i][0]) {
            *pointp = (uint32_t)escapes[i][1];
            return 0;
        }
    if (c != 'x' && c != 'u' && c != 'U')
        return refuse(gbnf, GRAMMAR_E_SYNTAX, "an unknown escape");
    *pointp = 0;
    for (int i = c == 'x' ? 2 : c == 'u' ? 4 : 8; i; i--) {
        const int digit = hex_digit(next_char(gbnf));

        if (digit < 0)
            return refuse(gbnf, GRAMMAR_E_SYNTAX, "an escape with too few hexadecimal digits");
        *pointp = *pointp << 4 | (uint32_t)digit;
        gbnf->at++;
    }
    return *pointp > 0x10ffff || (*pointp >= 0xd800 && *pointp < 0xe000)
               ? refuse(gbnf, GRAMMAR_E_SYNTAX, "an escape that is no character")
               : 0;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static TextSpan rule_name(const void *owner, uint32_t id) {
    const Gbnf *gbnf = owner;

    return (TextSpan){ gbnf->text + gbnf->rules[id].begin, gbnf->rules[id].n };
}

/* Takes a name, and finds or makes its rule. */
static int take_rule(Gbnf *gbnf, GrammarPart *partp) {
    const size_t begin = gbnf->at;
    char name[64];
    uint32_t id;
    size_t n;

    while (is_word(next_char(gbnf)))
        gbnf->at++;
    n = gbnf->at - begin;
    if (!n)
        return refuse(gbnf, GRAMMAR_E_SYNTAX, "a rule's name is expected");
    id = text_index_find(&gbnf->index, gbnf->text + begin, n);
    if (id != UINT32_MAX) {
        *partp = gbnf->rules[id].part;
        return 0;
    }
    if (gbnf->n_rules == gbnf->room_rules) {
        uint32_t room = MAX(2 * gbnf->room_rules, 16);
        GbnfRule *rules = realloc(gbnf->rules, room * sizeof(*rules));

        if (!rules)
            return err_no_memory(gbnf->err);
        gbnf->rules = rules;
        gbnf->room_rules = room;
    }
    memcpy(name, gbnf->text + begin, MIN(n, sizeof(name) - 1));
    name[MIN(n, sizeof(name) - 1)] = 0;
    *partp = grammar_part_rule(gbnf->builder, name);
    gbnf->rules[gbnf->n_rules] = (GbnfRule){ (uint32_t)begin, (uint32_t)n, *partp };
    return text_index_add(&gbnf->index, gbnf->n_rules++) ? err_no_memory(gbnf->err) : 0;
}

static int push_part(Gbnf *gbnf, GrammarPart part) {
    if (gbnf->n_parts == gbnf->room_parts) {
        size_t room = 2 * gbnf->room_parts;
        GrammarPart *parts = realloc(gbnf->parts, room * sizeof(*parts));

        if (!parts)
            return err_no_memory(gbnf->err);
        gbnf->parts = parts;
        gbnf->room_parts = room;
    }
    gbnf->parts[gbnf->n_parts++] = part;
    return 0;
}

/* --- elements ----------------------------------------------------------------------------------------------------- */

static int take_literal(Gbnf *gbnf, GrammarPart *partp) {
    const size_t base = gbnf->n_parts;
    int r = 0;

    while (!r && !take(gbnf, "\"")) {
        GrammarRange range;

        if (gbnf->at == gbnf->n)
            return refuse(gbnf, GRAMMAR_E_SYNTAX, "a text without its closing quote");
        r = take_point(gbnf, &range.first);
        range.last = range.first;
        if (!r)
            r = push_part(gbnf, grammar_part_class(gbnf->builder, &range, 1, 0));
    }
    *partp = grammar_part_sequence(gbnf->builder, gbnf->parts + base, gbnf->n_parts - base);
    gbnf->n_parts = base;
    return r;
}

/* Takes a class behind its bracket; its ranges go through the stack of parts. */
static int take_class(Gbnf *gbnf, GrammarPart *partp) {
    const unsigned int flags = take(gbnf, "^") ? GRAMMAR_CLASS_NEGATED : 0;
    _cleanup_(freep) GrammarRange *ranges = NULL;
    size_t n = 0, room = 0;

    while (!take(gbnf, "]")) {
        GrammarRange range;
        int r;

        if (gbnf->at == gbnf->n)
            return refuse(gbnf, GRAMMAR_E_SYNTAX, "a class without its closing bracket");
        r = take_point(gbnf, &range.first);
        range.last = range.first;
        if (!r && next_char(gbnf) == '-' && gbnf->at + 1 < gbnf->n && gbnf->text[gbnf->at + 1] != ']') {
            gbnf->at++;
            r = take_point(gbnf, &range.last);
        }
        if (r)
            return r;
        if (range.last < range.first)
            return refuse(gbnf, GRAMMAR_E_SYNTAX, "a range out of order");
        if (n == room) {
            GrammarRange *grown = realloc(ranges, (2 * room + 16) * sizeof(*ranges));

            if (!grown)
                return err_no_memory(gbnf->err);
            ranges = grown;
            room = 2 * room + 16;
        }
        ranges[n++] = range;
    }
    *partp = grammar_part_class(gbnf->builder, ranges, n, flags);
    return 0;
}

static int take_choice(Gbnf *gbnf, bool is_nested, GrammarPart *partp);

static int take_group(Gbnf *gbnf, GrammarPart *partp) {
    int r;

    if (++gbnf->nesting > NESTING_MAX)
        return refuse(gbnf, GRAMMAR_E_TOO_COMPLEX, "groups too deep inside each other");
    skip_space(gbnf, true);
    r = take_choice(gbnf, true, partp);
    gbnf->nesting--;
    return !r && !take(gbnf, ")") ? refuse(gbnf, GRAMMAR_E_SYNTAX, "a group without its parenthesis") : r;
}

/* Takes the counts behind "{". */
static int take_counts(Gbnf *gbnf, uint32_t *minp, uint32_t *maxp) {
    uint32_t counts[2] = { 0, GRAMMAR_NO_MAX };
    bool has[2] = { false, false };
    int i = 0;

    for (; i < 2; i++) {
        skip_space(gbnf, false);
        for (; next_char(gbnf) >= '0' && next_char(gbnf) <= '9'; gbnf->at++) {
            counts[i] = (has[i] ? counts[i] * 10 : 0) + (uint32_t)(next_char(gbnf) - '0');
            has[i] = true;
            if (counts[i] > COUNT_MAX)
                return refuse(gbnf, GRAMMAR_E_TOO_COMPLEX, "a count above 1000000");
        }
        skip_space(gbnf, false);
        if (i || !take(gbnf, ","))
            break;
    }
    if (!has[0] || !take(gbnf, "}"))
        return refuse(gbnf, GRAMMAR_E_SYNTAX, "a count like {2}, {2,} or {2,4} is expected");
    *minp = counts[0];
    *maxp = i ? counts[1] : counts[0];
    return *maxp < *minp ? refuse(gbnf, GRAMMAR_E_SYNTAX, "a repeat whose counts are out of order") : 0;
}

/* Takes the repeats behind an element. */
static int take_repeats(Gbnf *gbnf, bool is_nested, GrammarPart *partp) {
    for (;;) {
        uint32_t min = 0, max = GRAMMAR_NO_MAX;
        int r = 0;

        skip_space(gbnf, is_nested);
        if (take(gbnf, "+"))
            min = 1;
        else if (take(gbnf, "?"))
            max = 1;
        else if (take(gbnf, "{"))
            r = take_counts(gbnf, &min, &max);
        else if (!take(gbnf, "*"))
            return 0;
        if (r)
            return r;
        *partp = grammar_part_repeat(gbnf->builder, *partp, min, max);
    }
}

static int take_element(Gbnf *gbnf, GrammarPart *partp) {
    static const GrammarRange all[] = { { 0, 0x10ffff } };

    if (take(gbnf, "\""))
        return take_literal(gbnf, partp);
    if (take(gbnf, "["))
        return take_class(gbnf, partp);
    if (take(gbnf, "("))
        return take_group(gbnf, partp);
    if (next_char(gbnf) == '<' || next_char(gbnf) == '!')
        return refuse(gbnf, GRAMMAR_E_UNSUPPORTED, "tokens in a grammar are not supported: write their text");
    if (!take(gbnf, "."))
        return take_rule(gbnf, partp);
    *partp = grammar_part_class(gbnf->builder, all, ARRAY_LEN(all), 0);
    return 0;
}

static bool is_element(char c) {
    return is_word(c) || c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!';
}

static int take_sequence(Gbnf *gbnf, bool is_nested, GrammarPart *partp) {
    const size_t base = gbnf->n_parts;
    int r = 0;

    while (!r && is_element(next_char(gbnf))) {
        GrammarPart part = 0;

        r = take_element(gbnf, &part);
        if (!r)
            r = take_repeats(gbnf, is_nested, &part);
        if (!r)
            r = push_part(gbnf, part);
    }
    *partp = grammar_part_sequence(gbnf->builder, gbnf->parts + base, gbnf->n_parts - base);
    gbnf->n_parts = base;
    return r;
}

static int take_choice(Gbnf *gbnf, bool is_nested, GrammarPart *partp) {
    const size_t base = gbnf->n_parts;
    int r;

    for (;;) {
        GrammarPart part = 0;

        r = take_sequence(gbnf, is_nested, &part);
        if (!r)
            r = push_part(gbnf, part);
        if (r || !take(gbnf, "|"))
            break;
        skip_space(gbnf, true);
    }
    *partp = grammar_part_choice(gbnf->builder, gbnf->parts + base, gbnf->n_parts - base);
    gbnf->n_parts = base;
    return r;
}

int gbnf_parse(GrammarBuilder *builder, const char *text, size_t n_bytes, GrammarPart *rootp, ErrText *err) {
    _cleanup_(gbnf_deinit) Gbnf gbnf = { .builder = builder, .text = text, .n = n_bytes, .err = err };
    uint32_t root;
    int r;

    if (n_bytes > UINT32_MAX / 2)
        return err_set(err, GRAMMAR_E_TOO_COMPLEX, "the grammar has more than 2 GiB");
    gbnf.room_parts = 64;
    gbnf.parts = malloc(gbnf.room_parts * sizeof(*gbnf.parts));
    r = gbnf.parts ? text_index_init(&gbnf.index, 16, rule_name, &gbnf) : err_no_memory(err);
    for (skip_space(&gbnf, true); !r && gbnf.at < n_bytes; skip_space(&gbnf, true)) {
        GrammarPart rule = 0, body = 0;

        r = take_rule(&gbnf, &rule);
        skip_space(&gbnf, false);
        if (!r && !take(&gbnf, "::="))
            r = refuse(&gbnf, GRAMMAR_E_SYNTAX, "::= is expected");
        skip_space(&gbnf, true);
        if (!r)
            r = take_choice(&gbnf, false, &body);
        if (!r && gbnf.at < n_bytes && next_char(&gbnf) != '\n' && next_char(&gbnf) != '\r')
            r = refuse(&gbnf, GRAMMAR_E_SYNTAX, "the end of the line is expected");
        if (!r)
            grammar_rule_set(builder, rule, body);
    }
    if (r)
        return r;
    root = text_index_find(&gbnf.index, "root", 4);
    if (root == UINT32_MAX)
        return err_set(err, GRAMMAR_E_SYNTAX, "the grammar has no rule \"root\"");
    *rootp = gbnf.rules[root].part;
    return 0;
}
