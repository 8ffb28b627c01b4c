// SPDX-License-Identifier: Apache-2.0
/* What operators stand between in the expressions of a template: literals, names, and what is behind them, filters and
 * tests too. */
#include "text/jinja/jinja_builtin.h"
#include "text/jinja/jinja_parser.h"

static int parse_unary(JinjaParser *parser, bool with_filters, JinjaNode **nodep);

/* --- literals and names ----------------------------------------------------------------------------------------- */

static int new_const(JinjaParser *parser, JinjaValue value, JinjaNode **nodep) {
    int r = jinja_node_new(parser, JINJA_NODE_CONST, parser->now.line, nodep);

    if (!r)
        (*nodep)->value = value;
    return r ? r : jinja_parser_step(parser);
}

/* Texts behind each other are one. */
static int parse_text(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNode *node = NULL;
    int r = new_const(parser, parser->now.value, &node);

    *nodep = node;
    while (!r && parser->now.kind == JINJA_TOKEN_TEXT) {
        const JinjaText *a = node->value.text, *b = parser->now.value.text;
        char *data = jinja_arena_take(parser->arena, (size_t)a->len_bytes + b->len_bytes + 1);

        if (!data)
            return jinja_parser_fail_memory(parser);
        memcpy(data, a->data, a->len_bytes);
        memcpy(data + a->len_bytes, b->data, b->len_bytes);
        node->value.text = jinja_text_of(parser->arena, data, (size_t)a->len_bytes + b->len_bytes, true);
        if (!node->value.text)
            return jinja_parser_fail_memory(parser);
        r = jinja_parser_step(parser);
    }
    return r;
}

int jinja_parse_name(JinjaParser *parser, JinjaNode **nodep) {
    static const struct {
        const char *name;
        JinjaValue value;
    } constants[] = {
        { "true", { .type = JINJA_BOOL, .boolean = true } },
        { "True", { .type = JINJA_BOOL, .boolean = true } },
        { "false", { .type = JINJA_BOOL, .boolean = false } },
        { "False", { .type = JINJA_BOOL, .boolean = false } },
        { "none", { .type = JINJA_NONE } },
        { "None", { .type = JINJA_NONE } },
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(constants); i++)
        if (jinja_parser_sees_name(parser, constants[i].name))
            return new_const(parser, constants[i].value, nodep);
    r = jinja_node_new(parser, JINJA_NODE_NAME, parser->now.line, nodep);
    if (!r)
        r = jinja_parser_name(parser, parser->now.data, parser->now.len_bytes, &(*nodep)->name);
    return r ? r : jinja_parser_step(parser);
}

