// SPDX-License-Identifier: Apache-2.0
/* Attributes, items and slices of values, and the methods of lists, dicts and loops. As Jinja's immutable sandbox has
 * it, lists and dicts cannot be changed, and names with underscores around them are Python's own. */
#include "text/jinja/jinja_eval.h"

#include "base/strings/printable.h"

int jinja_fail_undefined(JinjaRun *run, JinjaValue value) {
    return jinja_fail(run, "%s", value.why ? value.why : "a value is undefined");
}

/* --- methods of lists, ranges, dicts, loops --------------------------------------------------------------------- */

static int list_index(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t start = 0, stop = INT64_MAX, n;
    JinjaList list;
    int r = jinja_items(run, self, &list);

    n = list.n;
    if (!r)
        r = jinja_take_int(run, values[1], "start", &start);
    if (!r)
        r = jinja_take_int(run, values[2], "stop", &stop);
    start = start < 0 ? (start < -n ? 0 : start + n) : start;
    stop = stop < 0 ? stop + n : stop;
    for (int64_t i = start; i < n && i < stop && !r; i++) {
        bool equal;

        r = jinja_equal(run, list.items[i], values[0], &equal);
        if (!r && equal) {
            *valuep = jinja_int(i);
            return 0;
        }
    }
    return r ? r : jinja_fail(run, "index(): the value is not in the %s", jinja_type_name(self));
}

static int list_count(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    int64_t n = 0;
    JinjaList list;
    int r = jinja_items(run, self, &list);

    for (uint32_t i = 0; i < list.n && !r; i++) {
        bool equal;

        r = jinja_equal(run, list.items[i], values[0], &equal);
        n += !r && equal;
    }
    *valuep = jinja_int(n);
    return r;
}

static int value_copy(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    *valuep = self; /* neither can change */
    return 0;
}

static int dict_get(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    const JinjaValue *found;
    int r = jinja_dict_get(run, self.dict, values[0], &found);

    *valuep = !r && found ? *found : jinja_given(values[1]) ? values[1] : JINJA_NOTHING;
    return r;
}

static int dict_keys(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_dict_view(run, self.dict, JINJA_VIEW_KEYS, JINJA_VIEW, valuep);
}

static int dict_values(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_dict_view(run, self.dict, JINJA_VIEW_VALUES, JINJA_VIEW, valuep);
}

static int dict_items(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    return jinja_dict_view(run, self.dict, JINJA_VIEW_ITEMS, JINJA_VIEW, valuep);
}

static int loop_cycle(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    if (!arguments->n)
        return jinja_fail(run, "loop.cycle() needs values");
    *valuep = arguments->items[self.loop->index0 % arguments->n];
    return 0;
}

static int loop_changed(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments, JinjaValue *valuep) {
    JinjaValue asked;
    bool equal = false;
    int r = jinja_list_new(run, JINJA_TUPLE, arguments->n, &asked);

    for (uint32_t i = 0; i < arguments->n && !r; i++)
        asked.list->items[i] = arguments->items[i];
    if (!r && jinja_given(self.loop->changed))
        r = jinja_equal(run, self.loop->changed, asked, &equal);
    self.loop->changed = asked;
    *valuep = jinja_bool(!equal);
    return r;
}

static int dict_fromkeys(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    JinjaList list;
    int r = jinja_items(run, values[0], &list);

    if (!r)
        r = jinja_dict_new(run, JINJA_DICT, valuep);
    for (uint32_t i = 0; !r && i < list.n; i++)
        r = jinja_dict_set(run, valuep->dict, list.items[i], jinja_given(values[1]) ? values[1] : JINJA_NOTHING);
    return r;
}

static int cycler_next(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    *valuep = self.list->items[self.list->at];
    self.list->at = (self.list->at + 1) % self.list->n;
    return 0;
}

static int cycler_reset(JinjaRun *run, JinjaValue self, const JinjaValue *values, JinjaValue *valuep) {
    self.list->at = 0;
    *valuep = JINJA_NOTHING;
    return 0;
}

static const JinjaBuiltin list_methods[] = {
    { .name = "index", .fn = list_index, .n_required = 1, .parameters = { "value", "start", "stop" } },
    { .name = "count", .fn = list_count, .n_required = 1, .parameters = { "value" } },
    { .name = "copy", .fn = value_copy },
};
static const JinjaBuiltin dict_methods[] = {
    { .name = "get", .fn = dict_get, .n_required = 1, .parameters = { "key", "default" } },
    { .name = "keys", .fn = dict_keys },
    { .name = "values", .fn = dict_values },
    { .name = "items", .fn = dict_items },
    { .name = "copy", .fn = value_copy },
};
static const JinjaBuiltin loop_methods[] = {
    { .name = "cycle", .variadic = loop_cycle },
    { .name = "changed", .variadic = loop_changed },
};
/* Of the function dict, which is a type in Python. */
static const JinjaBuiltin dict_type_methods[] = {
    { .name = "fromkeys", .fn = dict_fromkeys, .n_required = 1, .parameters = { "iterable", "value" } },
};
static const JinjaBuiltin cycler_methods[] = {
    { .name = "next", .fn = cycler_next },
    { .name = "reset", .fn = cycler_reset },
};

