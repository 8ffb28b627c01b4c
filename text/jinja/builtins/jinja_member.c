// SPDX-License-Identifier: Apache-2.0
/* Attributes, items and slices, and the methods of lists, dicts and loops. */
#include "text/jinja/builtins/jinja_member.h"

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/jinja_scope.h"

/* --- methods of lists, dicts, loops ----------------------------------------------------------------------------- */

JinjaValue jinja_list_index(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list = jinja_items(run, self);
    int64_t n = list.n, start = jinja_take_int(run, values[1], "start", 0),
            stop = jinja_take_int(run, values[2], "stop", INT64_MAX);

    start = start < 0 ? (start < -n ? 0 : start + n) : start;
    stop = stop < 0 ? stop + n : stop;
    for (int64_t i = start; i < n && i < stop; i++)
        if (jinja_equal(run, list.items[i], values[0]))
            return jinja_int(i);
    jinja_fail(run, "index(): the value is not in the %s", jinja_type_name(self));
}

JinjaValue jinja_list_count(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    JinjaList list = jinja_items(run, self);
    int64_t n = 0;

    for (uint32_t i = 0; i < list.n; i++)
        n += jinja_equal(run, list.items[i], values[0]);
    return jinja_int(n);
}

JinjaValue jinja_value_copy(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return self; /* neither the value nor its copy can change */
}

JinjaValue jinja_dict_get_or(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaValue *found = jinja_dict_get(run, self.dict, values[0]);

    return found ? *found : jinja_given(values[1]) ? values[1] : JINJA_NOTHING;
}

JinjaValue jinja_dict_keys(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return jinja_dict_view(run, self.dict, JINJA_VIEW_KEYS, JINJA_VIEW);
}

JinjaValue jinja_dict_values(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return jinja_dict_view(run, self.dict, JINJA_VIEW_VALUES, JINJA_VIEW);
}

JinjaValue jinja_dict_items(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    return jinja_dict_view(run, self.dict, JINJA_VIEW_ITEMS, JINJA_VIEW);
}

JinjaValue jinja_loop_cycle(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    if (!arguments->n)
        jinja_fail(run, "loop.cycle() needs values");
    return arguments->items[self.loop->index0 % arguments->n];
}

JinjaValue jinja_loop_changed(JinjaRun *run, JinjaValue self, const JinjaArguments *arguments) {
    JinjaValue asked = jinja_list_new(run, JINJA_TUPLE, arguments->n), before = self.loop->changed;

    for (uint32_t i = 0; i < arguments->n; i++)
        asked.list->items[i] = arguments->items[i];
    self.loop->changed = asked;
    return jinja_bool(!jinja_given(before) || !jinja_equal(run, before, asked));
}

/* --- attributes ------------------------------------------------------------------------------------------------- */

static bool is_one_of(const JinjaText *name, const char *const *names) {
    for (; *names; names++)
        if (jinja_text_is(name, *names))
            return true;
    return false;
}

/* Whether the sandbox keeps the member from templates. */
static bool is_unsafe(JinjaValue object, const JinjaText *name) {
    static const char *const of_lists[] = { "append", "clear",  "pop",    "reverse", "insert",
                                            "sort",   "extend", "remove", NULL };
    static const char *const of_dicts[] = { "clear", "pop", "popitem", "setdefault", "update", NULL };

    if (name->len_bytes > 4 && !memcmp(name->data, "__", 2) && !memcmp(name->data + name->len_bytes - 2, "__", 2))
        return true;
    return (object.type == JINJA_LIST && is_one_of(name, of_lists)) ||
           (object.type == JINJA_DICT && is_one_of(name, of_dicts));
}

static JinjaValue loop_attribute(JinjaRun *run, const JinjaLoop *loop, const JinjaText *name) {
    const int64_t n = loop->items.n, at = loop->index0, depth = loop->depth0;
    const struct {
        const char *name;
        JinjaValue value;
    } members[] = {
        { "index", jinja_int(at + 1) },
        { "index0", jinja_int(at) },
        { "length", jinja_int(n) },
        { "revindex", jinja_int(n - at) },
        { "revindex0", jinja_int(n - at - 1) },
        { "depth", jinja_int(depth + 1) },
        { "depth0", jinja_int(depth) },
        { "first", jinja_bool(!at) },
        { "last", jinja_bool(at + 1 == n) },
    };

    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (jinja_text_is(name, members[i].name))
            return members[i].value;
    if (jinja_text_is(name, "previtem"))
        return at ? loop->items.items[at - 1] : jinja_undefined(run, "there is no previous item");
    if (jinja_text_is(name, "nextitem"))
        return at + 1 < n ? loop->items.items[at + 1] : jinja_undefined(run, "there is no next item");
    return JINJA_NO_VALUE;
}

