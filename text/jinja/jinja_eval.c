// SPDX-License-Identifier: Apache-2.0
/* Statements, scopes, macros and loops. */
#include "text/jinja/jinja_eval.h"

#include <errno.h>

/* --- variables -------------------------------------------------------------------------------------------------- */

static int scope_new(JinjaRun *run, JinjaScope *parent, JinjaScope **scopep) {
    JinjaScope *scope = jinja_take(run, 1, sizeof(*scope));

    if (!scope)
        return jinja_fail_memory(run);
    scope->parent = parent;
    *scopep = scope;
    return 0;
}

/* For the next turn of a loop: new variables, in the same memory where nobody else looks at it. */
static int scope_renew(JinjaRun *run, JinjaScope **scopep) {
    JinjaScope *scope = *scopep;

    if (scope->is_captured)
        return scope_new(run, scope->parent, scopep);
    for (JinjaBinding *binding = scope->bindings; binding; binding = binding->next)
        binding->value = JINJA_NO_VALUE;
    return 0;
}

static void scope_capture(JinjaScope *scope) {
    for (; scope && !scope->is_captured; scope = scope->parent)
        scope->is_captured = true;
}

int jinja_bind(JinjaRun *run, JinjaScope *scope, uint32_t name, JinjaValue value) {
    JinjaBinding *binding;

    if (!scope->parent) {
        run->globals[name] = value;
        return 0;
    }
    for (binding = scope->bindings; binding; binding = binding->next)
        if (binding->name == name) {
            binding->value = value;
            return 0;
        }
    binding = jinja_take(run, 1, sizeof(*binding));
    if (!binding)
        return jinja_fail_memory(run);
    *binding = (JinjaBinding){ .next = scope->bindings, .name = name, .value = value };
    scope->bindings = binding;
    return 0;
}

JinjaValue jinja_lookup(const JinjaRun *run, const JinjaScope *scope, uint32_t name) {
    for (; scope->parent; scope = scope->parent)
        for (const JinjaBinding *binding = scope->bindings; binding; binding = binding->next)
            if (binding->name == name && jinja_given(binding->value))
                return binding->value;
    return run->globals[name];
}

static int assign_all(JinjaRun *run, JinjaScope *scope, const JinjaNode *target, JinjaValue value);

static int assign(JinjaRun *run, JinjaScope *scope, const JinjaNode *target, JinjaValue value) {
    JinjaValue object;

    switch (target->kind) {
    case JINJA_NODE_NAME:
        return jinja_bind(run, scope, target->name, value);
    case JINJA_NODE_ATTRIBUTE:
        object = jinja_lookup(run, scope, target->a->name);
        if (object.type != JINJA_NAMESPACE)
            return jinja_fail(run, "cannot assign attribute '%.*s': '%.*s' is no namespace",
                              (int)target->text->len_bytes, target->text->data,
                              (int)run->template->names[target->a->name]->len_bytes,
                              run->template->names[target->a->name]->data);
        return jinja_dict_set(run, object.dict, (JinjaValue){ .type = JINJA_TEXT, .text = target->text }, value);
    default:
        return assign_all(run, scope, target, value);
    }
}

static int assign_all(JinjaRun *run, JinjaScope *scope, const JinjaNode *target, JinjaValue value) {
    JinjaList list;
    int r;

    if (!jinja_is_iterable(value))
        return jinja_fail(run, "cannot unpack a value of type '%s'", jinja_type_name(value));
    r = jinja_items(run, value, &list);
    if (!r && list.n != target->n_items)
        return jinja_fail(run, "%s values to unpack: %u expected, there are %u",
                          list.n < target->n_items ? "not enough" : "too many", target->n_items, list.n);
    for (uint32_t i = 0; i < list.n && !r; i++)
        r = assign(run, scope, target->items[i], list.items[i]);
    return r;
}

/* --- bodies that become texts ----------------------------------------------------------------------------------- */

static int capture(JinjaRun *run, JinjaScope *scope, const JinjaBody *body, JinjaValue *valuep) {
    JinjaWriter writer, *out = run->out;
    int r;

    jinja_writer_init(&writer, run);
    run->out = &writer;
    r = jinja_run_body(run, scope, body);
    run->out = out;
    return r ? r : jinja_writer_finish(&writer, valuep);
}

/* --- macros ----------------------------------------------------------------------------------------------------- */

static int macro_new(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaMacro *macro = jinja_take(run, 1, sizeof(*macro));

    if (!macro)
        return jinja_fail_memory(run);
    *macro = (JinjaMacro){ .node = node, .scope = scope };
    scope_capture(scope);
    *valuep = (JinjaValue){ .type = JINJA_MACRO, .macro = macro };
    return 0;
}

