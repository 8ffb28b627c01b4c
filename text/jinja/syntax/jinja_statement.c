// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/syntax/jinja_statement.h"

#include "base/strings/printable.h"
#include "text/jinja/syntax/jinja_expression.h"

/* --- targets and signatures ------------------------------------------------------------------------------------- */

static JinjaNode *parse_target(JinjaParser *parser, bool for_loop, bool with_namespace);

static JinjaNode *parse_one_target(JinjaParser *parser, bool with_namespace) {
    JinjaNode *node, *name;

    if (jinja_parser_sees(parser, "(")) {
        jinja_parser_enter(parser);
        jinja_parser_step(parser);
        node = parse_target(parser, false, with_namespace);
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

/* Parses the target of an assignment. for_loop: the target ends before "in". */
static JinjaNode *parse_target(JinjaParser *parser, bool for_loop, bool with_namespace) {
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
    return jinja_tuple_of(parser, &list, is_tuple, line);
}

static void parse_signature(JinjaParser *parser, JinjaMacroNode *macro) {
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

/* --- bodies ----------------------------------------------------------------------------------------------------- */

static JinjaNode *parse_statement(JinjaParser *parser);

static void expect_block_end(JinjaParser *parser) {
    if (parser->now.kind != JINJA_TOKEN_BLOCK_END)
        jinja_parser_fail_expected(parser, "'%}'");
    jinja_parser_step(parser);
}

static bool sees_one_of(const JinjaParser *parser, const char *const *names) {
    for (; *names; names++)
        if (jinja_parser_sees_name(parser, *names))
            return true;
    return false;
}

static JinjaNode *parse_data(JinjaParser *parser) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_DATA, parser->now.line);

    node->text = parser->now.value.text;
    jinja_parser_step(parser);
    return node;
}

static JinjaNode *parse_print(JinjaParser *parser) {
    JinjaNode *node = jinja_node_new(parser, JINJA_NODE_PRINT, parser->now.line);

    jinja_parser_step(parser);
    node->a = jinja_parse_tuple(parser, true, false);
    if (parser->now.kind != JINJA_TOKEN_PRINT_END)
        jinja_parser_fail_expected(parser, "'}}'");
    jinja_parser_step(parser);
    return node;
}

/* Parses up to a tag that begins with one of the names, which is the current token then. ends NULL: to the end. */
static JinjaBody parse_nodes(JinjaParser *parser, const char *const *ends, const char *opened, uint32_t opened_line) {
    JinjaNodeList list = { 0 };

    for (;;) {
        switch (parser->now.kind) {
        case JINJA_TOKEN_DATA:
            jinja_node_add(parser, &list, parse_data(parser));
            break;
        case JINJA_TOKEN_PRINT_BEGIN:
            jinja_node_add(parser, &list, parse_print(parser));
            break;
        case JINJA_TOKEN_BLOCK_BEGIN:
            jinja_parser_step(parser);
            if (ends && sees_one_of(parser, ends))
                return (JinjaBody){ .nodes = list.items, .n = list.n };
            jinja_node_add(parser, &list, parse_statement(parser));
            expect_block_end(parser);
            break;
        case JINJA_TOKEN_END:
            if (ends)
                jinja_parser_fail(parser, "the template ends inside of '%s' of line %u", opened, opened_line);
            return (JinjaBody){ .nodes = list.items, .n = list.n };
        default:
            jinja_parser_fail_expected(parser, "text or a tag");
        }
    }
}

/* Parses the rest of a tag and a body up to one of the names, which is the current token then. */
static void parse_body(JinjaParser *parser, const char *const *ends, JinjaNode *node, const char *opened) {
    JinjaBody *bodies = jinja_lexer_take(&parser->lexer, (size_t)node->n_bodies + 1, sizeof(*bodies));

    (void)jinja_parser_skip(parser, ":");
    expect_block_end(parser);
    jinja_parser_enter(parser);
    if (node->n_bodies)
        memcpy(bodies, node->bodies, node->n_bodies * sizeof(*bodies));
    node->bodies = bodies;
    bodies[node->n_bodies++] = parse_nodes(parser, ends, opened, node->line);
    jinja_parser_leave(parser);
}

/* Parses a body up to its end, and past that. */
static void parse_only_body(JinjaParser *parser, const char *end, JinjaNode *node) {
    const char *const ends[] = { end, NULL };

    parse_body(parser, ends, node, end + 3); /* "endfor" ends "for" */
    jinja_parser_step(parser);
}

/* --- statements ------------------------------------------------------------------------------------------------- */

static void parse_for(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = { "endfor", "else", NULL };

    node->a = parse_target(parser, true, false);
    if (!jinja_parser_skip_name(parser, "in"))
        jinja_parser_fail_expected(parser, "'in'");
    node->b = jinja_parse_tuple(parser, false, false);
    if (jinja_parser_skip_name(parser, "if"))
        node->c = jinja_parse_expression(parser, true);
    node->is_recursive = jinja_parser_skip_name(parser, "recursive");
    parser->loop_depth++;
    parse_body(parser, ends, node, "for");
    parser->loop_depth--;
    if (jinja_parser_skip_name(parser, "else"))
        parse_only_body(parser, "endfor", node);
    else
        jinja_parser_step(parser);
}

static void parse_if(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    JinjaNodeList conditions = { 0 };

    do {
        jinja_node_add(parser, &conditions, jinja_parse_tuple(parser, false, false));
        parse_body(parser, ends, node, "if");
    } while (jinja_parser_skip_name(parser, "elif"));
    jinja_node_set_items(node, &conditions);
    if (jinja_parser_skip_name(parser, "else"))
        parse_only_body(parser, "endif", node);
    else
        jinja_parser_step(parser);
}

static void parse_set(JinjaParser *parser, JinjaNode *node) {
    node->a = parse_target(parser, false, true);
    if (jinja_parser_skip(parser, "=")) {
        node->b = jinja_parse_tuple(parser, true, false);
        return;
    }
    node->kind = JINJA_NODE_SET_BLOCK;
    if (jinja_parser_sees(parser, "|"))
        node->b = jinja_parse_filters(parser, jinja_node_new(parser, JINJA_NODE_HOLE, node->line), false);
    parse_only_body(parser, "endset", node);
}

/* Parses the body of a macro or of a call, and notes which of the special names it uses. */
static void parse_macro_body(JinjaParser *parser, const char *end, JinjaNode *node, JinjaMacroNode *macro) {
    uint32_t loop_depth = parser->loop_depth;
    uint64_t used_before = parser->used_specials;

    parser->loop_depth = 0;
    parser->used_specials = 0;
    parse_only_body(parser, end, node);
    parser->loop_depth = loop_depth;
    macro->uses_caller = parser->used_specials >> JINJA_NAME_CALLER & 1;
    macro->uses_kwargs = parser->used_specials >> JINJA_NAME_KWARGS & 1;
    macro->uses_varargs = parser->used_specials >> JINJA_NAME_VARARGS & 1;
    parser->used_specials |= used_before;
    node->macro = macro;
}

static void parse_macro(JinjaParser *parser, JinjaNode *node) {
    JinjaMacroNode *macro = jinja_lexer_take(&parser->lexer, 1, sizeof(*macro));

    if (parser->now.kind != JINJA_TOKEN_NAME)
        jinja_parser_fail_expected(parser, "the name of the macro");
    node->name = jinja_parser_name(parser);
    parse_signature(parser, macro);
    parse_macro_body(parser, "endmacro", node, macro);
}

static void parse_call_block(JinjaParser *parser, JinjaNode *node) {
    JinjaMacroNode *macro = jinja_lexer_take(&parser->lexer, 1, sizeof(*macro));

    if (jinja_parser_sees(parser, "("))
        parse_signature(parser, macro);
    node->a = jinja_parse_expression(parser, true);
    if (node->a->kind != JINJA_NODE_CALL)
        jinja_parser_fail(parser, "'call' needs the call of a macro");
    parse_macro_body(parser, "endcall", node, macro);
}

static void parse_filter_block(JinjaParser *parser, JinjaNode *node) {
    node->b = jinja_parse_filters(parser, jinja_node_new(parser, JINJA_NODE_HOLE, node->line), true);
    parse_only_body(parser, "endfilter", node);
}

static void parse_with(JinjaParser *parser, JinjaNode *node) {
    JinjaNodeList list = { 0 };

    while (parser->now.kind != JINJA_TOKEN_BLOCK_END) {
        if (list.n)
            jinja_parser_expect(parser, ",");
        jinja_node_add(parser, &list, parse_target(parser, false, false));
        jinja_parser_expect(parser, "=");
        jinja_node_add(parser, &list, jinja_parse_expression(parser, true));
    }
    jinja_node_set_items(node, &list);
    parse_only_body(parser, "endwith", node);
}

static void parse_generation(JinjaParser *parser, JinjaNode *node) {
    parse_only_body(parser, "endgeneration", node);
}

static void parse_block(JinjaParser *parser, JinjaNode *node) {
    (void)jinja_parser_name_text(parser);
    (void)jinja_parser_skip_name(parser, "scoped");
    parse_only_body(parser, "endblock", node);
    if (parser->now.kind == JINJA_TOKEN_NAME)
        jinja_parser_step(parser); /* the name of the block again */
}

static void parse_leave_loop(JinjaParser *parser, JinjaNode *node) {
    if (!parser->loop_depth)
        jinja_parser_fail(parser, "'%s' outside of a loop", node->kind == JINJA_NODE_BREAK ? "break" : "continue");
}

static JinjaNode *parse_statement(JinjaParser *parser) {
    static const struct {
        const char *name;
        JinjaKind kind;
        void (*parse)(JinjaParser *parser, JinjaNode *node);
    } statements[] = {
        { "for", JINJA_NODE_FOR, parse_for },
        { "if", JINJA_NODE_IF, parse_if },
        { "set", JINJA_NODE_SET, parse_set },
        { "macro", JINJA_NODE_MACRO, parse_macro },
        { "call", JINJA_NODE_CALL_BLOCK, parse_call_block },
        { "filter", JINJA_NODE_FILTER_BLOCK, parse_filter_block },
        { "with", JINJA_NODE_WITH, parse_with },
        { "generation", JINJA_NODE_SCOPE, parse_generation },
        { "block", JINJA_NODE_BLOCK, parse_block },
        { "break", JINJA_NODE_BREAK, parse_leave_loop },
        { "continue", JINJA_NODE_CONTINUE, parse_leave_loop },
    };
    static const char *const other_files[] = { "include", "import", "from", "extends", NULL };
    Printable shown;
    JinjaNode *node;

    if (parser->now.kind != JINJA_TOKEN_NAME)
        jinja_parser_fail_expected(parser, "the name of a tag");
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        if (!jinja_parser_sees_name(parser, statements[i].name))
            continue;
        node = jinja_node_new(parser, statements[i].kind, parser->now.line);
        jinja_parser_step(parser);
        statements[i].parse(parser, node);
        return node;
    }
    if (sees_one_of(parser, other_files))
        jinja_parser_fail(parser, "tag '%s' is not supported: a chat template is one file",
                          jinja_token_shown(&parser->now, &shown));
    jinja_parser_fail(parser, "tag '%s' is not known, or does not belong here",
                      jinja_token_shown(&parser->now, &shown));
}

