// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client/ctl/ctl_line.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/strings/str_buf.h"

struct CtlLine {
    Ctl *ctl;
    CtlEdit *edit;     /* NULL: no terminal, or a build without libedit */
    bool shows_prompt; /* a terminal without an editor */
    StrBuf typed;      /* bytes read past the last returned line, without an editor */
    size_t n_lines;    /* lines returned so far */
};

int ctl_line_new(CtlLine **linep, Ctl *ctl) {
    _cleanup_(ctl_line_freep) CtlLine *line = calloc(1, sizeof(*line));
    int r;

    if (!line)
        return -ENOMEM;
    line->ctl = ctl;
    if (isatty(STDIN_FILENO) && ctl->out_tty) {
        r = ctl_edit_new(&line->edit, ctl);
        if (r)
            return r;
        line->shows_prompt = !line->edit;
    }
    *linep = steal(&line);
    return 0;
}

CtlLine *ctl_line_free(CtlLine *line) {
    if (!line)
        return NULL;
    if (line->edit)
        ctl_edit_free(line->edit);
    str_buf_deinit(&line->typed);
    free(line);
    return NULL;
}

/* Drops the typed text of a terminal, as the kernel does. Other inputs end, because nobody would type another line. */
static int interrupted(CtlLine *line) {
    str_buf_truncate(&line->typed, 0);
    return isatty(STDIN_FILENO) ? CTL_LINE_CLEARED : CTL_LINE_INTERRUPTED;
}

/* Returns the first len_bytes of the typed bytes without their line end ("\r\n" included), and without the byte-order
 * mark of a first line. */
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

/* Reads without stdio, because getline() would ignore the descriptor of SIGINT while it waits. SIGINT is checked before
 * lines that are already read, and before later bytes. */
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
    if (line->edit)
        return ctl_edit_read(line->edit, prompt, textp);
    if (line->shows_prompt) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    return read_plain(line, textp);
}