/* Index of a named argument; n_named: it is not there. */
static uint32_t find_named(const JinjaArguments *arguments, const JinjaText *name) {
    uint32_t i = 0;

    while (i < arguments->n_named && !jinja_text_equal(arguments->names[i], name))
        i++;
    return i;
}

/* kwargs and varargs: what no parameter took. */
static int bind_rest(JinjaRun *run, JinjaScope *scope, const JinjaMacroNode *macro, const JinjaArguments *arguments,
                     const bool *is_used) {
    JinjaValue rest;
    int r = 0;

    if (macro->uses_kwargs) {
        r = jinja_dict_new(run, JINJA_DICT, &rest);
        for (uint32_t i = 0; i < arguments->n_named && !r; i++)
            if (!is_used[i])
                r = jinja_dict_set(run, rest.dict, (JinjaValue){ .type = JINJA_TEXT, .text = arguments->names[i] },
                                   arguments->named[i]);
        if (!r)
            r = jinja_bind(run, scope, JINJA_NAME_KWARGS, rest);
    }
    if (!r && macro->uses_varargs) {
        uint32_t n = arguments->n > macro->n ? arguments->n - macro->n : 0;

        r = jinja_list_new(run, JINJA_TUPLE, n, &rest);
        for (uint32_t i = 0; i < n && !r; i++)
            rest.list->items[i] = arguments->items[macro->n + i];
        if (!r)
            r = jinja_bind(run, scope, JINJA_NAME_VARARGS, rest);
    }
    return r;
}

static int bind_parameters(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, const JinjaArguments *arguments) {
    const JinjaMacroNode *macro = node->macro;
    const JinjaText *const *names = run->template->names;
    bool *is_used = jinja_take(run, arguments->n_named + 1, sizeof(*is_used));
    uint32_t at;
    int r = 0;

    if (!is_used)
        return jinja_fail_memory(run);
    for (uint32_t i = 0; i < macro->n && !r; i++) {
        JinjaValue value = JINJA_NO_VALUE;

        at = i < arguments->n ? arguments->n_named : find_named(arguments, names[macro->names[i]]);
        if (i < arguments->n)
            value = arguments->items[i];
        else if (at < arguments->n_named)
            value = arguments->named[at];
        if (at < arguments->n_named)
            is_used[at] = true;
        if (!jinja_given(value) && i >= macro->n - macro->n_defaults)
            r = jinja_evaluate(run, scope, macro->defaults[i - (macro->n - macro->n_defaults)], &value);
        else if (!jinja_given(value))
            r = jinja_undefined(run, &value, "parameter '%.*s' was not provided",
                                (int)names[macro->names[i]]->len_bytes, names[macro->names[i]]->data);
        if (!r)
            r = jinja_bind(run, scope, macro->names[i], value);
    }
    at = find_named(arguments, names[JINJA_NAME_CALLER]);
    if (!r && macro->uses_caller && !(at < arguments->n_named && is_used[at])) {
        JinjaValue caller;

        r = jinja_undefined(run, &caller, "no caller defined");
        if (!r)
            r = jinja_bind(run, scope, JINJA_NAME_CALLER, at < arguments->n_named ? arguments->named[at] : caller);
        if (at < arguments->n_named)
            is_used[at] = true;
    }
    for (uint32_t i = 0; i < arguments->n_named && !r && !macro->uses_kwargs; i++)
        if (!is_used[i])
            return jinja_fail(run, "the macro takes no argument '%.*s'", (int)arguments->names[i]->len_bytes,
                              arguments->names[i]->data);
    if (!r && arguments->n > macro->n && !macro->uses_varargs)
        return jinja_fail(run, "the macro takes no more than %u arguments", macro->n);
    return r ? r : bind_rest(run, scope, macro, arguments, is_used);
}

static int call_macro(JinjaRun *run, const JinjaMacro *macro, const JinjaArguments *arguments, JinjaValue *valuep) {
    JinjaScope *scope = NULL;
    int r = scope_new(run, macro->scope, &scope);

    if (!r)
        r = bind_parameters(run, scope, macro->node, arguments);
    return r ? r : capture(run, scope, &macro->node->bodies[0], valuep);
}

/* --- loops ------------------------------------------------------------------------------------------------------ */

/* The items that pass the condition of the loop. */
static int choose_items(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaList *list) {
    JinjaValue chosen, passes;
    JinjaScope *inner = NULL;
    uint32_t n = 0;
    int r = jinja_list_new(run, JINJA_LIST, list->n, &chosen);

    if (!r)
        r = scope_new(run, scope, &inner);
    for (uint32_t i = 0; i < list->n && !r; i++) {
        r = scope_renew(run, &inner);
        if (!r)
            r = assign(run, inner, node->a, list->items[i]);
        if (!r)
            r = jinja_evaluate(run, inner, node->c, &passes);
        if (!r && jinja_truth(passes))
            chosen.list->items[n++] = list->items[i];
    }
    if (!r)
        *list = (JinjaList){ .items = chosen.list->items, .n = n };
    return r;
}

