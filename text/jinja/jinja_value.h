// SPDX-License-Identifier: Apache-2.0
/* Values of a template, and the rendering that they belong to. Text knows of each byte where it came from. */
#ifndef COORDGEN_TEXT_JINJA_VALUE_H
#define COORDGEN_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/hash_key.h"
#include "text/jinja/jinja.h"
#include "text/jinja/jinja_arena.h"

/* --- text ------------------------------------------------------------------------------------------------------- */

/* Bytes that a text may be continued in, where it is the last of them: what grows by bits is not copied each time. */
typedef struct JinjaTextBlock {
    char *data;
    uint8_t *own; /* as JinjaText.own */
    uint32_t used_bytes, room_bytes;
} JinjaTextBlock;

/* Never changed. Bytes are the template's own where they stand in the template itself; all others came from outside, or
 * were computed (numbers, brackets of lists, escapes). */
struct JinjaText {
    const char *data;
    const uint8_t *own; /* for each byte 1: the template's; NULL: as is_own for all */
    uint32_t len_bytes;
    uint32_t n_chars;
    bool is_own;
    bool is_safe;          /* of the filters "safe" and "escape": what is added to it with "+" is escaped */
    JinjaTextBlock *block; /* NULL: it cannot be continued in place */
};
typedef struct JinjaText JinjaText;

/* --- values ----------------------------------------------------------------------------------------------------- */

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
    JINJA_RANGE,
    JINJA_STREAM, /* what Python calls an iterator: it can be gone through once, and has no length */
    JINJA_VIEW,   /* keys(), values(), items() of a dict */
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION,
    JINJA_METHOD, /* of a value, ready to be called */
    JINJA_CYCLER,
    JINJA_JOINER,
    JINJA_MISSING, /* no value: an argument that was not given, a name that nothing is bound to */
} JinjaType;

typedef struct JinjaList JinjaList;
typedef struct JinjaDict JinjaDict;
typedef struct JinjaRange JinjaRange;
typedef struct JinjaLoop JinjaLoop;
typedef struct JinjaMacro JinjaMacro;
typedef struct JinjaFunction JinjaFunction;
typedef struct JinjaBound JinjaBound;
typedef struct JinjaNode JinjaNode;
typedef struct JinjaScope JinjaScope;

struct JinjaValue {
    JinjaType type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *why; /* undefined: what there is none of; NULL: nothing to say */
        const JinjaText *text;
        JinjaList *list; /* list, tuple, stream, view, cycler; joiner: of the separator */
        JinjaDict *dict; /* dict, namespace */
        const JinjaRange *range;
        JinjaLoop *loop;
        const JinjaMacro *macro;
        const JinjaFunction *function;
        const JinjaBound *bound;
    };
};
typedef struct JinjaValue JinjaValue;

struct JinjaList {
    JinjaValue *items;
    uint32_t n;
    uint32_t at;  /* stream: the next one; cycler: likewise; joiner: whether it was used */
    uint8_t view; /* view: JinjaViewKind */
};

typedef enum JinjaViewKind {
    JINJA_VIEW_KEYS,
    JINJA_VIEW_VALUES,
    JINJA_VIEW_ITEMS,
} JinjaViewKind;

struct JinjaRange {
    int64_t start, stop, step;
    uint32_t n;
};

/* In the order in which keys came. */
struct JinjaDict {
    JinjaValue *keys;
    JinjaValue *values;
    uint32_t n, room;
    uint32_t *slots; /* [n_slots] of a hash table: index + 1; NULL: few enough to look at all */
    uint32_t n_slots;
};

/* --- a rendering ------------------------------------------------------------------------------------------------ */

typedef struct JinjaRun {
    JinjaArena arena;
    const JinjaTemplate *template;
    JinjaValue *globals; /* [names of the template] what is bound at the top */
    JinjaScope *root;
    uint64_t steps_left;
    uint32_t depth;
    uint32_t line; /* of what is being evaluated, for errors */
    HashKey key;
    int64_t now_s;
    struct JinjaWriter *out;
    ErrText *err;
} JinjaRun;

