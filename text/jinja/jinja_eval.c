// SPDX-License-Identifier: Apache-2.0
/* Statements, macros and loops. */
#include "text/jinja/jinja_eval.h"

#include "text/jinja/jinja_evaluate.h"
#include "text/jinja/values/jinja_print.h"

/* --- assignment -------------------------------------------------------------------------------------------------- */

static void assign(JinjaRun *run, JinjaScope *scope, const JinjaNode *target, JinjaValue value) {
    JinjaList list;

    if (target->kind == JINJA_NODE_NAME) {
        jinja_bind(run, scope, target->name, value);
        return;
    }
    if (target->kind == JINJA_NODE_ATTRIBUTE) {
        const JinjaText *name = run->template->names[target->a->name];
        JinjaValue object = jinja_lookup(run, scope, target->a->name);

        if (object.type != JINJA_NAMESPACE)
            jinja_fail(run, "cannot assign attribute '%.*s': '%.*s' is no namespace", (int)target->text->len_bytes,
                       target->text->data, (int)name->len_bytes, name->data);
        jinja_dict_set(run, object.dict, jinja_str(target->text), value);
        return;
    }
    if (!jinja_is_iterable(value))
        jinja_fail(run, "cannot unpack a value of type '%s'", jinja_type_name(value));
    list = jinja_items(run, value);
    if (list.n != target->n_items)
        jinja_fail(run, "%s values to unpack: %u expected, there are %u",
                   list.n < target->n_items ? "not enough" : "too many", target->n_items, list.n);
    for (uint32_t i = 0; i < list.n; i++)
        assign(run, scope, target->items[i], list.items[i]);
}

/* Runs a body into a text. */
static JinjaFlow capture(JinjaRun *run, JinjaScope *scope, const JinjaBody *body, JinjaValue *textp) {
    JinjaWriter writer, *out = run->out;
    JinjaFlow flow;

    jinja_writer_init(&writer, run);
    run->out = &writer;
    flow = jinja_run_body(run, scope, body);
    run->out = out;
    *textp = jinja_str(jinja_writer_finish(&writer));
    return flow;
}

/* --- macros ----------------------------------------------------------------------------------------------------- */

static JinjaValue macro_new(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaMacro *macro = jinja_take(run, 1, sizeof(*macro));

    *macro = (JinjaMacro){ .node = node, .scope = scope };
    for (; scope && !scope->is_captured; scope = scope->parent)
        scope->is_captured = true;
    return (JinjaValue){ .type = JINJA_MACRO, .macro = macro };
}

/* Index of a named argument; n_named: it is not there. */
static uint32_t find_named(const JinjaArguments *arguments, const JinjaText *name) {
    uint32_t i = 0;

    while (i < arguments->n_named && !jinja_text_equal(arguments->names[i], name))
        i++;
    return i;
}

/* Binds kwargs and varargs: the arguments that no parameter took. */
static void bind_rest(JinjaRun *run, JinjaScope *scope, const JinjaMacroNode *macro, const JinjaArguments *arguments,
                      const bool *is_used) {
    JinjaValue rest;

    if (macro->uses_kwargs) {
        rest = jinja_dict_new(run, JINJA_DICT);
        for (uint32_t i = 0; i < arguments->n_named; i++)
            if (!is_used[i])
                jinja_dict_set(run, rest.dict, jinja_str(arguments->names[i]), arguments->named[i]);
        jinja_bind(run, scope, JINJA_NAME_KWARGS, rest);
    }
    if (macro->uses_varargs) {
        rest = jinja_list_room(run, JINJA_TUPLE, arguments->n > macro->n ? arguments->n - macro->n : 0);
        for (uint32_t i = macro->n; i < arguments->n; i++)
            jinja_list_add(run, rest.list, arguments->items[i]);
        jinja_bind(run, scope, JINJA_NAME_VARARGS, rest);
    }
}

static JinjaValue parameter_value(JinjaRun *run, JinjaScope *scope, const JinjaMacroNode *macro, uint32_t i,
                                  const JinjaArguments *arguments, bool *is_used) {
    const JinjaText *name = run->template->names[macro->names[i]->name];
    const uint32_t n_without_default = macro->n - macro->n_defaults;
    JinjaValue value = JINJA_NO_VALUE;
    uint32_t at;

    if (i < arguments->n) {
        value = arguments->items[i];
    } else if ((at = find_named(arguments, name)) < arguments->n_named) {
        value = arguments->named[at];
        is_used[at] = true;
    }
    if (jinja_given(value))
        return value;
    if (i >= n_without_default)
        return jinja_evaluate(run, scope, macro->defaults[i - n_without_default]);
    return jinja_undefined(run, "parameter '%.*s' was not provided", (int)name->len_bytes, name->data);
}

