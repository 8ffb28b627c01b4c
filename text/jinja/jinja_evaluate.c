// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/jinja_evaluate.h"

#include "base/strings/printable.h"
#include "text/jinja/builtins/jinja_member.h"
#include "text/jinja/values/jinja_operator.h"
#include "text/jinja/values/jinja_print.h"

/* --- arguments -------------------------------------------------------------------------------------------------- */

static JinjaDict *starred_dict(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value = jinja_evaluate(run, scope, node);

    if (value.type != JINJA_DICT)
        jinja_fail(run, "what stands behind '**' must be a dict, not '%s'", jinja_type_name(value));
    for (uint32_t i = 0; i < value.dict->n; i++)
        if (value.dict->keys[i].type != JINJA_TEXT)
            jinja_fail(run, "keys of what stands behind '**' must be strings");
    return value.dict;
}

JinjaArguments jinja_evaluate_arguments(JinjaRun *run, JinjaScope *scope, const JinjaArgumentNodes *nodes,
                                        const JinjaText *extra_name, const JinjaValue *extra) {
    static const JinjaArgumentNodes nothing = { 0 };
    const JinjaText **names;
    JinjaValue *items, *named;
    JinjaList list = { 0 };
    JinjaDict *dict = NULL;
    uint32_t n = 0, n_named = 0;

    nodes = nodes ? nodes : &nothing;
    if (!nodes->n && !nodes->n_named && !nodes->list && !nodes->dict && !extra)
        return (JinjaArguments){ 0 };
    if (nodes->list)
        list = jinja_items(run, jinja_evaluate(run, scope, nodes->list));
    if (nodes->dict)
        dict = starred_dict(run, scope, nodes->dict);
    items = jinja_take(run, (size_t)nodes->n + list.n + 1, sizeof(*items));
    named = jinja_take(run, (size_t)nodes->n_named + (dict ? dict->n : 0) + 1, sizeof(*named));
    names = jinja_take(run, (size_t)nodes->n_named + (dict ? dict->n : 0) + 1, sizeof(JinjaText *));
    for (uint32_t i = 0; i < nodes->n; i++)
        items[n++] = jinja_evaluate(run, scope, nodes->items[i]);
    for (uint32_t i = 0; i < list.n; i++)
        items[n++] = list.items[i];
    for (uint32_t i = 0; i < nodes->n_named; i++, n_named++) {
        names[n_named] = nodes->names[i];
        named[n_named] = jinja_evaluate(run, scope, nodes->named[i]);
    }
    for (uint32_t i = 0; dict && i < dict->n; i++, n_named++) {
        names[n_named] = dict->keys[i].text;
        named[n_named] = dict->values[i];
    }
    if (extra) {
        names[n_named] = extra_name;
        named[n_named++] = *extra;
    }
    return (JinjaArguments){ .items = items, .n = n, .names = names, .named = named, .n_named = n_named };
}

static JinjaArguments arguments_of(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaArguments arguments = jinja_evaluate_arguments(run, scope, node->arguments, NULL, NULL);

    run->line = node->line;
    return arguments;
}

/* --- lists, dicts, texts ---------------------------------------------------------------------------------------- */

static JinjaValue evaluate_items(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue list = jinja_list_new(run, node->kind == JINJA_NODE_TUPLE ? JINJA_TUPLE : JINJA_LIST, node->n_items);

    for (uint32_t i = 0; i < node->n_items; i++)
        list.list->items[i] = jinja_evaluate(run, scope, node->items[i]);
    return list;
}

static JinjaValue evaluate_dict(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue dict = jinja_dict_new(run, JINJA_DICT), key;

    for (uint32_t i = 0; i + 1 < node->n_items; i += 2) {
        key = jinja_evaluate(run, scope, node->items[i]);
        jinja_dict_set(run, dict.dict, key, jinja_evaluate(run, scope, node->items[i + 1]));
    }
    return dict;
}

static JinjaValue evaluate_concat(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    /* The first item may be a text that grows, which is continued in place. */
    const JinjaText *text = jinja_to_text(run, jinja_evaluate(run, scope, node->items[0]));
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    for (uint32_t i = 1; i < node->n_items; i++)
        jinja_write_value(&writer, jinja_evaluate(run, scope, node->items[i]));
    return jinja_str(jinja_text_concat(run, text, jinja_writer_finish(&writer)));
}

/* --- operators -------------------------------------------------------------------------------------------------- */

static bool compare_one(JinjaRun *run, JinjaOperator op, JinjaValue a, JinjaValue b) {
    static const char *const names[] = {
        [JINJA_LESS] = "<", [JINJA_LESS_EQUAL] = "<=", [JINJA_GREATER] = ">", [JINJA_GREATER_EQUAL] = ">="
    };
    int order;

    switch (op) {
    case JINJA_EQUAL:
        return jinja_equal(run, a, b);
    case JINJA_NOT_EQUAL:
        return !jinja_equal(run, a, b);
    case JINJA_IN:
        return jinja_contains(run, b, a);
    case JINJA_NOT_IN:
        return !jinja_contains(run, b, a);
    default:
        order = jinja_compare(run, a, b, names[op]);
        return order != 2 && (op == JINJA_LESS         ? order < 0
                              : op == JINJA_LESS_EQUAL ? order <= 0
                              : op == JINJA_GREATER    ? order > 0
                                                       : order >= 0);
    }
}

