// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_run.h"

#include <errno.h>
#include <stdarg.h>

#include "base/strings/printable.h"

_Noreturn void jinja_throw(JinjaRun *run, int code) {
    run->failure = code;
    longjmp(run->failed, 1);
}

_Noreturn void jinja_fail(JinjaRun *run, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    printable_format(text, sizeof(text), format, args);
    va_end(args);
    jinja_throw(run, err_set(run->err, JINJA_E_RUN, "chat template line %u: %s", run->line, text));
}

_Noreturn void jinja_fail_memory(JinjaRun *run) {
    switch (run->arena.failure) {
    case JINJA_ARENA_E_LIMIT:
        jinja_throw(run,
                    err_set(run->err, JINJA_E_LIMIT, "chat template line %u: it takes more than %llu MiB of memory",
                            run->line, (unsigned long long)run->arena.limit_bytes >> 20));
    case JINJA_ARENA_E_ACCOUNT:
        jinja_throw(run, err_set(run->err, JINJA_E_ACCOUNT,
                                 "no memory for the text that the chat template writes: memory-limit is reached"));
    default:
        jinja_throw(run, err_set(run->err, -ENOMEM, "out of memory in the chat template"));
    }
}

void jinja_spend(JinjaRun *run, uint64_t n_steps) {
    if (n_steps > run->steps_left)
        jinja_throw(run, err_set(run->err, JINJA_E_LIMIT, "chat template line %u: it takes too many steps", run->line));
    run->steps_left -= n_steps;
}

void jinja_enter(JinjaRun *run) {
    if (run->depth == JINJA_DEPTH_MAX)
        jinja_throw(run, err_set(run->err, JINJA_E_LIMIT, "chat template line %u: nested more than %d deep", run->line,
                                 JINJA_DEPTH_MAX));
    run->depth++;
}

void *jinja_take(JinjaRun *run, size_t n, size_t each_bytes) {
    size_t len_bytes;
    void *data = NULL;

    if (__builtin_mul_overflow(n, each_bytes, &len_bytes))
        run->arena.failure = JINJA_ARENA_E_LIMIT;
    else
        data = jinja_arena_take(&run->arena, len_bytes);
    if (!data)
        jinja_fail_memory(run);
    return data;
}
