// SPDX-License-Identifier: Apache-2.0
/* Tokens, names, nodes and statements. */
#include "text/jinja/jinja_parser.h"

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

static const char *token_shown(const JinjaToken *token, Printable *shown) {
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

static _Noreturn void fail_expected(JinjaParser *parser, const char *what) {
    Printable shown;

    jinja_parser_fail(parser, "expected %s, there is %s", what, token_shown(&parser->now, &shown));
}

void jinja_parser_expect(JinjaParser *parser, const char *op) {
    char what[16];

    snprintf(what, sizeof(what), "'%s'", op);
    if (!jinja_parser_skip(parser, op))
        fail_expected(parser, what);
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

static uint32_t name_slot(const JinjaParser *parser, const char *data, size_t len_bytes) {
    uint32_t at = (uint32_t)hash_key_text(&parser->key, data, len_bytes) & (parser->n_name_slots - 1);

    for (;; at = (at + 1) & (parser->n_name_slots - 1)) {
        const JinjaText *name;

        if (!parser->name_slots[at])
            return at;
        name = parser->template->names[parser->name_slots[at] - 1];
        if (name->len_bytes == len_bytes && !memcmp(name->data, data, len_bytes))
            return at;
    }
}

static void grow_names(JinjaParser *parser) {
    JinjaTemplate *template = parser->template;
    uint32_t room = parser->names_room ? 2 * parser->names_room : 64;
    const JinjaText **names = jinja_lexer_take(&parser->lexer, room, sizeof(JinjaText *));

    parser->n_name_slots = 2 * room;
    parser->name_slots = jinja_lexer_take(&parser->lexer, parser->n_name_slots, sizeof(*parser->name_slots));
    if (template->n_names)
        memcpy(names, template->names, template->n_names * sizeof(JinjaText *));
    template->names = names;
    parser->names_room = room;
    for (uint32_t i = 0; i < template->n_names; i++)
        parser->name_slots[name_slot(parser, names[i]->data, names[i]->len_bytes)] = i + 1;
}

static uint32_t name_number(JinjaParser *parser, const char *data, size_t len_bytes) {
    JinjaTemplate *template = parser->template;
    uint32_t slot, name;

    if (template->n_names == parser->names_room)
        grow_names(parser);
    slot = name_slot(parser, data, len_bytes);
    if (!parser->name_slots[slot]) {
        template->names[template->n_names] = jinja_lexer_text(&parser->lexer, data, len_bytes);
        parser->name_slots[slot] = ++template->n_names;
    }
    name = parser->name_slots[slot] - 1;
    if (name < _JINJA_NAME_N)
        parser->used_specials |= 1u << name;
    return name;
}

uint32_t jinja_parser_name(JinjaParser *parser) {
    uint32_t name = name_number(parser, parser->now.data, parser->now.len_bytes);

    jinja_parser_step(parser);
    return name;
}

const JinjaText *jinja_parser_name_text(JinjaParser *parser) {
    const JinjaText *text;

    if (parser->now.kind != JINJA_TOKEN_NAME)
        fail_expected(parser, "a name");
    text = jinja_lexer_text(&parser->lexer, parser->now.data, parser->now.len_bytes);
    jinja_parser_step(parser);
    return text;
}

uint32_t jinja_template_name(const JinjaTemplate *template, const char *name, size_t len_bytes) {
    for (uint32_t i = 0; i < template->n_names; i++)
        if (template->names[i]->len_bytes == len_bytes && !memcmp(template->names[i]->data, name, len_bytes))
            return i;
    return UINT32_MAX;
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

JinjaNode *jinja_node_new(JinjaParser *parser, JinjaKind kind, uint32_t line) {
    JinjaNode *node = jinja_lexer_take(&parser->lexer, 1, sizeof(*node));

    node->kind = kind;
    node->line = line;
    return node;
}

void jinja_node_add(JinjaParser *parser, JinjaNodeList *list, JinjaNode *node) {
    if (list->n == list->room) {
        uint32_t room = list->room ? 2 * list->room : 4;
        JinjaNode **items = jinja_lexer_take(&parser->lexer, room, sizeof(JinjaNode *));

        if (list->n)
            memcpy(items, list->items, list->n * sizeof(JinjaNode *));
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = node;
}

void jinja_node_set_items(JinjaNode *node, const JinjaNodeList *list) {
    node->items = list->items;
    node->n_items = list->n;
}

static uint32_t deeper(uint32_t depth, JinjaNode *const *nodes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (nodes[i] && nodes[i]->depth > depth)
            depth = nodes[i]->depth;
    return depth;
}

JinjaNode *jinja_node_close(JinjaParser *parser, JinjaNode *node) {
    const JinjaArgumentNodes *arguments = node->arguments;
    JinjaNode *const parts[] = { node->a, node->b, node->c, arguments ? arguments->list : NULL,
                                 arguments ? arguments->dict : NULL };
    uint32_t depth = deeper(deeper(0, parts, ARRAY_LEN(parts)), node->items, node->n_items);

    if (arguments)
        depth = deeper(deeper(depth, arguments->items, arguments->n), arguments->named, arguments->n_named);
    node->depth = depth + 1;
    if (node->depth > JINJA_TREE_DEPTH_MAX)
        fail_limit(parser, node->line, "an expression of more than ", JINJA_TREE_DEPTH_MAX);
    return node;
}

/* --- bodies ----------------------------------------------------------------------------------------------------- */

static JinjaNode *parse_statement(JinjaParser *parser);

static void expect_block_end(JinjaParser *parser) {
    if (parser->now.kind != JINJA_TOKEN_BLOCK_END)
        fail_expected(parser, "'%}'");
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
        fail_expected(parser, "'}}'");
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
            fail_expected(parser, "text or a tag");
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

    node->a = jinja_parse_target(parser, true, false);
    if (!jinja_parser_skip_name(parser, "in"))
        fail_expected(parser, "'in'");
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
    node->a = jinja_parse_target(parser, false, true);
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
        fail_expected(parser, "the name of the macro");
    node->name = jinja_parser_name(parser);
    jinja_parse_signature(parser, macro);
    parse_macro_body(parser, "endmacro", node, macro);
}

static void parse_call_block(JinjaParser *parser, JinjaNode *node) {
    JinjaMacroNode *macro = jinja_lexer_take(&parser->lexer, 1, sizeof(*macro));

    if (jinja_parser_sees(parser, "("))
        jinja_parse_signature(parser, macro);
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
        jinja_node_add(parser, &list, jinja_parse_target(parser, false, false));
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
        fail_expected(parser, "the name of a tag");
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
                          token_shown(&parser->now, &shown));
    jinja_parser_fail(parser, "tag '%s' is not known, or does not belong here", token_shown(&parser->now, &shown));
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
        (void)name_number(parser, specials[i], strlen(specials[i]));
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
