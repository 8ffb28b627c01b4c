// SPDX-License-Identifier: Apache-2.0
/* Operators in the expressions of a template, tuples, targets and signatures. Precedence and quirks are Jinja's: "~"
 * binds closer than "+", "-2 ** 2" is 4. */
#include "text/jinja/jinja_parser.h"

static int parse_or(JinjaParser *parser, JinjaNode **nodep);

/* --- operators -------------------------------------------------------------------------------------------------- */

/* *nodep becomes the left of a node with the right that follows. */
static int parse_right(JinjaParser *parser, JinjaKind kind, JinjaOperator op,
                       int (*parse)(JinjaParser *parser, JinjaNode **nodep), JinjaNode **nodep) {
    JinjaNode *node = NULL;
    int r = jinja_node_new(parser, kind, parser->now.line, &node);

    if (!r)
        r = jinja_parser_step(parser);
    if (!r)
        r = parse(parser, &node->b);
    if (r)
        return r;
    node->op = op;
    node->a = *nodep;
    *nodep = node;
    return jinja_node_close(parser, node);
}

static int parse_power(JinjaParser *parser, JinjaNode **nodep) {
    int r = jinja_parse_operand(parser, nodep);

    while (!r && jinja_parser_sees(parser, "**"))
        r = parse_right(parser, JINJA_NODE_BINARY, JINJA_POWER, jinja_parse_operand, nodep);
    return r;
}

static int parse_product(JinjaParser *parser, JinjaNode **nodep) {
    static const struct {
        const char *name;
        JinjaOperator op;
    } operators[] = {
        { "*", JINJA_MULTIPLY }, { "/", JINJA_DIVIDE }, { "//", JINJA_FLOOR_DIVIDE }, { "%", JINJA_MODULO }
    };
    int r = parse_power(parser, nodep);

    while (!r) {
        size_t i = 0;

        while (i < ARRAY_LEN(operators) && !jinja_parser_sees(parser, operators[i].name))
            i++;
        if (i == ARRAY_LEN(operators))
            break;
        r = parse_right(parser, JINJA_NODE_BINARY, operators[i].op, parse_power, nodep);
    }
    return r;
}

