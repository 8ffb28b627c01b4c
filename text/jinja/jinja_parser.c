// SPDX-License-Identifier: Apache-2.0
/* Statements of a template, names, and what both parts of the parser use. */
#include "text/jinja/jinja_parser.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/strings/printable.h"

/* --- words ------------------------------------------------------------------------------------------------------ */

int jinja_parser_fail(JinjaParser *parser, const char *format, ...) {
    va_list args;
    char text[512];

    va_start(args, format);
    printable_format(text, sizeof(text), format, args);
    va_end(args);
    return err_set(parser->err, JINJA_E_SYNTAX, "chat template line %u: %s", parser->now.line, text);
}

int jinja_parser_fail_memory(JinjaParser *parser) {
    if (parser->arena->failure == -ENOMEM)
        return err_set(parser->err, -ENOMEM, "out of memory for the chat template");
    return err_set(parser->err, JINJA_E_LIMIT, "chat template line %u: it takes too much memory", parser->now.line);
}

int jinja_parser_step(JinjaParser *parser) {
    if (parser->has_next) {
        parser->now = parser->next;
        parser->has_next = false;
        return 0;
    }
    return jinja_lexer_next(&parser->lexer, &parser->now);
}

int jinja_parser_look(JinjaParser *parser) {
    int r = 0;

    if (!parser->has_next)
        r = jinja_lexer_next(&parser->lexer, &parser->next);
    parser->has_next = !r;
    return r;
}

static bool token_is(const JinjaToken *token, JinjaTokenKind kind, const char *word) {
    return token->kind == kind && token->len_bytes == strlen(word) && !memcmp(token->data, word, token->len_bytes);
}

bool jinja_parser_sees(const JinjaParser *parser, const char *op) {
    return token_is(&parser->now, JINJA_TOKEN_OPERATOR, op);
}

bool jinja_parser_sees_name(const JinjaParser *parser, const char *name) {
    return token_is(&parser->now, JINJA_TOKEN_NAME, name);
}

int jinja_parser_skip(JinjaParser *parser, const char *op, bool *skippedp) {
    *skippedp = jinja_parser_sees(parser, op);
    return *skippedp ? jinja_parser_step(parser) : 0;
}

int jinja_parser_skip_name(JinjaParser *parser, const char *name, bool *skippedp) {
    *skippedp = jinja_parser_sees_name(parser, name);
    return *skippedp ? jinja_parser_step(parser) : 0;
}

static const char *token_shown(const JinjaToken *token, Printable *shown) {
    switch (token->kind) {
    case JINJA_TOKEN_END:
        return "the end of the template";
    case JINJA_TOKEN_DATA:
        return "text";
    case JINJA_TOKEN_BLOCK_END:
        return "'%}'";
    case JINJA_TOKEN_PRINT_END:
        return "'}}'";
    case JINJA_TOKEN_BLOCK_BEGIN:
        return "'{%'";
    case JINJA_TOKEN_PRINT_BEGIN:
        return "'{{'";
    default:
        return printable(shown, token->data, token->len_bytes);
    }
}

static int fail_expected(JinjaParser *parser, const char *what) {
    Printable shown;

    return jinja_parser_fail(parser, "expected %s, there is %s", what, token_shown(&parser->now, &shown));
}

int jinja_parser_expect(JinjaParser *parser, const char *op) {
    if (!jinja_parser_sees(parser, op)) {
        char what[16];

        snprintf(what, sizeof(what), "'%s'", op);
        return fail_expected(parser, what);
    }
    return jinja_parser_step(parser);
}

