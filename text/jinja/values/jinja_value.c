// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_value.h"

#include <math.h>
#include <stdarg.h>

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "text/jinja/values/jinja_run.h"

#define DICT_FIRST_ROOM 4
#define DICT_SCANNED_MAX 8 /* keys up to this number are compared one by one */
#define TWO_TO_63 9223372036854775808.0

/* --- undefined and names ---------------------------------------------------------------------------------------- */

JinjaValue jinja_undefined(JinjaRun *run, const char *format, ...) {
    char text[256], *why;
    va_list args;
    size_t n;

    va_start(args, format);
    n = printable_format(text, sizeof(text), format, args);
    va_end(args);
    why = jinja_take(run, n + 1, 1);
    memcpy(why, text, n + 1);
    return (JinjaValue){ .type = JINJA_UNDEFINED, .why = why };
}

_Noreturn void jinja_fail_undefined(JinjaRun *run, JinjaValue value) {
    jinja_fail(run, "%s", value.why ? value.why : "a value is undefined");
}

const char *jinja_type_name(JinjaValue value) {
    static const char *const names[] = {
        [JINJA_UNDEFINED] = "Undefined", [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",           [JINJA_INT] = "int",
        [JINJA_FLOAT] = "float",         [JINJA_TEXT] = "str",
        [JINJA_LIST] = "list",           [JINJA_TUPLE] = "tuple",
        [JINJA_DICT] = "dict",           [JINJA_NAMESPACE] = "Namespace",
        [JINJA_RANGE] = "range",         [JINJA_STREAM] = "generator",
        [JINJA_VIEW] = "dict view",      [JINJA_LOOP] = "LoopContext",
        [JINJA_MACRO] = "Macro",         [JINJA_FUNCTION] = "function",
        [JINJA_METHOD] = "method",       [JINJA_MISSING] = "missing",
    };

    return names[value.type];
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

bool jinja_as_int(JinjaValue value, int64_t *integerp) {
    if (value.type != JINJA_INT && value.type != JINJA_BOOL)
        return false;
    *integerp = value.type == JINJA_BOOL ? value.boolean : value.integer;
    return true;
}

double jinja_as_float(JinjaValue value) {
    return value.type == JINJA_FLOAT ? value.real : value.type == JINJA_BOOL ? value.boolean : (double)value.integer;
}

/* Compares an integer with a float exactly, as Python does. */
static int integer_order(int64_t integer, double real) {
    int64_t whole;

    if (isnan(real))
        return 2;
    if (real >= TWO_TO_63)
        return -1;
    if (real < -TWO_TO_63)
        return 1;
    whole = (int64_t)real;
    if (integer != whole)
        return integer > whole ? 1 : -1;
    return (real < (double)whole) - (real > (double)whole);
}

/* -1, 0, 1 as jinja_compare(); 2: one of the numbers is a NaN. */
static int number_order(JinjaValue a, JinjaValue b) {
    int64_t x = 0, y = 0;
    int order;

    if (jinja_as_int(a, &x) && jinja_as_int(b, &y))
        return (x > y) - (x < y);
    if (a.type == JINJA_FLOAT && b.type == JINJA_FLOAT)
        return isnan(a.real) || isnan(b.real) ? 2 : (a.real > b.real) - (a.real < b.real);
    if (b.type == JINJA_FLOAT)
        return integer_order(x, b.real);
    (void)jinja_as_int(b, &y);
    order = integer_order(y, a.real);
    return order == 2 ? 2 : -order;
}

/* --- truth, length, items --------------------------------------------------------------------------------------- */

bool jinja_truth(JinjaValue value) {
    int64_t length;

    switch (value.type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
    case JINJA_MISSING:
        return false;
    case JINJA_BOOL:
        return value.boolean;
    case JINJA_INT:
        return value.integer != 0;
    case JINJA_FLOAT:
        return value.real != 0;
    default:
        return !jinja_length(value, &length) || length > 0;
    }
}

bool jinja_length(JinjaValue value, int64_t *lengthp) {
    switch (value.type) {
    case JINJA_UNDEFINED:
        *lengthp = 0;
        return true;
    case JINJA_TEXT:
        *lengthp = value.text->n_chars;
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *lengthp = value.list->n;
        return true;
    case JINJA_DICT:
        *lengthp = value.dict->n;
        return true;
    case JINJA_RANGE:
        *lengthp = value.range->n;
        return true;
    default:
        return false;
    }
}

bool jinja_is_iterable(JinjaValue value) {
    int64_t length;

    return value.type == JINJA_STREAM || jinja_length(value, &length);
}

JinjaValue jinja_list_room(JinjaRun *run, JinjaType type, uint32_t room) {
    JinjaList *list;

    jinja_spend(run, 1 + room / 4);
    list = jinja_take(run, 1, sizeof(*list));
    if (room)
        list->items = jinja_take(run, room, sizeof(*list->items));
    list->room = room;
    return (JinjaValue){ .type = type, .list = list };
}

JinjaValue jinja_list_new(JinjaRun *run, JinjaType type, uint32_t n) {
    JinjaValue list = jinja_list_room(run, type, n);

    list.list->n = n;
    return list;
}

void jinja_list_add(JinjaRun *run, JinjaList *list, JinjaValue item) {
    if (list->n == list->room) {
        uint32_t room = list->room ? 2 * list->room : 8;
        JinjaValue *items = jinja_take(run, room, sizeof(*items));

        if (list->n)
            memcpy(items, list->items, list->n * sizeof(*items));
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = item;
}

static JinjaList text_items(JinjaRun *run, const JinjaText *text) {
    JinjaValue all = jinja_list_new(run, JINJA_LIST, text->n_chars);
    size_t at = 0;

    for (uint32_t i = 0; i < text->n_chars; i++) {
        size_t n = at < text->len_bytes ? jinja_text_char(text, at) : 0;

        all.list->items[i] = jinja_str(jinja_text_slice(run, text, at, at + n));
        at += n;
    }
    return *all.list;
}

static JinjaList range_items(JinjaRun *run, const JinjaRange *range) {
    JinjaValue all = jinja_list_new(run, JINJA_LIST, range->n);

    for (uint32_t i = 0; i < range->n; i++)
        all.list->items[i] = jinja_int(range->start + (int64_t)i * range->step);
    return *all.list;
}

JinjaList jinja_items(JinjaRun *run, JinjaValue value) {
    JinjaList list;

    switch (value.type) {
    case JINJA_UNDEFINED:
        return (JinjaList){ 0 };
    case JINJA_TEXT:
        return text_items(run, value.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return *value.list;
    case JINJA_STREAM:
        list = (JinjaList){ .items = value.list->items, .n = value.list->n - value.list->at };
        if (value.list->at)
            list.items += value.list->at;
        value.list->at = value.list->n;
        return list;
    case JINJA_DICT:
        return (JinjaList){ .items = value.dict->keys, .n = value.dict->n };
    case JINJA_RANGE:
        return range_items(run, value.range);
    default:
        jinja_fail(run, "'%s' object is not iterable", jinja_type_name(value));
    }
}

/* --- equality and order ----------------------------------------------------------------------------------------- */

static bool lists_equal(JinjaRun *run, const JinjaList *a, const JinjaList *b) {
    bool equal = a->n == b->n;

    for (uint32_t i = 0; i < a->n && equal; i++)
        equal = jinja_equal(run, a->items[i], b->items[i]);
    return equal;
}

static bool dicts_equal(JinjaRun *run, const JinjaDict *a, const JinjaDict *b) {
    bool equal = a->n == b->n;

    for (uint32_t i = 0; i < a->n && equal; i++) {
        const JinjaValue *other = jinja_dict_get(run, b, a->keys[i]);

        equal = other && jinja_equal(run, a->values[i], *other);
    }
    return equal;
}

static bool equal_same_type(JinjaRun *run, JinjaValue a, JinjaValue b) {
    switch (a.type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_TEXT:
        jinja_spend(run, a.text->len_bytes / 64);
        return jinja_text_equal(a.text, b.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return lists_equal(run, a.list, b.list);
    case JINJA_DICT:
        return dicts_equal(run, a.dict, b.dict);
    case JINJA_RANGE:
        return a.range->n == b.range->n && (!a.range->n || a.range->start == b.range->start) &&
               (a.range->n < 2 || a.range->step == b.range->step);
    default:
        return a.list == b.list;
    }
}

bool jinja_equal(JinjaRun *run, JinjaValue a, JinjaValue b) {
    bool equal;

    jinja_spend(run, 1);
    if (jinja_is_number(a) && jinja_is_number(b))
        return number_order(a, b) == 0;
    if (a.type != b.type)
        return false;
    jinja_enter(run);
    equal = equal_same_type(run, a, b);
    jinja_leave(run);
    return equal;
}

static int texts_compare(const JinjaText *a, const JinjaText *b) {
    const uint32_t n = MIN(a->len_bytes, b->len_bytes);
    const int order = n ? memcmp(a->data, b->data, n) : 0;

    return order ? (order > 0 ? 1 : -1) : (a->len_bytes > b->len_bytes) - (a->len_bytes < b->len_bytes);
}

static int lists_compare(JinjaRun *run, const JinjaList *a, const JinjaList *b, const char *op) {
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (!jinja_equal(run, a->items[i], b->items[i]))
            return jinja_compare(run, a->items[i], b->items[i], op);
    return (a->n > b->n) - (a->n < b->n);
}

int jinja_compare(JinjaRun *run, JinjaValue a, JinjaValue b, const char *op) {
    jinja_spend(run, 1);
    if (a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED) {
        const char *why = a.type == JINJA_UNDEFINED ? a.why : b.why;

        jinja_fail(run, "%s: it cannot be compared", why ? why : "a value is undefined");
    }
    if (jinja_is_number(a) && jinja_is_number(b))
        return number_order(a, b);
    if (a.type == JINJA_TEXT && b.type == JINJA_TEXT) {
        jinja_spend(run, MIN(a.text->len_bytes, b.text->len_bytes) / 64);
        return texts_compare(a.text, b.text);
    }
    if (a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE)) {
        int order;

        jinja_enter(run);
        order = lists_compare(run, a.list, b.list, op);
        jinja_leave(run);
        return order;
    }
    jinja_fail(run, "'%s' not supported between '%s' and '%s'", op, jinja_type_name(a), jinja_type_name(b));
}

bool jinja_contains(JinjaRun *run, JinjaValue value, JinjaValue needle) {
    bool contains = false;
    JinjaList list;

    if (value.type == JINJA_TEXT) {
        if (needle.type != JINJA_TEXT)
            jinja_fail(run, "'in <string>' needs a string on its left, not '%s'", jinja_type_name(needle));
        jinja_spend(run, 1 + value.text->len_bytes / 64);
        return jinja_text_find(value.text, 0, value.text->len_bytes, needle.text) != SIZE_MAX;
    }
    if (value.type == JINJA_DICT)
        return jinja_dict_get(run, value.dict, needle);
    if (!jinja_is_iterable(value))
        jinja_fail(run, "argument of type '%s' is not iterable", jinja_type_name(value));
    list = jinja_items(run, value);
    for (uint32_t i = 0; i < list.n && !contains; i++)
        contains = jinja_equal(run, list.items[i], needle);
    return contains;
}

/* --- dicts ------------------------------------------------------------------------------------------------------ */

bool jinja_is_hashable(JinjaValue value) {
    if (value.type == JINJA_TUPLE) /* tuples in tuples are left out, which bounds the depth */
        for (uint32_t i = 0; i < value.list->n; i++)
            if (value.list->items[i].type == JINJA_TUPLE || !jinja_is_hashable(value.list->items[i]))
                return false;
    return value.type != JINJA_LIST && value.type != JINJA_DICT && value.type != JINJA_VIEW;
}

static uint64_t value_hash(const JinjaRun *run, JinjaValue value) {
    uint64_t hash = 0;
    double real;

    switch (value.type) {
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        real = jinja_as_float(value); /* numbers of all types that are equal hash alike, 0 and -0 too */
        if (real != 0)
            memcpy(&hash, &real, sizeof(hash));
        return hash_key_u64(&run->key, hash);
    case JINJA_TEXT:
        return hash_key_text(&run->key, value.text->data, value.text->len_bytes);
    case JINJA_TUPLE:
        for (uint32_t i = 0; i < value.list->n; i++)
            hash = hash_key_u64(&run->key, hash ^ value_hash(run, value.list->items[i]));
        return hash;
    default:
        return hash_key_u64(&run->key, (uint64_t)value.type);
    }
}

JinjaValue jinja_dict_new(JinjaRun *run, JinjaType type) {
    return (JinjaValue){ .type = type, .dict = jinja_take(run, 1, sizeof(JinjaDict)) };
}

/* Index of the key. UINT32_MAX: it is absent, and *slotp is its place in the hash table, if there is one. */
static uint32_t dict_find(JinjaRun *run, const JinjaDict *dict, JinjaValue key, uint32_t *slotp) {
    uint32_t at;

    if (!jinja_is_hashable(key))
        jinja_fail(run, "unhashable type: '%s' cannot be a key", jinja_type_name(key));
    if (!dict->slots) {
        for (uint32_t i = 0; i < dict->n; i++)
            if (jinja_equal(run, dict->keys[i], key))
                return i;
        return UINT32_MAX;
    }
    for (at = (uint32_t)value_hash(run, key) & (dict->n_slots - 1); dict->slots[at];
         at = (at + 1) & (dict->n_slots - 1))
        if (jinja_equal(run, dict->keys[dict->slots[at] - 1], key))
            return dict->slots[at] - 1;
    *slotp = at;
    return UINT32_MAX;
}

static void dict_grow(JinjaRun *run, JinjaDict *dict) {
    uint32_t room = dict->room ? 2 * dict->room : DICT_FIRST_ROOM;
    JinjaValue *keys = jinja_take(run, 2 * (size_t)room, sizeof(*keys));

    jinja_spend(run, room / 4);
    if (dict->n) {
        memcpy(keys, dict->keys, dict->n * sizeof(*keys));
        memcpy(keys + room, dict->values, dict->n * sizeof(*keys));
    }
    dict->keys = keys;
    dict->values = keys + room;
    dict->room = room;
    if (room <= DICT_SCANNED_MAX)
        return;
    dict->n_slots = 2 * room;
    dict->slots = jinja_take(run, dict->n_slots, sizeof(*dict->slots));
    for (uint32_t i = 0; i < dict->n; i++) {
        uint32_t at = (uint32_t)value_hash(run, keys[i]) & (dict->n_slots - 1);

        while (dict->slots[at])
            at = (at + 1) & (dict->n_slots - 1);
        dict->slots[at] = i + 1;
    }
}

void jinja_dict_set(JinjaRun *run, JinjaDict *dict, JinjaValue key, JinjaValue value) {
    uint32_t index, slot = 0;

    if (dict->n == dict->room)
        dict_grow(run, dict);
    index = dict_find(run, dict, key, &slot);
    if (index == UINT32_MAX) {
        index = dict->n++;
        dict->keys[index] = key;
        if (dict->slots)
            dict->slots[slot] = index + 1;
    }
    dict->values[index] = value;
}

const JinjaValue *jinja_dict_get(JinjaRun *run, const JinjaDict *dict, JinjaValue key) {
    uint32_t slot, index = dict_find(run, dict, key, &slot);

    return index == UINT32_MAX ? NULL : &dict->values[index];
}

const JinjaValue *jinja_dict_get_text(JinjaRun *run, const JinjaDict *dict, const JinjaText *key) {
    return jinja_dict_get(run, dict, jinja_str(key));
}

JinjaValue jinja_dict_view(JinjaRun *run, const JinjaDict *dict, JinjaViewKind kind, JinjaType type) {
    JinjaValue view = jinja_list_new(run, type, kind == JINJA_VIEW_ITEMS ? dict->n : 0);

    view.list->view = kind;
    if (kind != JINJA_VIEW_ITEMS) {
        view.list->items = kind == JINJA_VIEW_KEYS ? dict->keys : dict->values;
        view.list->n = view.list->room = dict->n;
        return view;
    }
    for (uint32_t i = 0; i < dict->n; i++) {
        view.list->items[i] = jinja_list_new(run, JINJA_TUPLE, 2);
        view.list->items[i].list->items[0] = dict->keys[i];
        view.list->items[i].list->items[1] = dict->values[i];
    }
    return view;
}
