// SPDX-License-Identifier: Apache-2.0
/* Makes sure that standard input, output and error exist at a program's start, and that all output is written at its
 * end. */
#ifndef COORDGEN_BASE_STANDARD_IO_H
#define COORDGEN_BASE_STANDARD_IO_H

#include "base/err.h"

/* Comes first in every main(), before anything is opened. A write to a reader that has gone is an error from then on,
 * not a signal. 0 or -errno. */
int standard_io_secure(void);
/* Checks that all printed text is written. Called before a program ends. 0 or -errno. */
int standard_output_flush(ErrText *err);
/* Returns the exit status of a main(): a program whose output is lost has failed, and says so. If the reader of the
 * output has gone, the program ends silently, as others end by SIGPIPE. */
#define STANDARD_OUTPUT_EXIT_UNREAD 141 /* a shell's status for SIGPIPE */
int standard_output_end(const char *program, int status, int failed_status);

#endif
