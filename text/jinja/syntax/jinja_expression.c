// SPDX-License-Identifier: Apache-2.0
/* Operators, operands and tuples. Precedence and quirks are Jinja's: "~" binds closer than "+", "-2 ** 2" is 4. */
#include "text/jinja/syntax/jinja_expression.h"

#include "text/jinja/builtins/jinja_builtin.h"

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

static JinjaNode *parse_operand(JinjaParser *parser) {
    return parse_unary(parser, true);
}

typedef JinjaNode *ParseFn(JinjaParser *parser);

/* --- operators -------------------------------------------------------------------------------------------------- */

/* Makes a node of the left side and of the right side that follows the current token. */
static JinjaNode *parse_right(JinjaParser *parser, JinjaKind kind, JinjaOperator op, ParseFn *parse, JinjaNode *left) {
    JinjaNode *node = jinja_node_new(parser, kind, parser->now.line);

    jinja_parser_step(parser);
    node->op = op;
    node->a = left;
    node->b = parse(parser);
    return jinja_node_close(parser, node);
}

typedef struct OperatorName {
    const char *name;
    JinjaOperator op;
} OperatorName;

/* Parses what stands between operators of a table, from the left to the right. */
static JinjaNode *parse_binary(JinjaParser *parser, const OperatorName *operators, size_t n, ParseFn *parse) {
    JinjaNode *node = parse(parser);

    for (size_t i = 0; i < n;) {
        if (!jinja_parser_sees(parser, operators[i].name)) {
            i++;
            continue;
        }
        node = parse_right(parser, JINJA_NODE_BINARY, operators[i].op, parse, node);
        i = 0;
    }
    return node;
}

static JinjaNode *parse_power(JinjaParser *parser) {
    static const OperatorName operators[] = { { "**", JINJA_POWER } };

    return parse_binary(parser, operators, ARRAY_LEN(operators), parse_operand);
}

static JinjaNode *parse_product(JinjaParser *parser) {
    static const OperatorName operators[] = {
        { "*", JINJA_MULTIPLY }, { "/", JINJA_DIVIDE }, { "//", JINJA_FLOOR_DIVIDE }, { "%", JINJA_MODULO }
    };

    return parse_binary(parser, operators, ARRAY_LEN(operators), parse_power);
}

