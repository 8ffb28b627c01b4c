// SPDX-License-Identifier: Apache-2.0
/* State of a rendering while it runs: its memory, its limits, and its failures.
 *
 * A failure ends the rendering at once: jinja_fail() and its kin jump back to the function of jinja.h that was called,
 * which returns the error. The arena owns all memory, so nothing has to be released on the way. No function between may
 * therefore own anything else than arena memory. */
#ifndef COORDGEN_TEXT_JINJA_RUN_H
#define COORDGEN_TEXT_JINJA_RUN_H

#include <setjmp.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash_key.h"
#include "text/jinja/values/jinja_arena.h"
#include "text/jinja/jinja_limits.h"

typedef struct JinjaTemplate JinjaTemplate;
typedef struct JinjaScope JinjaScope;
typedef struct JinjaValue JinjaValue;
typedef struct JinjaWriter JinjaWriter;
typedef struct JinjaRun JinjaRun;

struct JinjaRun {
    JinjaArena arena;
    const JinjaTemplate *template;
    JinjaValue *globals; /* [names of the template] values that are bound at the top */
    JinjaScope *root;
    uint64_t steps_left;
    uint32_t depth;
    uint32_t line; /* of the construct that is evaluated, for errors */
    HashKey key;
    int64_t now_s;
    JinjaWriter *out;
    ErrText *err;
    int failure;    /* the first error; 0: none */
    jmp_buf failed; /* set by the function of jinja.h that runs */
};

/* Ends the rendering with a code whose text is in run->err already. */
_Noreturn void jinja_throw(JinjaRun *run, int code);
/* Ends the rendering with JINJA_E_RUN and a text that begins with the line. */
_Noreturn void jinja_fail(JinjaRun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the rendering for the reason in run->arena.failure. */
_Noreturn void jinja_fail_memory(JinjaRun *run);
/* Counts work: 1 step for a value or about 64 bytes. */
void jinja_spend(JinjaRun *run, uint64_t n_steps);
/* Enters one level of nesting. */
void jinja_enter(JinjaRun *run);
static inline void jinja_leave(JinjaRun *run) {
    run->depth--;
}
/* Takes zeroed memory of the rendering; never NULL. */
void *jinja_take(JinjaRun *run, size_t n, size_t each_bytes);

#endif
