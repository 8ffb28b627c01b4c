// SPDX-License-Identifier: Apache-2.0
/* Filters of lists and dicts. Where Python gives an iterator, so do these: it has no length, and ends. */
#include "base/strings/printable.h"
#include "text/jinja/jinja_builtin.h"

static bool is_set(JinjaValue value) {
    return jinja_given(value) && jinja_truth(value);
}

/* A list that grows no further than n items. */
static int new_items(JinjaRun *run, JinjaType type, uint32_t n, JinjaValue *valuep) {
    int r = jinja_list_new(run, type, n, valuep);

    if (!r)
        valuep->list->n = 0;
    return r;
}

static void add_item(JinjaValue *list, JinjaValue item) {
    list->list->items[list->list->n++] = item;
}

/* --- attributes by path ----------------------------------------------------------------------------------------- */

/* "a.b.0" of an item, as Jinja's make_attrgetter(). */
static int item_by_path(JinjaRun *run, JinjaValue item, JinjaValue path, JinjaValue fallback, JinjaValue *valuep) {
    size_t from = 0;
    int r = 0;

    *valuep = item;
    if (!jinja_given(path) || path.type == JINJA_NONE)
        return 0;
    if (path.type != JINJA_TEXT) {
        r = jinja_item(run, item, path, valuep);
        if (!r && valuep->type == JINJA_UNDEFINED && jinja_given(fallback) && fallback.type != JINJA_NONE)
            *valuep = fallback;
        return r;
    }
    for (;;) {
        const JinjaText *text = path.text;
        const char *dot = memchr(text->data + from, '.', text->len_bytes - from);
        size_t to = dot ? (size_t)(dot - text->data) : text->len_bytes;
        JinjaValue key;
        int64_t index;
        bool is_number = false;

        r = jinja_text_slice(run, text, from, to, &key);
        if (!r && to > from && text->data[from] >= '0' && text->data[from] <= '9')
            r = jinja_text_to_int(run, key.text, 10, &is_number, &index);
        if (!r)
            r = jinja_item(run, *valuep, is_number ? jinja_int(index) : key, valuep);
        if (!r && valuep->type == JINJA_UNDEFINED && jinja_given(fallback) && fallback.type != JINJA_NONE)
            *valuep = fallback;
        if (r || !dot)
            return r;
        from = to + 1;
    }
}

/* What is compared: an attribute, in lower case if case does not matter. */
static int sort_key(JinjaRun *run, JinjaValue item, JinjaValue path, JinjaValue fallback, bool case_sensitive,
                    JinjaValue *keyp) {
    int r = item_by_path(run, item, path, fallback, keyp);

    if (!r && !case_sensitive && keyp->type == JINJA_TEXT)
        r = jinja_text_convert(run, keyp->text, JINJA_CASE_LOWER, keyp);
    return r;
}

/* Attributes with commas between: a list of what they are. */
static int sort_keys(JinjaRun *run, JinjaValue item, JinjaValue paths, bool case_sensitive, JinjaValue *keyp) {
    size_t from = 0, n = 1;
    JinjaValue keys;
    int r;

    /* A list in any case: what is equal has an order then, as None and None, which are not compared. */
    if (paths.type != JINJA_TEXT) {
        r = new_items(run, JINJA_LIST, 1, keyp);
        if (!r)
            r = sort_key(run, item, paths, JINJA_NO_VALUE, case_sensitive, keyp->list->items);
        keyp->list->n = 1;
        return r;
    }
    for (size_t i = 0; i < paths.text->len_bytes; i++)
        n += paths.text->data[i] == ',';
    r = new_items(run, JINJA_LIST, (uint32_t)n, &keys);
    for (size_t i = 0; i < n && !r; i++) {
        const char *comma = memchr(paths.text->data + from, ',', paths.text->len_bytes - from);
        size_t to = comma ? (size_t)(comma - paths.text->data) : paths.text->len_bytes;
        JinjaValue path, key;

        r = jinja_text_slice(run, paths.text, from, to, &path);
        if (!r)
            r = sort_key(run, item, path, JINJA_NO_VALUE, case_sensitive, &key);
        if (!r)
            add_item(&keys, key);
        from = to + 1;
    }
    *keyp = keys;
    return r;
}