static JinjaNode *parse_concat(JinjaParser *parser) {
    JinjaNode *first = parse_product(parser), *node;
    JinjaNodeList list = { 0 };

    if (!jinja_parser_sees(parser, "~"))
        return first;
    node = jinja_node_new(parser, JINJA_NODE_CONCAT, parser->now.line);
    jinja_node_add(parser, &list, first);
    while (jinja_parser_skip(parser, "~"))
        jinja_node_add(parser, &list, parse_product(parser));
    jinja_node_set_items(node, &list);
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_sum(JinjaParser *parser) {
    static const OperatorName operators[] = { { "+", JINJA_ADD }, { "-", JINJA_SUBTRACT } };

    return parse_binary(parser, operators, ARRAY_LEN(operators), parse_concat);
}

/* Skips the comparison that is the current token; false: there is none. */
static bool skip_comparison(JinjaParser *parser, JinjaOperator *opp) {
    static const OperatorName operators[] = { { "==", JINJA_EQUAL },  { "!=", JINJA_NOT_EQUAL },
                                              { "<", JINJA_LESS },    { "<=", JINJA_LESS_EQUAL },
                                              { ">", JINJA_GREATER }, { ">=", JINJA_GREATER_EQUAL } };

    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (jinja_parser_skip(parser, operators[i].name)) {
            *opp = operators[i].op;
            return true;
        }
    *opp = JINJA_IN;
    if (jinja_parser_skip_name(parser, "in"))
        return true;
    *opp = JINJA_NOT_IN;
    if (!jinja_parser_sees_name(parser, "not") || !jinja_token_is(jinja_parser_look(parser), JINJA_TOKEN_NAME, "in"))
        return false;
    jinja_parser_step(parser);
    jinja_parser_step(parser);
    return true;
}

static JinjaNode *parse_comparison(JinjaParser *parser) {
    JinjaNode *left = parse_sum(parser), *node;
    const uint32_t line = parser->now.line;
    JinjaNodeList list = { 0 };
    JinjaOperator op;

    if (!skip_comparison(parser, &op))
        return left;
    node = jinja_node_new(parser, JINJA_NODE_COMPARE, line);
    node->a = left;
    do {
        JinjaNode *right = parse_sum(parser), *item = jinja_node_new(parser, JINJA_NODE_OPERAND, right->line);

        item->op = op;
        item->a = right;
        item->depth = right->depth;
        jinja_node_add(parser, &list, item);
    } while (skip_comparison(parser, &op));
    jinja_node_set_items(node, &list);
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_not(JinjaParser *parser) {
    JinjaNode *node;

    if (!jinja_parser_sees_name(parser, "not"))
        return parse_comparison(parser);
    node = jinja_node_new(parser, JINJA_NODE_NOT, parser->now.line);
    jinja_parser_step(parser);
    jinja_parser_enter(parser);
    node->a = parse_not(parser);
    jinja_parser_leave(parser);
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_and(JinjaParser *parser) {
    JinjaNode *node = parse_not(parser);

    while (jinja_parser_sees_name(parser, "and"))
        node = parse_right(parser, JINJA_NODE_AND, JINJA_ADD, parse_not, node);
    return node;
}

static JinjaNode *parse_or(JinjaParser *parser) {
    JinjaNode *node = parse_and(parser);

    while (jinja_parser_sees_name(parser, "or"))
        node = parse_right(parser, JINJA_NODE_OR, JINJA_ADD, parse_and, node);
    return node;
}

static JinjaNode *parse_if_else(JinjaParser *parser) {
    JinjaNode *value = parse_or(parser);

    while (jinja_parser_sees_name(parser, "if")) {
        JinjaNode *node = jinja_node_new(parser, JINJA_NODE_IF_ELSE, parser->now.line);

        jinja_parser_step(parser);
        node->a = value;
        node->b = parse_or(parser);
        if (jinja_parser_skip_name(parser, "else")) {
            jinja_parser_enter(parser);
            node->c = parse_if_else(parser);
            jinja_parser_leave(parser);
        }
        value = jinja_node_close(parser, node);
    }
    return value;
}

JinjaNode *jinja_parse_expression(JinjaParser *parser, bool with_condition) {
    JinjaNode *node;

    jinja_parser_enter(parser);
    node = with_condition ? parse_if_else(parser) : parse_or(parser);
    jinja_parser_leave(parser);
    return node;
}

/* --- tuples ----------------------------------------------------------------------------------------------------- */

/* The only item of a list, or a tuple of all. */
JinjaNode *jinja_tuple_of(JinjaParser *parser, const JinjaNodeList *list, bool is_tuple, uint32_t line) {
    JinjaNode *node;

    if (!is_tuple && list->n)
        return list->items[0];
    node = jinja_node_new(parser, JINJA_NODE_TUPLE, line);
    jinja_node_set_items(node, list);
    return jinja_node_close(parser, node);
}

static bool sees_tuple_end(const JinjaParser *parser) {
    return parser->now.kind == JINJA_TOKEN_BLOCK_END || parser->now.kind == JINJA_TOKEN_PRINT_END ||
           jinja_parser_sees(parser, ")");
}

JinjaNode *jinja_parse_tuple(JinjaParser *parser, bool with_condition, bool in_brackets) {
    uint32_t line = parser->now.line;
    JinjaNodeList list = { 0 };
    bool is_tuple = false;

    while (!sees_tuple_end(parser) && !(is_tuple && jinja_parser_sees_name(parser, "recursive"))) {
        jinja_node_add(parser, &list, jinja_parse_expression(parser, with_condition));
        if (!jinja_parser_skip(parser, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && !list.n && !in_brackets)
        jinja_parser_fail(parser, "expected an expression");
    return jinja_tuple_of(parser, &list, is_tuple, line);
}