typedef struct TemplateSource {
    JinjaParser *parser;
    const char *data;
    size_t len_bytes;
} TemplateSource;

static void parse_template(JinjaLexer *lexer, void *context) {
    static const char *const specials[] = { [JINJA_NAME_LOOP] = "loop",
                                            [JINJA_NAME_CALLER] = "caller",
                                            [JINJA_NAME_KWARGS] = "kwargs",
                                            [JINJA_NAME_VARARGS] = "varargs" };
    const TemplateSource *source = context;
    JinjaParser *parser = source->parser;

    jinja_lexer_init(lexer, source->data, source->len_bytes);
    for (size_t i = 0; i < ARRAY_LEN(specials); i++)
        (void)jinja_parser_name_number(parser, specials[i], strlen(specials[i]));
    jinja_parser_step(parser);
    parser->template->body = parse_nodes(parser, NULL, "", 0);
}

int jinja_parse(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err) {
    JinjaParser parser = { .template = template, .lexer = { .arena = &template->arena, .err = err }, .now.line = 1 };
    int r = hash_key_init(&parser.key);

    if (r)
        return err_trace(r);
    return jinja_lexer_attempt(&parser.lexer, parse_template,
                               &(TemplateSource){ .parser = &parser, .data = source, .len_bytes = len_bytes });
}
