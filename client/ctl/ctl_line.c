// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client/ctl/ctl_line.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
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

/* --- the terminal ------------------------------------------------------------------------------------------------- */

/* --- the terminal ------------------------------------------------------------------------------------------------ */
#define PASTES_ON "\033[?2004h"
#define PASTES_OFF "\033[?2004l"

static const int ends[] = { SIGHUP, SIGQUIT, SIGTERM };
static struct termios found_modes; /* of the terminal, before this program changed it */
static bool has_pastes;            /* it is one that knows sequences at all */

/* Leaves the terminal as it was found, then ends as the signal would have. Only calls that a handler may make. */
static void end_by_signal(int number) {
    const ssize_t n = has_pastes ? write(STDOUT_FILENO, PASTES_OFF, sizeof(PASTES_OFF) - 1) : 0;

    (void)n;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &found_modes);
    (void)raise(number); /* the handler is gone: SA_RESETHAND */
}

static void terminal_begin(void) {
    struct sigaction action = { .sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND };
    const char *kind = getenv("TERM");
    struct sigaction old;

    if (tcgetattr(STDIN_FILENO, &found_modes))
        return;
    has_pastes = kind && *kind && strcmp(kind, "dumb");
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (!sigaction(ends[i], NULL, &old) && old.sa_handler == SIG_DFL) /* nohup(1) */
            (void)sigaction(ends[i], &action, NULL);
    fputs(has_pastes ? PASTES_ON : "", stdout);
    fflush(stdout);
}

static void terminal_end(void) {
    fputs(has_pastes ? PASTES_OFF : "", stdout);
    fflush(stdout);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        (void)signal(ends[i], SIG_DFL);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

#define PASTE_CHARACTERS_MAX (1u << 20) /* as many bytes as a service takes of one prompt by default */

/* Reads up to the end of a paste. False: the input ends before, or Ctrl-C came. */
static bool read_paste(EditLine *edit, StrBuf *paste, bool *is_too_longp) {
    static const wchar_t end[] = L"\033[201~";
    const size_t n_end = ARRAY_LEN(end) - 1;
    size_t n = 0;
    wchar_t c;

    while (n < n_end) {
        if (el_wgetc(edit, &c) <= 0)
            return false;
        n = c == end[n] ? n + 1 : c == end[0];
        if (paste->len_bytes / sizeof(c) < PASTE_CHARACTERS_MAX + n_end)
            str_buf_append(paste, &c, sizeof(c));
        else
            *is_too_longp = true;
    }
    if (!*is_too_longp)
        str_buf_truncate(paste, paste->len_bytes - n_end * sizeof(c));
    return true;
}

/* Makes line ends newlines, as terminals send carriage returns, and leaves NULs out. Return: characters. */
static size_t clean_paste(wchar_t *text, size_t n) {
    wchar_t before = 0;
    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++) {
        const wchar_t c = text[i];

        if (c && !(c == '\n' && before == '\r'))
            text[n_kept++] = c == '\r' ? '\n' : c;
        before = c;
    }
    return n_kept;
}

/* Puts a paste into the line that is edited: its line ends do not end the line. */
static unsigned char take_paste(EditLine *edit, int key) {
    _cleanup_(str_buf_deinit) StrBuf paste = STR_BUF_NULL;
    bool is_too_long = false;
    wchar_t *text;
    size_t n;

    (void)key;
    if (!read_paste(edit, &paste, &is_too_long))
        return CC_EOF;
    str_buf_append(&paste, L"", sizeof(wchar_t));
    if (is_too_long || str_buf_failed(&paste)) {
        fprintf(stderr, "\ncoordgenctl: the paste is longer than %u characters and left out: use generate --file\n",
                PASTE_CHARACTERS_MAX);
        return CC_REDISPLAY;
    }
    text = (wchar_t *)(void *)paste.data;
    n = clean_paste(text, paste.len_bytes / sizeof(*text) - 1);
    text[n] = 0;
    return !n || !el_winsertstr(edit, text) ? CC_REFRESH : CC_ERROR;
}

static unsigned char take_newline(EditLine *edit, int key) {
    (void)key;
    return el_winsertstr(edit, L"\n") ? CC_ERROR : CC_REFRESH;
}

/* Adds keys to the user's own bindings. In vi's keys the escape ends the insert mode, and the rest is a command. */
static void bind_keys(EditLine *edit) {
    const char *editor = NULL;

    el_set(edit, EL_SETTY, "-d", "-inlcr", "-icrnl", NULL); /* or CR LF in a paste were two line ends */
    el_set(edit, EL_ADDFN, "coordgen-paste", "Insert what is pasted", take_paste);
    el_set(edit, EL_ADDFN, "coordgen-newline", "Insert a line break", take_newline);
    if (!el_get(edit, EL_EDITOR, &editor) && editor && !strcmp(editor, "vi")) {
        el_set(edit, EL_BIND, "-a", "[200~", "coordgen-paste", NULL);
        return;
    }
    el_set(edit, EL_BIND, "\\e[200~", "coordgen-paste", NULL);
    el_set(edit, EL_BIND, "\\e\\n", "coordgen-newline", NULL);
    el_set(edit, EL_BIND, "\\e\\r", "coordgen-newline", NULL);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

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
        bind_keys(line->edit);
        terminal_begin();
    }
    *linep = steal(&line);
    return 0;
}

CtlLine *ctl_line_free(CtlLine *line) {
    if (!line)
        return NULL;
    if (line->edit) {
        el_end(line->edit);
        terminal_end();
    }
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
    while (n > 0 && (typed[n - 1] == '\n' || typed[n - 1] == '\r')) /* a paste may end so, too */
        n--;
    text = strndup(typed, (size_t)n);
    if (!text)
        return -ENOMEM;
    if (*text)
        history(line->history, &event, H_ENTER, text);
    *textp = text;
    return 0;
}
