// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/jinja_eval.h"

#include "base/strings/printable.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/builtins/jinja_member.h"
#include "text/jinja/values/jinja_operator.h"
#include "text/jinja/values/jinja_print.h"

typedef enum Flow {
    FLOW_GO_ON,
    FLOW_BREAK,    /* the loop is left */
    FLOW_CONTINUE, /* the next turn of the loop begins */
} Flow;

static JinjaValue evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node);
static Flow run_body(JinjaRun *run, JinjaScope *scope, const JinjaNode *body);

/* Runs a body into a text. */
static JinjaValue capture(JinjaRun *run, JinjaScope *scope, const JinjaNode *body) {
    JinjaWriter writer, *out = run->out;

    jinja_writer_init(&writer, run);
    run->out = &writer;
    (void)run_body(run, scope, body); /* no "break" leaves it */
    run->out = out;
    return jinja_str(jinja_writer_finish(&writer));
}

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

/* --- calls ------------------------------------------------------------------------------------------------------ */

/* Evaluates the arguments of a call, filter or test. What follows is again of the node's line. */
static JinjaArguments evaluate_arguments(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaArguments arguments = { 0 };
    const JinjaText **names;
    JinjaValue *items, *named;
    JinjaList list = { 0 };

    for (uint32_t i = 0; i < node->n_items; i++)
        if (node->items[i]->kind == JINJA_NODE_STAR)
            list = jinja_items(run, evaluate(run, scope, node->items[i]->a));
    items = jinja_take(run, (size_t)node->n_items + list.n, sizeof(*items));
    named = jinja_take(run, node->n_items, sizeof(*named));
    names = jinja_take(run, node->n_items, sizeof(JinjaText *));
    for (uint32_t i = 0; i < node->n_items; i++) {
        const JinjaNode *argument = node->items[i];

        if (argument->kind == JINJA_NODE_NAMED) {
            names[arguments.n_named] = argument->text;
            named[arguments.n_named++] = evaluate(run, scope, argument->a);
        } else if (argument->kind == JINJA_NODE_STAR) {
            for (uint32_t k = 0; k < list.n; k++)
                items[arguments.n++] = list.items[k];
        } else {
            items[arguments.n++] = evaluate(run, scope, argument);
        }
    }
    run->line = node->line;
    arguments.items = items;
    arguments.names = names;
    arguments.named = named;
    return arguments;
}

static JinjaValue macro_new(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaMacro *macro = jinja_take(run, 1, sizeof(*macro));

    *macro = (JinjaMacro){ .node = node, .scope = scope };
    for (; scope && !scope->is_captured; scope = scope->parent)
        scope->is_captured = true;
    return (JinjaValue){ .type = JINJA_MACRO, .macro = macro };
}

static const JinjaText *parameter_name(const JinjaRun *run, const JinjaNode *macro, uint32_t i) {
    return run->template->names[macro->items[i]->name];
}

static JinjaValue parameter_value(JinjaRun *run, JinjaScope *scope, const JinjaNode *macro, uint32_t i,
                                  const JinjaArguments *arguments) {
    const JinjaText *name = parameter_name(run, macro, i);

    if (i < arguments->n && jinja_given(arguments->items[i]))
        return arguments->items[i];
    jinja_spend(run, arguments->n_named / 8);
    for (uint32_t k = 0; k < arguments->n_named; k++)
        if (jinja_text_equal(arguments->names[k], name) && jinja_given(arguments->named[k]))
            return arguments->named[k];
    if (macro->items[i]->b)
        return evaluate(run, scope, macro->items[i]->b);
    return jinja_undefined(run, "parameter '%.*s' was not provided", (int)name->len_bytes, name->data);
}

static void bind_parameters(JinjaRun *run, JinjaScope *scope, const JinjaNode *macro, const JinjaArguments *arguments) {
    for (uint32_t i = 0; i < macro->n_items; i++)
        jinja_bind(run, scope, macro->items[i]->name, parameter_value(run, scope, macro, i, arguments));
    for (uint32_t k = 0; k < arguments->n_named; k++) {
        uint32_t i = arguments->n;

        jinja_spend(run, macro->n_items / 8);
        while (i < macro->n_items && !jinja_text_equal(arguments->names[k], parameter_name(run, macro, i)))
            i++;
        if (i >= macro->n_items)
            jinja_fail(run, "the macro takes no argument '%.*s'", (int)arguments->names[k]->len_bytes,
                       arguments->names[k]->data);
    }
    if (arguments->n > macro->n_items)
        jinja_fail(run, "the macro takes no more than %u arguments", macro->n_items);
}

