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
    const uint32_t line = parser->now.line;
    JinjaNode *first = parse_one_target(parser, with_namespace), *node;

    if (!jinja_parser_sees(parser, ","))
        return first;
    node = jinja_node_new(parser, JINJA_NODE_TUPLE, line);
    jinja_node_add(parser, node, first);
    while (jinja_parser_skip(parser, ",") && !jinja_parser_sees(parser, ")") && !jinja_parser_sees(parser, "=") &&
           !(for_loop && jinja_parser_sees_name(parser, "in")))
        jinja_node_add(parser, node, parse_one_target(parser, with_namespace));
    return jinja_node_close(parser, node);
}

/* --- bodies ----------------------------------------------------------------------------------------------------- */

static JinjaNode *parse_statement(JinjaParser *parser);

static void expect_block_end(JinjaParser *parser) {
    if (parser->now.kind != JINJA_TOKEN_BLOCK_END)
        jinja_parser_fail_expected(parser, "'%}'");
    jinja_parser_step(parser);
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
static JinjaNode *parse_nodes(JinjaParser *parser, const char *ends, const char *opened, uint32_t opened_line) {
    JinjaNode *body = jinja_node_new(parser, JINJA_NODE_BODY, opened_line);

    for (;;) {
        switch (parser->now.kind) {
        case JINJA_TOKEN_DATA:
            jinja_node_add(parser, body, parse_data(parser));
            break;
        case JINJA_TOKEN_PRINT_BEGIN:
            jinja_node_add(parser, body, parse_print(parser));
            break;
        case JINJA_TOKEN_BLOCK_BEGIN:
            jinja_parser_step(parser);
            if (ends && jinja_parser_sees_one_of(parser, ends))
                return body;
            jinja_node_add(parser, body, parse_statement(parser));
            expect_block_end(parser);
            break;
        case JINJA_TOKEN_END:
            if (ends)
                jinja_parser_fail(parser, "the template ends inside of '%s' of line %u", opened, opened_line);
            return body;
        default:
            jinja_parser_fail_expected(parser, "text or a tag");
        }
    }
}

/* Parses the rest of a tag and a body up to one of the names, which is the current token then. */
static JinjaNode *parse_body(JinjaParser *parser, const char *ends, const char *opened, uint32_t opened_line) {
    JinjaNode *body;

    (void)jinja_parser_skip(parser, ":");
    expect_block_end(parser);
    jinja_parser_enter(parser);
    body = parse_nodes(parser, ends, opened, opened_line);
    jinja_parser_leave(parser);
    return body;
}

/* Parses a body up to its end, and past that. */
static JinjaNode *parse_only_body(JinjaParser *parser, const char *end, uint32_t opened_line) {
    JinjaNode *body = parse_body(parser, end, end + 3, opened_line); /* "endfor" ends "for" */

    jinja_parser_step(parser);
    return body;
}

/* Parses the body of "else", which adds to the node, and the end of the node. */
static void parse_else(JinjaParser *parser, const char *end, JinjaNode *node) {
    if (jinja_parser_skip_name(parser, "else"))
        jinja_node_add(parser, node, parse_only_body(parser, end, node->line));
    else
        jinja_parser_step(parser);
}

/* Parses a body that is run into a text, which no "break" leaves. */
static JinjaNode *parse_captured_body(JinjaParser *parser, const char *end, uint32_t opened_line) {
    const uint32_t loop_depth = parser->loop_depth;
    JinjaNode *body;

    parser->loop_depth = 0;
    body = parse_only_body(parser, end, opened_line);
    parser->loop_depth = loop_depth;
    return body;
}

/* Parses the filters of a block and its body, which becomes the text that is filtered. */
static JinjaNode *parse_captured_block(JinjaParser *parser, const char *end, uint32_t line, bool is_inline) {
    JinjaNode *text = jinja_node_new(parser, JINJA_NODE_CAPTURE, line);
    JinjaNode *filtered = jinja_parse_filters(parser, text, is_inline);

    text->a = parse_captured_body(parser, end, line);
    return filtered;
}

/* --- statements ------------------------------------------------------------------------------------------------- */

static void parse_for(JinjaParser *parser, JinjaNode *node) {
    node->a = parse_target(parser, true, false);
    if (!jinja_parser_skip_name(parser, "in"))
        jinja_parser_fail_expected(parser, "'in'");
    node->b = jinja_parse_tuple(parser, false, false);
    if (jinja_parser_skip_name(parser, "if"))
        node->c = jinja_parse_expression(parser, true);
    if (jinja_parser_sees_name(parser, "recursive"))
        jinja_parser_fail(parser, "'recursive' is not supported in chat templates");
    parser->loop_depth++;
    jinja_node_add(parser, node, parse_body(parser, "endfor else", "for", node->line));
    parser->loop_depth--;
    parse_else(parser, "endfor", node);
}

static void parse_if(JinjaParser *parser, JinjaNode *node) {
    do {
        jinja_node_add(parser, node, jinja_parse_tuple(parser, false, false));
        jinja_node_add(parser, node, parse_body(parser, "elif else endif", "if", node->line));
    } while (jinja_parser_skip_name(parser, "elif"));
    parse_else(parser, "endif", node);
}

static void parse_set(JinjaParser *parser, JinjaNode *node) {
    node->a = parse_target(parser, false, true);
    if (jinja_parser_skip(parser, "="))
        node->b = jinja_parse_tuple(parser, true, false);
    else
        node->b = parse_captured_block(parser, "endset", node->line, false);
}

static void parse_filter_block(JinjaParser *parser, JinjaNode *node) {
    node->a = parse_captured_block(parser, "endfilter", node->line, true);
}

/* Parses the parameters of a macro. */
static void parse_signature(JinjaParser *parser, JinjaNode *macro) {
    bool has_default = false;

    jinja_parser_expect(parser, "(");
    while (jinja_parser_another(parser, !macro->n_items, ")")) {
        JinjaNode *parameter = jinja_node_new(parser, JINJA_NODE_NAME, parser->now.line);

        if (parser->now.kind != JINJA_TOKEN_NAME)
            jinja_parser_fail(parser, "expected the name of an argument");
        parameter->name = jinja_parser_name(parser);
        if (jinja_parser_skip(parser, "="))
            parameter->b = jinja_parse_expression(parser, true);
        else if (has_default)
            jinja_parser_fail(parser, "an argument without a default behind one that has one");
        has_default = parameter->b;
        jinja_node_add(parser, macro, parameter);
    }
    jinja_parser_step(parser);
}

static void parse_macro(JinjaParser *parser, JinjaNode *node) {
    if (parser->now.kind != JINJA_TOKEN_NAME)
        jinja_parser_fail_expected(parser, "the name of the macro");
    node->name = jinja_parser_name(parser);
    parse_signature(parser, node);
    node->a = parse_captured_body(parser, "endmacro", node->line);
}

static void parse_generation(JinjaParser *parser, JinjaNode *node) {
    node->a = parse_only_body(parser, "endgeneration", node->line);
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
        { "filter", JINJA_NODE_PRINT, parse_filter_block },
        { "generation", JINJA_NODE_SCOPE, parse_generation },
        { "break", JINJA_NODE_BREAK, parse_leave_loop },
        { "continue", JINJA_NODE_CONTINUE, parse_leave_loop },
    };
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
    jinja_parser_fail(parser, "tag '%s' is %s", jinja_token_shown(&parser->now, &shown),
                      jinja_parser_sees_one_of(parser, "include import from extends call with raw block")
                          ? "not supported in chat templates"
                          : "not known, or does not belong here");
}

typedef struct TemplateSource {
    JinjaParser *parser;
    const char *data;
    size_t len_bytes;
} TemplateSource;

static TextSpan name_text(const void *owner, uint32_t id) {
    const JinjaText *name = ((const JinjaTemplate *)owner)->names[id];

    return (TextSpan){ name->data, name->len_bytes };
}

static void parse_template(JinjaLexer *lexer, void *context) {
    const TemplateSource *source = context;
    JinjaParser *parser = source->parser;

    jinja_lexer_init(lexer, source->data, source->len_bytes);
    (void)jinja_parser_name_number(parser, "loop", 4); /* JINJA_NAME_LOOP */
    jinja_parser_step(parser);
    parser->template->body = parse_nodes(parser, NULL, "", 0);
}

int jinja_parse(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err) {
    JinjaParser parser = { .template = template, .lexer = { .arena = &template->arena, .err = err }, .now.line = 1 };
    int r = text_index_init(&template->name_numbers, 64, name_text, template);

    if (r)
        return err_trace(r);
    return jinja_lexer_attempt(&parser.lexer, parse_template,
                               &(TemplateSource){ .parser = &parser, .data = source, .len_bytes = len_bytes });
}
