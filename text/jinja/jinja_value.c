// SPDX-License-Identifier: Apache-2.0
/* Truth, equality, order, length and items of values, and dicts. */
#include "text/jinja/jinja_value.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/strings/printable.h"

#define DICT_FIRST_ROOM 4
#define DICT_SCANNED_MAX 8 /* so many keys are looked at one by one */

/* --- undefined and names ---------------------------------------------------------------------------------------- */

int jinja_undefined(JinjaRun *run, JinjaValue *valuep, const char *format, ...) {
    char text[256], *why;
    va_list args;
    size_t n;

    va_start(args, format);
    n = printable_format(text, sizeof(text), format, args);
    va_end(args);
    why = jinja_take(run, n + 1, 1);
    if (!why)
        return jinja_fail_memory(run);
    memcpy(why, text, n + 1);
    *valuep = (JinjaValue){ .type = JINJA_UNDEFINED, .why = why };
    return 0;
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
        [JINJA_METHOD] = "method",       [JINJA_CYCLER] = "Cycler",
        [JINJA_JOINER] = "Joiner",       [JINJA_MISSING] = "missing",
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

/* Exact, as Python compares an int with a float. 2: not comparable (NaN). */
static int number_order(JinjaValue a, JinjaValue b) {
    int64_t x = 0, y = 0;
    double real;
    bool is_swapped = a.type == JINJA_FLOAT;

    if (jinja_as_int(a, &x) && jinja_as_int(b, &y))
        return (x > y) - (x < y);
    if (a.type == JINJA_FLOAT && b.type == JINJA_FLOAT)
        return isnan(a.real) || isnan(b.real) ? 2 : (a.real > b.real) - (a.real < b.real);
    real = is_swapped ? a.real : b.real;
    (void)jinja_as_int(is_swapped ? b : a, &x);
    if (isnan(real))
        return 2;
    if (real >= 9223372036854775808.0)
        return is_swapped ? 1 : -1;
    if (real < -9223372036854775808.0)
        return is_swapped ? -1 : 1;
    y = (int64_t)real;
    if (x != y)
        return (x > y) != is_swapped ? 1 : -1;
    if (real == (double)y)
        return 0;
    return (real < (double)y) != is_swapped ? 1 : -1;
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
    switch (value.type) {
    case JINJA_UNDEFINED:
    case JINJA_TEXT:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_RANGE:
    case JINJA_STREAM:
    case JINJA_VIEW:
        return true;
    default:
        return false;
    }
}

int jinja_list_new(JinjaRun *run, JinjaType type, uint32_t n, JinjaValue *valuep) {
    JinjaList *list;
    int r = jinja_spend(run, 1 + n / 4);

    if (r)
        return r;
    list = jinja_take(run, 1, sizeof(*list));
    if (list && n)
        list->items = jinja_take(run, n, sizeof(*list->items));
    if (!list || (n && !list->items))
        return jinja_fail_memory(run);
    list->n = n;
    *valuep = (JinjaValue){ .type = type, .list = list };
    return 0;
}

static int text_items(JinjaRun *run, const JinjaText *text, JinjaList *list) {
    JinjaValue all;
    size_t at = 0;
    int r = jinja_list_new(run, JINJA_LIST, text->n_chars, &all);

    for (uint32_t i = 0; i < text->n_chars && !r; i++) {
        size_t n = at < text->len_bytes ? jinja_text_char(text, at) : 0;

        r = jinja_text_slice(run, text, at, at + n, &all.list->items[i]);
        at += n;
    }
    if (!r)
        *list = *all.list;
    return r;
}

int jinja_items(JinjaRun *run, JinjaValue value, JinjaList *list) {
    JinjaValue all;
    int r;

    *list = (JinjaList){ 0 };
    switch (value.type) {
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_TEXT:
        return text_items(run, value.text, list);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *list = *value.list;
        return 0;
    case JINJA_STREAM:
        *list = (JinjaList){ .items = value.list->at ? value.list->items + value.list->at : value.list->items,
                             .n = value.list->n - value.list->at };
        value.list->at = value.list->n;
        return 0;
    case JINJA_DICT:
        *list = (JinjaList){ .items = value.dict->keys, .n = value.dict->n };
        return 0;
    case JINJA_RANGE:
        r = jinja_list_new(run, JINJA_LIST, value.range->n, &all);
        if (r)
            return r;
        for (uint32_t i = 0; i < value.range->n; i++)
            all.list->items[i] = jinja_int(value.range->start + (int64_t)i * value.range->step);
        *list = *all.list;
        return 0;
    default:
        return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(value));
    }
}

/* --- equality and order ----------------------------------------------------------------------------------------- */

static int lists_equal(JinjaRun *run, const JinjaList *a, const JinjaList *b, bool *equalp) {
    *equalp = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *equalp; i++) {
        int r = jinja_equal(run, a->items[i], b->items[i], equalp);

        if (r)
            return r;
    }
    return 0;
}

