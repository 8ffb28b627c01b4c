// SPDX-License-Identifier: Apache-2.0
/* Operands in the expressions of a template: literals and names, with the members, calls, filters and tests behind
 * them. */
#include "text/jinja/jinja_builtin.h"
#include "text/jinja/jinja_parser.h"

static JinjaNode *parse_unary(JinjaParser *parser, bool with_filters);

/* --- literals and names ----------------------------------------------------------------------------------------- */

static JinjaNode *new_const(JinjaParser *parser, JinjaValue value) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_CONST, parser->now.line);

    node->value = value;
    jinja_parser_step(parser);
    return node;
}

static const JinjaText *join_texts(JinjaParser *parser, const JinjaText *a, const char *between, const JinjaText *b) {
    size_t n = strlen(between);
    char *data = jinja_lexer_take(&parser->lexer, (size_t)a->len_bytes + n + b->len_bytes + 1, 1);

    memcpy(data, a->data, a->len_bytes);
    memcpy(data + a->len_bytes, between, n);
    memcpy(data + a->len_bytes + n, b->data, b->len_bytes);
    return jinja_lexer_text(&parser->lexer, data, (size_t)a->len_bytes + n + b->len_bytes);
}

/* Parses a text in quotes. Texts behind each other are one. */
static JinjaNode *parse_text(JinjaParser *parser) {
    JinjaNode *node = new_const(parser, parser->now.value);

    while (parser->now.kind == JINJA_TOKEN_TEXT) {
        node->value.text = join_texts(parser, node->value.text, "", parser->now.value.text);
        jinja_parser_step(parser);
    }
    return node;
}

JinjaNode *jinja_parse_name(JinjaParser *parser) {
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
    JinjaNode *node;

    for (size_t i = 0; i < ARRAY_LEN(constants); i++)
        if (jinja_parser_sees_name(parser, constants[i].name))
            return new_const(parser, constants[i].value);
    node = jinja_node_new(parser, JINJA_NODE_NAME, parser->now.line);
    node->name = jinja_parser_name(parser);
    return node;
}

/* Parses items up to the closing bracket; those of a dict are keys and values. */
static JinjaNode *parse_items(JinjaParser *parser, JinjaKind kind, const char *close) {
    JinjaNode *node = jinja_node_new(parser, kind, parser->now.line);
    JinjaNodeList list = { 0 };

    jinja_parser_step(parser);
    while (jinja_parser_another(parser, !list.n, close)) {
        jinja_node_add(parser, &list, jinja_parse_expression(parser, true));
        if (kind == JINJA_NODE_DICT) {
            jinja_parser_expect(parser, ":");
            jinja_node_add(parser, &list, jinja_parse_expression(parser, true));
        }
    }
    jinja_parser_step(parser);
    jinja_node_set_items(node, &list);
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_primary_here(JinjaParser *parser) {
    JinjaNode *node;

    switch (parser->now.kind) {
    case JINJA_TOKEN_NAME:
        return jinja_parse_name(parser);
    case JINJA_TOKEN_TEXT:
        return parse_text(parser);
    case JINJA_TOKEN_NUMBER:
        return new_const(parser, parser->now.value);
    default:
        break;
    }
    if (jinja_parser_sees(parser, "["))
        return parse_items(parser, JINJA_NODE_LIST, "]");
    if (jinja_parser_sees(parser, "{"))
        return parse_items(parser, JINJA_NODE_DICT, "}");
    if (!jinja_parser_skip(parser, "("))
        jinja_parser_fail(parser, "expected an expression");
    node = jinja_parse_tuple(parser, true, true);
    jinja_parser_expect(parser, ")");
    return node;
}

static JinjaNode *parse_primary(JinjaParser *parser) {
    JinjaNode *node;

    jinja_parser_enter(parser);
    node = parse_primary_here(parser);
    jinja_parser_leave(parser);
    return node;
}

/* --- members and calls ------------------------------------------------------------------------------------------ */

static void parse_argument(JinjaParser *parser, JinjaArgumentNodes *arguments, JinjaNodeList *items,
                           JinjaNodeList *named, JinjaNodeList *names) {
    if (jinja_parser_skip(parser, "*")) {
        if (arguments->list || arguments->dict)
            jinja_parser_fail(parser, "a second '*' among arguments");
        arguments->list = jinja_parse_expression(parser, true);
    } else if (jinja_parser_skip(parser, "**")) {
        if (arguments->dict)
            jinja_parser_fail(parser, "a second '**' among arguments");
        arguments->dict = jinja_parse_expression(parser, true);
    } else if (parser->now.kind == JINJA_TOKEN_NAME &&
               jinja_token_is(jinja_parser_look(parser), JINJA_TOKEN_OPERATOR, "=")) {
        JinjaNode *name = jinja_node_new(parser, JINJA_NODE_NAME, parser->now.line);

        name->text = jinja_parser_name_text(parser);
        jinja_node_add(parser, names, name);
        jinja_parser_step(parser);
        jinja_node_add(parser, named, jinja_parse_expression(parser, true));
    } else {
        if (named->n || arguments->list || arguments->dict)
            jinja_parser_fail(parser, "an argument without a name behind those with one");
        jinja_node_add(parser, items, jinja_parse_expression(parser, true));
    }
}

/* Parses arguments from "(" past ")". */
static JinjaArgumentNodes *parse_arguments(JinjaParser *parser) {
    JinjaArgumentNodes *arguments = jinja_lexer_take(&parser->lexer, 1, sizeof(*arguments));
    JinjaNodeList items = { 0 }, named = { 0 }, names = { 0 };

    jinja_parser_expect(parser, "(");
    for (bool is_first = true; jinja_parser_another(parser, is_first, ")"); is_first = false)
        parse_argument(parser, arguments, &items, &named, &names);
    jinja_parser_step(parser);
    arguments->items = items.items;
    arguments->n = items.n;
    arguments->named = named.items;
    arguments->n_named = named.n;
    arguments->names = jinja_lexer_take(&parser->lexer, named.n, sizeof(*arguments->names));
    for (uint32_t i = 0; i < named.n; i++)
        arguments->names[i] = names.items[i]->text;
    return arguments;
}

static JinjaNode *parse_call(JinjaParser *parser, JinjaNode *callee) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_CALL, parser->now.line);

    node->a = callee;
    node->arguments = parse_arguments(parser);
    return jinja_node_close(parser, node);
}

