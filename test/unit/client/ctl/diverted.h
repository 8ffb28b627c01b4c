// SPDX-License-Identifier: Apache-2.0
/* What a function writes to standard output or standard error, while a test listens. */
#ifndef COORDGEN_UNIT_DIVERTED_H
#define COORDGEN_UNIT_DIVERTED_H

#include <stdio.h>

typedef struct Diverted {
    FILE *stream, *file;
    int real_fd;
} Diverted;

/* Sends the stream to a file of its own, below stdio: not every C library lets the stream be replaced. */
void divert(Diverted *diverted, FILE *stream);
/* Ends that, and returns what was written, for free(). */
char *divert_end(Diverted *diverted);

#endif
