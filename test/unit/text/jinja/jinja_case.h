// SPDX-License-Identifier: Apache-2.0
/* Renders a template in a test, with variables from JSON. */
#ifndef COORDGEN_TEST_UNIT_JINJA_CASE_H
#define COORDGEN_TEST_UNIT_JINJA_CASE_H

#include <jansson.h>

#include "text/jinja/jinja.h"

#define JINJA_GOLDEN_NOW_S 1753531200 /* NOW of test/golden/templates/reference.py */

typedef struct JinjaCase {
    JinjaTemplate *template;
    JinjaRendering *rendering;
    JinjaOutput output; /* valid if r is 0 */
    ErrText err;
    int r;
    char *texts[64]; /* JSON of the variables */
    size_t n_texts;
} JinjaCase;

/* variables: an object, whose members become values from outside; NULL: none. */
void jinja_case_init(JinjaCase *one, const char *source, size_t len_bytes, const json_t *variables,
                     const JinjaOptions *options);
void jinja_case_deinit(JinjaCase *one);
/* Reads a file of test/golden/templates; the caller calls json_decref(). */
json_t *jinja_golden_load(const char *name);

#endif