static const JinjaBuiltin *find_method(JinjaValue object, const JinjaText *name) {
    static const uint32_t kinds[] = {
        [JINJA_TEXT] = JINJA_STR_METHODS,    [JINJA_LIST] = JINJA_LIST_METHODS, [JINJA_TUPLE] = JINJA_TUPLE_METHODS,
        [JINJA_RANGE] = JINJA_TUPLE_METHODS, [JINJA_DICT] = JINJA_DICT_METHODS, [JINJA_LOOP] = JINJA_LOOP_METHODS,
    };

    return object.type < ARRAY_LEN(kinds) ? jinja_builtin_find(kinds[object.type], name) : NULL;
}

/* Finds what Python's getattr() finds; JINJA_MISSING: nothing. */
static JinjaValue find_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name) {
    const JinjaBuiltin *method;
    const JinjaValue *found;
    JinjaValue value;
    JinjaBound *bound;

    if (is_unsafe(object, name))
        return jinja_undefined(run, "access to attribute '%.*s' of '%s' object is unsafe", (int)name->len_bytes,
                               name->data, jinja_type_name(object));
    if (object.type == JINJA_NAMESPACE) {
        found = jinja_dict_get_text(run, object.dict, name);
        return found ? *found : JINJA_NO_VALUE;
    }
    if (object.type == JINJA_LOOP) {
        value = loop_attribute(run, object.loop, name);
        if (jinja_given(value))
            return value;
    }
    if (object.type == JINJA_MACRO && jinja_text_is(name, "name"))
        return jinja_str(run->template->names[object.macro->node->name]);
    method = find_method(object, name);
    if (!method)
        return JINJA_NO_VALUE;
    bound = jinja_take(run, 1, sizeof(*bound));
    *bound = (JinjaBound){ .method = method, .self = object };
    return (JinjaValue){ .type = JINJA_METHOD, .bound = bound };
}

static JinjaValue no_member(JinjaRun *run, JinjaValue object, const JinjaText *name) {
    Printable shown;

    (void)printable(&shown, name->data, name->len_bytes);
    if (object.type == JINJA_TEXT && jinja_builtin_is_refused(JINJA_STR_METHODS, name))
        return jinja_undefined(run, "method '%s' of strings is not supported in chat templates", shown.text);
    return jinja_undefined(run, "'%s object' has no attribute '%s'", jinja_type_name(object), shown.text);
}

JinjaValue jinja_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name) {
    const JinjaValue *found = NULL;
    JinjaValue value;

    if (object.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, object);
    value = find_attribute(run, object, name);
    if (jinja_given(value))
        return value;
    if (object.type == JINJA_DICT)
        found = jinja_dict_get_text(run, object.dict, name);
    return found ? *found : no_member(run, object, name);
}

JinjaValue jinja_filter_attr(JinjaRun *run, JinjaValue self, const JinjaValue *values) {
    const JinjaText *name = jinja_take_text(run, values[0], "the name", NULL);

    /* The filter finds attributes of a dict, and not its keys. */
    return jinja_attribute(run, self.type == JINJA_DICT ? jinja_dict_new(run, JINJA_DICT) : self, name);
}

/* --- items ------------------------------------------------------------------------------------------------------ */

static JinjaValue item_by_index(JinjaRun *run, JinjaValue object, int64_t index) {
    int64_t length;
    size_t from;

    if (object.type == JINJA_VIEW || !jinja_length(object, &length))
        return JINJA_NO_VALUE;
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length)
        return JINJA_NO_VALUE;
    if (object.type == JINJA_RANGE)
        return jinja_int(object.range->start + index * object.range->step);
    if (object.type != JINJA_TEXT)
        return object.list->items[index];
    from = jinja_text_offset(object.text, (size_t)index);
    if (from >= object.text->len_bytes)
        return JINJA_NO_VALUE;
    jinja_spend(run, from / 64);
    return jinja_str(jinja_text_slice(run, object.text, from, from + jinja_text_char(object.text, from)));
}

JinjaValue jinja_item(JinjaRun *run, JinjaValue object, JinjaValue key) {
    JinjaValue value = JINJA_NO_VALUE;
    const JinjaValue *found;
    int64_t index;

    if (object.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, object);
    if (object.type == JINJA_DICT) {
        if (!jinja_is_hashable(key))
            return jinja_undefined(run, "a dict has no keys of type '%s'", jinja_type_name(key));
        found = jinja_dict_get(run, object.dict, key);
        if (found)
            return *found;
    } else if (jinja_as_int(key, &index)) {
        value = item_by_index(run, object, index);
    }
    if (!jinja_given(value) && key.type == JINJA_TEXT)
        value = find_attribute(run, object, key.text);
    if (jinja_given(value))
        return value;
    if (key.type == JINJA_TEXT)
        return no_member(run, object, key.text);
    return jinja_undefined(run, "'%s object' has no such element", jinja_type_name(object));
}