/* --- attributes ------------------------------------------------------------------------------------------------- */

static bool is_one_of(const JinjaText *name, const char *const *names) {
    for (; *names; names++)
        if (jinja_text_is(name, *names))
            return true;
    return false;
}

/* What the sandbox keeps from templates. */
static bool is_unsafe(JinjaValue object, const JinjaText *name) {
    static const char *const of_lists[] = { "append", "clear",  "pop",    "reverse", "insert",
                                            "sort",   "extend", "remove", NULL };
    static const char *const of_dicts[] = { "clear", "pop", "popitem", "setdefault", "update", NULL };

    if (name->len_bytes > 4 && !memcmp(name->data, "__", 2) && !memcmp(name->data + name->len_bytes - 2, "__", 2))
        return true;
    return (object.type == JINJA_LIST && is_one_of(name, of_lists)) ||
           (object.type == JINJA_DICT && is_one_of(name, of_dicts));
}

static int loop_attribute(JinjaRun *run, const JinjaLoop *loop, const JinjaText *name, JinjaValue *valuep) {
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        { "index", (int64_t)loop->index0 + 1 },
        { "index0", loop->index0 },
        { "length", loop->items.n },
        { "revindex", (int64_t)loop->items.n - loop->index0 },
        { "revindex0", (int64_t)loop->items.n - loop->index0 - 1 },
        { "depth", (int64_t)loop->depth0 + 1 },
        { "depth0", loop->depth0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (jinja_text_is(name, numbers[i].name)) {
            *valuep = jinja_int(numbers[i].value);
            return 0;
        }
    if (jinja_text_is(name, "first")) {
        *valuep = jinja_bool(!loop->index0);
    } else if (jinja_text_is(name, "last")) {
        *valuep = jinja_bool(loop->index0 + 1 == loop->items.n);
    } else if (jinja_text_is(name, "previtem")) {
        if (!loop->index0)
            return jinja_undefined(run, valuep, "there is no previous item");
        *valuep = loop->items.items[loop->index0 - 1];
    } else if (jinja_text_is(name, "nextitem")) {
        if (loop->index0 + 1 == loop->items.n)
            return jinja_undefined(run, valuep, "there is no next item");
        *valuep = loop->items.items[loop->index0 + 1];
    } else {
        *valuep = JINJA_NO_VALUE;
    }
    return 0;
}

static bool is_dict_type(JinjaValue value) {
    return value.type == JINJA_FUNCTION && !strcmp(value.function->builtin.name, "dict");
}

static const JinjaBuiltin *find_method(JinjaValue object, const JinjaText *name) {
    switch (object.type) {
    case JINJA_TEXT:
        return jinja_text_method_find(name);
    case JINJA_LIST:
        return jinja_builtin_find(list_methods, ARRAY_LEN(list_methods), name);
    case JINJA_TUPLE:
    case JINJA_RANGE:
        return jinja_builtin_find(list_methods, 2, name);
    case JINJA_DICT:
        return jinja_builtin_find(dict_methods, ARRAY_LEN(dict_methods), name);
    case JINJA_LOOP:
        return jinja_builtin_find(loop_methods, ARRAY_LEN(loop_methods), name);
    case JINJA_FUNCTION:
        return is_dict_type(object) ? jinja_builtin_find(dict_type_methods, ARRAY_LEN(dict_type_methods), name) : NULL;
    case JINJA_CYCLER:
        return jinja_builtin_find(cycler_methods, ARRAY_LEN(cycler_methods), name);
    default:
        return NULL;
    }
}

/* What Python's getattr() finds; JINJA_MISSING: nothing. */
static int find_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name, JinjaValue *valuep) {
    const JinjaBuiltin *method;
    const JinjaValue *found;
    JinjaBound *bound;
    int r;

    *valuep = JINJA_NO_VALUE;
    if (is_unsafe(object, name))
        return jinja_undefined(run, valuep, "access to attribute '%.*s' of '%s' object is unsafe", (int)name->len_bytes,
                               name->data, jinja_type_name(object));
    if (object.type == JINJA_NAMESPACE) {
        r = jinja_dict_get(run, object.dict, (JinjaValue){ .type = JINJA_TEXT, .text = name }, &found);
        if (!r && found)
            *valuep = *found;
        return r;
    }
    if (object.type == JINJA_LOOP) {
        r = loop_attribute(run, object.loop, name, valuep);
        if (r || jinja_given(*valuep))
            return r;
    }
    if (object.type == JINJA_MACRO && jinja_text_is(name, "name")) {
        *valuep = (JinjaValue){ .type = JINJA_TEXT, .text = run->template->names[object.macro->node->name] };
        return 0;
    }
    if (object.type == JINJA_CYCLER && jinja_text_is(name, "current")) {
        *valuep = object.list->items[object.list->at];
        return 0;
    }
    method = find_method(object, name);
    if (!method)
        return 0;
    bound = jinja_take(run, 1, sizeof(*bound));
    if (!bound)
        return jinja_fail_memory(run);
    *bound = (JinjaBound){ .method = method, .self = object };
    *valuep = (JinjaValue){ .type = JINJA_METHOD, .bound = bound };
    return 0;
}