/* Parses an expression or a slice behind "[", past "]". */
static void parse_subscript(JinjaParser *parser, JinjaNode *node) {
    JinjaNode *bounds[3] = { NULL, NULL, NULL };

    if (!jinja_parser_sees(parser, ":"))
        bounds[0] = jinja_parse_expression(parser, true);
    if (jinja_parser_sees(parser, ",") && bounds[0])
        jinja_parser_fail(parser, "a subscript of several values is not supported");
    if (!jinja_parser_skip(parser, ":")) {
        node->b = bounds[0];
        jinja_parser_expect(parser, "]");
        return;
    }
    if (!jinja_parser_sees(parser, ":") && !jinja_parser_sees(parser, "]"))
        bounds[1] = jinja_parse_expression(parser, true);
    if (jinja_parser_skip(parser, ":") && !jinja_parser_sees(parser, "]"))
        bounds[2] = jinja_parse_expression(parser, true);
    jinja_parser_expect(parser, "]");
    node->kind = JINJA_NODE_SLICE;
    node->n_items = ARRAY_LEN(bounds);
    node->items = jinja_lexer_take(&parser->lexer, ARRAY_LEN(bounds), sizeof(JinjaNode *));
    memcpy(node->items, bounds, sizeof(bounds));
}

static JinjaNode *parse_member(JinjaParser *parser, JinjaNode *object) {
    const bool is_dot = jinja_parser_sees(parser, ".");
    JinjaNode *node = jinja_node_new(parser, is_dot ? JINJA_NODE_ATTRIBUTE : JINJA_NODE_ITEM, parser->now.line);

    node->a = object;
    jinja_parser_step(parser);
    if (!is_dot) {
        jinja_parser_enter(parser);
        parse_subscript(parser, node);
        jinja_parser_leave(parser);
    } else if (parser->now.kind == JINJA_TOKEN_NUMBER && parser->now.value.type == JINJA_INT) {
        node->kind = JINJA_NODE_ITEM;
        node->b = new_const(parser, parser->now.value);
    } else {
        node->text = jinja_parser_name_text(parser);
    }
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_postfix(JinjaParser *parser, JinjaNode *node) {
    for (;;) {
        if (jinja_parser_sees(parser, ".") || jinja_parser_sees(parser, "["))
            node = parse_member(parser, node);
        else if (jinja_parser_sees(parser, "("))
            node = parse_call(parser, node);
        else
            return node;
    }
}

/* --- filters and tests ------------------------------------------------------------------------------------------ */

/* Parses the name of a filter or test, which may have dots in it. */
static const JinjaText *parse_dotted_name(JinjaParser *parser) {
    const JinjaText *text = jinja_parser_name_text(parser);

    while (jinja_parser_skip(parser, "."))
        text = join_texts(parser, text, ".", jinja_parser_name_text(parser));
    return text;
}

JinjaNode *jinja_parse_filters(JinjaParser *parser, JinjaNode *base, bool is_inline) {
    while (is_inline || jinja_parser_sees(parser, "|")) {
        JinjaNode *node = jinja_node_new(parser, JINJA_NODE_FILTER, parser->now.line);

        if (!is_inline)
            jinja_parser_step(parser);
        is_inline = false;
        node->a = base;
        node->text = parse_dotted_name(parser);
        node->builtin = jinja_builtin_find(JINJA_FILTERS, node->text);
        if (jinja_parser_sees(parser, "("))
            node->arguments = parse_arguments(parser);
        base = jinja_node_close(parser, node);
    }
    return base;
}

static bool begins_argument(const JinjaParser *parser) {
    switch (parser->now.kind) {
    case JINJA_TOKEN_NAME:
        return !jinja_parser_sees_name(parser, "else") && !jinja_parser_sees_name(parser, "or") &&
               !jinja_parser_sees_name(parser, "and");
    case JINJA_TOKEN_TEXT:
    case JINJA_TOKEN_NUMBER:
        return true;
    default:
        return jinja_parser_sees(parser, "[") || jinja_parser_sees(parser, "{");
    }
}

/* Parses the only argument of a test, which needs no brackets. */
static JinjaArgumentNodes *parse_bare_argument(JinjaParser *parser) {
    JinjaArgumentNodes *arguments = jinja_lexer_take(&parser->lexer, 1, sizeof(*arguments));
    JinjaNodeList list = { 0 };

    if (jinja_parser_sees_name(parser, "is"))
        jinja_parser_fail(parser, "tests cannot be chained with 'is'");
    jinja_node_add(parser, &list, parse_postfix(parser, parse_primary(parser)));
    arguments->items = list.items;
    arguments->n = list.n;
    return arguments;
}

static JinjaNode *parse_test(JinjaParser *parser, JinjaNode *subject) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_TEST, parser->now.line), *negated;
    bool is_negated;

    jinja_parser_step(parser);
    is_negated = jinja_parser_skip_name(parser, "not");
    node->a = subject;
    node->text = parse_dotted_name(parser);
    node->builtin = jinja_builtin_find(JINJA_TESTS, node->text);
    if (jinja_parser_sees(parser, "("))
        node->arguments = parse_arguments(parser);
    else if (begins_argument(parser))
        node->arguments = parse_bare_argument(parser);
    node = jinja_node_close(parser, node);
    if (!is_negated)
        return node;
    negated = jinja_node_new(parser, JINJA_NODE_NOT, node->line);
    negated->a = node;
    return jinja_node_close(parser, negated);
}

