// SPDX-License-Identifier: Apache-2.0
/* Lines that a person types: edited on a terminal (libedit), read plainly elsewhere. */
#ifndef COORDGEN_CLIENT_CTL_CTL_LINE_H
#define COORDGEN_CLIENT_CTL_CTL_LINE_H

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_edit.h"

typedef struct CtlLine CtlLine;

int ctl_line_new(CtlLine **linep, Ctl *ctl);
CtlLine *ctl_line_free(CtlLine *line);
DEFINE_CLEANUP(CtlLine, ctl_line_free)
/* Reads one line without its newline, the caller's. On a terminal it may have several: a paste, or what Alt+Enter made.
 * 0, CTL_LINE_*, -EILSEQ (it has been said why) or -errno. Ctrl-C comes by ctl_interrupts_open(). */
int ctl_line_read(CtlLine *line, const char *prompt, char **textp);

#endif