static JinjaValue call(JinjaRun *run, JinjaValue callee, const JinjaArguments *arguments) {
    JinjaScope *scope;

    jinja_check_defined(run, callee);
    switch (callee.type) {
    case JINJA_FUNCTION:
        return jinja_builtin_call(run, "function", callee.function, JINJA_NOTHING, arguments);
    case JINJA_METHOD:
        return jinja_builtin_call(run, "method", callee.bound->method, callee.bound->self, arguments);
    case JINJA_MACRO:
        scope = jinja_scope_new(run, callee.macro->scope);
        bind_parameters(run, scope, callee.macro->node, arguments);
        return capture(run, scope, callee.macro->node->a);
    default:
        jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee));
    }
}

/* --- expressions ------------------------------------------------------------------------------------------------ */

static JinjaValue evaluate_items(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue list = jinja_list_new(run, node->kind == JINJA_NODE_TUPLE ? JINJA_TUPLE : JINJA_LIST, node->n_items);

    for (uint32_t i = 0; i < node->n_items; i++)
        list.list->items[i] = evaluate(run, scope, node->items[i]);
    return list;
}

static JinjaValue evaluate_dict(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue dict = jinja_dict_new(run, JINJA_DICT), key;

    for (uint32_t i = 0; i + 1 < node->n_items; i += 2) {
        key = evaluate(run, scope, node->items[i]);
        jinja_dict_set(run, dict.dict, key, evaluate(run, scope, node->items[i + 1]));
    }
    return dict;
}

static JinjaValue evaluate_concat(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    /* The first item may be a text that grows, which is continued in place. */
    const JinjaText *text = jinja_to_text(run, evaluate(run, scope, node->items[0]));
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    for (uint32_t i = 1; i < node->n_items; i++)
        jinja_write_value(&writer, evaluate(run, scope, node->items[i]));
    return jinja_str(jinja_text_concat(run, text, jinja_writer_finish(&writer)));
}

static JinjaValue evaluate_if_else(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    if (jinja_truth(evaluate(run, scope, node->b)))
        return evaluate(run, scope, node->a);
    if (node->c)
        return evaluate(run, scope, node->c);
    return jinja_undefined(run, "an inline 'if' on line %u was false and has no 'else'", node->line);
}

static JinjaValue evaluate_slice(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue object) {
    JinjaValue bounds[3];

    for (uint32_t i = 0; i < 3; i++)
        bounds[i] = node->items[i] ? evaluate(run, scope, node->items[i]) : JINJA_NO_VALUE;
    run->line = node->line;
    return jinja_slice(run, object, bounds);
}

static JinjaValue evaluate_name(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value = jinja_lookup(run, scope, node->name);
    const JinjaText *name = run->template->names[node->name];
    Printable shown;

    if (jinja_given(value))
        return value;
    (void)printable(&shown, name->data, name->len_bytes);
    if (jinja_builtin_is_refused(JINJA_FUNCTIONS, name))
        return jinja_undefined(run, "function '%s' is not supported in chat templates", shown.text);
    return jinja_undefined(run, "'%s' is undefined", shown.text);
}

/* Evaluates a node that begins with the value of node->a. */
static JinjaValue evaluate_with(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue a) {
    JinjaArguments arguments;
    JinjaValue b;

    run->line = node->line;
    switch (node->kind) {
    case JINJA_NODE_NOT:
        return jinja_bool(!jinja_truth(a));
    case JINJA_NODE_NEGATE:
        return jinja_negate(run, a);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        return jinja_truth(a) == (node->kind == JINJA_NODE_OR) ? a : evaluate(run, scope, node->b);
    case JINJA_NODE_BINARY:
    case JINJA_NODE_ITEM:
        b = evaluate(run, scope, node->b);
        run->line = node->line;
        return node->kind == JINJA_NODE_ITEM ? jinja_item(run, a, b) : jinja_operate(run, node->op, a, b);
    case JINJA_NODE_ATTRIBUTE:
        return jinja_attribute(run, a, node->text);
    case JINJA_NODE_SLICE:
        return evaluate_slice(run, scope, node, a);
    default: /* the parser puts no statement here */
        arguments = evaluate_arguments(run, scope, node);
        if (node->kind == JINJA_NODE_CALL)
            return call(run, a, &arguments);
        if (node->kind == JINJA_NODE_FILTER)
            return jinja_filter_call(run, node->text, node->builtin, a, &arguments);
        return jinja_bool(jinja_test_call(run, node->text, node->builtin, a, &arguments));
    }
}