static int run_loop(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue iterable, uint32_t depth0) {
    JinjaLoop *loop = jinja_take(run, 1, sizeof(*loop));
    bool came_to_end = false; /* one turn did: "else" is for loops that none did */
    JinjaScope *inner = NULL;
    int r;

    if (!loop)
        return jinja_fail_memory(run);
    *loop = (JinjaLoop){ .depth0 = depth0, .node = node, .scope = scope, .changed = JINJA_NO_VALUE };
    r = jinja_items(run, iterable, &loop->items);
    if (!r && node->c)
        r = choose_items(run, scope, node, &loop->items);
    if (!r)
        r = scope_new(run, scope, &inner);
    for (; !r && loop->index0 < loop->items.n; loop->index0++) {
        r = jinja_spend(run, 1);
        if (!r)
            r = scope_renew(run, &inner);
        if (!r)
            r = jinja_bind(run, inner, JINJA_NAME_LOOP, (JinjaValue){ .type = JINJA_LOOP, .loop = loop });
        if (!r)
            r = assign(run, inner, node->a, loop->items.items[loop->index0]);
        if (!r)
            r = jinja_run_body(run, inner, &node->bodies[0]);
        came_to_end = came_to_end || !r;
        if (r == JINJA_BREAK)
            break;
        if (r == JINJA_CONTINUE)
            r = 0;
    }
    if (r == JINJA_BREAK)
        r = 0;
    if (r || came_to_end || node->n_bodies < 2)
        return r;
    r = scope_renew(run, &inner);
    return r ? r : jinja_run_body(run, inner, &node->bodies[1]);
}

/* loop(items): the body once more, for what lies below. */
static int call_loop(JinjaRun *run, const JinjaLoop *loop, const JinjaArguments *arguments, JinjaValue *valuep) {
    JinjaWriter writer, *out = run->out;
    int r;

    if (!loop->node->is_recursive)
        return jinja_fail(run, "the loop must be marked 'recursive' to be called");
    if (arguments->n != 1 || arguments->n_named)
        return jinja_fail(run, "loop() takes one argument");
    r = jinja_enter(run);
    if (r)
        return r;
    jinja_writer_init(&writer, run);
    run->out = &writer;
    r = run_loop(run, loop->scope, loop->node, arguments->items[0], loop->depth0 + 1);
    run->out = out;
    jinja_leave(run);
    return r ? r : jinja_writer_finish(&writer, valuep);
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static int call_joiner(JinjaRun *run, JinjaList *joiner, JinjaValue *valuep) {
    *valuep = joiner->items[joiner->at ? 0 : 1];
    joiner->at = 1;
    return 0;
}

int jinja_call(JinjaRun *run, JinjaValue callee, const JinjaArguments *arguments, JinjaValue *valuep) {
    switch (callee.type) {
    case JINJA_FUNCTION:
        return jinja_builtin_call(run, "function", &callee.function->builtin, JINJA_NOTHING, arguments, valuep);
    case JINJA_METHOD:
        return jinja_builtin_call(run, "method", callee.bound->method, callee.bound->self, arguments, valuep);
    case JINJA_MACRO:
        return call_macro(run, callee.macro, arguments, valuep);
    case JINJA_LOOP:
        return call_loop(run, callee.loop, arguments, valuep);
    case JINJA_JOINER:
        return call_joiner(run, callee.list, valuep);
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    default:
        return jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee));
    }
}

/* --- statements ------------------------------------------------------------------------------------------------- */

static int run_if(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    for (uint32_t i = 0; i < node->n_items; i++) {
        JinjaValue passes;
        int r = jinja_evaluate(run, scope, node->items[i], &passes);

        if (r || jinja_truth(passes))
            return r ? r : jinja_run_body(run, scope, &node->bodies[i]);
    }
    return node->n_bodies > node->n_items ? jinja_run_body(run, scope, &node->bodies[node->n_items]) : 0;
}

static int run_for(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue iterable;
    int r = jinja_evaluate(run, scope, node->b, &iterable);

    return r ? r : run_loop(run, scope, node, iterable, 0);
}

static int run_print_all(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    int r = 0;

    for (uint32_t i = 0; i < node->n_items && !r; i++) {
        JinjaValue value;

        r = jinja_evaluate(run, scope, node->items[i], &value);
        if (!r)
            jinja_write_value(run->out, value);
        r = r ? r : run->out->failure;
    }
    return r;
}