/* --- order ------------------------------------------------------------------------------------------------------ */

typedef struct SortItem {
    JinjaValue key, item;
} SortItem;

/* Stable, by merging; whether the right one goes first. */
static int goes_first(JinjaRun *run, const SortItem *right, const SortItem *left, bool reverse, bool *firstp) {
    int order, r = reverse ? jinja_compare(run, left->key, right->key, "<", &order)
                           : jinja_compare(run, right->key, left->key, "<", &order);

    *firstp = order == -1;
    return r;
}

static int sort_items(JinjaRun *run, SortItem **itemsp, uint32_t n, bool reverse) {
    SortItem *from = *itemsp, *to = jinja_take(run, (size_t)n + 1, sizeof(*to));

    if (!to)
        return jinja_fail_memory(run);
    for (uint64_t width = 1; width < n; width *= 2) {
        SortItem *other = from;

        for (uint64_t begin = 0; begin < n; begin += 2 * width) {
            uint64_t middle = begin + width < n ? begin + width : n,
                     end = begin + 2 * width < n ? begin + 2 * width : n, a = begin, b = middle;

            for (uint64_t i = begin; i < end; i++) {
                bool right = a == middle;

                if (a < middle && b < end) {
                    int r = goes_first(run, &from[b], &from[a], reverse, &right);

                    if (r)
                        return r;
                }
                to[i] = right ? from[b++] : from[a++];
            }
        }
        from = to;
        to = other;
    }
    *itemsp = from;
    return 0;
}

/* The items with their keys, sorted. */
static int sorted_items(JinjaRun *run, const JinjaList *list, JinjaValue paths, JinjaValue fallback, bool one_path,
                        bool case_sensitive, bool reverse, SortItem **itemsp) {
    SortItem *items = jinja_take(run, (size_t)list->n + 1, sizeof(*items));
    int r = 0;

    if (!items)
        return jinja_fail_memory(run);
    for (uint32_t i = 0; i < list->n && !r; i++) {
        items[i].item = list->items[i];
        r = one_path ? sort_key(run, list->items[i], paths, fallback, case_sensitive, &items[i].key)
                     : sort_keys(run, list->items[i], paths, case_sensitive, &items[i].key);
    }
    *itemsp = items;
    return r ? r : sort_items(run, itemsp, list->n, reverse);
}

static int filter_sort(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    SortItem *items = NULL;
    JinjaList list;
    int r = jinja_items(run, self, &list);

    if (!r)
        r = sorted_items(run, &list, values[2], JINJA_NO_VALUE, false, is_set(values[1]), is_set(values[0]), &items);
    if (!r)
        r = new_items(run, JINJA_LIST, list.n, valuep);
    for (uint32_t i = 0; i < list.n && !r; i++)
        add_item(valuep, items[i].item);
    return r;
}

static int filter_dictsort(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaValue pairs, by = jinja_int(0);
    SortItem *items = NULL;
    int r;

    if (self.type != JINJA_DICT)
        return self.type == JINJA_UNDEFINED
                   ? jinja_fail_undefined(run, self)
                   : jinja_fail(run, "filter 'dictsort' needs a dict, not '%s'", jinja_type_name(self));
    if (jinja_given(values[1])) {
        if (values[1].type != JINJA_TEXT ||
            !(jinja_text_is(values[1].text, "key") || jinja_text_is(values[1].text, "value")))
            return jinja_fail(run, "filter 'dictsort' sorts by \"key\" or \"value\" only");
        by = jinja_int(jinja_text_is(values[1].text, "value"));
    }
    r = jinja_dict_view(run, self.dict, JINJA_VIEW_ITEMS, JINJA_LIST, &pairs);
    if (!r)
        r = sorted_items(run, pairs.list, by, JINJA_NO_VALUE, true, is_set(values[0]), is_set(values[2]), &items);
    for (uint32_t i = 0; !r && i < pairs.list->n; i++)
        pairs.list->items[i] = items[i].item;
    *valuep = pairs;
    return r;
}

