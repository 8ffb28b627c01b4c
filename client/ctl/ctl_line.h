// SPDX-License-Identifier: Apache-2.0
/* Reads lines of a user: edited on a terminal (libedit), plain from other inputs. */
#ifndef COORDGEN_CLIENT_CTL_CTL_LINE_H
#define COORDGEN_CLIENT_CTL_CTL_LINE_H

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_edit.h"

typedef struct CtlLine CtlLine;

int ctl_line_new(CtlLine **linep, Ctl *ctl);
CtlLine *ctl_line_free(CtlLine *line);
DEFINE_CLEANUP(CtlLine, ctl_line_free)
/* Reads a line without its newline, which the caller frees. A line of a terminal may hold several: a paste, or lines
 * made by Alt+Enter. 0, CTL_LINE_*, -EILSEQ after a message, or -errno. Ctrl-C arrives by ctl_interrupts_open(). */
int ctl_line_read(CtlLine *line, const char *prompt, char **textp);

#endif
