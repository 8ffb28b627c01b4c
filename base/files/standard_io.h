// SPDX-License-Identifier: Apache-2.0
/* Standard input, output and error of a program: there from its start, and whole at its end. */
#ifndef COORDGEN_BASE_STANDARD_IO_H
#define COORDGEN_BASE_STANDARD_IO_H

#include "base/err.h"

/* First in every main(), before anything is opened. A reader of the output that has gone is an error of the write from
 * then on, not a signal. 0 or -errno. */
int standard_io_secure(void);
/* Before a program ends, and where it wants to know: whether all that it printed is written. 0 or -errno. */
int standard_output_flush(ErrText *err);
/* Both for a main() that has nothing else to say: a program whose output is lost has failed. Where the reader of the
 * output has gone, nothing is said, as other programs end by SIGPIPE. An exit status. */
#define STANDARD_OUTPUT_EXIT_UNREAD 141 /* what a shell makes of SIGPIPE */
int standard_output_end(const char *program, int status, int failed_status);

#endif