static int filter_groupby(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool case_sensitive = is_set(values[2]);
    SortItem *items = NULL;
    JinjaValue group, pair;
    JinjaList list;
    int r = jinja_items(run, self, &list);

    if (!r)
        r = sorted_items(run, &list, values[0], values[1], true, case_sensitive, false, &items);
    if (!r)
        r = new_items(run, JINJA_LIST, list.n, valuep);
    for (uint32_t i = 0; i < list.n && !r; i++) {
        bool same = false;

        if (i)
            r = jinja_equal(run, items[i - 1].key, items[i].key, &same);
        if (!r && !same) {
            r = new_items(run, JINJA_LIST, list.n - i, &group);
            if (!r)
                r = jinja_list_new(run, JINJA_TUPLE, 2, &pair);
            if (!r)
                r = item_by_path(run, items[i].item, values[0], values[1], &pair.list->items[0]);
            if (r)
                break;
            pair.list->items[1] = group;
            add_item(valuep, pair);
        }
        if (!r)
            add_item(&group, items[i].item);
    }
    return r;
}

static int least_or_greatest(JinjaRun *run, JinjaValue self, const JinjaValue *values, int wanted, JinjaValue *valuep) {
    JinjaValue key, best;
    JinjaList list;
    int order, r = jinja_items(run, self, &list);

    if (!r && !list.n)
        return jinja_undefined(run, valuep, "no aggregated item, sequence was empty");
    for (uint32_t i = 0; i < list.n && !r; i++) {
        r = sort_key(run, list.items[i], values[1], JINJA_NO_VALUE, is_set(values[0]), &key);
        order = wanted;
        if (!r && i)
            r = wanted < 0 ? jinja_compare(run, key, best, "<", &order) : jinja_compare(run, key, best, ">", &order);
        if (!r && order == wanted) {
            best = key;
            *valuep = list.items[i];
        }
    }
    return r;
}

static int filter_min(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return least_or_greatest(run, self, values, -1, valuep);
}

static int filter_max(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return least_or_greatest(run, self, values, 1, valuep);
}

static int filter_unique(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaValue seen, key;
    JinjaList list;
    int r = jinja_items(run, self, &list);

    if (!r)
        r = jinja_dict_new(run, JINJA_DICT, &seen);
    if (!r)
        r = new_items(run, JINJA_STREAM, list.n, valuep);
    for (uint32_t i = 0; i < list.n && !r; i++) {
        uint32_t n = seen.dict->n;

        r = sort_key(run, list.items[i], values[1], JINJA_NO_VALUE, is_set(values[0]), &key);
        if (!r)
            r = jinja_dict_set(run, seen.dict, key, JINJA_NOTHING);
        if (!r && seen.dict->n > n)
            add_item(valuep, list.items[i]);
    }
    return r;
}

static int filter_reverse(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaValue bounds[3] = { JINJA_NOTHING, JINJA_NOTHING, jinja_int(-1) };
    JinjaList list;
    int r;

    if (self.type == JINJA_TEXT)
        return jinja_slice(run, self, bounds, valuep);
    r = jinja_items(run, self, &list);
    /* What has no order of its own becomes a list first, which stays one. */
    if (!r)
        r = new_items(run, self.type == JINJA_STREAM ? JINJA_LIST : JINJA_STREAM, list.n, valuep);
    for (uint32_t i = list.n; i-- > 0 && !r;)
        add_item(valuep, list.items[i]);
    return r;
}