static int no_member(JinjaRun *run, JinjaValue object, const JinjaText *name, JinjaValue *valuep) {
    return jinja_undefined(run, valuep, "'%s object' has no attribute '%.*s'", jinja_type_name(object),
                           (int)(name->len_bytes < 100 ? name->len_bytes : 100), name->data);
}

int jinja_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name, JinjaValue *valuep) {
    const JinjaValue *found;
    int r;

    if (object.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    r = find_attribute(run, object, name, valuep);
    if (r || jinja_given(*valuep))
        return r;
    if (object.type == JINJA_DICT) {
        r = jinja_dict_get(run, object.dict, (JinjaValue){ .type = JINJA_TEXT, .text = name }, &found);
        if (r || found) {
            *valuep = found ? *found : JINJA_NO_VALUE;
            return r;
        }
    }
    if (is_dict_type(object)) { /* dict["x"] is a generic alias in Python: called, it is dict() */
        *valuep = object;
        return 0;
    }
    return no_member(run, object, name, valuep);
}

/* --- items ------------------------------------------------------------------------------------------------------ */

static int item_by_index(JinjaRun *run, JinjaValue object, int64_t index, JinjaValue *valuep) {
    int64_t length;
    size_t from;

    *valuep = JINJA_NO_VALUE;
    if (object.type == JINJA_VIEW || object.type == JINJA_UNDEFINED || !jinja_length(object, &length))
        return 0;
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length)
        return 0;
    switch (object.type) {
    case JINJA_TEXT:
        from = jinja_text_offset(object.text, (size_t)index);
        if (from >= object.text->len_bytes)
            return 0;
        return jinja_spend(run, from / 64)
                   ? JINJA_E_LIMIT
                   : jinja_text_slice(run, object.text, from, from + jinja_text_char(object.text, from), valuep);
    case JINJA_RANGE:
        *valuep = jinja_int(object.range->start + index * object.range->step);
        return 0;
    default:
        *valuep = object.list->items[index];
        return 0;
    }
}