static JinjaValue evaluate_here(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    switch (node->kind) {
    case JINJA_NODE_CONST:
        return node->value;
    case JINJA_NODE_NAME:
        return evaluate_name(run, scope, node);
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        return evaluate_items(run, scope, node);
    case JINJA_NODE_DICT:
        return evaluate_dict(run, scope, node);
    case JINJA_NODE_CONCAT:
        return evaluate_concat(run, scope, node);
    case JINJA_NODE_IF_ELSE:
        return evaluate_if_else(run, scope, node);
    case JINJA_NODE_CAPTURE:
        return capture(run, jinja_scope_new(run, scope), node->a);
    default:
        return evaluate_with(run, scope, node, evaluate(run, scope, node->a));
    }
}

static JinjaValue evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;

    jinja_enter(run);
    run->line = node->line;
    jinja_spend(run, 1);
    value = evaluate_here(run, scope, node);
    jinja_leave(run);
    return value;
}

/* --- statements ------------------------------------------------------------------------------------------------- */

/* The items that pass the condition of the loop. */
static JinjaList choose_items(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, const JinjaList *list) {
    JinjaValue chosen = jinja_list_room(run, JINJA_LIST, list->n);
    JinjaScope *inner = jinja_scope_new(run, scope);

    for (uint32_t i = 0; i < list->n; i++) {
        inner = jinja_scope_renew(run, inner);
        assign(run, inner, node->a, list->items[i]);
        if (jinja_truth(evaluate(run, inner, node->c)))
            jinja_list_add(run, chosen.list, list->items[i]);
    }
    return *chosen.list;
}

static Flow run_loop(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue iterable = evaluate(run, scope, node->b);
    JinjaLoop *loop = jinja_take(run, 1, sizeof(*loop));
    JinjaScope *inner = jinja_scope_new(run, scope);
    bool came_to_end = false; /* "else" is for loops of which no turn came to its end */
    Flow flow;

    loop->items = jinja_items(run, iterable);
    if (node->c)
        loop->items = choose_items(run, scope, node, &loop->items);
    for (; loop->index0 < loop->items.n; loop->index0++) {
        jinja_spend(run, 1);
        inner = jinja_scope_renew(run, inner);
        jinja_bind(run, inner, JINJA_NAME_LOOP, (JinjaValue){ .type = JINJA_LOOP, .loop = loop });
        assign(run, inner, node->a, loop->items.items[loop->index0]);
        flow = run_body(run, inner, node->items[0]);
        if (flow == FLOW_BREAK)
            break;
        came_to_end = came_to_end || flow == FLOW_GO_ON;
    }
    if (came_to_end || node->n_items < 2)
        return FLOW_GO_ON;
    return run_body(run, jinja_scope_renew(run, inner), node->items[1]);
}

static Flow run_if(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    uint32_t i = 0;

    while (i + 1 < node->n_items && !jinja_truth(evaluate(run, scope, node->items[i])))
        i += 2;
    i += i + 1 < node->n_items; /* the body behind its condition, or that of "else" */
    return i < node->n_items ? run_body(run, scope, node->items[i]) : FLOW_GO_ON;
}

static Flow run_statement(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;

    switch (node->kind) {
    case JINJA_NODE_DATA:
        jinja_write(run->out, node->text);
        return FLOW_GO_ON;
    case JINJA_NODE_PRINT:
        value = evaluate(run, scope, node->a);
        run->line = node->line;
        jinja_write_value(run->out, value);
        return FLOW_GO_ON;
    case JINJA_NODE_FOR:
        return run_loop(run, scope, node);
    case JINJA_NODE_IF:
        return run_if(run, scope, node);
    case JINJA_NODE_SET:
        value = evaluate(run, scope, node->b);
        run->line = node->line;
        assign(run, scope, node->a, value);
        return FLOW_GO_ON;
    case JINJA_NODE_MACRO:
        jinja_bind(run, scope, node->name, macro_new(run, scope, node));
        return FLOW_GO_ON;
    case JINJA_NODE_SCOPE:
        return run_body(run, jinja_scope_new(run, scope), node->a);
    case JINJA_NODE_BREAK:
        return FLOW_BREAK;
    default:
        return FLOW_CONTINUE; /* the parser puts no expression here */
    }
}

static Flow run_body(JinjaRun *run, JinjaScope *scope, const JinjaNode *body) {
    Flow flow = FLOW_GO_ON;

    jinja_enter(run);
    for (uint32_t i = 0; i < body->n_items && flow == FLOW_GO_ON; i++) {
        run->line = body->items[i]->line;
        jinja_spend(run, 1);
        flow = run_statement(run, scope, body->items[i]);
    }
    jinja_leave(run);
    return flow;
}

void jinja_eval_template(JinjaRun *run) {
    (void)run_body(run, run->root, run->template->body);
}
