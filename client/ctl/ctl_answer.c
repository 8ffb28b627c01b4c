// SPDX-License-Identifier: Apache-2.0
/* Answers as people see them: text, thinking and calls. */
#include <string.h>

#include "client/ctl/ctl.h"

#define DIM "\033[2m" /* "faint" of ECMA-48 */
#define PLAIN "\033[0m"

/* Begins a part: a blank line parts the thinking from what follows. */
static void begin_part(CtlAnswer *answer, CoordgenPart part) {
    if (answer->part == COORDGEN_PART_REASONING)
        fputs(answer->last == '\n' ? PLAIN "\n" : PLAIN "\n\n", stdout);
    else if (answer->last && answer->last != '\n')
        fputc('\n', stdout);
    if (part == COORDGEN_PART_REASONING)
        fputs(DIM, stdout);
    answer->part = part;
}

static void put(CtlAnswer *answer, const char *text, size_t len_bytes, bool tty) {
    ctl_put(stdout, text, len_bytes, tty);
    if (len_bytes)
        answer->last = text[len_bytes - 1];
}

/* Prints a call on a line of its own: NAME ARGUMENTS. */
static void put_call(CtlAnswer *answer, const CoordgenCallDelta *call, bool tty) {
    if (call->name) {
        if (answer->last && answer->last != '\n')
            put(answer, "\n", 1, tty);
        put(answer, call->name, strlen(call->name), tty);
        put(answer, " ", 1, tty);
    }
    put(answer, call->arguments, call->arguments_bytes, tty);
}

int ctl_answer_put(CtlAnswer *answer, const Ctl *ctl, const CoordgenEvent *event) {
    if (event->part == COORDGEN_PART_REASONING && !ctl->out_tty)
        return 0;
    if (!event->text_bytes && !event->call)
        return 0;
    if (event->part != answer->part && (answer->part || event->part == COORDGEN_PART_REASONING))
        begin_part(answer, event->part);
    answer->part = event->part;
    if (event->call)
        put_call(answer, event->call, ctl->out_tty);
    else
        put(answer, event->text, event->text_bytes, ctl->out_tty);
    return fflush(stdout) ? 1 : 0;
}

void ctl_answer_end(CtlAnswer *answer, bool ends_line) {
    if (answer->part == COORDGEN_PART_REASONING)
        fputs(PLAIN, stdout);
    if (ends_line && answer->last && answer->last != '\n')
        fputc('\n', stdout);
    *answer = (CtlAnswer){ 0 };
}

bool ctl_thinking(const Ctl *ctl, CoordgenGenerateOptions *options) {
    uint64_t tokens = COORDGEN_UNSET_COUNT;

    if (!ctl_number(ctl, "think", COORDGEN_UNSET_COUNT - 1, &tokens))
        return false;
    if (ctl_has(ctl, "think") && ctl_has(ctl, "no-think")) {
        ctl_usage_error(ctl, "--think and --no-think contradict each other: give one of them");
        return false;
    }
    options->thinking_tokens = ctl_has(ctl, "no-think") ? 0 : (uint32_t)tokens;
    options->template_kwargs = ctl_text(ctl, "template-kwargs", NULL);
    if (ctl_has(ctl, "no-split"))
        options->split = COORDGEN_SPLIT_OFF;
    return true;
}
