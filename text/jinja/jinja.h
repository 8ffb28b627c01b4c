// SPDX-License-Identifier: Apache-2.0
/* Jinja, as far as chat templates use it: a template is parsed once, then rendered with values from outside. The output
 * says of each byte whether the template itself had it. See docs/chat-templates.md. */
#ifndef COORDGEN_TEXT_JINJA_H
#define COORDGEN_TEXT_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/memory/account.h"
#include "text/jinja/jinja_limits.h"

typedef struct JinjaTemplate JinjaTemplate; /* immutable: any number of threads may render it */

/* 0, JINJA_E_SYNTAX, JINJA_E_LIMIT, -ENOMEM; the text names the line. */
int jinja_template_new(JinjaTemplate **templatep, const char *source, size_t len_bytes, ErrText *err);
JinjaTemplate *jinja_template_free(JinjaTemplate *template);
DEFINE_CLEANUP(JinjaTemplate, jinja_template_free)
uint64_t jinja_template_memory_bytes(const JinjaTemplate *template);
/* Returns the template's text, as long as the template lives. */
const char *jinja_template_source(const JinjaTemplate *template, size_t *len_bytesp);
/* Whether the template uses a name. */
bool jinja_template_uses(const JinjaTemplate *template, const char *name);

typedef struct JinjaRendering JinjaRendering; /* renders one template once, on one thread */
typedef struct JinjaValue JinjaValue;
typedef struct JinjaDict JinjaDict;

typedef struct JinjaOptions {
    AccountTable *accounts; /* NULL: memory is on no account */
    AccountId account;
    uint64_t input_bytes; /* about the bytes of all texts from outside */
    int64_t now_s;        /* the time for strftime_now(): seconds since 1970 */
    /* limits; 0: those above */
    uint64_t steps_max;
    uint64_t memory_bytes_max;
    uint32_t output_bytes_max;
} JinjaOptions;

int jinja_rendering_new(JinjaRendering **renderingp, const JinjaTemplate *template, const JinjaOptions *options,
                        ErrText *err);
JinjaRendering *jinja_rendering_free(JinjaRendering *rendering);
DEFINE_CLEANUP(JinjaRendering, jinja_rendering_free)

/* The rendered text, valid as long as the rendering. */
typedef struct JinjaOutput {
    const char *data;
    const uint8_t *own; /* [len_bytes] 1: the byte is the template's own */
    size_t len_bytes;
} JinjaOutput;

int jinja_render(JinjaRendering *rendering, JinjaOutput *output, ErrText *err);

/* Values from outside. After a failure the others do nothing, and jinja_render() returns the error. The caller keeps
 * the bytes of texts until then. */
typedef struct JinjaSlot { /* takes a value: a variable, or a place in a list or dict */
    JinjaValue *value;
} JinjaSlot;

JinjaSlot jinja_variable(JinjaRendering *rendering, const char *name);
/* is_own: the text counts as one in the template. */
void jinja_put_text(JinjaRendering *rendering, JinjaSlot slot, const char *data, size_t len_bytes, bool is_own);
void jinja_put_bool(JinjaRendering *rendering, JinjaSlot slot, bool boolean);
void jinja_put_none(JinjaRendering *rendering, JinjaSlot slot);
/* Puts a list of n places. */
void jinja_put_list(JinjaRendering *rendering, JinjaSlot slot, size_t n);
JinjaSlot jinja_list_place(JinjaRendering *rendering, JinjaSlot slot, size_t index);
/* Puts a dict; jinja_dict_place() adds a key to it. */
void jinja_put_dict(JinjaRendering *rendering, JinjaSlot slot);
JinjaSlot jinja_dict_place(JinjaRendering *rendering, JinjaSlot slot, const char *key);
/* Puts the value of a JSON text. 0, JINJA_E_RUN (no JSON: the error begins with what and names the byte),
 * JINJA_E_LIMIT, -ENOMEM. */
int jinja_put_json(JinjaRendering *rendering, JinjaSlot slot, const char *what, const char *data, size_t len_bytes,
                   ErrText *err);
/* Puts each member of a JSON object as a variable of its name. @taken: [n_taken] names that are not for the object.
 * 0, JINJA_E_RUN (no JSON object, a name that is taken, or a name that the template never reads: the error begins with
 * what), JINJA_E_LIMIT, -ENOMEM. */
int jinja_put_members(JinjaRendering *rendering, const char *what, const char *data, size_t len_bytes,
                      const char *const *taken, size_t n_taken, ErrText *err);

#endif
