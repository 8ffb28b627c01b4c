// SPDX-License-Identifier: Apache-2.0
/* Filters of lists and dicts. They give an iterator where Python does: it has no length, and ends. */
#include <ctype.h>

#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/builtins/jinja_member.h"
#include "text/jinja/values/jinja_operator.h"
#include "text/jinja/values/jinja_print.h"

/* --- attributes by path ----------------------------------------------------------------------------------------- */

static JinjaValue or_fallback(JinjaValue value, JinjaValue fallback) {
    return value.type == JINJA_UNDEFINED && jinja_is_some(fallback) ? fallback : value;
}

/* Finds "a.b.0" of an item, as Jinja's make_attrgetter() does. No path: the item itself. */
static JinjaValue item_by_path(JinjaRun *run, JinjaValue item, JinjaValue path, JinjaValue fallback) {
    size_t from = 0;

    if (!jinja_is_some(path))
        return item;
    if (path.type != JINJA_TEXT)
        return or_fallback(jinja_item(run, item, path), fallback);
    for (;;) {
        const JinjaText *text = path.text, *key;
        const char *dot = memchr(text->data + from, '.', text->len_bytes - from);
        size_t to = dot ? (size_t)(dot - text->data) : text->len_bytes;
        JinjaValue index;

        key = jinja_text_slice(run, text, from, to);
        if (to == from || !isdigit((unsigned char)text->data[from]) || !jinja_number_read(key->data, to - from, &index))
            index = jinja_str(key);
        item = or_fallback(jinja_item(run, item, index), fallback);
        if (!dot)
            return item;
        from = to + 1;
    }
}

/* The value that is compared: an attribute, in lower case if case does not matter. */
static JinjaValue sort_key(JinjaRun *run, JinjaValue item, JinjaValue path, bool case_sensitive) {
    JinjaValue key = item_by_path(run, item, path, JINJA_NO_VALUE);

    return !case_sensitive && key.type == JINJA_TEXT ? jinja_str_lower(run, key, NULL) : key;
}

/* --- order ------------------------------------------------------------------------------------------------------ */

/* Sorts items by the key of one path. Each key is in a list: None and None, which have no order, are equal there. */
static JinjaValue sort_by_path(JinjaRun *run, const JinjaList *list, JinjaValue path, bool case_sensitive,
                               bool reverse) {
    JinjaSortItem *items = jinja_take(run, (size_t)list->n + 1, sizeof(*items));
    JinjaValue sorted = jinja_list_new(run, JINJA_LIST, list->n), key;

    for (uint32_t i = 0; i < list->n; i++) {
        key = jinja_list_new(run, JINJA_LIST, 1);
        key.list->items[0] = sort_key(run, list->items[i], path, case_sensitive);
        items[i] = (JinjaSortItem){ key, list->items[i] };
    }
    items = jinja_sort(run, items, list->n, reverse);
    for (uint32_t i = 0; i < list->n; i++)
        sorted.list->items[i] = items[i].item;
    return sorted;
}

JinjaValue jinja_filter_sort(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list = jinja_items(run, self);

    if (values[2].type == JINJA_TEXT && memchr(values[2].text->data, ',', values[2].text->len_bytes))
        jinja_fail(run, "filter 'sort': several attributes are not supported in chat templates");
    return sort_by_path(run, &list, values[2], jinja_is_set(values[1]), jinja_is_set(values[0]));
}

JinjaValue jinja_filter_dictsort(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText by_key = JINJA_LITERAL("key");
    const JinjaText *by = jinja_take_text(run, values[1], "by", &by_key);
    JinjaValue pairs;

    jinja_check_defined(run, self);
    if (self.type != JINJA_DICT)
        jinja_fail(run, "filter 'dictsort' needs a dict, not '%s'", jinja_type_name(self));
    if (!jinja_text_is(by, "key") && !jinja_text_is(by, "value"))
        jinja_fail(run, "filter 'dictsort' sorts by \"key\" or \"value\" only");
    pairs = jinja_dict_view(run, self.dict, JINJA_VIEW_ITEMS, JINJA_LIST);
    return sort_by_path(run, pairs.list, jinja_int(jinja_text_is(by, "value")), jinja_is_set(values[0]),
                        jinja_is_set(values[2]));
}

