// SPDX-License-Identifier: Apache-2.0
/* Attributes, items and slices, and the methods of lists and dicts. */
#include "text/jinja/builtins/jinja_member.h"

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/jinja_scope.h"

/* --- methods of lists and dicts --------------------------------------------------------------------------------- */

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

/* --- attributes ------------------------------------------------------------------------------------------------- */

/* Whether the sandbox keeps the member from templates. */
static bool is_unsafe(JinjaValue object, const JinjaText *name) {
    const char *words = object.type == JINJA_LIST   ? "append clear pop reverse insert sort extend remove"
                        : object.type == JINJA_DICT ? "clear pop popitem setdefault update"
                                                    : "";

    if (name->len_bytes > 4 && !memcmp(name->data, "__", 2) && !memcmp(name->data + name->len_bytes - 2, "__", 2))
        return true;
    return jinja_is_among(name->data, name->len_bytes, words);
}

static JinjaValue loop_attribute(JinjaRun *run, const JinjaLoop *loop, const JinjaText *name) {
    const int64_t n = loop->items.n, at = loop->index0;
    const struct {
        const char *name;
        JinjaValue value;
    } members[] = {
        { "index", jinja_int(at + 1) },
        { "index0", jinja_int(at) },
        { "length", jinja_int(n) },
        { "revindex", jinja_int(n - at) },
        { "revindex0", jinja_int(n - at - 1) },
        { "depth", jinja_int(1) }, /* no loop is recursive */
        { "depth0", jinja_int(0) },
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
        [JINJA_TEXT] = JINJA_STR_METHODS, [JINJA_LIST] = JINJA_LIST_METHODS, [JINJA_DICT] = JINJA_DICT_METHODS
    };

    return object.type < ARRAY_LEN(kinds) ? jinja_builtin_find(kinds[object.type], name) : NULL;
}

/* Finds what Python's getattr() finds; JINJA_MISSING: nothing. */
static JinjaValue find_attribute(JinjaRun *run, JinjaValue object, const JinjaText *name) {
    const JinjaBuiltin *method;
    JinjaValue value;
    JinjaBound *bound;

    if (is_unsafe(object, name))
        return jinja_undefined(run, "access to attribute '%.*s' of '%s' object is unsafe", (int)name->len_bytes,
                               name->data, jinja_type_name(object));
    if (object.type == JINJA_LOOP) {
        value = loop_attribute(run, object.loop, name);
        if (jinja_given(value))
            return value;
    }
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

    jinja_check_defined(run, object);
    value = find_attribute(run, object, name);
    if (jinja_given(value))
        return value;
    if (object.type == JINJA_DICT || object.type == JINJA_NAMESPACE)
        found = jinja_dict_get(run, object.dict, jinja_str(name));
    return found ? *found : no_member(run, object, name);
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

    jinja_check_defined(run, object);
    if (object.type == JINJA_DICT || object.type == JINJA_NAMESPACE) {
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

/* Reads a bound of a slice, brought between lowest and lowest + length as Python's slice.indices() does. */
static int64_t slice_bound(JinjaRun *run, JinjaValue bound, const char *what, int64_t fallback, int64_t length,
                           int64_t lowest) {
    int64_t place;

    if (!jinja_is_some(bound))
        return fallback;
    place = jinja_take_int(run, bound, what, 0);
    if (place < 0)
        place = place < -length ? lowest : place + length;
    return MIN(place, lowest + length);
}

/* The text from a character on, backwards. */
static JinjaValue reversed_text(JinjaRun *run, const JinjaText *text, int64_t start, int64_t n) {
    size_t at = jinja_text_offset(text, (size_t)(start + 1));
    JinjaWriter writer;

    jinja_spend(run, text->n_chars / 16);
    jinja_writer_init(&writer, run);
    for (size_t len_bytes; n > 0; n--, at -= len_bytes) {
        len_bytes = jinja_text_char_before(text, at);
        jinja_write_part(&writer, text, at - len_bytes, at);
    }
    return jinja_str(jinja_writer_finish(&writer));
}

JinjaValue jinja_slice(JinjaRun *run, JinjaValue object, const JinjaValue bounds[3]) {
    int64_t length, lowest, start, stop, step, n;
    JinjaValue slice;

    jinja_check_defined(run, object);
    if (object.type != JINJA_TEXT && object.type != JINJA_LIST && object.type != JINJA_TUPLE &&
        object.type != JINJA_RANGE)
        jinja_fail(run, "'%s' object has no slices", jinja_type_name(object));
    (void)jinja_length(object, &length);
    step = jinja_is_some(bounds[2]) ? jinja_take_int(run, bounds[2], "the step of a slice", 1) : 1;
    if (step != 1 && step != -1)
        jinja_fail(run, "a slice with a step other than 1 and -1 is not supported in chat templates");
    lowest = step < 0 ? -1 : 0;
    start = slice_bound(run, bounds[0], "the start of a slice", step < 0 ? length - 1 : 0, length, lowest);
    stop = slice_bound(run, bounds[1], "the stop of a slice", step < 0 ? -1 : length, length, lowest);
    n = MAX((stop - start) * step, 0);
    if (object.type == JINJA_TEXT && step < 0)
        return reversed_text(run, object.text, start, n);
    if (object.type == JINJA_TEXT) {
        size_t from = jinja_text_offset(object.text, (size_t)start);
        size_t to = jinja_text_offset(object.text, (size_t)(start + n));

        jinja_spend(run, jinja_text_is_ascii(object.text) ? 0 : to / 64);
        return jinja_str(jinja_text_slice(run, object.text, from, to));
    }
    slice = jinja_list_new(run, object.type, (uint32_t)n);
    for (int64_t i = 0; i < n; i++)
        slice.list->items[i] = object.list->items[start + i * step];
    return slice;
}
