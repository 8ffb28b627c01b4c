// SPDX-License-Identifier: Apache-2.0
/* Expressions. */
#include <errno.h>

#include "text/jinja/jinja_eval.h"

/* --- arguments -------------------------------------------------------------------------------------------------- */

/* *list and **dict behind those that were written. */
static int add_starred(JinjaRun *run, JinjaScope *scope, const JinjaArgumentNodes *nodes, JinjaList *listp,
                       JinjaDict **dictp) {
    JinjaValue value;
    int r = 0;

    *listp = (JinjaList){ 0 };
    *dictp = NULL;
    if (nodes->list) {
        r = jinja_evaluate(run, scope, nodes->list, &value);
        if (!r)
            r = jinja_items(run, value, listp);
    }
    if (!r && nodes->dict) {
        r = jinja_evaluate(run, scope, nodes->dict, &value);
        if (!r && value.type != JINJA_DICT)
            return jinja_fail(run, "what stands behind '**' must be a dict, not '%s'", jinja_type_name(value));
        if (!r)
            *dictp = value.dict;
    }
    return r;
}

static int add_named(JinjaRun *run, const JinjaDict *dict, const JinjaText **names, JinjaValue *named,
                     JinjaArguments *arguments) {
    for (uint32_t i = 0; i < dict->n; i++) {
        if (dict->keys[i].type != JINJA_TEXT)
            return jinja_fail(run, "keys of what stands behind '**' must be strings");
        names[arguments->n_named] = dict->keys[i].text;
        named[arguments->n_named++] = dict->values[i];
    }
    return 0;
}

/* With room for n_more_named behind the named ones. */
int jinja_evaluate_arguments(JinjaRun *run, JinjaScope *scope, const JinjaArgumentNodes *nodes,
                             JinjaArguments *arguments, uint32_t n_more_named) {
    static const JinjaArgumentNodes nothing = { 0 };
    const JinjaText **names;
    JinjaValue *items, *named;
    JinjaDict *dict;
    JinjaList list;
    uint32_t n_items, n_named;
    int r;

    nodes = nodes ? nodes : &nothing;
    *arguments = (JinjaArguments){ 0 };
    if (!nodes->n && !nodes->n_named && !nodes->list && !nodes->dict && !n_more_named)
        return 0;
    r = add_starred(run, scope, nodes, &list, &dict);
    if (r)
        return r;
    n_items = nodes->n + list.n;
    n_named = nodes->n_named + (dict ? dict->n : 0) + n_more_named;
    items = jinja_take(run, (size_t)n_items + n_named + 1, sizeof(*items));
    names = jinja_take(run, (size_t)n_named + 1, sizeof(JinjaText *));
    if (!items || !names)
        return jinja_fail_memory(run);
    named = items + n_items;
    for (uint32_t i = 0; i < nodes->n && !r; i++)
        r = jinja_evaluate(run, scope, nodes->items[i], &items[i]);
    for (uint32_t i = 0; i < list.n && !r; i++)
        items[nodes->n + i] = list.items[i];
    for (uint32_t i = 0; i < nodes->n_named && !r; i++) {
        names[i] = nodes->names[i];
        r = jinja_evaluate(run, scope, nodes->named[i], &named[i]);
    }
    *arguments =
        (JinjaArguments){ .items = items, .n = n_items, .names = names, .named = named, .n_named = nodes->n_named };
    return r || !dict ? r : add_named(run, dict, names, named, arguments);
}

/* --- values of several ------------------------------------------------------------------------------------------ */

static int evaluate_items(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue list;
    int r = jinja_list_new(run, node->kind == JINJA_NODE_TUPLE ? JINJA_TUPLE : JINJA_LIST, node->n_items, &list);

    for (uint32_t i = 0; i < node->n_items && !r; i++)
        r = jinja_evaluate(run, scope, node->items[i], &list.list->items[i]);
    *valuep = list;
    return r;
}

static int evaluate_dict(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue dict, key, value;
    int r = jinja_dict_new(run, JINJA_DICT, &dict);

    for (uint32_t i = 0; i + 1 < node->n_items && !r; i += 2) {
        r = jinja_evaluate(run, scope, node->items[i], &key);
        if (!r)
            r = jinja_evaluate(run, scope, node->items[i + 1], &value);
        if (!r)
            r = jinja_dict_set(run, dict.dict, key, value);
    }
    *valuep = dict;
    return r;
}