static JinjaValue least_or_greatest(JinjaRun *run, JinjaValue self, const JinjaValue *values, int wanted) {
    JinjaList list = jinja_items(run, self);
    JinjaValue key, best = JINJA_NO_VALUE, found = JINJA_NO_VALUE;

    if (!list.n)
        return jinja_undefined(run, "no aggregated item, sequence was empty");
    for (uint32_t i = 0; i < list.n; i++) {
        key = sort_key(run, list.items[i], values[1], jinja_is_set(values[0]));
        if (i && jinja_compare(run, key, best, wanted < 0 ? "<" : ">") != wanted)
            continue;
        best = key;
        found = list.items[i];
    }
    return found;
}

JinjaValue jinja_filter_min(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return least_or_greatest(run, self, values, -1);
}

JinjaValue jinja_filter_max(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return least_or_greatest(run, self, values, 1);
}

JinjaValue jinja_filter_unique(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaValue seen = jinja_dict_new(run, JINJA_DICT), made;
    JinjaList list = jinja_items(run, self);

    made = jinja_list_room(run, JINJA_STREAM, list.n);
    for (uint32_t i = 0; i < list.n; i++) {
        uint32_t n = seen.dict->n;

        jinja_dict_set(run, seen.dict, sort_key(run, list.items[i], values[1], jinja_is_set(values[0])), JINJA_NOTHING);
        if (seen.dict->n > n)
            jinja_list_add(run, made.list, list.items[i]);
    }
    return made;
}

JinjaValue jinja_filter_reverse(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaValue bounds[3] = { JINJA_NOTHING, JINJA_NOTHING, jinja_int(-1) };
    JinjaValue made;
    JinjaList list;

    if (self.type == JINJA_TEXT)
        return jinja_slice(run, self, bounds);
    list = jinja_items(run, self);
    /* A stream has no order of its own: Python makes a list of it first, which the result stays. */
    made = jinja_list_room(run, self.type == JINJA_STREAM ? JINJA_LIST : JINJA_STREAM, list.n);
    for (uint32_t i = list.n; i-- > 0;)
        jinja_list_add(run, made.list, list.items[i]);
    return made;
}

/* --- parts ------------------------------------------------------------------------------------------------------ */

JinjaValue jinja_filter_first(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list;

    if (self.type == JINJA_STREAM && self.list->at < self.list->n)
        return self.list->items[self.list->at++]; /* the others stay in the stream */
    if (self.type == JINJA_TEXT && self.text->len_bytes)
        return jinja_item(run, self, jinja_int(0));
    list = jinja_items(run, self);
    return list.n ? list.items[0] : jinja_undefined(run, "no first item, sequence was empty");
}

JinjaValue jinja_filter_last(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list;

    if (self.type == JINJA_STREAM)
        jinja_fail(run, "a generator has no last item: '|list' makes a list of it");
    if (self.type == JINJA_TEXT && self.text->len_bytes)
        return jinja_item(run, self, jinja_int(-1));
    list = jinja_items(run, self);
    return list.n ? list.items[list.n - 1] : jinja_undefined(run, "no last item, sequence was empty");
}

JinjaValue jinja_filter_list(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list = jinja_items(run, self);
    JinjaValue made = jinja_list_room(run, JINJA_LIST, 0);

    made.list->items = list.items;
    made.list->n = made.list->room = list.n;
    return made;
}

JinjaValue jinja_filter_items(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    if (self.type == JINJA_UNDEFINED)
        return jinja_list_room(run, JINJA_STREAM, 0);
    if (self.type != JINJA_DICT)
        jinja_fail(run, "can only get item pairs from a mapping, not '%s'", jinja_type_name(self));
    return jinja_dict_view(run, self.dict, JINJA_VIEW_ITEMS, JINJA_STREAM);
}