int jinja_parser_enter(JinjaParser *parser) {
    if (parser->nesting == JINJA_NESTING_MAX)
        return err_set(parser->err, JINJA_E_LIMIT,
                       "chat template line %u: brackets and blocks nested more than %d deep", parser->now.line,
                       JINJA_NESTING_MAX);
    parser->nesting++;
    return 0;
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

static int grow_names(JinjaParser *parser) {
    JinjaTemplate *template = parser->template;
    uint32_t room = parser->names_room ? 2 * parser->names_room : 64;
    const JinjaText **names = jinja_arena_take(parser->arena, room * sizeof(JinjaText *));

    parser->n_name_slots = 2 * room;
    parser->name_slots = jinja_arena_take(parser->arena, parser->n_name_slots * sizeof(*parser->name_slots));
    if (!names || !parser->name_slots)
        return jinja_parser_fail_memory(parser);
    if (template->n_names)
        memcpy(names, template->names, template->n_names * sizeof(JinjaText *));
    template->names = names;
    parser->names_room = room;
    for (uint32_t i = 0; i < template->n_names; i++)
        parser->name_slots[name_slot(parser, names[i]->data, names[i]->len_bytes)] = i + 1;
    return 0;
}

int jinja_parser_name(JinjaParser *parser, const char *data, size_t len_bytes, uint32_t *namep) {
    JinjaTemplate *template = parser->template;
    const JinjaText *text;
    uint32_t slot;
    int r;

    if (template->n_names == parser->names_room) {
        r = grow_names(parser);
        if (r)
            return r;
    }
    slot = name_slot(parser, data, len_bytes);
    if (!parser->name_slots[slot]) {
        text = jinja_text_of(parser->arena, data, len_bytes, true);
        if (!text)
            return jinja_parser_fail_memory(parser);
        template->names[template->n_names] = text;
        parser->name_slots[slot] = ++template->n_names;
    }
    *namep = parser->name_slots[slot] - 1;
    if (*namep < _JINJA_NAME_N)
        parser->used_specials |= 1u << *namep;
    return 0;
}

int jinja_parser_name_text(JinjaParser *parser, const JinjaText **textp) {
    if (parser->now.kind != JINJA_TOKEN_NAME)
        return fail_expected(parser, "a name");
    *textp = jinja_text_of(parser->arena, parser->now.data, parser->now.len_bytes, true);
    return *textp ? jinja_parser_step(parser) : jinja_parser_fail_memory(parser);
}

uint32_t jinja_template_name(const JinjaTemplate *template, const char *name, size_t len_bytes) {
    for (uint32_t i = 0; i < template->n_names; i++)
        if (template->names[i]->len_bytes == len_bytes && !memcmp(template->names[i]->data, name, len_bytes))
            return i;
    return UINT32_MAX;
}

/* --- nodes ------------------------------------------------------------------------------------------------------ */

int jinja_node_new(JinjaParser *parser, JinjaKind kind, uint32_t line, JinjaNode **nodep) {
    JinjaNode *node = jinja_arena_take(parser->arena, sizeof(*node));

    if (!node)
        return jinja_parser_fail_memory(parser);
    node->kind = kind;
    node->line = line;
    *nodep = node;
    return 0;
}

int jinja_node_add(JinjaParser *parser, JinjaNodeList *list, JinjaNode *node) {
    if (list->n == list->room) {
        uint32_t room = list->room ? 2 * list->room : 4;
        JinjaNode **items = jinja_arena_take(parser->arena, room * sizeof(JinjaNode *));

        if (!items)
            return jinja_parser_fail_memory(parser);
        if (list->n)
            memcpy(items, list->items, list->n * sizeof(JinjaNode *));
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = node;
    return 0;
}

static void deepen(uint32_t *depthp, const JinjaNode *node) {
    if (node && node->depth > *depthp)
        *depthp = node->depth;
}

int jinja_node_close(JinjaParser *parser, JinjaNode *node) {
    const JinjaArgumentNodes *arguments = node->arguments;
    uint32_t depth = 0;

    deepen(&depth, node->a);
    deepen(&depth, node->b);
    deepen(&depth, node->c);
    for (uint32_t i = 0; i < node->n_items; i++)
        deepen(&depth, node->items[i]);
    for (uint32_t i = 0; arguments && i < arguments->n; i++)
        deepen(&depth, arguments->items[i]);
    for (uint32_t i = 0; arguments && i < arguments->n_named; i++)
        deepen(&depth, arguments->named[i]);
    if (arguments) {
        deepen(&depth, arguments->list);
        deepen(&depth, arguments->dict);
    }
    node->depth = depth + 1;
    if (node->depth > JINJA_TREE_DEPTH_MAX)
        return err_set(parser->err, JINJA_E_LIMIT, "chat template line %u: an expression of more than %d operations",
                       node->line, JINJA_TREE_DEPTH_MAX);
    return 0;
}

/* --- statements ------------------------------------------------------------------------------------------------- */

static int parse_statement(JinjaParser *parser, JinjaNode **nodep);

static int expect_block_end(JinjaParser *parser) {
    if (parser->now.kind != JINJA_TOKEN_BLOCK_END)
        return fail_expected(parser, "'%}'");
    return jinja_parser_step(parser);
}

static bool sees_one_of(const JinjaParser *parser, const char *const *names) {
    for (; *names; names++)
        if (jinja_parser_sees_name(parser, *names))
            return true;
    return false;
}

static int parse_print(JinjaParser *parser, JinjaNodeList *list) {
    JinjaNode *node = NULL;
    int r = jinja_node_new(parser, JINJA_NODE_PRINT, parser->now.line, &node);

    if (!r)
        r = jinja_parser_step(parser);
    if (!r)
        r = jinja_parse_tuple(parser, true, false, &node->a);
    if (r)
        return r;
    if (parser->now.kind != JINJA_TOKEN_PRINT_END)
        return fail_expected(parser, "'}}'");
    r = jinja_parser_step(parser);
    return r ? r : jinja_node_add(parser, list, node);
}

/* Up to a tag that begins with one of the names, which is seen then; NULL: to the end. */
static int parse_nodes(JinjaParser *parser, const char *const *ends, const char *opened, uint32_t opened_line,
                       JinjaBody *body) {
    JinjaNodeList list = { 0 };
    JinjaNode *node = NULL;
    int r = 0;

    while (!r) {
        switch (parser->now.kind) {
        case JINJA_TOKEN_DATA:
            r = jinja_node_new(parser, JINJA_NODE_DATA, parser->now.line, &node);
            if (r)
                break;
            node->text = parser->now.value.text;
            r = jinja_node_add(parser, &list, node);
            if (!r)
                r = jinja_parser_step(parser);
            break;
        case JINJA_TOKEN_PRINT_BEGIN:
            r = parse_print(parser, &list);
            break;
        case JINJA_TOKEN_BLOCK_BEGIN:
            r = jinja_parser_step(parser);
            if (r)
                break;
            if (ends && sees_one_of(parser, ends)) {
                *body = (JinjaBody){ .nodes = list.items, .n = list.n };
                return 0;
            }
            r = parse_statement(parser, &node);
            if (!r)
                r = jinja_node_add(parser, &list, node);
            if (!r)
                r = expect_block_end(parser);
            break;
        case JINJA_TOKEN_END:
            if (ends)
                return jinja_parser_fail(parser, "the template ends inside of '%s' of line %u", opened, opened_line);
            *body = (JinjaBody){ .nodes = list.items, .n = list.n };
            return 0;
        default:
            return fail_expected(parser, "text or a tag");
        }
    }
    return r;
}

/* The rest of a tag, and what follows up to one of the names, which is the current word then. */
static int parse_body(JinjaParser *parser, const char *const *ends, JinjaNode *node, const char *opened) {
    JinjaBody *bodies;
    bool skipped;
    int r = jinja_parser_skip(parser, ":", &skipped);

    if (!r)
        r = expect_block_end(parser);
    if (!r)
        r = jinja_parser_enter(parser);
    if (r)
        return r;
    bodies = jinja_arena_take(parser->arena, ((size_t)node->n_bodies + 1) * sizeof(*bodies));
    if (!bodies)
        return jinja_parser_fail_memory(parser);
    if (node->n_bodies)
        memcpy(bodies, node->bodies, node->n_bodies * sizeof(*bodies));
    node->bodies = bodies;
    r = parse_nodes(parser, ends, opened, node->line, &bodies[node->n_bodies++]);
    jinja_parser_leave(parser);
    return r;
}

/* A body up to one end, and past it. */
static int parse_only_body(JinjaParser *parser, const char *end, JinjaNode *node) {
    const char *const ends[] = { end, NULL };
    int r = parse_body(parser, ends, node, end + 3); /* "endfor" ends "for" */

    return r ? r : jinja_parser_step(parser);
}

static int parse_for(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = { "endfor", "else", NULL };
    bool skipped, is_end;
    int r = jinja_parse_target(parser, true, false, &node->a);

    if (r)
        return r;
    r = jinja_parser_skip_name(parser, "in", &skipped);
    if (!r && !skipped)
        return fail_expected(parser, "'in'");
    if (!r)
        r = jinja_parse_tuple(parser, false, false, &node->b);
    if (!r)
        r = jinja_parser_skip_name(parser, "if", &skipped);
    if (!r && skipped)
        r = jinja_parse_expression(parser, true, &node->c);
    if (!r)
        r = jinja_parser_skip_name(parser, "recursive", &node->is_recursive);
    if (r)
        return r;
    parser->loop_depth++;
    r = parse_body(parser, ends, node, "for");
    parser->loop_depth--;
    if (r)
        return r;
    is_end = jinja_parser_sees_name(parser, "endfor");
    r = jinja_parser_step(parser);
    return r || is_end ? r : parse_only_body(parser, "endfor", node);
}

static int parse_if(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    JinjaNodeList conditions = { 0 };
    int r;

    for (;;) {
        JinjaNode *condition;
        bool is_elif, is_else;

        r = jinja_parse_tuple(parser, false, false, &condition);
        if (!r)
            r = jinja_node_add(parser, &conditions, condition);
        if (!r)
            r = parse_body(parser, ends, node, "if");
        if (r)
            return r;
        node->items = conditions.items;
        node->n_items = conditions.n;
        is_elif = jinja_parser_sees_name(parser, "elif");
        is_else = jinja_parser_sees_name(parser, "else");
        r = jinja_parser_step(parser);
        if (r || !is_elif)
            return r || !is_else ? r : parse_only_body(parser, "endif", node);
    }
}

static int parse_set(JinjaParser *parser, JinjaNode *node) {
    JinjaNode *hole = NULL;
    bool skipped;
    int r = jinja_parse_target(parser, false, true, &node->a);

    if (!r)
        r = jinja_parser_skip(parser, "=", &skipped);
    if (r)
        return r;
    if (skipped)
        return jinja_parse_tuple(parser, true, false, &node->b);
    node->kind = JINJA_NODE_SET_BLOCK;
    if (jinja_parser_sees(parser, "|")) {
        r = jinja_node_new(parser, JINJA_NODE_HOLE, node->line, &hole);
        if (!r)
            r = jinja_parse_filters(parser, hole, false, &node->b);
    }
    return r ? r : parse_only_body(parser, "endset", node);
}

/* The body of a macro or of a call, and which of the special names it uses. */
static int parse_macro_body(JinjaParser *parser, const char *end, JinjaNode *node, JinjaMacroNode *macro,
                            uint64_t used_before) {
    uint32_t loop_depth = parser->loop_depth;
    int r;

    parser->loop_depth = 0;
    r = parse_only_body(parser, end, node);
    parser->loop_depth = loop_depth;
    macro->uses_caller = parser->used_specials >> JINJA_NAME_CALLER & 1;
    macro->uses_kwargs = parser->used_specials >> JINJA_NAME_KWARGS & 1;
    macro->uses_varargs = parser->used_specials >> JINJA_NAME_VARARGS & 1;
    parser->used_specials |= used_before;
    return r;
}

static int parse_macro(JinjaParser *parser, JinjaNode *node) {
    JinjaMacroNode *macro = jinja_arena_take(parser->arena, sizeof(*macro));
    uint64_t used = parser->used_specials;
    int r;

    if (!macro)
        return jinja_parser_fail_memory(parser);
    node->macro = macro;
    if (parser->now.kind != JINJA_TOKEN_NAME)
        return fail_expected(parser, "the name of the macro");
    r = jinja_parser_name(parser, parser->now.data, parser->now.len_bytes, &node->name);
    if (!r)
        r = jinja_parser_step(parser);
    if (!r)
        r = jinja_parse_signature(parser, macro);
    if (r)
        return r;
    parser->used_specials = 0;
    return parse_macro_body(parser, "endmacro", node, macro, used);
}

static int parse_call_block(JinjaParser *parser, JinjaNode *node) {
    JinjaMacroNode *macro = jinja_arena_take(parser->arena, sizeof(*macro));
    uint64_t used = parser->used_specials;
    int r = 0;

    if (!macro)
        return jinja_parser_fail_memory(parser);
    node->macro = macro;
    if (jinja_parser_sees(parser, "("))
        r = jinja_parse_signature(parser, macro);
    if (!r)
        r = jinja_parse_expression(parser, true, &node->a);
    if (r)
        return r;
    if (node->a->kind != JINJA_NODE_CALL)
        return jinja_parser_fail(parser, "'call' needs the call of a macro");
    parser->used_specials = 0;
    return parse_macro_body(parser, "endcall", node, macro, used);
}

static int parse_filter_block(JinjaParser *parser, JinjaNode *node) {
    JinjaNode *hole = NULL;
    int r = jinja_node_new(parser, JINJA_NODE_HOLE, node->line, &hole);

    if (!r)
        r = jinja_parse_filters(parser, hole, true, &node->b);
    return r ? r : parse_only_body(parser, "endfilter", node);
}

static int parse_with(JinjaParser *parser, JinjaNode *node) {
    JinjaNodeList list = { 0 };
    JinjaNode *part = NULL;
    int r = 0;

    while (!r && parser->now.kind != JINJA_TOKEN_BLOCK_END) {
        if (list.n)
            r = jinja_parser_expect(parser, ",");
        if (!r)
            r = jinja_parse_target(parser, false, false, &part);
        if (!r)
            r = jinja_node_add(parser, &list, part);
        if (!r)
            r = jinja_parser_expect(parser, "=");
        if (!r)
            r = jinja_parse_expression(parser, true, &part);
        if (!r)
            r = jinja_node_add(parser, &list, part);
    }
    node->items = list.items;
    node->n_items = list.n;
    return r ? r : parse_only_body(parser, "endwith", node);
}

static int parse_print_tag(JinjaParser *parser, JinjaNode *node) {
    JinjaNodeList list = { 0 };
    int r = 0;

    while (!r && parser->now.kind != JINJA_TOKEN_BLOCK_END) {
        JinjaNode *item;

        if (list.n)
            r = jinja_parser_expect(parser, ",");
        if (!r)
            r = jinja_parse_expression(parser, true, &item);
        if (!r)
            r = jinja_node_add(parser, &list, item);
    }
    node->items = list.items;
    node->n_items = list.n;
    return r;
}

static int parse_scope(JinjaParser *parser, JinjaNode *node) {
    return parse_only_body(parser, "endgeneration", node);
}

static int parse_block(JinjaParser *parser, JinjaNode *node) {
    const JinjaText *name;
    bool skipped;
    int r = jinja_parser_name_text(parser, &name);

    if (!r)
        r = jinja_parser_skip_name(parser, "scoped", &skipped);
    if (!r)
        r = parse_only_body(parser, "endblock", node);
    if (!r && parser->now.kind == JINJA_TOKEN_NAME)
        r = jinja_parser_step(parser); /* the name again */
    return r;
}

static int parse_leave_loop(JinjaParser *parser, JinjaNode *node) {
    if (!parser->loop_depth)
        return jinja_parser_fail(parser, "'%s' outside of a loop",
                                 node->kind == JINJA_NODE_BREAK ? "break" : "continue");
    return 0;
}

static int parse_statement(JinjaParser *parser, JinjaNode **nodep) {
    static const struct {
        const char *name;
        JinjaKind kind;
        int (*parse)(JinjaParser *parser, JinjaNode *node);
    } statements[] = {
        { "for", JINJA_NODE_FOR, parse_for },
        { "print", JINJA_NODE_PRINT_ALL, parse_print_tag },
        { "if", JINJA_NODE_IF, parse_if },
        { "set", JINJA_NODE_SET, parse_set },
        { "macro", JINJA_NODE_MACRO, parse_macro },
        { "call", JINJA_NODE_CALL_BLOCK, parse_call_block },
        { "filter", JINJA_NODE_FILTER_BLOCK, parse_filter_block },
        { "with", JINJA_NODE_WITH, parse_with },
        { "generation", JINJA_NODE_SCOPE, parse_scope },
        { "block", JINJA_NODE_BLOCK, parse_block },
        { "break", JINJA_NODE_BREAK, parse_leave_loop },
        { "continue", JINJA_NODE_CONTINUE, parse_leave_loop },
    };
    static const char *const other_files[] = { "include", "import", "from", "extends", NULL };
    Printable shown;
    uint32_t line = parser->now.line;
    int r;

    if (parser->now.kind != JINJA_TOKEN_NAME)
        return fail_expected(parser, "the name of a tag");
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        if (!jinja_parser_sees_name(parser, statements[i].name))
            continue;
        r = jinja_node_new(parser, statements[i].kind, line, nodep);
        if (!r)
            r = jinja_parser_step(parser);
        return r ? r : statements[i].parse(parser, *nodep);
    }
    if (sees_one_of(parser, other_files))
        return jinja_parser_fail(parser, "tag '%s' is not supported: a chat template is one file",
                                 token_shown(&parser->now, &shown));
    return jinja_parser_fail(parser, "tag '%s' is not known, or does not belong here",
                             token_shown(&parser->now, &shown));
}

int jinja_parse(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err) {
    static const char *const specials[] = { [JINJA_NAME_LOOP] = "loop",
                                            [JINJA_NAME_CALLER] = "caller",
                                            [JINJA_NAME_KWARGS] = "kwargs",
                                            [JINJA_NAME_VARARGS] = "varargs" };
    JinjaParser parser = { .template = template, .arena = &template->arena, .err = err };
    uint32_t name;
    int r = hash_key_init(&parser.key);

    if (r)
        return err_trace(r);
    r = jinja_lexer_init(&parser.lexer, parser.arena, source, len_bytes, err);
    parser.now.line = 1;
    for (size_t i = 0; i < ARRAY_LEN(specials) && !r; i++)
        r = jinja_parser_name(&parser, specials[i], strlen(specials[i]), &name);
    if (!r)
        r = jinja_parser_step(&parser);
    return r ? r : parse_nodes(&parser, NULL, "", 0, &template->body);
}