int jinja_item(JinjaRun *run, JinjaValue object, JinjaValue key, JinjaValue *valuep) {
    const JinjaValue *found;
    int64_t index;
    int r = 0;

    if (object.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    *valuep = JINJA_NO_VALUE;
    if (object.type == JINJA_DICT) {
        if (!jinja_is_hashable(key))
            return jinja_undefined(run, valuep, "a dict has no keys of type '%s'", jinja_type_name(key));
        r = jinja_dict_get(run, object.dict, key, &found);
        if (r || found) {
            *valuep = found ? *found : JINJA_NO_VALUE;
            return r;
        }
    } else if (jinja_as_int(key, &index)) {
        r = item_by_index(run, object, index, valuep);
    }
    if (!r && !jinja_given(*valuep) && key.type == JINJA_TEXT)
        r = find_attribute(run, object, key.text, valuep);
    if (r || jinja_given(*valuep))
        return r;
    if (key.type == JINJA_TEXT)
        return no_member(run, object, key.text, valuep);
    return jinja_undefined(run, valuep, "'%s object' has no such element", jinja_type_name(object));
}

/* --- slices ----------------------------------------------------------------------------------------------------- */

/* Python's slice.indices(). */
static int slice_bounds(JinjaRun *run, const JinjaValue bounds[3], int64_t length, int64_t *startp, int64_t *stopp,
                        int64_t *stepp) {
    static const char *const names[] = { "start", "stop", "step" };
    int64_t *const places[] = { startp, stopp, stepp };
    bool given[3];

    *stepp = 1;
    for (int i = 0; i < 3; i++) {
        given[i] = jinja_given(bounds[i]) && bounds[i].type != JINJA_NONE;
        if (given[i] && !jinja_as_int(bounds[i], places[i])) {
            if (bounds[i].type == JINJA_UNDEFINED)
                return jinja_fail_undefined(run, bounds[i]);
            return jinja_fail(run, "the %s of a slice must be an integer, not '%s'", names[i],
                              jinja_type_name(bounds[i]));
        }
    }
    if (!*stepp)
        return jinja_fail(run, "the step of a slice cannot be zero");
    for (int i = 0; i < 2; i++) {
        int64_t lowest = *stepp < 0 ? -1 : 0, highest = *stepp < 0 ? length - 1 : length, *place = places[i];

        if (!given[i])
            *place = (i == 0) == (*stepp < 0) ? highest : lowest;
        else if (*place < 0)
            *place = *place < -length ? lowest : *place + length;
        else
            *place = *place > highest ? highest : *place;
        if (given[i] && *place < lowest)
            *place = lowest;
    }
    return 0;
}

static int slice_text(JinjaRun *run, const JinjaText *text, int64_t start, int64_t stop, int64_t step,
                      JinjaValue *valuep) {
    JinjaWriter writer;
    size_t *offsets, at = 0;
    int r;

    if (step == 1) {
        size_t from = jinja_text_offset(text, (size_t)start),
               to = stop > start ? jinja_text_offset(text, (size_t)stop) : from;

        r = jinja_spend(run, jinja_text_is_ascii(text) ? 0 : to / 64);
        return r ? r : jinja_text_slice(run, text, from, to, valuep);
    }
    offsets = jinja_take(run, (size_t)text->n_chars + 1, sizeof(*offsets));
    if (!offsets)
        return jinja_fail_memory(run);
    r = jinja_spend(run, text->n_chars / 16);
    for (uint32_t i = 0; i < text->n_chars; i++) {
        offsets[i] = at;
        at += at < text->len_bytes ? jinja_text_char(text, at) : 0;
    }
    offsets[text->n_chars] = at;
    jinja_writer_init(&writer, run);
    writer.failure = r;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        jinja_write_part(&writer, text, offsets[i], offsets[i + 1]);
    return jinja_writer_finish(&writer, valuep);
}

static int slice_range(JinjaRun *run, const JinjaRange *from, int64_t start, int64_t stop, int64_t step, uint32_t n,
                       JinjaValue *valuep) {
    JinjaRange *range = jinja_take(run, 1, sizeof(*range));

    if (!range)
        return jinja_fail_memory(run);
    /* Ranges have few numbers, but these may be near the end of what 64 bits hold. */
    if (__builtin_mul_overflow(start, from->step, &range->start) ||
        __builtin_add_overflow(range->start, from->start, &range->start) ||
        __builtin_mul_overflow(stop, from->step, &range->stop) ||
        __builtin_add_overflow(range->stop, from->start, &range->stop) ||
        __builtin_mul_overflow(step, from->step, &range->step))
        return jinja_fail(run, "a slice of a range that is past 64 bits");
    range->n = n;
    *valuep = (JinjaValue){ .type = JINJA_RANGE, .range = range };
    return 0;
}

int jinja_slice(JinjaRun *run, JinjaValue object, const JinjaValue bounds[3], JinjaValue *valuep) {
    int64_t length, start, stop, step, n;
    JinjaList list;
    int r;

    if (object.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (object.type != JINJA_TEXT && object.type != JINJA_LIST && object.type != JINJA_TUPLE &&
        object.type != JINJA_RANGE)
        return jinja_fail(run, "'%s' object has no slices", jinja_type_name(object));
    (void)jinja_length(object, &length);
    r = slice_bounds(run, bounds, length, &start, &stop, &step);
    if (r)
        return r;
    if (step > length || step < -length) /* the first at most; and no sum overflows */
        step = step > 0 ? length + 1 : -length - 1;
    if (object.type == JINJA_TEXT)
        return slice_text(run, object.text, start, stop, step, valuep);
    n = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0)
                 : (start > stop ? (start - stop - 1) / -step + 1 : 0);
    if (object.type == JINJA_RANGE)
        return slice_range(run, object.range, start, stop, step, (uint32_t)n, valuep);
    r = jinja_items(run, object, &list);
    if (!r)
        r = jinja_list_new(run, object.type == JINJA_TUPLE ? JINJA_TUPLE : JINJA_LIST, (uint32_t)n, valuep);
    for (int64_t i = 0; i < n && !r; i++)
        valuep->list->items[i] = list.items[start + i * step];
    return r;
}