/* --- parts ------------------------------------------------------------------------------------------------------ */

static int filter_first(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaList list;
    int r;

    if (self.type == JINJA_STREAM) { /* the others stay in it */
        if (self.list->at == self.list->n)
            return jinja_undefined(run, valuep, "no first item, sequence was empty");
        *valuep = self.list->items[self.list->at++];
        return 0;
    }
    if (self.type == JINJA_TEXT && self.text->len_bytes)
        return jinja_item(run, self, jinja_int(0), valuep);
    r = jinja_items(run, self, &list);
    if (r || !list.n)
        return r ? r : jinja_undefined(run, valuep, "no first item, sequence was empty");
    *valuep = list.items[0];
    return 0;
}

static int filter_last(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaList list;
    int r;

    if (self.type == JINJA_STREAM)
        return jinja_fail(run, "a generator has no last item: '|list' makes a list of it");
    if (self.type == JINJA_TEXT && self.text->len_bytes)
        return jinja_item(run, self, jinja_int(-1), valuep);
    r = jinja_items(run, self, &list);
    if (r || !list.n)
        return r ? r : jinja_undefined(run, valuep, "no last item, sequence was empty");
    *valuep = list.items[list.n - 1];
    return 0;
}

static int filter_list(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaList list;
    int r = jinja_items(run, self, &list);

    if (!r)
        r = jinja_list_new(run, JINJA_LIST, 0, valuep);
    if (!r) {
        valuep->list->items = list.items;
        valuep->list->n = list.n;
    }
    return r;
}

static int filter_items(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    if (self.type == JINJA_UNDEFINED)
        return jinja_list_new(run, JINJA_STREAM, 0, valuep);
    if (self.type != JINJA_DICT)
        return jinja_fail(run, "can only get item pairs from a mapping, not '%s'", jinja_type_name(self));
    return jinja_dict_view(run, self.dict, JINJA_VIEW_ITEMS, JINJA_STREAM, valuep);
}

static int filter_batch(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool fills = jinja_given(values[1]) && values[1].type != JINJA_NONE;
    JinjaValue batch = JINJA_NO_VALUE;
    int64_t size = 0;
    JinjaList list;
    int r = jinja_take_int(run, values[0], "linecount", &size);

    if (!r)
        r = jinja_items(run, self, &list);
    if (!r && (size < 1 || size > INT32_MAX))
        return jinja_fail(run, "filter 'batch': linecount must be at least 1");
    if (!r)
        r = new_items(run, JINJA_STREAM, list.n, valuep);
    for (uint32_t i = 0; i < list.n && !r; i++) {
        if (i % size == 0) {
            r = new_items(run, JINJA_LIST, fills || list.n - i > size ? (uint32_t)size : list.n - i, &batch);
            if (r)
                break;
            add_item(valuep, batch);
        }
        add_item(&batch, list.items[i]);
    }
    while (!r && fills && list.n && batch.list->n < size)
        add_item(&batch, values[1]);
    return r;
}

static int filter_slice(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    bool fills = jinja_given(values[1]) && values[1].type != JINJA_NONE;
    int64_t n_slices = 0, at = 0;
    JinjaValue part;
    JinjaList list;
    int r = jinja_take_int(run, values[0], "slices", &n_slices);

    if (!r)
        r = jinja_items(run, self, &list);
    if (!r && (n_slices < 1 || n_slices > INT32_MAX))
        return jinja_fail(run, "filter 'slice': slices must be at least 1");
    if (!r)
        r = new_items(run, JINJA_STREAM, (uint32_t)n_slices, valuep);
    for (int64_t i = 0; i < n_slices && !r; i++) {
        int64_t n = list.n / n_slices + (i < list.n % n_slices);

        r = new_items(run, JINJA_LIST, (uint32_t)n + 1, &part);
        if (r)
            break;
        for (; n; n--)
            add_item(&part, list.items[at++]);
        if (fills && i >= list.n % n_slices)
            add_item(&part, values[1]);
        add_item(valuep, part);
    }
    return r;
}

