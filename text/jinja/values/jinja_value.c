// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/min_max.h"
#include "base/strings/decimal.h"
#include "base/strings/printable.h"
#include "text/jinja/values/jinja_run.h"

#define DICT_FIRST_ROOM 4

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

void jinja_check_defined(JinjaRun *run, JinjaValue value) {
    if (value.type == JINJA_UNDEFINED)
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

static size_t skip_digits(const char *data, size_t len_bytes, size_t at) {
    while (at < len_bytes && isdigit((unsigned char)data[at]))
        at++;
    return at;
}

size_t jinja_number_at(const char *data, size_t len_bytes, bool is_whole) {
    size_t n = skip_digits(data, len_bytes, 0), digits, end;

    if (!n || is_whole)
        return n;
    if (n < len_bytes && data[n] == '.') {
        end = skip_digits(data, len_bytes, n + 1);
        n = end > n + 1 ? end : n;
    }
    if (n < len_bytes && (data[n] | 0x20) == 'e') {
        digits = n + 1 + (n + 1 < len_bytes && (data[n + 1] == '+' || data[n + 1] == '-'));
        end = skip_digits(data, len_bytes, digits);
        n = end > digits ? end : n;
    }
    return n;
}

bool jinja_number_read(const char *data, size_t len_bytes, JinjaValue *numberp) {
    JinjaValue number = jinja_float(0);
    char text[400], *end;

    if (!len_bytes || len_bytes >= sizeof(text))
        return false;
    memcpy(text, data, len_bytes);
    text[len_bytes] = 0;
    if (!strpbrk(text, ".eE")) {
        errno = 0;
        number = jinja_int(strtoll(text, &end, 10));
        if (errno || end != text + len_bytes)
            return false;
    } else if (!decimal_parse(text, &number.real)) {
        return false;
    }
    *numberp = number;
    return true;
}

/* -1, 0, 1 as jinja_compare(); 2: one of the numbers is a NaN. */
static int number_order(JinjaValue a, JinjaValue b) {
    const double x = jinja_as_float(a), y = jinja_as_float(b);
    int64_t i = 0, k = 0;

    if (jinja_as_int(a, &i) && jinja_as_int(b, &k))
        return (i > k) - (i < k);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
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
    case JINJA_RANGE:
    case JINJA_VIEW:
        *lengthp = value.list->n;
        return true;
    case JINJA_DICT:
        *lengthp = value.dict->n;
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

JinjaList jinja_items(JinjaRun *run, JinjaValue value) {
    JinjaList list;

    switch (value.type) {
    case JINJA_UNDEFINED:
        return (JinjaList){ 0 };
    case JINJA_TEXT:
        return text_items(run, value.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
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
    case JINJA_RANGE:
        return lists_equal(run, a.list, b.list);
    case JINJA_DICT:
        return dicts_equal(run, a.dict, b.dict);
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

static bool goes_first(JinjaRun *run, const JinjaSortItem *right, const JinjaSortItem *left, bool reverse) {
    return (reverse ? jinja_compare(run, left->key, right->key, "<")
                    : jinja_compare(run, right->key, left->key, "<")) == -1;
}

JinjaSortItem *jinja_sort(JinjaRun *run, JinjaSortItem *items, uint32_t n, bool reverse) {
    JinjaSortItem *from = items, *to = jinja_take(run, (size_t)n + 1, sizeof(*to));

    for (uint64_t width = 1; width < n; width *= 2) {
        JinjaSortItem *other = from;

        for (uint64_t begin = 0; begin < n; begin += 2 * width) {
            uint64_t middle = MIN(begin + width, n), end = MIN(begin + 2 * width, n), a = begin, b = middle;

            for (uint64_t i = begin; i < end; i++) {
                bool right = a == middle || (b < end && goes_first(run, &from[b], &from[a], reverse));

                to[i] = right ? from[b++] : from[a++];
            }
        }
        from = to;
        to = other;
    }
    return from;
}

/* --- dicts ------------------------------------------------------------------------------------------------------ */

bool jinja_is_hashable(JinjaValue value) {
    return value.type != JINJA_LIST && value.type != JINJA_TUPLE && value.type != JINJA_DICT &&
           value.type != JINJA_VIEW;
}

static uint64_t value_hash(JinjaRun *run, JinjaValue value) {
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
        jinja_spend(run, value.text->len_bytes / 64);
        return hash_key_text(&run->key, value.text->data, value.text->len_bytes);
    default:
        return hash_key_u64(&run->key, (uint64_t)value.type);
    }
}

JinjaValue jinja_dict_new(JinjaRun *run, JinjaType type) {
    return (JinjaValue){ .type = type, .dict = jinja_take(run, 1, sizeof(JinjaDict)) };
}

/* Index of the key. UINT32_MAX: it is absent, and *slotp is its place in the hash table, if there is one. */
static uint32_t dict_find(JinjaRun *run, const JinjaDict *dict, JinjaValue key, uint32_t *slotp) {
    const uint32_t mask = 2 * dict->room - 1;
    uint32_t at;

    if (!jinja_is_hashable(key))
        jinja_fail(run, "unhashable type: '%s' cannot be a key", jinja_type_name(key));
    if (!dict->slots)
        return UINT32_MAX;
    for (at = (uint32_t)value_hash(run, key) & mask; dict->slots[at]; at = (at + 1) & mask)
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
    dict->slots = jinja_take(run, 2 * (size_t)room, sizeof(*dict->slots));
    for (uint32_t i = 0; i < dict->n; i++) {
        uint32_t at = (uint32_t)value_hash(run, keys[i]) & (2 * room - 1);

        while (dict->slots[at])
            at = (at + 1) & (2 * room - 1);
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
        dict->slots[slot] = index + 1;
    }
    dict->values[index] = value;
}

const JinjaValue *jinja_dict_get(JinjaRun *run, const JinjaDict *dict, JinjaValue key) {
    uint32_t slot, index = dict_find(run, dict, key, &slot);

    return index == UINT32_MAX ? NULL : &dict->values[index];
}

JinjaValue jinja_dict_view(JinjaRun *run, const JinjaDict *dict, JinjaViewKind kind, JinjaType type) {
    JinjaValue view = jinja_list_new(run, type, kind == JINJA_VIEW_ITEMS ? dict->n : 0);

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