static int dicts_equal(JinjaRun *run, const JinjaDict *a, const JinjaDict *b, bool *equalp) {
    *equalp = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *equalp; i++) {
        const JinjaValue *other;
        int r = jinja_dict_get(run, b, a->keys[i], &other);

        if (!r && other)
            r = jinja_equal(run, a->values[i], *other, equalp);
        if (r)
            return r;
        *equalp = *equalp && other;
    }
    return 0;
}

static int equal_same_type(JinjaRun *run, JinjaValue a, JinjaValue b, bool *equalp) {
    switch (a.type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *equalp = true;
        return 0;
    case JINJA_TEXT:
        *equalp = jinja_text_equal(a.text, b.text);
        return jinja_spend(run, a.text->len_bytes / 64);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return lists_equal(run, a.list, b.list, equalp);
    case JINJA_DICT:
        return dicts_equal(run, a.dict, b.dict, equalp);
    case JINJA_RANGE:
        *equalp = a.range->n == b.range->n && (!a.range->n || a.range->start == b.range->start) &&
                  (a.range->n < 2 || a.range->step == b.range->step);
        return 0;
    default:
        *equalp = a.list == b.list;
        return 0;
    }
}

int jinja_equal(JinjaRun *run, JinjaValue a, JinjaValue b, bool *equalp) {
    int r = jinja_spend(run, 1);

    *equalp = false;
    if (r)
        return r;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equalp = number_order(a, b) == 0;
        return 0;
    }
    if (a.type != b.type)
        return 0;
    r = jinja_enter(run);
    if (r)
        return r;
    r = equal_same_type(run, a, b, equalp);
    jinja_leave(run);
    return r;
}

static int lists_compare(JinjaRun *run, const JinjaList *a, const JinjaList *b, const char *op, int *orderp) {
    for (uint32_t i = 0; i < a->n && i < b->n; i++) {
        bool equal;
        int r = jinja_equal(run, a->items[i], b->items[i], &equal);

        if (r)
            return r;
        if (!equal)
            return jinja_compare(run, a->items[i], b->items[i], op, orderp);
    }
    *orderp = (a->n > b->n) - (a->n < b->n);
    return 0;
}

int jinja_compare(JinjaRun *run, JinjaValue a, JinjaValue b, const char *op, int *orderp) {
    int r = jinja_spend(run, 1);

    if (r)
        return r;
    *orderp = 0;
    if (a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED) {
        const char *why = a.type == JINJA_UNDEFINED ? a.why : b.why;

        return jinja_fail(run, "%s: it cannot be compared", why ? why : "a value is undefined");
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *orderp = number_order(a, b);
        return 0;
    }
    if (a.type == JINJA_TEXT && b.type == JINJA_TEXT) {
        const uint32_t n = a.text->len_bytes < b.text->len_bytes ? a.text->len_bytes : b.text->len_bytes;
        const int order = n ? memcmp(a.text->data, b.text->data, n) : 0;

        *orderp = order ? (order > 0 ? 1 : -1)
                        : (a.text->len_bytes > b.text->len_bytes) - (a.text->len_bytes < b.text->len_bytes);
        return jinja_spend(run, n / 64);
    }
    if (a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE)) {
        r = jinja_enter(run);
        if (r)
            return r;
        r = lists_compare(run, a.list, b.list, op, orderp);
        jinja_leave(run);
        return r;
    }
    return jinja_fail(run, "'%s' not supported between '%s' and '%s'", op, jinja_type_name(a), jinja_type_name(b));
}

int jinja_contains(JinjaRun *run, JinjaValue value, JinjaValue needle, bool *containsp) {
    const JinjaValue *found;
    JinjaList list;
    int r;

    *containsp = false;
    if (value.type == JINJA_TEXT) {
        if (needle.type != JINJA_TEXT)
            return jinja_fail(run, "'in <string>' needs a string on its left, not '%s'", jinja_type_name(needle));
        *containsp = jinja_text_find(value.text, 0, value.text->len_bytes, needle.text) != SIZE_MAX;
        return jinja_spend(run, 1 + value.text->len_bytes / 64);
    }
    if (value.type == JINJA_DICT) {
        r = jinja_dict_get(run, value.dict, needle, &found);
        *containsp = !r && found;
        return r;
    }
    if (!jinja_is_iterable(value))
        return jinja_fail(run, "argument of type '%s' is not iterable", jinja_type_name(value));
    r = jinja_items(run, value, &list);
    for (uint32_t i = 0; i < list.n && !r && !*containsp; i++)
        r = jinja_equal(run, list.items[i], needle, containsp);
    return r;
}

/* --- dicts ------------------------------------------------------------------------------------------------------ */

bool jinja_is_hashable(JinjaValue value) {
    if (value.type == JINJA_TUPLE)
        for (uint32_t i = 0; i < value.list->n; i++)
            if (value.list->items[i].type == JINJA_TUPLE || !jinja_is_hashable(value.list->items[i]))
                return false; /* tuples in tuples are left out: nobody has such keys, and depth is bounded so */
    return value.type != JINJA_LIST && value.type != JINJA_DICT && value.type != JINJA_VIEW;
}