static int parse_concat(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNodeList list = { 0 };
    JinjaNode *node = NULL, *item = NULL;
    bool skipped = true;
    int r = parse_product(parser, nodep);

    if (r || !jinja_parser_sees(parser, "~"))
        return r;
    r = jinja_node_new(parser, JINJA_NODE_CONCAT, parser->now.line, &node);
    if (!r)
        r = jinja_node_add(parser, &list, *nodep);
    while (!r) {
        r = jinja_parser_skip(parser, "~", &skipped);
        if (r || !skipped)
            break;
        r = parse_product(parser, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
    }
    if (r)
        return r;
    node->items = list.items;
    node->n_items = list.n;
    *nodep = node;
    return jinja_node_close(parser, node);
}

static int parse_sum(JinjaParser *parser, JinjaNode **nodep) {
    int r = parse_concat(parser, nodep);

    while (!r && (jinja_parser_sees(parser, "+") || jinja_parser_sees(parser, "-")))
        r = parse_right(parser, JINJA_NODE_BINARY, jinja_parser_sees(parser, "+") ? JINJA_ADD : JINJA_SUBTRACT,
                        parse_concat, nodep);
    return r;
}

/* The comparison that is seen, past its first word; false: none. */
static int see_comparison(JinjaParser *parser, bool *seenp, JinjaOperator *opp) {
    static const struct {
        const char *name;
        JinjaOperator op;
    } operators[] = { { "==", JINJA_EQUAL },      { "!=", JINJA_NOT_EQUAL }, { "<", JINJA_LESS },
                      { "<=", JINJA_LESS_EQUAL }, { ">", JINJA_GREATER },    { ">=", JINJA_GREATER_EQUAL } };
    int r;

    *seenp = true;
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (jinja_parser_sees(parser, operators[i].name)) {
            *opp = operators[i].op;
            return jinja_parser_step(parser);
        }
    if (jinja_parser_sees_name(parser, "in")) {
        *opp = JINJA_IN;
        return jinja_parser_step(parser);
    }
    *seenp = false;
    if (!jinja_parser_sees_name(parser, "not"))
        return 0;
    r = jinja_parser_look(parser);
    if (r || parser->next.kind != JINJA_TOKEN_NAME || parser->next.len_bytes != 2 ||
        memcmp(parser->next.data, "in", 2) != 0)
        return r;
    *seenp = true;
    *opp = JINJA_NOT_IN;
    r = jinja_parser_step(parser);
    return r ? r : jinja_parser_step(parser);
}

static int parse_comparison(JinjaParser *parser, JinjaNode **nodep) {
    JinjaOperator found, *operators = NULL;
    JinjaNodeList list = { 0 };
    JinjaNode *node = NULL, *item = NULL;
    uint32_t room = 0;
    bool seen;
    int r = parse_sum(parser, nodep);

    for (;;) {
        if (!r)
            r = see_comparison(parser, &seen, &found);
        if (r || !seen)
            break;
        if (!node)
            r = jinja_node_new(parser, JINJA_NODE_COMPARE, parser->now.line, &node);
        if (!r && list.n == room) {
            JinjaOperator *more;

            room = room ? 2 * room : 2;
            more = jinja_arena_take(parser->arena, room * sizeof(*more));
            if (!more)
                return jinja_parser_fail_memory(parser);
            if (list.n)
                memcpy(more, operators, list.n * sizeof(*more));
            operators = more;
        }
        if (r)
            break;
        operators[list.n] = found;
        r = parse_sum(parser, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
    }
    if (r || !node)
        return r;
    node->a = *nodep;
    node->items = list.items;
    node->n_items = list.n;
    node->operators = operators;
    *nodep = node;
    return jinja_node_close(parser, node);
}

static int parse_not(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNode *node = NULL;
    int r;

    if (!jinja_parser_sees_name(parser, "not"))
        return parse_comparison(parser, nodep);
    r = jinja_node_new(parser, JINJA_NODE_NOT, parser->now.line, &node);
    if (!r)
        r = jinja_parser_step(parser);
    if (!r)
        r = jinja_parser_enter(parser);
    if (r)
        return r;
    r = parse_not(parser, &node->a);
    jinja_parser_leave(parser);
    *nodep = node;
    return r ? r : jinja_node_close(parser, node);
}

static int parse_and(JinjaParser *parser, JinjaNode **nodep) {
    int r = parse_not(parser, nodep);

    while (!r && jinja_parser_sees_name(parser, "and"))
        r = parse_right(parser, JINJA_NODE_AND, JINJA_ADD, parse_not, nodep);
    return r;
}

static int parse_or(JinjaParser *parser, JinjaNode **nodep) {
    int r = parse_and(parser, nodep);

    while (!r && jinja_parser_sees_name(parser, "or"))
        r = parse_right(parser, JINJA_NODE_OR, JINJA_ADD, parse_and, nodep);
    return r;
}

static int parse_if_else(JinjaParser *parser, JinjaNode **nodep) {
    JinjaNode *node = NULL;
    bool skipped;
    int r = parse_or(parser, nodep);

    while (!r && jinja_parser_sees_name(parser, "if")) {
        r = jinja_node_new(parser, JINJA_NODE_IF_ELSE, parser->now.line, &node);
        if (!r)
            r = jinja_parser_step(parser);
        if (!r)
            r = parse_or(parser, &node->b);
        if (!r)
            r = jinja_parser_skip_name(parser, "else", &skipped);
        if (!r && skipped)
            r = jinja_parser_enter(parser);
        if (r)
            return r;
        node->a = *nodep;
        *nodep = node;
        if (skipped) {
            r = parse_if_else(parser, &node->c);
            jinja_parser_leave(parser);
        }
        if (!r)
            r = jinja_node_close(parser, node);
    }
    return r;
}

int jinja_parse_expression(JinjaParser *parser, bool with_condition, JinjaNode **nodep) {
    int r = jinja_parser_enter(parser);

    if (r)
        return r;
    r = with_condition ? parse_if_else(parser, nodep) : parse_or(parser, nodep);
    jinja_parser_leave(parser);
    return r;
}

static bool sees_tuple_end(const JinjaParser *parser) {
    return parser->now.kind == JINJA_TOKEN_BLOCK_END || parser->now.kind == JINJA_TOKEN_PRINT_END ||
           jinja_parser_sees(parser, ")");
}

int jinja_parse_tuple(JinjaParser *parser, bool with_condition, bool in_brackets, JinjaNode **nodep) {
    uint32_t line = parser->now.line;
    JinjaNodeList list = { 0 };
    JinjaNode *item = NULL;
    bool is_tuple = false;
    int r = 0;

    while (!sees_tuple_end(parser) && !(is_tuple && jinja_parser_sees_name(parser, "recursive"))) {
        r = jinja_parse_expression(parser, with_condition, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
        if (r)
            return r;
        if (!jinja_parser_sees(parser, ","))
            break;
        is_tuple = true;
        r = jinja_parser_step(parser);
        if (r)
            return r;
    }
    if (!is_tuple && list.n) {
        *nodep = list.items[0];
        return 0;
    }
    if (!is_tuple && !in_brackets)
        return jinja_parser_fail(parser, "expected an expression");
    r = jinja_node_new(parser, JINJA_NODE_TUPLE, line, nodep);
    if (r)
        return r;
    (*nodep)->items = list.items;
    (*nodep)->n_items = list.n;
    return jinja_node_close(parser, *nodep);
}

/* --- targets and signatures ------------------------------------------------------------------------------------- */

static int parse_one_target(JinjaParser *parser, bool with_namespace, JinjaNode **nodep) {
    JinjaNode *node = NULL;
    int r;

    if (jinja_parser_sees(parser, "(")) {
        r = jinja_parser_enter(parser);
        if (r)
            return r;
        r = jinja_parser_step(parser);
        if (!r)
            r = jinja_parse_target(parser, false, with_namespace, nodep);
        jinja_parser_leave(parser);
        return r ? r : jinja_parser_expect(parser, ")");
    }
    if (parser->now.kind != JINJA_TOKEN_NAME)
        return jinja_parser_fail(parser, "expected a name to assign to");
    r = jinja_parse_name(parser, nodep);
    if (r)
        return r;
    if ((*nodep)->kind != JINJA_NODE_NAME)
        return jinja_parser_fail(parser, "a constant cannot be assigned to");
    if (!with_namespace || !jinja_parser_sees(parser, "."))
        return 0;
    r = jinja_node_new(parser, JINJA_NODE_ATTRIBUTE, parser->now.line, &node);
    if (!r)
        r = jinja_parser_step(parser);
    if (r)
        return r;
    node->a = *nodep;
    *nodep = node;
    return jinja_parser_name_text(parser, &node->text);
}

int jinja_parse_target(JinjaParser *parser, bool for_loop, bool with_namespace, JinjaNode **nodep) {
    uint32_t line = parser->now.line;
    JinjaNodeList list = { 0 };
    bool is_tuple = false;
    int r = 0;

    while (!r) {
        JinjaNode *item;

        if (is_tuple && (jinja_parser_sees(parser, ")") || jinja_parser_sees(parser, "=") ||
                         (for_loop && jinja_parser_sees_name(parser, "in"))))
            break;
        r = parse_one_target(parser, with_namespace, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
        if (r || !jinja_parser_sees(parser, ","))
            break;
        is_tuple = true;
        r = jinja_parser_step(parser);
    }
    if (r)
        return r;
    if (!is_tuple) {
        *nodep = list.items[0];
        return 0;
    }
    r = jinja_node_new(parser, JINJA_NODE_TUPLE, line, nodep);
    if (r)
        return r;
    (*nodep)->items = list.items;
    (*nodep)->n_items = list.n;
    return jinja_node_close(parser, *nodep);
}

int jinja_parse_signature(JinjaParser *parser, JinjaMacroNode *macro) {
    JinjaNodeList defaults = { 0 };
    uint32_t room = 0;
    int r = jinja_parser_expect(parser, "(");

    while (!r && !jinja_parser_sees(parser, ")")) {
        bool skipped;

        if (macro->n)
            r = jinja_parser_expect(parser, ",");
        if (r)
            return r;
        if (parser->now.kind != JINJA_TOKEN_NAME)
            return jinja_parser_fail(parser, "expected the name of an argument");
        if (macro->n == room) {
            uint32_t *names = jinja_arena_take(parser->arena, 2 * ((size_t)room + 4) * sizeof(*names));

            if (!names)
                return jinja_parser_fail_memory(parser);
            if (macro->n)
                memcpy(names, macro->names, macro->n * sizeof(*names));
            macro->names = names;
            room = 2 * (room + 4);
        }
        r = jinja_parser_name(parser, parser->now.data, parser->now.len_bytes, &macro->names[macro->n]);
        macro->n++;
        if (!r)
            r = jinja_parser_step(parser);
        if (!r)
            r = jinja_parser_skip(parser, "=", &skipped);
        if (r)
            return r;
        if (!skipped && defaults.n)
            return jinja_parser_fail(parser, "an argument without a default behind one that has one");
        if (skipped) {
            JinjaNode *value;

            r = jinja_parse_expression(parser, true, &value);
            if (!r)
                r = jinja_node_add(parser, &defaults, value);
        }
    }
    macro->defaults = defaults.items;
    macro->n_defaults = defaults.n;
    return r ? r : jinja_parser_step(parser);
}