/* --- slices ----------------------------------------------------------------------------------------------------- */

/* Reads a bound of a slice; fallback if it is not given. */
static int64_t slice_bound(JinjaRun *run, JinjaValue bound, const char *name, int64_t fallback) {
    if (!jinja_is_some(bound))
        return fallback;
    if (bound.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, bound);
    if (!jinja_as_int(bound, &fallback))
        jinja_fail(run, "the %s of a slice must be an integer, not '%s'", name, jinja_type_name(bound));
    return fallback;
}

/* Brings a bound that was given between lowest and highest, as Python's slice.indices() does. */
static int64_t clamp_bound(JinjaValue bound, int64_t place, int64_t length, int64_t lowest, int64_t highest) {
    if (!jinja_is_some(bound))
        return place;
    if (place < 0)
        place = place < -length ? lowest : place + length;
    return place > highest ? highest : MAX(lowest, place);
}

static JinjaValue slice_text(JinjaRun *run, const JinjaText *text, int64_t start, int64_t stop, int64_t step) {
    JinjaWriter writer;
    size_t *offsets, at = 0;

    if (step == 1) {
        size_t from = jinja_text_offset(text, (size_t)start),
               to = stop > start ? jinja_text_offset(text, (size_t)stop) : from;

        jinja_spend(run, jinja_text_is_ascii(text) ? 0 : to / 64);
        return jinja_str(jinja_text_slice(run, text, from, to));
    }
    jinja_spend(run, text->n_chars / 16);
    offsets = jinja_take(run, (size_t)text->n_chars + 1, sizeof(*offsets));
    for (uint32_t i = 0; i < text->n_chars; i++) {
        offsets[i] = at;
        at += at < text->len_bytes ? jinja_text_char(text, at) : 0;
    }
    offsets[text->n_chars] = at;
    jinja_writer_init(&writer, run);
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        jinja_write_part(&writer, text, offsets[i], offsets[i + 1]);
    return jinja_str(jinja_writer_finish(&writer));
}

static JinjaValue slice_range(JinjaRun *run, const JinjaRange *from, int64_t start, int64_t stop, int64_t step,
                              uint32_t n) {
    JinjaRange *range = jinja_take(run, 1, sizeof(*range));

    /* Ranges have few numbers, but these may be near the end of 64 bits. */
    if (__builtin_mul_overflow(start, from->step, &range->start) ||
        __builtin_add_overflow(range->start, from->start, &range->start) ||
        __builtin_mul_overflow(stop, from->step, &range->stop) ||
        __builtin_add_overflow(range->stop, from->start, &range->stop) ||
        __builtin_mul_overflow(step, from->step, &range->step))
        jinja_fail(run, "a slice of a range that is past 64 bits");
    range->n = n;
    return (JinjaValue){ .type = JINJA_RANGE, .range = range };
}

JinjaValue jinja_slice(JinjaRun *run, JinjaValue object, const JinjaValue bounds[3]) {
    int64_t length, start, stop, step, lowest, highest, n;
    JinjaValue slice;

    if (object.type == JINJA_UNDEFINED)
        jinja_fail_undefined(run, object);
    if (object.type != JINJA_TEXT && object.type != JINJA_LIST && object.type != JINJA_TUPLE &&
        object.type != JINJA_RANGE)
        jinja_fail(run, "'%s' object has no slices", jinja_type_name(object));
    (void)jinja_length(object, &length);
    step = slice_bound(run, bounds[2], "step", 1);
    if (!step)
        jinja_fail(run, "the step of a slice cannot be zero");
    lowest = step < 0 ? -1 : 0;
    highest = step < 0 ? length - 1 : length;
    start = slice_bound(run, bounds[0], "start", step < 0 ? highest : lowest);
    stop = slice_bound(run, bounds[1], "stop", step < 0 ? lowest : highest);
    start = clamp_bound(bounds[0], start, length, lowest, highest);
    stop = clamp_bound(bounds[1], stop, length, lowest, highest);
    if (step > length || step < -length) /* such a step reaches one item at most; bounded, no sum overflows */
        step = step > 0 ? length + 1 : -length - 1;
    if (object.type == JINJA_TEXT)
        return slice_text(run, object.text, start, stop, step);
    n = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0)
                 : (start > stop ? (start - stop - 1) / -step + 1 : 0);
    if (object.type == JINJA_RANGE)
        return slice_range(run, object.range, start, stop, step, (uint32_t)n);
    slice = jinja_list_new(run, object.type, (uint32_t)n);
    for (int64_t i = 0; i < n; i++)
        slice.list->items[i] = object.list->items[start + i * step];
    return slice;
}