/* Items up to the closing bracket, with commas between and perhaps behind; of a dict: keys and values. */
static int parse_items(JinjaParser *parser, JinjaKind kind, const char *close, JinjaNode **nodep) {
    JinjaNodeList list = { 0 };
    JinjaNode *node = NULL, *item = NULL;
    int r = jinja_node_new(parser, kind, parser->now.line, &node);

    if (!r)
        r = jinja_parser_step(parser);
    while (!r && !jinja_parser_sees(parser, close)) {
        if (list.n) {
            r = jinja_parser_expect(parser, ",");
            if (r || jinja_parser_sees(parser, close))
                break;
        }
        r = jinja_parse_expression(parser, true, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
        if (r || kind != JINJA_NODE_DICT)
            continue;
        r = jinja_parser_expect(parser, ":");
        if (!r)
            r = jinja_parse_expression(parser, true, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
    }
    if (!r)
        r = jinja_parser_step(parser);
    if (r)
        return r;
    node->items = list.items;
    node->n_items = list.n;
    *nodep = node;
    return jinja_node_close(parser, node);
}

static int parse_primary_here(JinjaParser *parser, JinjaNode **nodep) {
    int r;

    switch (parser->now.kind) {
    case JINJA_TOKEN_NAME:
        return jinja_parse_name(parser, nodep);
    case JINJA_TOKEN_TEXT:
        return parse_text(parser, nodep);
    case JINJA_TOKEN_NUMBER:
        return new_const(parser, parser->now.value, nodep);
    default:
        break;
    }
    if (jinja_parser_sees(parser, "["))
        return parse_items(parser, JINJA_NODE_LIST, "]", nodep);
    if (jinja_parser_sees(parser, "{"))
        return parse_items(parser, JINJA_NODE_DICT, "}", nodep);
    if (jinja_parser_sees(parser, "(")) {
        r = jinja_parser_step(parser);
        if (!r)
            r = jinja_parse_tuple(parser, true, true, nodep);
        return r ? r : jinja_parser_expect(parser, ")");
    }
    return jinja_parser_fail(parser, "expected an expression");
}

static int parse_primary(JinjaParser *parser, JinjaNode **nodep) {
    int r = jinja_parser_enter(parser);

    if (r)
        return r;
    r = parse_primary_here(parser, nodep);
    jinja_parser_leave(parser);
    return r;
}

/* --- what stands behind a value --------------------------------------------------------------------------------- */

/* From "(" past ")". */
static int parse_arguments(JinjaParser *parser, JinjaNode *node) {
    JinjaArgumentNodes *arguments = jinja_arena_take(parser->arena, sizeof(*arguments));
    JinjaNodeList items = { 0 }, named = { 0 }, names = { 0 };
    bool skipped;
    int r;

    if (!arguments)
        return jinja_parser_fail_memory(parser);
    r = jinja_parser_expect(parser, "(");
    for (bool is_first = true; !r && !jinja_parser_sees(parser, ")"); is_first = false) {
        JinjaNode *item;

        if (!is_first) {
            r = jinja_parser_expect(parser, ",");
            if (r || jinja_parser_sees(parser, ")"))
                break;
        }
        r = jinja_parser_skip(parser, "*", &skipped);
        if (r)
            break;
        if (skipped) {
            if (arguments->list || arguments->dict)
                return jinja_parser_fail(parser, "a second '*' among arguments");
            r = jinja_parse_expression(parser, true, &arguments->list);
            continue;
        }
        r = jinja_parser_skip(parser, "**", &skipped);
        if (r)
            break;
        if (skipped) {
            if (arguments->dict)
                return jinja_parser_fail(parser, "a second '**' among arguments");
            r = jinja_parse_expression(parser, true, &arguments->dict);
            continue;
        }
        if (parser->now.kind == JINJA_TOKEN_NAME) {
            r = jinja_parser_look(parser);
            if (!r && parser->next.kind == JINJA_TOKEN_OPERATOR && parser->next.len_bytes == 1 &&
                parser->next.data[0] == '=') {
                const JinjaText *name;

                r = jinja_parser_name_text(parser, &name);
                if (!r)
                    r = jinja_parser_step(parser);
                if (!r)
                    r = jinja_parse_expression(parser, true, &item);
                if (!r)
                    r = jinja_node_add(parser, &named, item);
                if (!r)
                    r = jinja_node_add(parser, &names, (JinjaNode *)name);
                continue;
            }
        }
        if (named.n || arguments->list || arguments->dict)
            return jinja_parser_fail(parser, "an argument without a name behind those with one");
        if (!r)
            r = jinja_parse_expression(parser, true, &item);
        if (!r)
            r = jinja_node_add(parser, &items, item);
    }
    if (!r)
        r = jinja_parser_expect(parser, ")");
    arguments->items = items.items;
    arguments->n = items.n;
    arguments->named = named.items;
    arguments->n_named = named.n;
    arguments->names = (const JinjaText **)names.items;
    node->arguments = arguments;
    return r;
}

static int parse_call(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNode *node = NULL;
    int r = jinja_node_new(parser, JINJA_NODE_CALL, parser->now.line, &node);

    if (r)
        return r;
    node->a = *nodep;
    *nodep = node;
    r = parse_arguments(parser, node);
    return r ? r : jinja_node_close(parser, node);
}

/* What stands between "[" and "]": an expression, or a slice. */
static int parse_subscript(JinjaParser *parser, JinjaNode *node) {
    bool skipped = false;
    int r = 0;

    if (!jinja_parser_sees(parser, ":"))
        r = jinja_parse_expression(parser, true, &node->b);
    if (r)
        return r;
    if (!jinja_parser_sees(parser, ":")) {
        if (jinja_parser_sees(parser, ","))
            return jinja_parser_fail(parser, "a subscript of several values is not supported");
        return jinja_parser_expect(parser, "]");
    }
    node->kind = JINJA_NODE_SLICE;
    node->items = jinja_arena_take(parser->arena, 3 * sizeof(JinjaNode *));
    if (!node->items)
        return jinja_parser_fail_memory(parser);
    node->items[0] = node->b;
    node->b = NULL;
    node->n_items = 3;
    r = jinja_parser_step(parser);
    if (!r && !jinja_parser_sees(parser, ":") && !jinja_parser_sees(parser, "]"))
        r = jinja_parse_expression(parser, true, &node->items[1]);
    if (!r)
        r = jinja_parser_skip(parser, ":", &skipped);
    if (!r && skipped && !jinja_parser_sees(parser, "]"))
        r = jinja_parse_expression(parser, true, &node->items[2]);
    return r ? r : jinja_parser_expect(parser, "]");
}

static int parse_member(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNode *node = NULL;
    bool is_dot = jinja_parser_sees(parser, ".");
    int r = jinja_node_new(parser, is_dot ? JINJA_NODE_ATTRIBUTE : JINJA_NODE_ITEM, parser->now.line, &node);

    if (r)
        return r;
    node->a = *nodep;
    *nodep = node;
    r = jinja_parser_step(parser);
    if (r)
        return r;
    if (!is_dot) {
        r = jinja_parser_enter(parser);
        if (r)
            return r;
        r = parse_subscript(parser, node);
        jinja_parser_leave(parser);
    } else if (parser->now.kind == JINJA_TOKEN_NUMBER && parser->now.value.type == JINJA_INT) {
        node->kind = JINJA_NODE_ITEM;
        r = new_const(parser, parser->now.value, &node->b);
    } else {
        r = jinja_parser_name_text(parser, &node->text);
    }
    return r ? r : jinja_node_close(parser, node);
}

static int parse_postfix(JinjaParser *parser, JinjaNode **nodep) {
    for (;;) {
        int r;

        if (jinja_parser_sees(parser, ".") || jinja_parser_sees(parser, "["))
            r = parse_member(parser, nodep);
        else if (jinja_parser_sees(parser, "("))
            r = parse_call(parser, nodep);
        else
            return 0;
        if (r)
            return r;
    }
}

/* A name with dots in it, as filters and tests may have. */
static int parse_dotted_name(JinjaParser *parser, const JinjaText **textp) {
    bool skipped;
    int r = jinja_parser_name_text(parser, textp);

    while (!r && jinja_parser_sees(parser, ".")) {
        const JinjaText *more, *text = *textp;
        char *data;

        r = jinja_parser_skip(parser, ".", &skipped);
        if (!r)
            r = jinja_parser_name_text(parser, &more);
        if (r)
            return r;
        data = jinja_arena_take(parser->arena, (size_t)text->len_bytes + more->len_bytes + 1);
        if (!data)
            return jinja_parser_fail_memory(parser);
        memcpy(data, text->data, text->len_bytes);
        data[text->len_bytes] = '.';
        memcpy(data + text->len_bytes + 1, more->data, more->len_bytes);
        *textp = jinja_text_of(parser->arena, data, (size_t)text->len_bytes + more->len_bytes + 1, true);
        if (!*textp)
            return jinja_parser_fail_memory(parser);
    }
    return r;
}

int jinja_parse_filters(JinjaParser *parser, JinjaNode *base, bool is_inline, JinjaNode **nodep) {
    int r = 0;

    *nodep = base;
    while (!r && (is_inline || jinja_parser_sees(parser, "|"))) {
        JinjaNode *node;

        r = jinja_node_new(parser, JINJA_NODE_FILTER, parser->now.line, &node);
        if (!r && !is_inline)
            r = jinja_parser_step(parser);
        if (!r)
            r = parse_dotted_name(parser, &node->text);
        if (r)
            return r;
        is_inline = false;
        node->a = *nodep;
        node->builtin = jinja_filter_find(node->text);
        *nodep = node;
        if (jinja_parser_sees(parser, "("))
            r = parse_arguments(parser, node);
        if (!r)
            r = jinja_node_close(parser, node);
    }
    return r;
}

static bool begins_argument(const JinjaParser *parser) {
    static const char *const words[] = { "else", "or", "and", NULL };

    switch (parser->now.kind) {
    case JINJA_TOKEN_NAME:
        for (const char *const *word = words; *word; word++)
            if (jinja_parser_sees_name(parser, *word))
                return false;
        return true;
    case JINJA_TOKEN_TEXT:
    case JINJA_TOKEN_NUMBER:
        return true;
    default:
        return jinja_parser_sees(parser, "[") || jinja_parser_sees(parser, "{");
    }
}

static int parse_test(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNode *node = NULL, *argument = NULL, *negated = NULL;
    bool is_negated;
    int r = jinja_node_new(parser, JINJA_NODE_TEST, parser->now.line, &node);

    if (!r)
        r = jinja_parser_step(parser);
    if (!r)
        r = jinja_parser_skip_name(parser, "not", &is_negated);
    if (!r)
        r = parse_dotted_name(parser, &node->text);
    if (r)
        return r;
    node->a = *nodep;
    node->builtin = jinja_test_find(node->text);
    if (jinja_parser_sees(parser, "(")) {
        r = parse_arguments(parser, node);
    } else if (begins_argument(parser)) {
        JinjaArgumentNodes *arguments = jinja_arena_take(parser->arena, sizeof(*arguments));
        JinjaNodeList list = { 0 };

        if (!arguments)
            return jinja_parser_fail_memory(parser);
        if (jinja_parser_sees_name(parser, "is"))
            return jinja_parser_fail(parser, "tests cannot be chained with 'is'");
        r = parse_primary(parser, &argument);
        if (!r)
            r = parse_postfix(parser, &argument);
        if (!r)
            r = jinja_node_add(parser, &list, argument);
        arguments->items = list.items;
        arguments->n = list.n;
        node->arguments = arguments;
    }
    if (!r)
        r = jinja_node_close(parser, node);
    if (!r && is_negated) {
        r = jinja_node_new(parser, JINJA_NODE_NOT, node->line, &negated);
        if (!r) {
            negated->a = node;
            r = jinja_node_close(parser, negated);
        }
    }
    *nodep = negated ? negated : node;
    return r;
}

static int parse_filters_and_tests(JinjaParser *parser, JinjaNode **nodep) {
    for (;;) {
        int r;

        if (jinja_parser_sees(parser, "|"))
            r = jinja_parse_filters(parser, *nodep, false, nodep);
        else if (jinja_parser_sees_name(parser, "is"))
            r = parse_test(parser, nodep);
        else if (jinja_parser_sees(parser, "("))
            r = parse_call(parser, nodep);
        else
            return 0;
        if (r)
            return r;
    }
}

/* --- with a sign ----------------------------------------------------------------------------------------------- */

static int parse_unary_here(JinjaParser *parser, JinjaNode **nodep) {
    bool is_minus = jinja_parser_sees(parser, "-");
    JinjaNode *node = NULL;
    int r;

    if (!is_minus && !jinja_parser_sees(parser, "+"))
        return parse_primary(parser, nodep);
    r = jinja_node_new(parser, is_minus ? JINJA_NODE_NEGATE : JINJA_NODE_PLUS, parser->now.line, &node);
    if (!r)
        r = jinja_parser_step(parser);
    if (!r)
        r = jinja_parser_enter(parser);
    if (r)
        return r;
    r = parse_unary(parser, false, &node->a);
    jinja_parser_leave(parser);
    *nodep = node;
    return r ? r : jinja_node_close(parser, node);
}

static int parse_unary(JinjaParser *parser, bool with_filters, JinjaNode **nodep) {
    int r = parse_unary_here(parser, nodep);

    if (!r)
        r = parse_postfix(parser, nodep);
    return r || !with_filters ? r : parse_filters_and_tests(parser, nodep);
}

int jinja_parse_operand(JinjaParser *parser, JinjaNode **nodep) {
    return parse_unary(parser, true, nodep);
}
