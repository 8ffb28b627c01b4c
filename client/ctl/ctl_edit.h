// SPDX-License-Identifier: Apache-2.0
/* Lines that are edited on a terminal, with those before them to choose from. */
#ifndef COORDGEN_CLIENT_CTL_CTL_EDIT_H
#define COORDGEN_CLIENT_CTL_CTL_EDIT_H

#include "client/ctl/ctl.h"

/* Results of reading a line, here and in ctl_line.h. */
enum {
    CTL_LINE_END = 1,         /* of the input */
    CTL_LINE_CLEARED = 2,     /* Ctrl-C on a terminal: what was typed is gone */
    CTL_LINE_INTERRUPTED = 3, /* elsewhere */
};

typedef struct CtlEdit CtlEdit;

/* 0 or -ENOMEM; *editp is NULL in a build without libedit (WITH_LIBEDIT=no): the terminal's own editing has to do. */
int ctl_edit_new(CtlEdit **editp, Ctl *ctl);
CtlEdit *ctl_edit_free(CtlEdit *edit);
DEFINE_CLEANUP(CtlEdit, ctl_edit_free)
/* As ctl_line_read(). */
int ctl_edit_read(CtlEdit *edit, const char *prompt, char **textp);

#endif
