// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_text.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"

/* --- parts -------------------------------------------------------------------------------------------------------- */

GrammarPart schema_plain_regex(SchemaCompiler *c, const char *pattern) {
    GrammarPart part = GRAMMAR_PART_NONE;
    int r = c->r ? c->r : grammar_part_regex(c->builder, pattern, strlen(pattern), 0, &part, c->err);

    if (r && !c->r)
        c->r = r;
    return r ? grammar_part_nothing(c->builder) : part;
}

GrammarPart schema_fixed_regex(SchemaCompiler *c, const char *pattern) {
    size_t i = 0;

    while (i < SCHEMA_FIXED_MAX && c->fixed[i].pattern && c->fixed[i].pattern != pattern)
        i++;
    if (i == SCHEMA_FIXED_MAX)
        return schema_plain_regex(c, pattern);
    if (!c->fixed[i].pattern) {
        c->fixed[i].pattern = pattern;
        c->fixed[i].part = schema_plain_regex(c, pattern);
    }
    return c->fixed[i].part;
}

/* Returns the part of a character in its only spelling. */
static GrammarPart one_character(SchemaCompiler *c) {
    if (c->character == GRAMMAR_PART_NONE)
        c->character = grammar_part_class(c->builder, NULL, 0, GRAMMAR_CLASS_NEGATED | GRAMMAR_CLASS_JSON);
    return c->character;
}

static GrammarPart all_characters(SchemaCompiler *c) {
    return grammar_part_repeat(c->builder, one_character(c), 0, GRAMMAR_NO_MAX);
}

static void escape(StrBuf *out, SchemaName name) {
    static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";

    for (size_t i = 0; i < name.len_bytes; i++) {
        unsigned char byte = (unsigned char)name.data[i];
        const char *pair = short_escapes;

        while (*pair && (unsigned char)*pair != byte)
            pair += 2;
        if (*pair)
            str_buf_addf(out, "\\%c", pair[1]);
        else if (byte < 0x20)
            str_buf_addf(out, "\\u%04x", byte);
        else
            str_buf_append(out, &byte, 1);
    }
}

static GrammarPart name_part(SchemaCompiler *c, SchemaName name, const char *quote) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    str_buf_add(&text, quote);
    escape(&text, name);
    str_buf_add(&text, quote);
    if (str_buf_failed(&text)) {
        if (!c->r)
            c->r = err_no_memory(c->err);
        return grammar_part_nothing(c->builder);
    }
    return grammar_part_bytes(c->builder, text.data, text.len_bytes);
}

GrammarPart schema_name_quoted(SchemaCompiler *c, SchemaName name) {
    return name_part(c, name, "\"");
}

static GrammarPart list_part(SchemaCompiler *c, const SchemaText *text, const char *quote) {
    GrammarPart *parts = schema_alloc(c, text->n + 1, sizeof(*parts));

    if (!parts)
        return grammar_part_nothing(c->builder);
    for (size_t i = 0; i < text->n; i++)
        parts[i] = name_part(c, text->names[i], quote);
    return grammar_part_choice(c->builder, parts, text->n);
}

/* Everything inside a JSON string that the part does not allow. */
static GrammarPart complement(SchemaCompiler *c, GrammarPart part) {
    return grammar_part_and(c->builder, all_characters(c), grammar_part_not(c->builder, part));
}

static GrammarPart part_of(SchemaCompiler *c, const SchemaText *text) {
    switch (text->kind) {
    case SCHEMA_TEXT_PART:
        return text->part;
    case SCHEMA_TEXT_LIST:
        return list_part(c, text, "");
    case SCHEMA_TEXT_EXCEPT:
        break;
    }
    return text->n ? complement(c, list_part(c, text, "")) : all_characters(c);
}

/* A string that nothing restricts may also be spelled with escapes that it does not need. */
static const char any_string[] =
    "\"(?:[^\"\\\\\\x00-\\x1f]|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9a-cA-Ce-fE-F][0-9a-fA-F]{3}|"
    "[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})))*\"";

GrammarPart schema_text_quoted(SchemaCompiler *c, const SchemaText *text) {
    GrammarPart quote;

    if (schema_text_is_any(text))
        return schema_fixed_regex(c, any_string);
    if (text->kind == SCHEMA_TEXT_LIST)
        return list_part(c, text, "\"");
    quote = grammar_part_bytes(c->builder, "\"", 1);
    return grammar_part_sequence(c->builder, (GrammarPart[]){ quote, part_of(c, text), quote }, 3);
}

/* --- algebra ------------------------------------------------------------------------------------------------------ */

static bool allows_nothing(SchemaCompiler *c, GrammarPart part) {
    bool is_nothing = false;
    int r = c->r ? 0 : grammar_builder_allows_nothing(c->builder, part, &is_nothing, c->err);

    if (r)
        c->r = r;
    return is_nothing;
}

static bool listed(const SchemaText *text, SchemaName name) {
    for (size_t i = 0; i < text->n; i++)
        if (schema_name_equal(text->names[i], name))
            return true;
    return false;
}

static bool part_has(SchemaCompiler *c, GrammarPart part, SchemaName name) {
    return schema_step(c, 1) && !allows_nothing(c, grammar_part_and(c->builder, name_part(c, name, ""), part));
}

