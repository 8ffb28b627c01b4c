// SPDX-License-Identifier: Apache-2.0
/* Values as text: as Python's str() and repr() write them, and as JSON. */
#ifndef COORDGEN_TEXT_JINJA_PRINT_H
#define COORDGEN_TEXT_JINJA_PRINT_H

#include "text/jinja/values/jinja_value.h"

typedef enum JinjaQuotes {
    JINJA_QUOTES_PYTHON,
    JINJA_QUOTES_JSON,
    JINJA_QUOTES_JSON_ASCII, /* other characters become escapes */
} JinjaQuotes;

/* The settings of Python's json.dumps(). */
typedef struct JinjaStyle {
    JinjaQuotes quotes;
    bool sorts_keys;
    const JinjaText *indent; /* NULL: all on one line */
    const JinjaText *item_separator, *key_separator;
} JinjaStyle;

/* str(): a text itself, an empty text for an undefined value. */
const JinjaText *jinja_to_text(JinjaRun *run, JinjaValue value);
void jinja_write_value(JinjaWriter *writer, JinjaValue value);
/* depth: levels of indents before the lines of the value. */
void jinja_write_styled(JinjaWriter *writer, JinjaValue value, const JinjaStyle *style, uint32_t depth);

#endif
