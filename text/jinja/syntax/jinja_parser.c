// SPDX-License-Identifier: Apache-2.0
/* Tokens, names and nodes. */
#include "text/jinja/syntax/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/strings/printable.h"

/* --- tokens ----------------------------------------------------------------------------------------------------- */

_Noreturn void jinja_parser_fail(JinjaParser *parser, const char *format, ...) {
    va_list args;
    char text[512];

    va_start(args, format);
    printable_format(text, sizeof(text), format, args);
    va_end(args);
    jinja_lexer_throw(&parser->lexer,
                      err_set(parser->lexer.err, JINJA_E_SYNTAX, "chat template line %u: %s", parser->now.line, text));
}

static _Noreturn void fail_limit(JinjaParser *parser, uint32_t line, const char *what, int limit) {
    jinja_lexer_throw(&parser->lexer, err_set(parser->lexer.err, JINJA_E_LIMIT, "chat template line %u: %s%d%s", line,
                                              what, limit, *what == 'a' ? " operations" : " deep"));
}

void jinja_parser_step(JinjaParser *parser) {
    parser->now = parser->has_next ? parser->next : jinja_lexer_next(&parser->lexer);
    parser->has_next = false;
}

const JinjaToken *jinja_parser_look(JinjaParser *parser) {
    if (!parser->has_next)
        parser->next = jinja_lexer_next(&parser->lexer);
    parser->has_next = true;
    return &parser->next;
}

bool jinja_token_is(const JinjaToken *token, JinjaTokenKind kind, const char *word) {
    return token->kind == kind && token->len_bytes == strlen(word) && !memcmp(token->data, word, token->len_bytes);
}

bool jinja_parser_sees(const JinjaParser *parser, const char *op) {
    return jinja_token_is(&parser->now, JINJA_TOKEN_OPERATOR, op);
}

bool jinja_parser_sees_name(const JinjaParser *parser, const char *name) {
    return jinja_token_is(&parser->now, JINJA_TOKEN_NAME, name);
}

bool jinja_parser_sees_one_of(const JinjaParser *parser, const char *names) {
    return parser->now.kind == JINJA_TOKEN_NAME && jinja_is_among(parser->now.data, parser->now.len_bytes, names);
}

bool jinja_parser_skip(JinjaParser *parser, const char *op) {
    bool seen = jinja_parser_sees(parser, op);

    if (seen)
        jinja_parser_step(parser);
    return seen;
}

bool jinja_parser_skip_name(JinjaParser *parser, const char *name) {
    bool seen = jinja_parser_sees_name(parser, name);

    if (seen)
        jinja_parser_step(parser);
    return seen;
}

const char *jinja_token_shown(const JinjaToken *token, Printable *shown) {
    static const char *const names[] = {
        [JINJA_TOKEN_END] = "the end of the template",
        [JINJA_TOKEN_DATA] = "text",
        [JINJA_TOKEN_BLOCK_END] = "'%}'",
        [JINJA_TOKEN_PRINT_END] = "'}}'",
        [JINJA_TOKEN_BLOCK_BEGIN] = "'{%'",
        [JINJA_TOKEN_PRINT_BEGIN] = "'{{'",
    };
    const char *name = token->kind < ARRAY_LEN(names) ? names[token->kind] : NULL;

    return name ? name : printable(shown, token->data, token->len_bytes);
}

_Noreturn void jinja_parser_fail_expected(JinjaParser *parser, const char *what) {
    Printable shown;

    jinja_parser_fail(parser, "expected %s, there is %s", what, jinja_token_shown(&parser->now, &shown));
}

void jinja_parser_expect(JinjaParser *parser, const char *op) {
    char what[16];

    snprintf(what, sizeof(what), "'%s'", op);
    if (!jinja_parser_skip(parser, op))
        jinja_parser_fail_expected(parser, what);
}

bool jinja_parser_another(JinjaParser *parser, bool is_first, const char *close) {
    if (!is_first && !jinja_parser_sees(parser, close))
        jinja_parser_expect(parser, ",");
    return !jinja_parser_sees(parser, close);
}