static int filter_join(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    static const JinjaText nothing = { .data = "" };
    const JinjaText *separator = &nothing;
    JinjaValue items = self;
    JinjaList list;
    int r = jinja_given(values[0]) ? jinja_to_text(run, values[0], &separator) : 0;

    if (!r && jinja_given(values[1]) && values[1].type != JINJA_NONE) {
        r = jinja_items(run, self, &list);
        if (!r)
            r = new_items(run, JINJA_LIST, list.n, &items);
        for (uint32_t i = 0; !r && i < list.n; i++) {
            JinjaValue item;

            r = item_by_path(run, list.items[i], values[1], JINJA_NO_VALUE, &item);
            if (!r)
                add_item(&items, item);
        }
    }
    return r ? r : jinja_text_join(run, separator, items, false, valuep);
}

static int filter_sum(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaValue sum = jinja_given(values[1]) ? values[1] : jinja_int(0), item;
    JinjaList list;
    int r = jinja_items(run, self, &list);

    if (!r && sum.type == JINJA_TEXT)
        return jinja_fail(run, "filter 'sum' cannot add strings: use '|join'");
    for (uint32_t i = 0; i < list.n && !r; i++) {
        r = item_by_path(run, list.items[i], values[0], JINJA_NO_VALUE, &item);
        if (!r)
            r = jinja_operate(run, 0, sum, item, &sum); /* JINJA_ADD */
    }
    *valuep = sum;
    return r;
}

/* --- map, select ------------------------------------------------------------------------------------------------ */

static JinjaArguments without_first(const JinjaArguments *arguments, uint32_t n) {
    JinjaArguments rest = *arguments;

    rest.items += n;
    rest.n -= n;
    return rest;
}

/* Of map(attribute=..., default=...). */
static int map_attribute(JinjaRun *run, const JinjaList *list, const JinjaArguments *arguments, JinjaValue *valuep) {
    JinjaValue path = JINJA_NO_VALUE, fallback = JINJA_NO_VALUE, item;
    int r = 0;

    for (uint32_t i = 0; i < arguments->n_named; i++) {
        if (jinja_text_is(arguments->names[i], "attribute"))
            path = arguments->named[i];
        else if (jinja_text_is(arguments->names[i], "default"))
            fallback = arguments->named[i];
        else
            return jinja_fail(run, "filter 'map' takes no argument '%.*s'", (int)arguments->names[i]->len_bytes,
                              arguments->names[i]->data);
    }
    if (!jinja_given(path))
        return jinja_fail(run, "filter 'map' needs the name of a filter, or an attribute");
    for (uint32_t i = 0; i < list->n && !r; i++) {
        r = item_by_path(run, list->items[i], path, fallback, &item);
        if (!r)
            add_item(valuep, item);
    }
    return r;
}

static int filter_map(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    const JinjaText *name = NULL;
    const JinjaFilter *filter;
    JinjaArguments rest;
    JinjaList list;
    int r = 0;

    if (!jinja_truth(self))
        return jinja_list_new(run, JINJA_STREAM, 0, valuep);
    r = jinja_items(run, self, &list);
    if (!r)
        r = new_items(run, JINJA_STREAM, list.n, valuep);
    if (r)
        return r;
    if (!arguments->n)
        return map_attribute(run, &list, arguments, valuep);
    r = jinja_take_text(run, arguments->items[0], "the name of the filter", &name);
    if (r)
        return r;
    filter = jinja_filter_find(name);
    rest = without_first(arguments, 1);
    for (uint32_t i = 0; i < list.n && !r; i++) {
        JinjaValue item;

        r = jinja_enter(run);
        if (r)
            return r;
        r = jinja_filter_call(run, name, filter, list.items[i], &rest, &item);
        jinja_leave(run);
        if (!r)
            r = jinja_spend(run, 1);
        if (!r)
            add_item(valuep, item);
    }
    return r;
}

