// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client/ctl/ctl_line.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/file_io.h"
#include "base/str_buf.h"

struct CtlLine {
    Ctl *ctl;
    EditLine *edit;   /* NULL: no terminal */
    History *history; /* of this session only: prompts are private */
    const char *prompt;
    StrBuf typed;   /* without one: what was read past the last line that was given out */
    size_t n_lines; /* that were given out */
    bool interrupted;
    mbstate_t shift; /* of a character that came in parts */
};

static char *prompt_of(EditLine *edit) {
    CtlLine *line = NULL;

    el_get(edit, EL_CLIENTDATA, &line);
    return (char *)(uintptr_t)line->prompt;
}

/* Reads a character for libedit. SIGINT comes through a descriptor, so that it cannot slip in between a check and a
 * read; libedit's own reading would go on after it. */
static int getc_interruptible(EditLine *edit, wchar_t *charp) {
    CtlLine *line = NULL;

    el_get(edit, EL_CLIENTDATA, &line);
    for (;;) {
        struct pollfd fds[] = {
            { .fd = STDIN_FILENO, .events = POLLIN },
            { .fd = line->ctl->signal_fd, .events = POLLIN },
        };
        char byte;
        ssize_t n;
        size_t len;

        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return -1;
        if (ctl_interrupted(line->ctl)) {
            line->interrupted = true;
            errno = EINTR;
            return -1;
        }
        if (!fds[0].revents)
            continue;
        n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0)
            return (int)n;
        len = mbrtowc(charp, &byte, 1, &line->shift);
        if (len == 0 || len == 1)
            return 1;
        if (len == (size_t)-1) { /* to be seen, and not to be missed silently */
            line->shift = (mbstate_t){ 0 };
            *charp = 0xfffd;
            return 1;
        }
    }
}

int ctl_line_new(CtlLine **linep, Ctl *ctl) {
    _cleanup_(ctl_line_freep) CtlLine *line = calloc(1, sizeof(*line));
    HistEvent event;

    if (!line)
        return -ENOMEM;
    line->ctl = ctl;
    if (isatty(STDIN_FILENO) && ctl->out_tty) {
        line->edit = el_init("coordgenctl", stdin, stdout, stderr);
        line->history = history_init();
        if (!line->edit || !line->history)
            return -ENOMEM;
        history(line->history, &event, H_SETSIZE, 500);
        el_set(line->edit, EL_CLIENTDATA, line);
        el_set(line->edit, EL_PROMPT, prompt_of);
        el_set(line->edit, EL_EDITOR, "emacs");
        el_set(line->edit, EL_HIST, history, line->history);
        el_set(line->edit, EL_GETCFN, getc_interruptible);
        el_source(line->edit, NULL);
    }
    *linep = steal(&line);
    return 0;
}

CtlLine *ctl_line_free(CtlLine *line) {
    if (!line)
        return NULL;
    if (line->edit)
        el_end(line->edit);
    if (line->history)
        history_end(line->history);
    str_buf_deinit(&line->typed);
    free(line);
    return NULL;
}

/* As the kernel drops what is in a terminal's line. Elsewhere there is nobody to type another one. */
static int interrupted(CtlLine *line) {
    str_buf_truncate(&line->typed, 0);
    return isatty(STDIN_FILENO) ? CTL_LINE_CLEARED : CTL_LINE_INTERRUPTED;
}

/* Gives out the first bytes that were read, without what ends the line ("\r\n" of other systems too), and the first
 * line without a byte-order mark. */
static int take_typed(CtlLine *line, size_t len_bytes, char **textp) {
    StrBuf *typed = &line->typed;
    size_t from = line->n_lines ? 0 : file_byte_order_mark(typed->data, len_bytes), to = len_bytes;
    const char *nul;
    char *text;

    line->n_lines++;
    nul = memchr(typed->data, 0, len_bytes);
    if (nul) {
        fprintf(stderr, "coordgenctl: standard input: line %zu holds a NUL byte at %zu: this is no text\n",
                line->n_lines, (size_t)(nul - typed->data));
        return -EILSEQ;
    }
    if (typed->data[to - 1] == '\n')
        to--;
    if (to > from && typed->data[to - 1] == '\r')
        to--;
    text = strndup(typed->data + from, to - from);
    if (!text)
        return -ENOMEM;
    memmove(typed->data, typed->data + len_bytes, typed->len_bytes - len_bytes);
    str_buf_truncate(typed, typed->len_bytes - len_bytes);
    *textp = text;
    return 0;
}

/* Not by stdio: SIGINT comes through a descriptor, which getline() would not look at while it waits. It is looked at
 * before lines that are there already, and before what came after it. */
static int read_plain(CtlLine *line, char **textp) {
    StrBuf *typed = &line->typed;

    if (ctl_interrupted(line->ctl))
        return interrupted(line);
    for (;;) {
        struct pollfd fds[] = {
            { .fd = STDIN_FILENO, .events = POLLIN },
            { .fd = line->ctl->signal_fd, .events = POLLIN },
        };
        const char *end;
        char part[4096];
        ssize_t n;

        end = typed->len_bytes ? memchr(typed->data, '\n', typed->len_bytes) : NULL;
        if (end)
            return take_typed(line, (size_t)(end - typed->data) + 1, textp);
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return -errno;
        if (ctl_interrupted(line->ctl))
            return interrupted(line);
        if (!fds[0].revents)
            continue;
        n = read(STDIN_FILENO, part, sizeof(part));
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (!n)
            return typed->len_bytes ? take_typed(line, typed->len_bytes, textp) : CTL_LINE_END;
        if (n > 0)
            str_buf_append(typed, part, (size_t)n);
        if (str_buf_failed(typed))
            return -ENOMEM;
    }
}

int ctl_line_read(CtlLine *line, const char *prompt, char **textp) {
    HistEvent event;
    const char *typed;
    char *text;
    int n = 0;

    if (!line->edit)
        return read_plain(line, textp);
    line->prompt = prompt;
    line->interrupted = false;
    /* libedit prints the prompt before it takes the terminal over: a Ctrl-D typed in between would be the kernel's. */
    el_set(line->edit, EL_PREP_TERM, 1);
    typed = el_gets(line->edit, &n);
    if (line->interrupted) {
        el_reset(line->edit);
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
        history(line->history, &event, H_ENTER, text);
    *textp = text;
    return 0;
}
