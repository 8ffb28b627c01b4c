// SPDX-License-Identifier: Apache-2.0
/* The table of formats in which models write calls of tools, and how the format of a model is found. */
#ifndef COORDGEN_TEXT_CHAT_CALL_FORMATS_H
#define COORDGEN_TEXT_CHAT_CALL_FORMATS_H

#include "text/chat/call_shape.h"
#include "text/tokenizer/tokenizer.h"

/* Names that a template is rendered with to see how it writes a call. */
#define CALL_PROBE_NAME "coordgen_probe"
#define CALL_PROBE_KEY "coordgen_key"
#define CALL_PROBE_ARGUMENTS "{\"" CALL_PROBE_KEY "\": \"coordgen_value\"}"

/* What a template tells of its calls. */
typedef struct CallEvidence {
    const CallShape *written; /* the format of the call that it writes; NULL: none, or another format */
    bool writes_calls;        /* it writes calls at all */
    bool takes_tools;         /* it writes something else with tools than without */
    uint32_t in_source;       /* bit i: its source has the marks of format i */
} CallEvidence;

/* Finds the format of a call in what a template wrote of it, or returns NULL. */
const CallShape *call_formats_written(const char *rendered);
/* Returns a bit for each format whose marks a template's source has. */
uint32_t call_formats_in_source(const char *source, size_t len_bytes);
/* Finds the format of a model: that of the call which its template writes; else the one that the template's source and
 * the vocabulary have marks of; else the generic one, if the template does not take tools at all. NULL: the template
 * has a format that is not in the table. */
const CallShape *call_formats_find(const CallEvidence *evidence, const Tokenizer *tokenizer);
/* Returns the format of a name, or NULL. */
const CallShape *call_formats_named(const char *name);
extern const CallShape *const call_formats_generic;
/* Returns the formats in the order in which they are tried, n of them. */
const CallShape *call_formats_all(size_t *np);

#endif
