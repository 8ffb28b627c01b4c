// SPDX-License-Identifier: Apache-2.0
/* Values of a template, as Python has them. Functions fail as jinja_run.h says. */
#ifndef COORDGEN_TEXT_JINJA_VALUE_H
#define COORDGEN_TEXT_JINJA_VALUE_H

#include "text/jinja/values/jinja_text.h"

typedef enum JinjaType {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_RANGE,  /* the numbers of range() */
    JINJA_STREAM, /* Python's iterator: gone through once, without a length */
    JINJA_VIEW,   /* keys(), values(), items() of a dict */
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION,
    JINJA_METHOD,  /* a method that is bound to its value */
    JINJA_MISSING, /* no value: an argument that was not given, a name that nothing is bound to */
} JinjaType;

typedef struct JinjaList JinjaList;
typedef struct JinjaDict JinjaDict;
typedef struct JinjaLoop JinjaLoop;
typedef struct JinjaMacro JinjaMacro;
typedef struct JinjaBuiltin JinjaBuiltin;
typedef struct JinjaBound JinjaBound;

typedef struct JinjaValue {
    JinjaType type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *why; /* undefined: the error for whoever uses the value; NULL: nothing special */
        const JinjaText *text;
        JinjaList *list; /* list, tuple, range, stream, view */
        JinjaDict *dict; /* dict, namespace */
        JinjaLoop *loop;
        const JinjaMacro *macro;
        const JinjaBuiltin *function;
        const JinjaBound *bound;
    };
} JinjaValue;

typedef enum JinjaViewKind {
    JINJA_VIEW_KEYS,
    JINJA_VIEW_VALUES,
    JINJA_VIEW_ITEMS,
} JinjaViewKind;

struct JinjaList {
    JinjaValue *items;
    uint32_t n, room;
    uint32_t at; /* stream: index of the next item */
};

/* Keys are kept in the order in which they came. */
struct JinjaDict {
    JinjaValue *keys, *values;
    uint32_t n, room;
    uint32_t *slots; /* [2 * room] hash table of index + 1; NULL: room is 0 */
};

#define JINJA_NO_VALUE ((JinjaValue){ .type = JINJA_MISSING })
#define JINJA_NOTHING ((JinjaValue){ .type = JINJA_NONE })

static inline JinjaValue jinja_bool(bool boolean) {
    return (JinjaValue){ .type = JINJA_BOOL, .boolean = boolean };
}
static inline JinjaValue jinja_int(int64_t integer) {
    return (JinjaValue){ .type = JINJA_INT, .integer = integer };
}
static inline JinjaValue jinja_float(double real) {
    return (JinjaValue){ .type = JINJA_FLOAT, .real = real };
}
static inline JinjaValue jinja_str(const JinjaText *text) {
    return (JinjaValue){ .type = JINJA_TEXT, .text = text };
}
static inline bool jinja_given(JinjaValue value) {
    return value.type != JINJA_MISSING;
}
static inline bool jinja_is_number(JinjaValue value) {
    return value.type == JINJA_BOOL || value.type == JINJA_INT || value.type == JINJA_FLOAT;
}

/* Makes an undefined value; the format is the error for whoever uses the value. */
JinjaValue jinja_undefined(JinjaRun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the rendering with the value's own error if it is undefined. */
void jinja_check_defined(JinjaRun *run, JinjaValue value);
/* Python's name of the type. */
const char *jinja_type_name(JinjaValue value);
bool jinja_truth(JinjaValue value);
bool jinja_equal(JinjaRun *run, JinjaValue a, JinjaValue b);
/* -1, 0, 1: less, equal, greater; 2: a NaN is one of them. Types without an order fail with a text that names op. */
int jinja_compare(JinjaRun *run, JinjaValue a, JinjaValue b, const char *op);
/* Python's "needle in value". */
bool jinja_contains(JinjaRun *run, JinjaValue value, JinjaValue needle);
/* Reads an int or a bool; false: the value is neither. */
bool jinja_as_int(JinjaValue value, int64_t *integerp);
/* value must be a number. */
double jinja_as_float(JinjaValue value);
/* Bytes of the digits at the beginning of a text, of a fraction and an exponent too unless is_whole is set. */
size_t jinja_number_at(const char *data, size_t len_bytes, bool is_whole);
/* Reads a decimal number, an integer unless it has a fraction or an exponent. false: it is none, or out of range. */
bool jinja_number_read(const char *data, size_t len_bytes, JinjaValue *numberp);

typedef struct JinjaSortItem {
    JinjaValue key, item;
} JinjaSortItem;

/* Sorts by merging, which is stable, so that the time goes with n log n whatever the keys are. Uses up items[n]. Keys
 * without an order fail. */
JinjaSortItem *jinja_sort(JinjaRun *run, JinjaSortItem *items, uint32_t n, bool reverse);

/* Makes a list of n undefined items. */
JinjaValue jinja_list_new(JinjaRun *run, JinjaType type, uint32_t n);
/* Makes an empty list with room for so many items. */
JinjaValue jinja_list_room(JinjaRun *run, JinjaType type, uint32_t room);
void jinja_list_add(JinjaRun *run, JinjaList *list, JinjaValue item);
/* All items of an iterable value. A stream is used up. */
JinjaList jinja_items(JinjaRun *run, JinjaValue value);
bool jinja_is_iterable(JinjaValue value);
/* Python's len(); false: the value has no length. */
bool jinja_length(JinjaValue value, int64_t *lengthp);

JinjaValue jinja_dict_new(JinjaRun *run, JinjaType type);
void jinja_dict_set(JinjaRun *run, JinjaDict *dict, JinjaValue key, JinjaValue value);
/* NULL: there is no such key. A key that cannot be hashed fails. */
const JinjaValue *jinja_dict_get(JinjaRun *run, const JinjaDict *dict, JinjaValue key);
JinjaValue jinja_dict_view(JinjaRun *run, const JinjaDict *dict, JinjaViewKind kind, JinjaType type);
/* Whether the value may be a key. */
bool jinja_is_hashable(JinjaValue value);

#endif