static void bind_parameters(JinjaRun *run, JinjaScope *scope, const JinjaMacroNode *macro,
                            const JinjaArguments *arguments) {
    bool *is_used = jinja_take(run, (size_t)arguments->n_named + 1, sizeof(*is_used));
    uint32_t at = find_named(arguments, run->template->names[JINJA_NAME_CALLER]);

    for (uint32_t i = 0; i < macro->n; i++)
        jinja_bind(run, scope, macro->names[i]->name, parameter_value(run, scope, macro, i, arguments, is_used));
    if (macro->uses_caller && !is_used[at]) {
        jinja_bind(run, scope, JINJA_NAME_CALLER,
                   at < arguments->n_named ? arguments->named[at] : jinja_undefined(run, "no caller defined"));
        is_used[at] = true;
    }
    for (uint32_t i = 0; i < arguments->n_named && !macro->uses_kwargs; i++)
        if (!is_used[i])
            jinja_fail(run, "the macro takes no argument '%.*s'", (int)arguments->names[i]->len_bytes,
                       arguments->names[i]->data);
    if (arguments->n > macro->n && !macro->uses_varargs)
        jinja_fail(run, "the macro takes no more than %u arguments", macro->n);
    bind_rest(run, scope, macro, arguments, is_used);
}

static JinjaValue call_macro(JinjaRun *run, const JinjaMacro *macro, const JinjaArguments *arguments) {
    JinjaScope *scope = jinja_scope_new(run, macro->scope);
    JinjaValue text;

    bind_parameters(run, scope, macro->node->macro, arguments);
    (void)capture(run, scope, &macro->node->bodies[0], &text); /* no "break" leaves a macro */
    return text;
}

/* --- loops ------------------------------------------------------------------------------------------------------ */

/* The items that pass the condition of the loop. */
static JinjaList choose_items(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, const JinjaList *list) {
    JinjaValue chosen = jinja_list_room(run, JINJA_LIST, list->n);
    JinjaScope *inner = jinja_scope_new(run, scope);

    for (uint32_t i = 0; i < list->n; i++) {
        inner = jinja_scope_renew(run, inner);
        assign(run, inner, node->a, list->items[i]);
        if (jinja_truth(jinja_evaluate(run, inner, node->c)))
            jinja_list_add(run, chosen.list, list->items[i]);
    }
    return *chosen.list;
}

static JinjaFlow run_loop(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue iterable,
                          uint32_t depth0) {
    JinjaLoop *loop = jinja_take(run, 1, sizeof(*loop));
    JinjaScope *inner = jinja_scope_new(run, scope);
    JinjaFlow flow = JINJA_GO_ON;
    bool came_to_end = false; /* "else" is for loops of which no turn came to its end */

    *loop = (JinjaLoop){ .depth0 = depth0, .node = node, .scope = scope, .changed = JINJA_NO_VALUE };
    loop->items = jinja_items(run, iterable);
    if (node->c)
        loop->items = choose_items(run, scope, node, &loop->items);
    for (; loop->index0 < loop->items.n; loop->index0++) {
        jinja_spend(run, 1);
        inner = jinja_scope_renew(run, inner);
        jinja_bind(run, inner, JINJA_NAME_LOOP, (JinjaValue){ .type = JINJA_LOOP, .loop = loop });
        assign(run, inner, node->a, loop->items.items[loop->index0]);
        flow = jinja_run_body(run, inner, &node->bodies[0]);
        if (flow == JINJA_BREAK)
            break;
        came_to_end = came_to_end || flow == JINJA_GO_ON;
    }
    if (came_to_end || node->n_bodies < 2)
        return JINJA_GO_ON;
    return jinja_run_body(run, jinja_scope_renew(run, inner), &node->bodies[1]);
}

/* loop(items): runs the body once more for the items of one item. */
static JinjaValue call_loop(JinjaRun *run, const JinjaLoop *loop, const JinjaArguments *arguments) {
    JinjaWriter writer, *out = run->out;

    if (!loop->node->is_recursive)
        jinja_fail(run, "the loop must be marked 'recursive' to be called");
    if (arguments->n != 1 || arguments->n_named)
        jinja_fail(run, "loop() takes one argument");
    jinja_enter(run);
    jinja_writer_init(&writer, run);
    run->out = &writer;
    (void)run_loop(run, loop->scope, loop->node, arguments->items[0], loop->depth0 + 1);
    run->out = out;
    jinja_leave(run);
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_call(JinjaRun *run, JinjaValue callee, const JinjaArguments *arguments) {
    switch (callee.type) {
    case JINJA_FUNCTION:
        return jinja_builtin_call(run, "function", callee.function, JINJA_NOTHING, arguments);
    case JINJA_METHOD:
        return jinja_builtin_call(run, "method", callee.bound->method, callee.bound->self, arguments);
    case JINJA_MACRO:
        return call_macro(run, callee.macro, arguments);
    case JINJA_LOOP:
        return call_loop(run, callee.loop, arguments);
    case JINJA_UNDEFINED:
        jinja_fail_undefined(run, callee);
    default:
        jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee));
    }
}

