// SPDX-License-Identifier: Apache-2.0
/* Operators, operands and tuples. Precedence and quirks are Jinja's: "~" binds closer than "+". */
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

/* Parses a text in quotes. Texts behind each other are one. */
static JinjaNode *parse_text(JinjaParser *parser) {
    JinjaNode *node = new_const(parser, parser->now.value);

    while (parser->now.kind == JINJA_TOKEN_TEXT) {
        const JinjaText *a = node->value.text, *b = parser->now.value.text;
        const size_t n = (size_t)a->len_bytes + b->len_bytes;
        char *data = jinja_lexer_take(&parser->lexer, n + 1, 1);

        memcpy(data, a->data, a->len_bytes);
        memcpy(data + a->len_bytes, b->data, b->len_bytes);
        node->value = jinja_str(jinja_lexer_text(&parser->lexer, data, n));
        jinja_parser_step(parser);
    }
    return node;
}

JinjaNode *jinja_parse_name(JinjaParser *parser) {
    JinjaNode *node;

    if (jinja_parser_sees_one_of(parser, "true True"))
        return new_const(parser, jinja_bool(true));
    if (jinja_parser_sees_one_of(parser, "false False"))
        return new_const(parser, jinja_bool(false));
    if (jinja_parser_sees_one_of(parser, "none None"))
        return new_const(parser, JINJA_NOTHING);
    node = jinja_node_new(parser, JINJA_NODE_NAME, parser->now.line);
    node->name = jinja_parser_name(parser);
    return node;
}

/* Parses items up to the closing bracket; those of a dict are keys and values. */
static JinjaNode *parse_items(JinjaParser *parser, JinjaKind kind, const char *close) {
    JinjaNode *node = jinja_node_new(parser, kind, parser->now.line);

    jinja_parser_step(parser);
    while (jinja_parser_another(parser, !node->n_items, close)) {
        jinja_node_add(parser, node, jinja_parse_expression(parser, true));
        if (kind == JINJA_NODE_DICT) {
            jinja_parser_expect(parser, ":");
            jinja_node_add(parser, node, jinja_parse_expression(parser, true));
        }
    }
    jinja_parser_step(parser);
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
        jinja_parser_fail_expected(parser, "an expression");
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

/* Parses one argument of a call: a value, name=value, or *list. */
static JinjaNode *parse_argument(JinjaParser *parser) {
    const bool is_star = jinja_parser_sees(parser, "*");
    JinjaNode *node;

    if (!is_star &&
        (parser->now.kind != JINJA_TOKEN_NAME || !jinja_token_is(jinja_parser_look(parser), JINJA_TOKEN_OPERATOR, "=")))
        return jinja_parse_expression(parser, true);
    node = jinja_node_new(parser, is_star ? JINJA_NODE_STAR : JINJA_NODE_NAMED, parser->now.line);
    if (!is_star)
        node->text = jinja_parser_name_text(parser);
    jinja_parser_step(parser);
    node->a = jinja_parse_expression(parser, true);
    node->depth = node->a->depth;
    return node;
}

/* Parses the arguments of a call, filter or test from "(" past ")". */
static void parse_arguments(JinjaParser *parser, JinjaNode *node) {
    bool names_follow = false;

    jinja_parser_expect(parser, "(");
    while (jinja_parser_another(parser, !node->n_items, ")")) {
        JinjaNode *argument = parse_argument(parser);

        if (names_follow && argument->kind != JINJA_NODE_NAMED)
            jinja_parser_fail(parser, "an argument without a name behind those with one");
        names_follow = argument->kind == JINJA_NODE_NAMED || argument->kind == JINJA_NODE_STAR;
        jinja_node_add(parser, node, argument);
    }
    jinja_parser_step(parser);
}

static JinjaNode *parse_call(JinjaParser *parser, JinjaNode *callee) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_CALL, parser->now.line);

    node->a = callee;
    parse_arguments(parser, node);
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
    for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
        jinja_node_add(parser, node, bounds[i]);
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