bool schema_text_has(SchemaCompiler *c, const SchemaText *text, SchemaName name) {
    size_t bucket = name.len_bytes * 7;
    SchemaPattern *pattern = c->patterns;
    SchemaMatch *match;

    if (text->kind != SCHEMA_TEXT_PART)
        return listed(text, name) == (text->kind == SCHEMA_TEXT_LIST);
    while (pattern && pattern->part != text->part)
        pattern = pattern->next;
    if (!pattern)
        return part_has(c, text->part, name);
    if (name.len_bytes)
        bucket += (unsigned char)name.data[0] + 3 * (size_t)(unsigned char)name.data[name.len_bytes - 1];
    bucket %= SCHEMA_MATCH_BUCKETS;
    for (match = pattern->matches[bucket]; match && !schema_name_equal(match->name, name);)
        match = match->next;
    if (match)
        return match->is_match;
    match = schema_alloc(c, 1, sizeof(*match));
    if (!match)
        return false;
    *match = (SchemaMatch){ name, part_has(c, text->part, name), pattern->matches[bucket] };
    pattern->matches[bucket] = match;
    return match->is_match;
}

bool schema_text_is_empty(SchemaCompiler *c, const SchemaText *text) {
    if (text->kind == SCHEMA_TEXT_PART)
        return !text->has_some && allows_nothing(c, text->part);
    return text->kind == SCHEMA_TEXT_LIST && !text->n;
}

/* The strings of a list that another set has, too. */
static SchemaText filter(SchemaCompiler *c, const SchemaText *list, const SchemaText *other) {
    SchemaName *names = schema_alloc(c, list->n + 1, sizeof(*names));
    SchemaText kept = { .kind = list->kind, .names = names };

    if (!schema_step(c, 1 + list->n * (other->n + 1) / 64))
        return kept;
    for (size_t i = 0; i < list->n && names; i++)
        if (schema_text_has(c, other, list->names[i]))
            names[kept.n++] = list->names[i];
    return kept;
}

/* Both lists of names, without repetition. */
static SchemaText unite(SchemaCompiler *c, const SchemaText *a, const SchemaText *b) {
    SchemaText both = { .kind = a->kind, .n = a->n + b->n };

    both.names = schema_join(c, a->names, a->n, b->names, b->n, sizeof(*both.names));
    if (!both.names)
        both.n = 0;
    return both;
}

static SchemaText text_of_part(GrammarPart part) {
    return (SchemaText){ .kind = SCHEMA_TEXT_PART, .part = part };
}

SchemaText schema_text_and(SchemaCompiler *c, SchemaText a, SchemaText b) {
    if (schema_text_is_any(&a))
        return b;
    if (schema_text_is_any(&b))
        return a;
    if (a.kind == SCHEMA_TEXT_LIST)
        return filter(c, &a, &b);
    if (b.kind == SCHEMA_TEXT_LIST)
        return filter(c, &b, &a);
    if (a.kind == SCHEMA_TEXT_EXCEPT && b.kind == SCHEMA_TEXT_EXCEPT)
        return unite(c, &a, &b);
    return text_of_part(grammar_part_and(c->builder, part_of(c, &a), part_of(c, &b)));
}

SchemaText schema_text_not(SchemaCompiler *c, SchemaText text) {
    if (text.kind == SCHEMA_TEXT_PART)
        return text_of_part(complement(c, text.part));
    text.kind = text.kind == SCHEMA_TEXT_LIST ? SCHEMA_TEXT_EXCEPT : SCHEMA_TEXT_LIST;
    return text;
}

SchemaText schema_text_or(SchemaCompiler *c, SchemaText a, SchemaText b) {
    if (a.kind == SCHEMA_TEXT_LIST && !a.n)
        return b;
    if (b.kind == SCHEMA_TEXT_LIST && !b.n)
        return a;
    if (a.kind == SCHEMA_TEXT_LIST && b.kind == SCHEMA_TEXT_LIST)
        return unite(c, &a, &b);
    if (schema_text_is_any(&a) || schema_text_is_any(&b))
        return SCHEMA_TEXT_ANY;
    if (a.kind == SCHEMA_TEXT_EXCEPT || b.kind == SCHEMA_TEXT_EXCEPT) {
        bool a_is_except = a.kind == SCHEMA_TEXT_EXCEPT;
        SchemaText other = schema_text_not(c, a_is_except ? b : a);

        /* Not in "all but these" and not in the other set: those of the list that the other set lacks, too. */
        return filter(c, a_is_except ? &a : &b, &other);
    }
    return text_of_part(grammar_part_choice(c->builder, (GrammarPart[]){ part_of(c, &a), part_of(c, &b) }, 2));
}

SchemaText schema_text_length(SchemaCompiler *c, uint32_t min, uint32_t max) {
    if (!min && max == GRAMMAR_NO_MAX)
        return SCHEMA_TEXT_ANY;
    if (min > max)
        return (SchemaText){ 0 };
    return (SchemaText){ .kind = SCHEMA_TEXT_PART,
                         .part = grammar_part_repeat(c->builder, one_character(c), min, max),
                         .has_some = true };
}

SchemaText schema_text_pattern(SchemaCompiler *c, const json_t *schema, const char *keyword, const char *pattern) {
    SchemaPattern *known = c->patterns;
    ErrText err = { 0 };
    int r;

    while (known && strcmp(known->text, pattern) != 0)
        known = known->next;
    if (known)
        return text_of_part(known->part);
    known = schema_alloc(c, 1, sizeof(*known));
    if (!known)
        return SCHEMA_TEXT_ANY;
    r = grammar_part_regex(c->builder, pattern, strlen(pattern), GRAMMAR_REGEX_SEARCH | GRAMMAR_REGEX_JSON,
                           &known->part, &err);
    if (r) {
        schema_refuse(c, r, schema, keyword, "%s", err.text);
        return SCHEMA_TEXT_ANY;
    }
    known->text = pattern;
    known->next = c->patterns;
    c->patterns = known;
    return text_of_part(known->part);
}
