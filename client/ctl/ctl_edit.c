// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client/ctl/ctl_edit.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "client/ctl/ctl_line.h"

struct CtlEdit {
    Ctl *ctl;
    EditLine *libedit;
    History *history; /* of this session only: prompts are private */
    const char *prompt;
    bool interrupted;
    mbstate_t shift; /* of a character that came in parts */
};

static char *prompt_of(EditLine *libedit) {
    CtlEdit *edit = NULL;

    el_get(libedit, EL_CLIENTDATA, &edit);
    return (char *)(uintptr_t)edit->prompt;
}

/* Reads a character for libedit. SIGINT comes through a descriptor, so that it cannot slip in between a check and a
 * read; libedit's own reading would go on after it. */
static int getc_interruptible(EditLine *libedit, wchar_t *charp) {
    CtlEdit *edit = NULL;

    el_get(libedit, EL_CLIENTDATA, &edit);
    for (;;) {
        struct pollfd fds[] = {
            { .fd = STDIN_FILENO, .events = POLLIN },
            { .fd = edit->ctl->signal_fd, .events = POLLIN },
        };
        char byte;
        ssize_t n;
        size_t len;

        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return -1;
        if (ctl_interrupted(edit->ctl)) {
            edit->interrupted = true;
            errno = EINTR;
            return -1;
        }
        if (!fds[0].revents)
            continue;
        n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0)
            return (int)n;
        len = mbrtowc(charp, &byte, 1, &edit->shift);
        if (len == 0 || len == 1)
            return 1;
        if (len == (size_t)-1) { /* to be seen, and not to be missed silently */
            edit->shift = (mbstate_t){ 0 };
            *charp = 0xfffd;
            return 1;
        }
    }
}

int ctl_edit_new(CtlEdit **editp, Ctl *ctl) {
    _cleanup_(ctl_edit_freep) CtlEdit *edit = calloc(1, sizeof(*edit));
    HistEvent event;

    if (!edit)
        return -ENOMEM;
    edit->ctl = ctl;
    edit->libedit = el_init("coordgenctl", stdin, stdout, stderr);
    edit->history = history_init();
    if (!edit->libedit || !edit->history)
        return -ENOMEM;
    history(edit->history, &event, H_SETSIZE, 500);
    el_set(edit->libedit, EL_CLIENTDATA, edit);
    el_set(edit->libedit, EL_PROMPT, prompt_of);
    el_set(edit->libedit, EL_EDITOR, "emacs");
    el_set(edit->libedit, EL_HIST, history, edit->history);
    el_set(edit->libedit, EL_GETCFN, getc_interruptible);
    el_source(edit->libedit, NULL);
    *editp = steal(&edit);
    return 0;
}

CtlEdit *ctl_edit_free(CtlEdit *edit) {
    if (!edit)
        return NULL;
    if (edit->libedit)
        el_end(edit->libedit);
    if (edit->history)
        history_end(edit->history);
    free(edit);
    return NULL;
}

int ctl_edit_read(CtlEdit *edit, const char *prompt, char **textp) {
    HistEvent event;
    const char *typed;
    char *text;
    int n = 0;

    edit->prompt = prompt;
    edit->interrupted = false;
    /* libedit prints the prompt before it takes the terminal over: a Ctrl-D typed in between would be the kernel's. */
    el_set(edit->libedit, EL_PREP_TERM, 1);
    typed = el_gets(edit->libedit, &n);
    if (edit->interrupted) {
        el_reset(edit->libedit);
        fputc('\n', stdout);
        return CTL_LINE_CLEARED;
    }
    if (!typed || n <= 0) {
        fputc('\n', stdout);
        return CTL_LINE_END;
    }
    text = strndup(typed, strcspn(typed, "\r\n"));
    if (!text)
        return -ENOMEM;
    if (*text)
        history(edit->history, &event, H_ENTER, text);
    *textp = text;
    return 0;
}