JinjaValue jinja_filter_join(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    static const JinjaText nothing = JINJA_LITERAL("");
    const JinjaText *separator = jinja_given(values[0]) ? jinja_to_text(run, values[0]) : &nothing;
    JinjaList list = jinja_items(run, self);
    JinjaWriter writer;

    jinja_writer_init(&writer, run);
    for (uint32_t i = 0; i < list.n; i++) {
        jinja_spend(run, 1);
        if (i)
            jinja_write(&writer, separator);
        jinja_write_value(&writer, item_by_path(run, list.items[i], values[1], JINJA_NO_VALUE));
    }
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_str_join(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list = jinja_items(run, values[0]);

    for (uint32_t i = 0; i < list.n; i++)
        if (list.items[i].type != JINJA_TEXT)
            jinja_fail(run, "join(): item %u is no string, but '%s'", i, jinja_type_name(list.items[i]));
    return jinja_filter_join(run, (JinjaValue){ .type = JINJA_LIST, .list = &list },
                             (JinjaValue[]){ self, JINJA_NO_VALUE });
}

JinjaValue jinja_filter_sum(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaValue sum = jinja_int(0);
    JinjaList list = jinja_items(run, self);

    for (uint32_t i = 0; i < list.n; i++)
        sum = jinja_operate(run, JINJA_ADD, sum, item_by_path(run, list.items[i], values[0], JINJA_NO_VALUE));
    return sum;
}

/* --- map, select ------------------------------------------------------------------------------------------------ */

static JinjaArguments without_first(const JinjaArguments *arguments, uint32_t n) {
    JinjaArguments rest = *arguments;

    rest.items += n;
    rest.n -= n;
    return rest;
}

/* map(attribute=..., default=...). */
static void map_attribute(JinjaRun *run, const JinjaList *list, const JinjaArguments *arguments, JinjaList *made) {
    JinjaValue path = JINJA_NO_VALUE, fallback = JINJA_NO_VALUE;

    for (uint32_t i = 0; i < arguments->n_named; i++) {
        if (jinja_text_is(arguments->names[i], "attribute"))
            path = arguments->named[i];
        else if (jinja_text_is(arguments->names[i], "default"))
            fallback = arguments->named[i];
        else
            jinja_fail(run, "filter 'map' takes no argument '%.*s'", (int)arguments->names[i]->len_bytes,
                       arguments->names[i]->data);
    }
    if (!jinja_given(path))
        jinja_fail(run, "filter 'map' needs the name of a filter, or an attribute");
    for (uint32_t i = 0; i < list->n; i++)
        jinja_list_add(run, made, item_by_path(run, list->items[i], path, fallback));
}

JinjaValue jinja_filter_map(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    JinjaValue made = jinja_list_room(run, JINJA_STREAM, 0);
    const JinjaBuiltin *filter;
    const JinjaText *name;
    JinjaArguments rest;
    JinjaList list;

    if (!jinja_truth(self))
        return made;
    list = jinja_items(run, self);
    if (!arguments->n) {
        map_attribute(run, &list, arguments, made.list);
        return made;
    }
    name = jinja_take_text(run, arguments->items[0], "the name of the filter", NULL);
    filter = jinja_builtin_find(JINJA_FILTERS, name);
    rest = without_first(arguments, 1);
    jinja_enter(run);
    for (uint32_t i = 0; i < list.n; i++) {
        jinja_spend(run, 1);
        jinja_list_add(run, made.list, jinja_filter_call(run, name, filter, list.items[i], &rest));
    }
    jinja_leave(run);
    return made;
}

static JinjaValue choose(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, bool by_attribute,
                         bool wanted) {
    JinjaValue made = jinja_list_room(run, JINJA_STREAM, 0);
    const uint32_t n_before = by_attribute ? 1 : 0;
    const JinjaText *name = NULL;
    const JinjaBuiltin *test = NULL;
    JinjaArguments rest = { 0 };
    JinjaList list;

    if (!jinja_truth(self))
        return made;
    if (arguments->n < n_before)
        jinja_fail(run, "the name of an attribute is missing");
    if (arguments->n > n_before) {
        name = jinja_take_text(run, arguments->items[n_before], "the name of the test", NULL);
        test = jinja_builtin_find(JINJA_TESTS, name);
        rest = without_first(arguments, n_before + 1);
    }
    list = jinja_items(run, self);
    for (uint32_t i = 0; i < list.n; i++) {
        JinjaValue item = list.items[i];

        jinja_spend(run, 1);
        if (by_attribute)
            item = item_by_path(run, item, arguments->items[0], JINJA_NO_VALUE);
        if ((name ? jinja_test_call(run, name, test, item, &rest) : jinja_truth(item)) == wanted)
            jinja_list_add(run, made.list, list.items[i]);
    }
    return made;
}

#define CHOOSE_FILTER(name, by_attribute, wanted)                                                                      \
    JinjaValue jinja_filter_##name(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {                  \
        return choose(run, self, arguments, by_attribute, wanted);                                                     \
    }

CHOOSE_FILTER(select, false, true)
CHOOSE_FILTER(reject, false, false)
CHOOSE_FILTER(selectattr, true, true)
CHOOSE_FILTER(rejectattr, true, false)
