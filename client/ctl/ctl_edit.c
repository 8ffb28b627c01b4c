// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client/ctl/ctl_edit.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <wchar.h>

#include "base/strings/str_buf.h"

struct CtlEdit {
    Ctl *ctl;
    EditLine *libedit;
    History *history; /* of this run only, because prompts are private */
    const char *prompt;
    bool interrupted;
    mbstate_t shift; /* state of a character that arrives in parts */
};

static char *prompt_of(EditLine *libedit) {
    CtlEdit *edit = NULL;

    el_get(libedit, EL_CLIENTDATA, &edit);
    return (char *)(uintptr_t)edit->prompt;
}

/* Reads a character for libedit. SIGINT arrives at a descriptor, so that none is lost between a check and a read;
 * libedit's own read would continue after a signal. */
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
        if (len == (size_t)-1) { /* a broken character is shown, not dropped silently */
            edit->shift = (mbstate_t){ 0 };
            *charp = 0xfffd;
            return 1;
        }
    }
}

/* --- terminal ----------------------------------------------------------------------------------------------------- */

#define PASTES_ON "\033[?2004h"
#define PASTES_OFF "\033[?2004l"

static const int ends[] = { SIGHUP, SIGQUIT, SIGTERM };
static struct termios found_modes; /* the terminal's modes before this program changed them */
static bool has_pastes;            /* the terminal knows escape sequences */

/* Restores the terminal's modes and ends the process by the signal. Uses only calls that a handler may make. */
static void end_by_signal(int number) {
    const ssize_t n = has_pastes ? write(STDOUT_FILENO, PASTES_OFF, sizeof(PASTES_OFF) - 1) : 0;

    (void)n;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &found_modes);
    (void)raise(number); /* SA_RESETHAND has removed the handler */
}

static void terminal_begin(void) {
    struct sigaction action = { .sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND };
    const char *kind = getenv("TERM");
    struct sigaction old;

    if (tcgetattr(STDIN_FILENO, &found_modes))
        return;
    has_pastes = kind && *kind && strcmp(kind, "dumb");
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (!sigaction(ends[i], NULL, &old) && old.sa_handler == SIG_DFL) /* nohup(1) ignores SIGHUP */
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

#define PASTE_CHARACTERS_MAX (1u << 20) /* the default limit of a prompt in a service, in bytes */

/* Reads up to the end of a paste. Returns false if the input ends before, or after Ctrl-C. */
static bool read_paste(EditLine *libedit, StrBuf *paste, bool *is_too_longp) {
    static const wchar_t end[] = L"\033[201~";
    const size_t n_end = ARRAY_LEN(end) - 1;
    size_t n = 0;
    wchar_t c;

    while (n < n_end) {
        if (el_wgetc(libedit, &c) <= 0)
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

/* Turns carriage returns, which terminals send, into newlines, and removes NULs. Returns the characters left. */
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

/* Inserts a paste into the edited line, which line ends of the paste do not end. */
static unsigned char take_paste(EditLine *libedit, int key) {
    _cleanup_(str_buf_deinit) StrBuf paste = STR_BUF_NULL;
    bool is_too_long = false;
    wchar_t *text;
    size_t n;

    (void)key;
    if (!read_paste(libedit, &paste, &is_too_long))
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
    return !n || !el_winsertstr(libedit, text) ? CC_REFRESH : CC_ERROR;
}

static unsigned char take_newline(EditLine *libedit, int key) {
    (void)key;
    return el_winsertstr(libedit, L"\n") ? CC_ERROR : CC_REFRESH;
}

/* Adds keys to the user's own bindings. With vi's keys, the escape ends the insert mode and the rest is a command. */
static void bind_keys(EditLine *libedit) {
    const char *editor = NULL;

    el_set(libedit, EL_SETTY, "-d", "-inlcr", "-icrnl", NULL); /* else CR LF in a paste would be two line ends */
    /* el_wset(), because el_set() copies such names and never frees the copies. */
    el_wset(libedit, EL_ADDFN, L"coordgen-paste", L"Insert what is pasted", take_paste);
    el_wset(libedit, EL_ADDFN, L"coordgen-newline", L"Insert a line break", take_newline);
    if (!el_get(libedit, EL_EDITOR, &editor) && editor && !strcmp(editor, "vi")) {
        el_set(libedit, EL_BIND, "-a", "[200~", "coordgen-paste", NULL);
        return;
    }
    el_set(libedit, EL_BIND, "\\e[200~", "coordgen-paste", NULL);
    el_set(libedit, EL_BIND, "\\e\\n", "coordgen-newline", NULL);
    el_set(libedit, EL_BIND, "\\e\\r", "coordgen-newline", NULL);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

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
    bind_keys(edit->libedit);
    terminal_begin();
    *editp = steal(&edit);
    return 0;
}

CtlEdit *ctl_edit_free(CtlEdit *edit) {
    if (!edit)
        return NULL;
    if (edit->libedit) {
        el_end(edit->libedit);
        terminal_end();
    }
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
    /* libedit prints the prompt before it sets the terminal's modes: the kernel would take a Ctrl-D typed in between.
     * */
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
    while (n > 0 && (typed[n - 1] == '\n' || typed[n - 1] == '\r')) /* a paste may end in line ends too */
        n--;
    text = strndup(typed, (size_t)n);
    if (!text)
        return -ENOMEM;
    if (*text)
        history(edit->history, &event, H_ENTER, text);
    *textp = text;
    return 0;
}
