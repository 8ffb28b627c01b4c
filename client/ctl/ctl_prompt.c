// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/strings/str_buf.h"
#include "client/ctl/ctl.h"

/* A little less than a frame, which needs room for other fields. */
enum {
    PROMPT_BYTES_MAX = (4 << 20) - 4096
};

char *ctl_slurp(Ctl *ctl, const char *path) {
    bool input = !strcmp(path, "-");
    char *text = NULL;
    size_t len_bytes, mark_bytes;
    ErrText err = { 0 };
    int r;

    if (input && isatty(STDIN_FILENO) && !ctl->quiet)
        fputs("Type the prompt; Ctrl-D ends it.\n", stderr);
    r = input ? file_slurp_fd(STDIN_FILENO, "standard input", PROMPT_BYTES_MAX, &text, &len_bytes, &err)
              : file_slurp(path, PROMPT_BYTES_MAX, &text, &len_bytes, &err);
    if (r) {
        fprintf(stderr, "coordgenctl: %s\n", err.text);
        return NULL;
    }
    if (memchr(text, 0, len_bytes)) {
        fprintf(stderr, "coordgenctl: %s: holds a NUL byte at %zu: this is no text\n", input ? "standard input" : path,
                strlen(text));
        free(text);
        return NULL;
    }
    mark_bytes = file_byte_order_mark(text, len_bytes); /* marks the encoding, and is no part of the text */
    memmove(text, text + mark_bytes, len_bytes - mark_bytes + 1);
    return text;
}

bool ctl_option_file(Ctl *ctl, const char *name, char **textp) {
    const char *path = ctl_text(ctl, name, NULL);

    *textp = path ? ctl_slurp(ctl, path) : NULL;
    return !path || *textp;
}

/**
 * ctl_prompt() - join the arguments by blanks, then an empty line, then the file
 *
 * "-" means standard input, which is also read if nothing else is given.
 */
char *ctl_prompt(Ctl *ctl) {
    _cleanup_(str_buf_deinit) StrBuf prompt = STR_BUF_NULL;
    const char *path = ctl_text(ctl, "file", NULL);
    _cleanup_(freep) char *file = NULL;
    char *whole;

    if (!path && !ctl->n_args)
        path = "-";
    if (!path && ctl->n_args == 1 && !strcmp(ctl->args[0], "-")) {
        path = "-";
        ctl->n_args = 0;
    }
    if (path && !(file = ctl_slurp(ctl, path)))
        return NULL;
    for (int i = 0; i < ctl->n_args; i++) {
        str_buf_add(&prompt, i ? " " : "");
        str_buf_add(&prompt, ctl->args[i]);
    }
    if (file && ctl->n_args)
        str_buf_add(&prompt, "\n\n");
    str_buf_add(&prompt, file ? file : "");
    if (!prompt.len_bytes) {
        fputs("coordgenctl: the prompt is empty\n", stderr);
        return NULL;
    }
    whole = str_buf_steal(&prompt);
    if (!whole)
        fputs("coordgenctl: out of memory for the prompt\n", stderr);
    return whole;
}