static uint64_t value_hash(const JinjaRun *run, JinjaValue value) {
    uint64_t hash = 0;
    double real;

    switch (value.type) {
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        real = jinja_as_float(value) + 0.0; /* as equality has it, of any type; -0 is 0 */
        if (real == 0)
            real = 0;
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

int jinja_dict_new(JinjaRun *run, JinjaType type, JinjaValue *valuep) {
    JinjaDict *dict = jinja_take(run, 1, sizeof(*dict));

    if (!dict)
        return jinja_fail_memory(run);
    *valuep = (JinjaValue){ .type = type, .dict = dict };
    return 0;
}

/* *indexp: of the key; UINT32_MAX: absent, and *slotp is where it belongs. */
static int dict_find(JinjaRun *run, const JinjaDict *dict, JinjaValue key, uint32_t *indexp, uint32_t *slotp) {
    bool equal = false;
    int r = 0;

    *indexp = UINT32_MAX;
    if (!dict->slots) {
        for (uint32_t i = 0; i < dict->n && !r && !equal; i++) {
            r = jinja_equal(run, dict->keys[i], key, &equal);
            if (equal)
                *indexp = i;
        }
        return r;
    }
    for (uint32_t at = (uint32_t)value_hash(run, key) & (dict->n_slots - 1);; at = (at + 1) & (dict->n_slots - 1)) {
        *slotp = at;
        if (!dict->slots[at])
            return 0;
        r = jinja_equal(run, dict->keys[dict->slots[at] - 1], key, &equal);
        if (r)
            return r;
        if (equal) {
            *indexp = dict->slots[at] - 1;
            return 0;
        }
    }
}

static int dict_grow(JinjaRun *run, JinjaDict *dict) {
    uint32_t room = dict->room ? 2 * dict->room : DICT_FIRST_ROOM;
    JinjaValue *keys = jinja_take(run, 2 * (size_t)room, sizeof(*keys));
    int r = jinja_spend(run, room / 4);

    if (r)
        return r;
    if (!keys)
        return jinja_fail_memory(run);
    if (dict->n) {
        memcpy(keys, dict->keys, dict->n * sizeof(*keys));
        memcpy(keys + room, dict->values, dict->n * sizeof(*keys));
    }
    dict->keys = keys;
    dict->values = keys + room;
    dict->room = room;
    if (room <= DICT_SCANNED_MAX)
        return 0;
    dict->n_slots = 2 * room;
    dict->slots = jinja_take(run, dict->n_slots, sizeof(*dict->slots));
    if (!dict->slots)
        return jinja_fail_memory(run);
    for (uint32_t i = 0; i < dict->n; i++) {
        uint32_t at = (uint32_t)value_hash(run, keys[i]) & (dict->n_slots - 1);

        while (dict->slots[at])
            at = (at + 1) & (dict->n_slots - 1);
        dict->slots[at] = i + 1;
    }
    return 0;
}

int jinja_dict_set(JinjaRun *run, JinjaDict *dict, JinjaValue key, JinjaValue value) {
    uint32_t index, slot;
    int r;

    if (!jinja_is_hashable(key))
        return jinja_fail(run, "unhashable type: '%s' cannot be a key", jinja_type_name(key));
    if (dict->n == dict->room) {
        r = dict_grow(run, dict);
        if (r)
            return r;
    }
    r = dict_find(run, dict, key, &index, &slot);
    if (r)
        return r;
    if (index == UINT32_MAX) {
        index = dict->n++;
        dict->keys[index] = key;
        if (dict->slots)
            dict->slots[slot] = index + 1;
    }
    dict->values[index] = value;
    return 0;
}

int jinja_dict_get(JinjaRun *run, const JinjaDict *dict, JinjaValue key, const JinjaValue **foundp) {
    uint32_t index, slot;
    int r;

    *foundp = NULL;
    if (!jinja_is_hashable(key))
        return jinja_fail(run, "unhashable type: '%s' cannot be a key", jinja_type_name(key));
    r = dict_find(run, dict, key, &index, &slot);
    if (!r && index != UINT32_MAX)
        *foundp = &dict->values[index];
    return r;
}

int jinja_dict_view(JinjaRun *run, const JinjaDict *dict, JinjaViewKind kind, JinjaType type, JinjaValue *valuep) {
    int r = jinja_list_new(run, type, kind == JINJA_VIEW_ITEMS ? dict->n : 0, valuep);

    if (r)
        return r;
    valuep->list->view = (uint8_t)kind;
    if (kind != JINJA_VIEW_ITEMS) {
        valuep->list->items = kind == JINJA_VIEW_KEYS ? dict->keys : dict->values;
        valuep->list->n = dict->n;
        return 0;
    }
    for (uint32_t i = 0; i < dict->n && !r; i++) {
        JinjaValue *pair = &valuep->list->items[i];

        r = jinja_list_new(run, JINJA_TUPLE, 2, pair);
        if (r)
            break;
        pair->list->items[0] = dict->keys[i];
        pair->list->items[1] = dict->values[i];
    }
    return r;
}
