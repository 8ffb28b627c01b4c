// SPDX-License-Identifier: Apache-2.0
/* Reads lines that a user edits on a terminal, with a history of earlier lines. */
#ifndef COORDGEN_CLIENT_CTL_CTL_EDIT_H
#define COORDGEN_CLIENT_CTL_CTL_EDIT_H

#include "client/ctl/ctl.h"

/* Results of reading a line, here and in ctl_line.h. */
enum {
    CTL_LINE_END = 1,         /* the input has ended */
    CTL_LINE_CLEARED = 2,     /* Ctrl-C on a terminal has cleared the typed text */
    CTL_LINE_INTERRUPTED = 3, /* Ctrl-C elsewhere */
};

typedef struct CtlEdit CtlEdit;

/* Makes an editor. 0 or -ENOMEM. A build without libedit (WITH_LIBEDIT=no) sets *editp to NULL, and the terminal's own
 * editing serves. */
int ctl_edit_new(CtlEdit **editp, Ctl *ctl);
CtlEdit *ctl_edit_free(CtlEdit *edit);
DEFINE_CLEANUP(CtlEdit, ctl_edit_free)
/* Reads a line, with the contract of ctl_line_read(). */
int ctl_edit_read(CtlEdit *edit, const char *prompt, char **textp);

#endif