void jinja_parser_enter(JinjaParser *parser) {
    if (parser->nesting == JINJA_NESTING_MAX)
        fail_limit(parser, parser->now.line, "brackets and blocks nested more than ", JINJA_NESTING_MAX);
    parser->nesting++;
}

void jinja_parser_leave(JinjaParser *parser) {
    parser->nesting--;
}

/* --- names ------------------------------------------------------------------------------------------------------ */

static void grow_names(JinjaParser *parser) {
    JinjaTemplate *template = parser->template;
    uint32_t room = parser->names_room ? 2 * parser->names_room : 64;
    const JinjaText **names = jinja_lexer_take(&parser->lexer, room, sizeof(JinjaText *));

    if (template->n_names)
        memcpy(names, template->names, template->n_names * sizeof(JinjaText *));
    template->names = names;
    parser->names_room = room;
}

uint32_t jinja_parser_name_number(JinjaParser *parser, const char *data, size_t len_bytes) {
    JinjaTemplate *template = parser->template;
    uint32_t number = text_index_find(&template->name_numbers, data, len_bytes);
    int r;

    if (number != UINT32_MAX)
        return number;
    if (template->n_names == parser->names_room)
        grow_names(parser);
    number = template->n_names;
    template->names[number] = jinja_lexer_text(&parser->lexer, data, len_bytes);
    r = text_index_add(&template->name_numbers, number);
    if (r < 0)
        jinja_lexer_throw(&parser->lexer, err_no_memory(parser->lexer.err));
    if (r)
        jinja_parser_fail(parser, "its names collide in the table of names");
    template->n_names++;
    return number;
}

uint32_t jinja_parser_name(JinjaParser *parser) {
    uint32_t name = jinja_parser_name_number(parser, parser->now.data, parser->now.len_bytes);

    jinja_parser_step(parser);
    return name;
}

const JinjaText *jinja_parser_name_text(JinjaParser *parser) {
    const JinjaText *text;

    if (parser->now.kind != JINJA_TOKEN_NAME)
        jinja_parser_fail_expected(parser, "a name");
    text = jinja_lexer_text(&parser->lexer, parser->now.data, parser->now.len_bytes);
    jinja_parser_step(parser);
    return text;
}

uint32_t jinja_template_name(const JinjaTemplate *template, const char *name, size_t len_bytes) {
    return text_index_find(&template->name_numbers, name, len_bytes);
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

JinjaNode *jinja_node_new(JinjaParser *parser, JinjaKind kind, uint32_t line) {
    JinjaNode *node = jinja_lexer_take(&parser->lexer, 1, sizeof(*node));

    node->kind = kind;
    node->line = line;
    return node;
}

void jinja_node_add(JinjaParser *parser, JinjaNode *node, JinjaNode *item) {
    if (node->n_items == node->items_room) {
        uint32_t room = node->items_room ? 2 * node->items_room : 4;
        JinjaNode **items = jinja_lexer_take(&parser->lexer, room, sizeof(JinjaNode *));

        if (node->n_items)
            memcpy(items, node->items, node->n_items * sizeof(JinjaNode *));
        node->items = items;
        node->items_room = room;
    }
    node->items[node->n_items++] = item;
}

static uint32_t deeper(uint32_t depth, JinjaNode *const *nodes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (nodes[i] && nodes[i]->depth > depth)
            depth = nodes[i]->depth;
    return depth;
}

JinjaNode *jinja_node_close(JinjaParser *parser, JinjaNode *node) {
    JinjaNode *const parts[] = { node->a, node->b, node->c };

    node->depth = 1 + deeper(deeper(0, parts, ARRAY_LEN(parts)), node->items, node->n_items);
    if (node->depth > JINJA_TREE_DEPTH_MAX)
        fail_limit(parser, node->line, "an expression of more than ", JINJA_TREE_DEPTH_MAX);
    return node;
}
