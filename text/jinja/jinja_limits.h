// SPDX-License-Identifier: Apache-2.0
/* Error codes and limits of templates and renderings. */
#ifndef COORDGEN_TEXT_JINJA_LIMITS_H
#define COORDGEN_TEXT_JINJA_LIMITS_H

enum {
    JINJA_E_SYNTAX = 1,  /* a template that does not parse */
    JINJA_E_RUN = 2,     /* an operation that does not exist, or not for these values */
    JINJA_E_RAISED = 3,  /* the template's own raise_exception(); the text is its words */
    JINJA_E_LIMIT = 4,   /* steps, memory, depth or output */
    JINJA_E_ACCOUNT = 5, /* no memory left on the account */
};

#define JINJA_SOURCE_BYTES_MAX (1u << 20)
#define JINJA_DEPTH_MAX 400                /* evaluations inside of each other */
#define JINJA_NESTING_MAX 128              /* brackets and blocks inside of each other */
#define JINJA_STEPS_MAX 10000000           /* values computed; 64 bytes of text count as one more */
#define JINJA_MEMORY_BYTES_MAX (64u << 20) /* for a rendering, and JINJA_MEMORY_PER_BYTE for each byte of its input */
#define JINJA_MEMORY_PER_BYTE 128
#define JINJA_OUTPUT_BYTES_MAX (32u << 20)

#endif