static JinjaValue evaluate_compare(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue left = jinja_evaluate(run, scope, node->a), right;
    bool passed = true;

    for (uint32_t i = 0; i < node->n_items && passed; i++, left = right) {
        right = jinja_evaluate(run, scope, node->items[i]->a);
        run->line = node->line;
        passed = compare_one(run, node->items[i]->op, left, right);
    }
    return jinja_bool(passed);
}

static JinjaValue evaluate_binary(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue a = jinja_evaluate(run, scope, node->a), b = jinja_evaluate(run, scope, node->b);

    run->line = node->line;
    return jinja_operate(run, node->op, a, b);
}

static JinjaValue evaluate_if_else(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    if (jinja_truth(jinja_evaluate(run, scope, node->b)))
        return jinja_evaluate(run, scope, node->a);
    if (node->c)
        return jinja_evaluate(run, scope, node->c);
    return jinja_undefined(run, "an inline 'if' on line %u was false and has no 'else'", node->line);
}

static JinjaValue evaluate_sign(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value = jinja_evaluate(run, scope, node->a);

    run->line = node->line;
    return jinja_negate(run, value, node->kind == JINJA_NODE_NEGATE);
}

/* --- members, calls, filters ------------------------------------------------------------------------------------ */

static JinjaValue evaluate_item(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue object = jinja_evaluate(run, scope, node->a), key = jinja_evaluate(run, scope, node->b);

    run->line = node->line;
    return jinja_item(run, object, key);
}

static JinjaValue evaluate_attribute(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue object = jinja_evaluate(run, scope, node->a);

    run->line = node->line;
    return jinja_attribute(run, object, node->text);
}

static JinjaValue evaluate_slice(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue object = jinja_evaluate(run, scope, node->a), bounds[3];

    for (uint32_t i = 0; i < 3; i++)
        bounds[i] = node->items[i] ? jinja_evaluate(run, scope, node->items[i]) : JINJA_NO_VALUE;
    run->line = node->line;
    return jinja_slice(run, object, bounds);
}

static JinjaValue evaluate_call(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue callee = jinja_evaluate(run, scope, node->a);
    JinjaArguments arguments = arguments_of(run, scope, node);

    return run->call(run, callee, &arguments);
}

static JinjaValue evaluate_filter(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue subject = jinja_evaluate(run, scope, node->a);
    JinjaArguments arguments = arguments_of(run, scope, node);

    return jinja_filter_call(run, node->text, node->builtin, subject, &arguments);
}

static JinjaValue evaluate_test(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue subject = jinja_evaluate(run, scope, node->a);
    JinjaArguments arguments = arguments_of(run, scope, node);

    return jinja_bool(jinja_test_call(run, node->text, node->builtin, subject, &arguments));
}

/* Filters of a block are a chain that begins with the node of the block's text. */
JinjaValue jinja_filter_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *filters, JinjaValue hole) {
    JinjaArguments arguments;
    JinjaValue subject = hole;

    jinja_enter(run);
    if (filters->a->kind != JINJA_NODE_HOLE)
        subject = jinja_filter_text(run, scope, filters->a, hole);
    arguments = jinja_evaluate_arguments(run, scope, filters->arguments, NULL, NULL);
    subject = jinja_filter_call(run, filters->text, filters->builtin, subject, &arguments);
    jinja_leave(run);
    return subject;
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

static JinjaValue evaluate_here(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;

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
    case JINJA_NODE_NOT:
        return jinja_bool(!jinja_truth(jinja_evaluate(run, scope, node->a)));
    case JINJA_NODE_NEGATE:
    case JINJA_NODE_PLUS:
        return evaluate_sign(run, scope, node);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        value = jinja_evaluate(run, scope, node->a);
        return jinja_truth(value) == (node->kind == JINJA_NODE_OR) ? value : jinja_evaluate(run, scope, node->b);
    case JINJA_NODE_BINARY:
        return evaluate_binary(run, scope, node);
    case JINJA_NODE_CONCAT:
        return evaluate_concat(run, scope, node);
    case JINJA_NODE_COMPARE:
        return evaluate_compare(run, scope, node);
    case JINJA_NODE_IF_ELSE:
        return evaluate_if_else(run, scope, node);
    case JINJA_NODE_ATTRIBUTE:
        return evaluate_attribute(run, scope, node);
    case JINJA_NODE_ITEM:
        return evaluate_item(run, scope, node);
    case JINJA_NODE_SLICE:
        return evaluate_slice(run, scope, node);
    case JINJA_NODE_CALL:
        return evaluate_call(run, scope, node);
    case JINJA_NODE_FILTER:
        return evaluate_filter(run, scope, node);
    default: /* the parser puts no statement here */
        return evaluate_test(run, scope, node);
    }
}

JinjaValue jinja_evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node) {
    JinjaValue value;

    jinja_enter(run);
    run->line = node->line;
    jinja_spend(run, 1);
    value = evaluate_here(run, scope, node);
    jinja_leave(run);
    return value;
}