static int evaluate_concat(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaWriter writer;
    JinjaValue value;

    /* The first may be a text that grows: it goes on where it is. */
    const JinjaText *text = NULL;
    int r = jinja_evaluate(run, scope, node->items[0], &value);

    if (!r)
        r = jinja_to_text(run, value, &text);
    if (r)
        return r;
    jinja_writer_init(&writer, run);
    for (uint32_t i = 1; i < node->n_items && !r; i++) {
        r = jinja_evaluate(run, scope, node->items[i], &value);
        if (!r) {
            jinja_write_value(&writer, value);
            r = writer.failure;
        }
    }
    if (!r)
        r = jinja_writer_finish(&writer, &value);
    return r ? r : jinja_text_concat(run, text, value.text, valuep);
}

/* --- operators -------------------------------------------------------------------------------------------------- */

static int compare_one(JinjaRun *run, JinjaOperator op, JinjaValue a, JinjaValue b, bool *passedp) {
    static const char *const names[] = {
        [JINJA_LESS] = "<", [JINJA_LESS_EQUAL] = "<=", [JINJA_GREATER] = ">", [JINJA_GREATER_EQUAL] = ">="
    };
    int order, r;

    switch (op) {
    case JINJA_EQUAL:
    case JINJA_NOT_EQUAL:
        r = jinja_equal(run, a, b, passedp);
        *passedp = *passedp == (op == JINJA_EQUAL);
        return r;
    case JINJA_IN:
    case JINJA_NOT_IN:
        r = jinja_contains(run, b, a, passedp);
        *passedp = *passedp == (op == JINJA_IN);
        return r;
    default:
        r = jinja_compare(run, a, b, names[op], &order);
        *passedp = order != 2 && (op == JINJA_LESS         ? order < 0
                                  : op == JINJA_LESS_EQUAL ? order <= 0
                                  : op == JINJA_GREATER    ? order > 0
                                                           : order >= 0);
        return r;
    }
}

static int evaluate_compare(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue left, right;
    bool passed = true;
    int r = jinja_evaluate(run, scope, node->a, &left);

    for (uint32_t i = 0; i < node->n_items && !r && passed; i++) {
        r = jinja_evaluate(run, scope, node->items[i], &right);
        if (r)
            return r;
        run->line = node->line;
        r = compare_one(run, node->operators[i], left, right, &passed);
        left = right;
    }
    *valuep = jinja_bool(passed);
    return r;
}

static int evaluate_binary(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue a, b;
    int r = jinja_evaluate(run, scope, node->a, &a);

    if (!r)
        r = jinja_evaluate(run, scope, node->b, &b);
    if (r)
        return r;
    run->line = node->line;
    return jinja_operate(run, (int)node->op, a, b, valuep);
}

static int evaluate_and_or(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    int r = jinja_evaluate(run, scope, node->a, valuep);

    if (r || jinja_truth(*valuep) == (node->kind == JINJA_NODE_OR))
        return r;
    return jinja_evaluate(run, scope, node->b, valuep);
}

static int evaluate_if_else(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue passes;
    int r = jinja_evaluate(run, scope, node->b, &passes);

    if (r)
        return r;
    if (jinja_truth(passes))
        return jinja_evaluate(run, scope, node->a, valuep);
    if (node->c)
        return jinja_evaluate(run, scope, node->c, valuep);
    return jinja_undefined(run, valuep, "an inline 'if' on line %u was false and has no 'else'", node->line);
}

static int evaluate_unary(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue value;
    int r = jinja_evaluate(run, scope, node->a, &value);

    if (r)
        return r;
    if (node->kind == JINJA_NODE_NOT) {
        *valuep = jinja_bool(!jinja_truth(value));
        return 0;
    }
    run->line = node->line;
    return jinja_negate(run, value, node->kind == JINJA_NODE_NEGATE, valuep);
}

/* --- members, calls --------------------------------------------------------------------------------------------- */

static int evaluate_member(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue object, key;
    int r = jinja_evaluate(run, scope, node->a, &object);

    if (!r && node->kind == JINJA_NODE_ITEM)
        r = jinja_evaluate(run, scope, node->b, &key);
    if (r)
        return r;
    run->line = node->line;
    if (node->kind == JINJA_NODE_ITEM)
        return jinja_item(run, object, key, valuep);
    return jinja_attribute(run, object, node->text, valuep);
}