JinjaNode *jinja_parse_filters(JinjaParser *parser, JinjaNode *base, bool is_inline) {
    while (is_inline || jinja_parser_sees(parser, "|")) {
        JinjaNode *node = jinja_node_new(parser, JINJA_NODE_FILTER, parser->now.line);

        if (!is_inline)
            jinja_parser_step(parser);
        is_inline = false;
        node->a = base;
        node->text = jinja_parser_name_text(parser);
        node->builtin = jinja_builtin_find(JINJA_FILTERS, node->text);
        if (jinja_parser_sees(parser, "("))
            parse_arguments(parser, node);
        base = jinja_node_close(parser, node);
    }
    return base;
}

static bool begins_argument(const JinjaParser *parser) {
    switch (parser->now.kind) {
    case JINJA_TOKEN_NAME:
        return !jinja_parser_sees_one_of(parser, "else or and");
    case JINJA_TOKEN_TEXT:
    case JINJA_TOKEN_NUMBER:
        return true;
    default:
        return jinja_parser_sees(parser, "[") || jinja_parser_sees(parser, "{");
    }
}

/* Parses the only argument of a test, which needs no brackets. */
static void parse_bare_argument(JinjaParser *parser, JinjaNode *node) {
    if (jinja_parser_sees_name(parser, "is"))
        jinja_parser_fail(parser, "tests cannot be chained with 'is'");
    jinja_node_add(parser, node, parse_postfix(parser, parse_primary(parser)));
}

static JinjaNode *parse_test(JinjaParser *parser, JinjaNode *subject) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_TEST, parser->now.line), *negated;
    bool is_negated;

    jinja_parser_step(parser);
    is_negated = jinja_parser_skip_name(parser, "not");
    node->a = subject;
    node->text = jinja_parser_name_text(parser);
    node->builtin = jinja_builtin_find(JINJA_TESTS, node->text);
    if (jinja_parser_sees(parser, "("))
        parse_arguments(parser, node);
    else if (begins_argument(parser))
        parse_bare_argument(parser, node);
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

/* --- operators -------------------------------------------------------------------------------------------------- */

typedef JinjaNode *ParseFn(JinjaParser *parser);