/* JINJA_E_RUN, with a text that begins with the place. */
int jinja_fail(JinjaRun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for memory that could not be taken: by run->arena.failure. */
int jinja_fail_memory(JinjaRun *run);
/* Counts work: 1 for a value or about 64 bytes. 0 or JINJA_E_LIMIT. */
int jinja_spend(JinjaRun *run, uint64_t n_steps);
/* One level of nesting deeper; 0, or JINJA_E_LIMIT and none was entered. */
int jinja_enter(JinjaRun *run);
static inline void jinja_leave(JinjaRun *run) {
    run->depth--;
}
/* Memory of the rendering, zeroed; NULL: jinja_fail_memory() is to be returned. */
void *jinja_take(JinjaRun *run, size_t n, size_t each_bytes);

/* --- building texts (jinja_text.c) ------------------------------------------------------------------------------ */

/* A text while it grows. A failure stays and is told at the end. */
typedef struct JinjaWriter {
    JinjaRun *run;
    char *data;
    uint8_t *own;
    uint32_t len_bytes, room_bytes;
    uint32_t n_chars, n_own_bytes;
    uint32_t limit_bytes; /* 0: none of its own */
    int failure;
} JinjaWriter;

void jinja_writer_init(JinjaWriter *writer, JinjaRun *run);
void jinja_write(JinjaWriter *writer, const JinjaText *text);
void jinja_write_part(JinjaWriter *writer, const JinjaText *text, size_t from_byte, size_t to_byte);
/* Computed, of ASCII. */
void jinja_write_ascii(JinjaWriter *writer, const char *text, size_t len_bytes);
void jinja_write_chars(JinjaWriter *writer, const char *text);
/* A character with an origin. */
void jinja_write_code_point(JinjaWriter *writer, uint32_t code_point, bool is_own);
int jinja_writer_finish(JinjaWriter *writer, JinjaValue *valuep);

/* A text of bytes that outlive it. NULL: out of memory. */
const JinjaText *jinja_text_of(JinjaArena *arena, const char *data, size_t len_bytes, bool is_own);
/* Copies; a computed text of ASCII. */
int jinja_text_new(JinjaRun *run, const char *data, size_t len_bytes, JinjaValue *valuep);
int jinja_text_slice(JinjaRun *run, const JinjaText *text, size_t from_byte, size_t to_byte, JinjaValue *valuep);
int jinja_text_concat(JinjaRun *run, const JinjaText *a, const JinjaText *b, JinjaValue *valuep);
/* Where a character begins; index <= n_chars. */
size_t jinja_text_offset(const JinjaText *text, size_t index);
/* Bytes of the character at a byte; what is no UTF-8 counts byte by byte. */
size_t jinja_text_char(const JinjaText *text, size_t at_byte);
/* Of the one that ends before a byte, which is not the first. */
size_t jinja_text_char_before(const JinjaText *text, size_t at_byte);
/* The character, or 0xfffd - which *len_bytesp tells from a real one - for a byte that is none. */
uint32_t jinja_text_code_point(const JinjaText *text, size_t at_byte, size_t *len_bytesp);
bool jinja_text_is_own(const JinjaText *text, size_t at_byte);
/* Where needle is in text[from, to), SIZE_MAX: nowhere. An empty one is at from. */
size_t jinja_text_find(const JinjaText *text, size_t from_byte, size_t to_byte, const JinjaText *needle);
size_t jinja_text_rfind(const JinjaText *text, size_t from_byte, size_t to_byte, const JinjaText *needle);

static inline bool jinja_text_is_ascii(const JinjaText *text) {
    return text->n_chars == text->len_bytes;
}
static inline bool jinja_text_is(const JinjaText *text, const char *word) {
    return text->len_bytes == strlen(word) && !memcmp(text->data, word, text->len_bytes);
}
static inline bool jinja_text_equal(const JinjaText *a, const JinjaText *b) {
    return a == b || (a->len_bytes == b->len_bytes && (!a->len_bytes || !memcmp(a->data, b->data, a->len_bytes)));
}

/* --- values (jinja_value.c) ------------------------------------------------------------------------------------- */

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
static inline bool jinja_given(JinjaValue value) {
    return value.type != JINJA_MISSING;
}
static inline bool jinja_is_number(JinjaValue value) {
    return value.type == JINJA_BOOL || value.type == JINJA_INT || value.type == JINJA_FLOAT;
}

/* What there is none of, for the error of whoever uses it: of a format. */
int jinja_undefined(JinjaRun *run, JinjaValue *valuep, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Python's name of the type. */
const char *jinja_type_name(JinjaValue value);
bool jinja_truth(JinjaValue value);
/* 0 and *equalp; nesting that is too deep is an error. */
int jinja_equal(JinjaRun *run, JinjaValue a, JinjaValue b, bool *equalp);
/* Less, equal, greater: -1, 0, 1. Types that have no order are an error that names the operator. */
int jinja_compare(JinjaRun *run, JinjaValue a, JinjaValue b, const char *op, int *orderp);
/* needle in value. */
int jinja_contains(JinjaRun *run, JinjaValue value, JinjaValue needle, bool *containsp);
/* A number as an integer, where Python would take it for an index. */
bool jinja_as_int(JinjaValue value, int64_t *integerp);
double jinja_as_float(JinjaValue value);

int jinja_list_new(JinjaRun *run, JinjaType type, uint32_t n, JinjaValue *valuep);
/* All items of what can be gone through. A stream is used up. */
int jinja_items(JinjaRun *run, JinjaValue value, JinjaList *list);
bool jinja_is_iterable(JinjaValue value);
/* len(): false where Python has none. */
bool jinja_length(JinjaValue value, int64_t *lengthp);

int jinja_dict_new(JinjaRun *run, JinjaType type, JinjaValue *valuep);
int jinja_dict_set(JinjaRun *run, JinjaDict *dict, JinjaValue key, JinjaValue value);
/* NULL in *foundp: no such key. A key that cannot be hashed is an error. */
int jinja_dict_get(JinjaRun *run, const JinjaDict *dict, JinjaValue key, const JinjaValue **foundp);
int jinja_dict_view(JinjaRun *run, const JinjaDict *dict, JinjaViewKind kind, JinjaType type, JinjaValue *valuep);
/* Whether it may be a key. */
bool jinja_is_hashable(JinjaValue value);

/* --- as text (jinja_print.c) ------------------------------------------------------------------------------------ */

/* str(): a text itself, nothing for what is undefined. */
int jinja_to_text(JinjaRun *run, JinjaValue value, const JinjaText **textp);
void jinja_write_value(JinjaWriter *writer, JinjaValue value);
/* repr(). */
void jinja_write_repr(JinjaWriter *writer, JinjaValue value);
/* Python's shortest digits that mean the number. [32] */
size_t jinja_float_text(double value, char *text);

#endif