static int run_print(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;
    int r = jinja_evaluate(run, scope, node->a, &value);

    if (r)
        return r;
    run->line = node->line;
    jinja_write_value(run->out, value);
    return run->out->failure;
}

/* A body in a scope of its own, as text, through the filters of the block. */
static int run_block_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaScope *inner = NULL;
    JinjaValue text;
    int r = scope_new(run, scope, &inner);

    if (!r)
        r = capture(run, inner, &node->bodies[0], &text);
    if (r || !node->b) {
        *valuep = text;
        return r;
    }
    run->line = node->line;
    return jinja_filter_text(run, scope, node->b, text, valuep);
}

static int run_set(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;
    int r = node->kind == JINJA_NODE_SET ? jinja_evaluate(run, scope, node->b, &value)
                                         : run_block_text(run, scope, node, &value);

    if (r)
        return r;
    run->line = node->line;
    return assign(run, scope, node->a, value);
}

static int run_filter_block(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;
    int r = run_block_text(run, scope, node, &value);

    if (r)
        return r;
    jinja_write_value(run->out, value);
    return run->out->failure;
}

static int run_macro(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue macro;
    int r = macro_new(run, scope, node, &macro);

    return r ? r : jinja_bind(run, scope, node->name, macro);
}

static int run_call_block(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue callee, caller, value;
    JinjaArguments arguments;
    int r = macro_new(run, scope, node, &caller);

    if (!r)
        r = jinja_evaluate(run, scope, node->a->a, &callee);
    if (!r)
        r = jinja_evaluate_arguments(run, scope, node->a->arguments, &arguments, 1);
    if (r)
        return r;
    run->line = node->line;
    ((const JinjaText **)arguments.names)[arguments.n_named] = run->template->names[JINJA_NAME_CALLER];
    ((JinjaValue *)arguments.named)[arguments.n_named++] = caller;
    r = jinja_call(run, callee, &arguments, &value);
    if (r)
        return r;
    jinja_write_value(run->out, value);
    return run->out->failure;
}

static int run_with(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaScope *inner = NULL;
    int r = scope_new(run, scope, &inner);

    for (uint32_t i = 0; i + 1 < node->n_items && !r; i += 2) {
        JinjaValue value;

        r = jinja_evaluate(run, scope, node->items[i + 1], &value);
        if (!r)
            r = assign(run, inner, node->items[i], value);
    }
    return r ? r : jinja_run_body(run, inner, &node->bodies[0]);
}

static int run_scope(JinjaRun *run, JinjaScope *parent, const JinjaNode *node) {
    JinjaScope *inner = NULL;
    int r = scope_new(run, parent, &inner);

    return r ? r : jinja_run_body(run, inner, &node->bodies[0]);
}

static int run_statement(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    switch (node->kind) {
    case JINJA_NODE_DATA:
        jinja_write(run->out, node->text);
        return run->out->failure;
    case JINJA_NODE_PRINT:
        return run_print(run, scope, node);
    case JINJA_NODE_PRINT_ALL:
        return run_print_all(run, scope, node);
    case JINJA_NODE_FOR:
        return run_for(run, scope, node);
    case JINJA_NODE_IF:
        return run_if(run, scope, node);
    case JINJA_NODE_SET:
    case JINJA_NODE_SET_BLOCK:
        return run_set(run, scope, node);
    case JINJA_NODE_MACRO:
        return run_macro(run, scope, node);
    case JINJA_NODE_CALL_BLOCK:
        return run_call_block(run, scope, node);
    case JINJA_NODE_FILTER_BLOCK:
        return run_filter_block(run, scope, node);
    case JINJA_NODE_WITH:
        return run_with(run, scope, node);
    case JINJA_NODE_SCOPE:
        return run_scope(run, scope, node);
    case JINJA_NODE_BLOCK:
        return run_scope(run, run->root, node);
    case JINJA_NODE_BREAK:
        return JINJA_BREAK;
    case JINJA_NODE_CONTINUE:
        return JINJA_CONTINUE;
    default:
        return err_raise(-ENOTRECOVERABLE); /* the parser puts no expression here */
    }
}

int jinja_run_body(JinjaRun *run, JinjaScope *scope, const JinjaBody *body) {
    int r = jinja_enter(run);

    if (r)
        return r;
    for (uint32_t i = 0; i < body->n && !r; i++) {
        run->line = body->nodes[i]->line;
        r = jinja_spend(run, 1);
        if (!r)
            r = run_statement(run, scope, body->nodes[i]);
    }
    jinja_leave(run);
    return r;
}