/* --- statements ------------------------------------------------------------------------------------------------- */

static JinjaFlow run_if(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    uint32_t i = 0;

    while (i < node->n_items && !jinja_truth(jinja_evaluate(run, scope, node->items[i])))
        i++;
    return i < node->n_bodies ? jinja_run_body(run, scope, &node->bodies[i]) : JINJA_GO_ON;
}

static void print_value(JinjaRun *run, const JinjaNode *node, JinjaValue value) {
    run->line = node->line;
    jinja_write_value(run->out, value);
}

/* Runs a body in a scope of its own into a text, and applies the filters of the block. A text that "break" or
 * "continue" left is dropped. */
static JinjaFlow run_block_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue text;
    JinjaFlow flow = capture(run, jinja_scope_new(run, scope), &node->bodies[0], &text);

    if (flow != JINJA_GO_ON)
        return flow;
    run->line = node->line;
    if (node->b)
        text = jinja_filter_text(run, scope, node->b, text);
    if (node->kind == JINJA_NODE_SET_BLOCK)
        assign(run, scope, node->a, text);
    else
        print_value(run, node, text);
    return JINJA_GO_ON;
}

static JinjaFlow run_set(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value = jinja_evaluate(run, scope, node->b);

    run->line = node->line;
    assign(run, scope, node->a, value);
    return JINJA_GO_ON;
}

static JinjaValue run_call_block(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue caller = macro_new(run, scope, node), callee = jinja_evaluate(run, scope, node->a->a);
    JinjaArguments arguments =
        jinja_evaluate_arguments(run, scope, node->a->arguments, run->template->names[JINJA_NAME_CALLER], &caller);

    run->line = node->line;
    return jinja_call(run, callee, &arguments);
}

static JinjaFlow run_with(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaScope *inner = jinja_scope_new(run, scope);

    for (uint32_t i = 0; i + 1 < node->n_items; i += 2)
        assign(run, inner, node->items[i], jinja_evaluate(run, scope, node->items[i + 1]));
    return jinja_run_body(run, inner, &node->bodies[0]);
}

static JinjaFlow run_statement(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    switch (node->kind) {
    case JINJA_NODE_DATA:
        jinja_write(run->out, node->text);
        return JINJA_GO_ON;
    case JINJA_NODE_PRINT:
        print_value(run, node, jinja_evaluate(run, scope, node->a));
        return JINJA_GO_ON;
    case JINJA_NODE_FOR:
        return run_loop(run, scope, node, jinja_evaluate(run, scope, node->b), 0);
    case JINJA_NODE_IF:
        return run_if(run, scope, node);
    case JINJA_NODE_SET:
        return run_set(run, scope, node);
    case JINJA_NODE_SET_BLOCK:
    case JINJA_NODE_FILTER_BLOCK:
        return run_block_text(run, scope, node);
    case JINJA_NODE_MACRO:
        jinja_bind(run, scope, node->name, macro_new(run, scope, node));
        return JINJA_GO_ON;
    case JINJA_NODE_CALL_BLOCK:
        print_value(run, node, run_call_block(run, scope, node));
        return JINJA_GO_ON;
    case JINJA_NODE_WITH:
        return run_with(run, scope, node);
    case JINJA_NODE_SCOPE:
        return jinja_run_body(run, jinja_scope_new(run, scope), &node->bodies[0]);
    case JINJA_NODE_BLOCK:
        return jinja_run_body(run, jinja_scope_new(run, run->root), &node->bodies[0]);
    case JINJA_NODE_BREAK:
        return JINJA_BREAK;
    default:
        return JINJA_CONTINUE; /* the parser puts no expression here */
    }
}

JinjaFlow jinja_run_body(JinjaRun *run, JinjaScope *scope, const JinjaBody *body) {
    JinjaFlow flow = JINJA_GO_ON;

    jinja_enter(run);
    for (uint32_t i = 0; i < body->n && flow == JINJA_GO_ON; i++) {
        run->line = body->nodes[i]->line;
        jinja_spend(run, 1);
        flow = run_statement(run, scope, body->nodes[i]);
    }
    jinja_leave(run);
    return flow;
}
