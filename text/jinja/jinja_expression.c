// SPDX-License-Identifier: Apache-2.0
/* Operators in the expressions of a template, tuples, targets and signatures. Precedence and quirks are Jinja's: "~"
 * binds closer than "+", "-2 ** 2" is 4. */
#include "text/jinja/jinja_parser.h"

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

    return parse_binary(parser, operators, ARRAY_LEN(operators), jinja_parse_operand);
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
static JinjaNode *tuple_of(JinjaParser *parser, const JinjaNodeList *list, bool is_tuple, uint32_t line) {
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
    return tuple_of(parser, &list, is_tuple, line);
}

/* --- targets and signatures ------------------------------------------------------------------------------------- */

static JinjaNode *parse_one_target(JinjaParser *parser, bool with_namespace) {
    JinjaNode *node, *name;

    if (jinja_parser_sees(parser, "(")) {
        jinja_parser_enter(parser);
        jinja_parser_step(parser);
        node = jinja_parse_target(parser, false, with_namespace);
        jinja_parser_leave(parser);
        jinja_parser_expect(parser, ")");
        return node;
    }
    if (parser->now.kind != JINJA_TOKEN_NAME)
        jinja_parser_fail(parser, "expected a name to assign to");
    name = jinja_parse_name(parser);
    if (name->kind != JINJA_NODE_NAME)
        jinja_parser_fail(parser, "a constant cannot be assigned to");
    if (!with_namespace || !jinja_parser_sees(parser, "."))
        return name;
    node = jinja_node_new(parser, JINJA_NODE_ATTRIBUTE, parser->now.line);
    jinja_parser_step(parser);
    node->a = name;
    node->text = jinja_parser_name_text(parser);
    return node;
}

JinjaNode *jinja_parse_target(JinjaParser *parser, bool for_loop, bool with_namespace) {
    uint32_t line = parser->now.line;
    JinjaNodeList list = { 0 };
    bool is_tuple = false;

    do {
        if (is_tuple && (jinja_parser_sees(parser, ")") || jinja_parser_sees(parser, "=") ||
                         (for_loop && jinja_parser_sees_name(parser, "in"))))
            break;
        jinja_node_add(parser, &list, parse_one_target(parser, with_namespace));
        is_tuple = is_tuple || jinja_parser_sees(parser, ",");
    } while (jinja_parser_skip(parser, ","));
    return tuple_of(parser, &list, is_tuple, line);
}

void jinja_parse_signature(JinjaParser *parser, JinjaMacroNode *macro) {
    JinjaNodeList names = { 0 }, defaults = { 0 };

    jinja_parser_expect(parser, "(");
    while (!jinja_parser_sees(parser, ")")) {
        JinjaNode *name = jinja_node_new(parser, JINJA_NODE_NAME, parser->now.line);

        if (names.n)
            jinja_parser_expect(parser, ",");
        if (parser->now.kind != JINJA_TOKEN_NAME)
            jinja_parser_fail(parser, "expected the name of an argument");
        name->name = jinja_parser_name(parser);
        jinja_node_add(parser, &names, name);
        if (jinja_parser_skip(parser, "="))
            jinja_node_add(parser, &defaults, jinja_parse_expression(parser, true));
        else if (defaults.n)
            jinja_parser_fail(parser, "an argument without a default behind one that has one");
    }
    jinja_parser_step(parser);
    macro->names = names.items;
    macro->n = names.n;
    macro->defaults = defaults.items;
    macro->n_defaults = defaults.n;
}