/* Makes a node of the operand that follows the current token. */
static JinjaNode *parse_prefix(JinjaParser *parser, JinjaKind kind, ParseFn *parse) {
    JinjaNode *node = jinja_node_new(parser, kind, parser->now.line);

    jinja_parser_step(parser);
    jinja_parser_enter(parser);
    node->a = parse(parser);
    jinja_parser_leave(parser);
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_unfiltered(JinjaParser *parser) {
    return parse_unary(parser, false);
}

static JinjaNode *parse_unary(JinjaParser *parser, bool with_filters) {
    JinjaNode *node = jinja_parser_sees(parser, "-") ? parse_prefix(parser, JINJA_NODE_NEGATE, parse_unfiltered)
                                                     : parse_primary(parser);

    node = parse_postfix(parser, node);
    return with_filters ? parse_filters_and_tests(parser, node) : node;
}

static JinjaNode *parse_operand(JinjaParser *parser) {
    return parse_unary(parser, true);
}

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

/* Finds the operator that is the current token; NULL: it is none of the table. */
static const OperatorName *see_operator(const JinjaParser *parser, const OperatorName *operators, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (jinja_parser_sees(parser, operators[i].name))
            return &operators[i];
    return NULL;
}

/* Parses what stands between operators of a table, from the left to the right. */
static JinjaNode *parse_binary(JinjaParser *parser, const OperatorName *operators, size_t n, ParseFn *parse) {
    JinjaNode *node = parse(parser);

    for (const OperatorName *seen; (seen = see_operator(parser, operators, n));)
        node = parse_right(parser, JINJA_NODE_BINARY, seen->op, parse, node);
    return node;
}

static JinjaNode *parse_product(JinjaParser *parser) {
    static const OperatorName operators[] = {
        { "*", JINJA_MULTIPLY }, { "/", JINJA_DIVIDE }, { "//", JINJA_FLOOR_DIVIDE }, { "%", JINJA_MODULO }
    };

    return parse_binary(parser, operators, ARRAY_LEN(operators), parse_operand);
}

static JinjaNode *parse_concat(JinjaParser *parser) {
    JinjaNode *first = parse_product(parser), *node;

    if (!jinja_parser_sees(parser, "~"))
        return first;
    node = jinja_node_new(parser, JINJA_NODE_CONCAT, parser->now.line);
    jinja_node_add(parser, node, first);
    while (jinja_parser_skip(parser, "~"))
        jinja_node_add(parser, node, parse_product(parser));
    return jinja_node_close(parser, node);
}

static JinjaNode *parse_sum(JinjaParser *parser) {
    static const OperatorName operators[] = { { "+", JINJA_ADD }, { "-", JINJA_SUBTRACT } };

    return parse_binary(parser, operators, ARRAY_LEN(operators), parse_concat);
}

/* Finds the comparison at the current token, of which the last word is the current token then; false: there is none. */
static bool see_comparison(JinjaParser *parser, JinjaOperator *opp) {
    static const OperatorName operators[] = { { "==", JINJA_EQUAL },  { "!=", JINJA_NOT_EQUAL },
                                              { "<", JINJA_LESS },    { "<=", JINJA_LESS_EQUAL },
                                              { ">", JINJA_GREATER }, { ">=", JINJA_GREATER_EQUAL } };
    const OperatorName *seen = see_operator(parser, operators, ARRAY_LEN(operators));
    const bool is_negated =
        jinja_parser_sees_name(parser, "not") && jinja_token_is(jinja_parser_look(parser), JINJA_TOKEN_NAME, "in");

    if (is_negated)
        jinja_parser_step(parser);
    *opp = seen ? seen->op : is_negated ? JINJA_NOT_IN : JINJA_IN;
    return seen || jinja_parser_sees_name(parser, "in");
}

static JinjaNode *parse_comparison(JinjaParser *parser) {
    JinjaNode *node = parse_sum(parser);
    JinjaOperator op;

    if (!see_comparison(parser, &op))
        return node;
    node = parse_right(parser, JINJA_NODE_BINARY, op, parse_sum, node);
    if (see_comparison(parser, &op))
        jinja_parser_fail(parser, "comparisons in a row are not supported in chat templates: 'and' joins them");
    return node;
}

static JinjaNode *parse_not(JinjaParser *parser) {
    return jinja_parser_sees_name(parser, "not") ? parse_prefix(parser, JINJA_NODE_NOT, parse_not)
                                                 : parse_comparison(parser);
}

/* Parses what stands between words "and" or "or", from the left to the right. */
static JinjaNode *parse_logical(JinjaParser *parser, const char *word, JinjaKind kind, ParseFn *parse) {
    JinjaNode *node = parse(parser);

    while (jinja_parser_sees_name(parser, word))
        node = parse_right(parser, kind, JINJA_ADD, parse, node);
    return node;
}

static JinjaNode *parse_and(JinjaParser *parser) {
    return parse_logical(parser, "and", JINJA_NODE_AND, parse_not);
}

static JinjaNode *parse_or(JinjaParser *parser) {
    return parse_logical(parser, "or", JINJA_NODE_OR, parse_and);
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

static bool sees_tuple_end(const JinjaParser *parser) {
    return parser->now.kind == JINJA_TOKEN_BLOCK_END || parser->now.kind == JINJA_TOKEN_PRINT_END ||
           jinja_parser_sees(parser, ")");
}

JinjaNode *jinja_parse_tuple(JinjaParser *parser, bool with_condition, bool in_brackets) {
    const bool is_empty = in_brackets && sees_tuple_end(parser);
    const uint32_t line = parser->now.line;
    JinjaNode *first = is_empty ? NULL : jinja_parse_expression(parser, with_condition), *node;

    if (first && !jinja_parser_sees(parser, ","))
        return first;
    node = jinja_node_new(parser, JINJA_NODE_TUPLE, line);
    if (first)
        jinja_node_add(parser, node, first);
    while (jinja_parser_skip(parser, ",") && !sees_tuple_end(parser))
        jinja_node_add(parser, node, jinja_parse_expression(parser, with_condition));
    return jinja_node_close(parser, node);
}
