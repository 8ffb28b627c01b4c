// SPDX-License-Identifier: Apache-2.0
/* Captures a function's output to standard output or standard error during a test. */
#ifndef COORDGEN_UNIT_DIVERTED_H
#define COORDGEN_UNIT_DIVERTED_H

#include <stdio.h>

typedef struct Diverted {
    FILE *stream, *file;
    int real_fd;
} Diverted;

/* Sends the stream to a file of its own, below stdio, because some C libraries don't let the stream be replaced. */
void divert(Diverted *diverted, FILE *stream);
/* Restores the stream and returns the captured text, to be freed. */
char *divert_end(Diverted *diverted);

#endif