static JinjaNode *parse_filters_and_tests(JinjaParser *parser, JinjaNode *node) {
    for (;;) {
        if (jinja_parser_sees(parser, "|"))
            node = jinja_parse_filters(parser, node, false);
        else if (jinja_parser_sees_name(parser, "is"))
            node = parse_test(parser, node);
        else if (jinja_parser_sees(parser, "("))
            node = parse_call(parser, node);
        else
            return node;
    }
}

/* --- signs ------------------------------------------------------------------------------------------------------ */

static JinjaNode *parse_signed(JinjaParser *parser) {
    const bool is_minus = jinja_parser_sees(parser, "-");
    JinjaNode *node;

    if (!is_minus && !jinja_parser_sees(parser, "+"))
        return parse_primary(parser);
    node = jinja_node_new(parser, is_minus ? JINJA_NODE_NEGATE : JINJA_NODE_PLUS, parser->now.line);
    jinja_parser_step(parser);
    jinja_parser_enter(parser);
    node->a = parse_unary(parser, false);
    jinja_parser_leave(parser);
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_unary(JinjaParser *parser, bool with_filters) {
    JinjaNode *node = parse_postfix(parser, parse_signed(parser));

    return with_filters ? parse_filters_and_tests(parser, node) : node;
}

JinjaNode *jinja_parse_operand(JinjaParser *parser) {
    return parse_unary(parser, true);
}