static int choose(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, bool by_attribute, bool wanted,
                  JinjaValue *valuep) {
    uint32_t n_before = by_attribute ? 1 : 0;
    const JinjaText *name = NULL;
    const JinjaTest *test = NULL;
    JinjaArguments rest = { 0 };
    JinjaList list;
    int r = 0;

    if (!jinja_truth(self))
        return jinja_list_new(run, JINJA_STREAM, 0, valuep);
    if (arguments->n < n_before)
        return jinja_fail(run, "the name of an attribute is missing");
    if (arguments->n > n_before) {
        r = jinja_take_text(run, arguments->items[n_before], "the name of the test", &name);
        if (r)
            return r;
        test = jinja_test_find(name);
        rest = without_first(arguments, n_before + 1);
    }
    r = jinja_items(run, self, &list);
    if (!r)
        r = new_items(run, JINJA_STREAM, list.n, valuep);
    for (uint32_t i = 0; i < list.n && !r; i++) {
        JinjaValue item = list.items[i];
        bool passed;

        if (by_attribute)
            r = item_by_path(run, list.items[i], arguments->items[0], JINJA_NO_VALUE, &item);
        passed = !r && jinja_truth(item);
        if (!r && name)
            r = jinja_test_call(run, name, test, item, &rest, &passed);
        if (!r)
            r = jinja_spend(run, 1);
        if (!r && passed == wanted)
            add_item(valuep, list.items[i]);
    }
    return r;
}

static int filter_select(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    return choose(run, self, arguments, false, true, valuep);
}

static int filter_reject(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    return choose(run, self, arguments, false, false, valuep);
}

static int filter_selectattr(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    return choose(run, self, arguments, true, true, valuep);
}

static int filter_rejectattr(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    return choose(run, self, arguments, true, false, valuep);
}

/* --- table ------------------------------------------------------------------------------------------------------ */

const JinjaFilter jinja_sequence_filters[] = {
    { .name = "batch", .fn = filter_batch, .n_required = 1, .parameters = { "linecount", "fill_with" } },
    { .name = "dictsort", .fn = filter_dictsort, .parameters = { "case_sensitive", "by", "reverse" } },
    { .name = "first", .fn = filter_first },
    { .name = "groupby",
      .fn = filter_groupby,
      .n_required = 1,
      .parameters = { "attribute", "default", "case_sensitive" } },
    { .name = "items", .fn = filter_items },
    { .name = "join", .fn = filter_join, .parameters = { "d", "attribute" } },
    { .name = "last", .fn = filter_last },
    { .name = "list", .fn = filter_list },
    { .name = "map", .variadic = filter_map },
    { .name = "max", .fn = filter_max, .parameters = { "case_sensitive", "attribute" } },
    { .name = "min", .fn = filter_min, .parameters = { "case_sensitive", "attribute" } },
    { .name = "reject", .variadic = filter_reject },
    { .name = "rejectattr", .variadic = filter_rejectattr },
    { .name = "reverse", .fn = filter_reverse },
    { .name = "select", .variadic = filter_select },
    { .name = "selectattr", .variadic = filter_selectattr },
    { .name = "slice", .fn = filter_slice, .n_required = 1, .parameters = { "slices", "fill_with" } },
    { .name = "sort", .fn = filter_sort, .parameters = { "reverse", "case_sensitive", "attribute" } },
    { .name = "sum", .fn = filter_sum, .parameters = { "attribute", "start" } },
    { .name = "unique", .fn = filter_unique, .parameters = { "case_sensitive", "attribute" } },
};
const size_t jinja_n_sequence_filters = ARRAY_LEN(jinja_sequence_filters);