static int evaluate_slice(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaValue object, bounds[3] = { JINJA_NO_VALUE, JINJA_NO_VALUE, JINJA_NO_VALUE };
    int r = jinja_evaluate(run, scope, node->a, &object);

    for (uint32_t i = 0; i < 3 && !r; i++)
        if (node->items[i])
            r = jinja_evaluate(run, scope, node->items[i], &bounds[i]);
    if (r)
        return r;
    run->line = node->line;
    return jinja_slice(run, object, bounds, valuep);
}

static int evaluate_call(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaArguments arguments;
    JinjaValue callee;
    int r = jinja_evaluate(run, scope, node->a, &callee);

    if (!r)
        r = jinja_evaluate_arguments(run, scope, node->arguments, &arguments, 0);
    if (r)
        return r;
    run->line = node->line;
    return jinja_call(run, callee, &arguments, valuep);
}

static int evaluate_filter(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaArguments arguments;
    JinjaValue subject;
    int r = jinja_evaluate(run, scope, node->a, &subject);

    if (!r)
        r = jinja_evaluate_arguments(run, scope, node->arguments, &arguments, 0);
    if (r)
        return r;
    run->line = node->line;
    return jinja_filter_call(run, node->text, node->builtin, subject, &arguments, valuep);
}

static int evaluate_test(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    JinjaArguments arguments;
    JinjaValue subject;
    bool passed = false;
    int r = jinja_evaluate(run, scope, node->a, &subject);

    if (!r)
        r = jinja_evaluate_arguments(run, scope, node->arguments, &arguments, 0);
    if (r)
        return r;
    run->line = node->line;
    r = jinja_test_call(run, node->text, node->builtin, subject, &arguments, &passed);
    *valuep = jinja_bool(passed);
    return r;
}

/* Filters of a block are a chain that ends in its text, which stands for the whole chain's beginning. */
int jinja_filter_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *filters, JinjaValue hole, JinjaValue *valuep) {
    JinjaArguments arguments;
    JinjaValue subject = hole;
    int r = jinja_enter(run);

    if (r)
        return r;
    if (filters->a->kind != JINJA_NODE_HOLE)
        r = jinja_filter_text(run, scope, filters->a, hole, &subject);
    if (!r)
        r = jinja_evaluate_arguments(run, scope, filters->arguments, &arguments, 0);
    if (!r)
        r = jinja_filter_call(run, filters->text, filters->builtin, subject, &arguments, valuep);
    jinja_leave(run);
    return r;
}

static int evaluate_name(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    const JinjaText *name = NULL;

    *valuep = jinja_lookup(run, scope, node->name);
    if (jinja_given(*valuep))
        return 0;
    name = run->template->names[node->name];
    return jinja_undefined(run, valuep, "'%.*s' is undefined", (int)name->len_bytes, name->data);
}

static int evaluate_here(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    switch (node->kind) {
    case JINJA_NODE_CONST:
        *valuep = node->value;
        return 0;
    case JINJA_NODE_NAME:
        return evaluate_name(run, scope, node, valuep);
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        return evaluate_items(run, scope, node, valuep);
    case JINJA_NODE_DICT:
        return evaluate_dict(run, scope, node, valuep);
    case JINJA_NODE_NOT:
    case JINJA_NODE_NEGATE:
    case JINJA_NODE_PLUS:
        return evaluate_unary(run, scope, node, valuep);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        return evaluate_and_or(run, scope, node, valuep);
    case JINJA_NODE_BINARY:
        return evaluate_binary(run, scope, node, valuep);
    case JINJA_NODE_CONCAT:
        return evaluate_concat(run, scope, node, valuep);
    case JINJA_NODE_COMPARE:
        return evaluate_compare(run, scope, node, valuep);
    case JINJA_NODE_IF_ELSE:
        return evaluate_if_else(run, scope, node, valuep);
    case JINJA_NODE_ATTRIBUTE:
    case JINJA_NODE_ITEM:
        return evaluate_member(run, scope, node, valuep);
    case JINJA_NODE_SLICE:
        return evaluate_slice(run, scope, node, valuep);
    case JINJA_NODE_CALL:
        return evaluate_call(run, scope, node, valuep);
    case JINJA_NODE_FILTER:
        return evaluate_filter(run, scope, node, valuep);
    case JINJA_NODE_TEST:
        return evaluate_test(run, scope, node, valuep);
    default:
        return err_raise(-ENOTRECOVERABLE); /* the parser puts no statement here */
    }
}

int jinja_evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep) {
    int r = jinja_enter(run);

    if (r)
        return r;
    run->line = node->line;
    r = jinja_spend(run, 1);
    if (!r)
        r = evaluate_here(run, scope, node, valuep);
    jinja_leave(run);
    return r;
}
