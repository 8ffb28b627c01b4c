// SPDX-License-Identifier: Apache-2.0
/* A small file of the state directory: a first line that names its kind, a body of lines, and a hash of all before it.
 * What it holds is its owner's business. Owned by the loop. */
#ifndef COORDGEN_DAEMON_STATE_FILE_H
#define COORDGEN_DAEMON_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    STATE_FILE_E_STORE = 1,   /* the file could not be written; it is as it was */
    STATE_FILE_E_DAMAGED = 2, /* StateFileParseFn: the body says nothing that can be meant */
};

typedef struct StateFile { /* zero keeps nothing */
    char *path;            /* NULL: there is no folder for it */
    const char *head;      /* the first line, with its end */
    bool is_unreadable;    /* there is something that could not be read: it is not written over */
} StateFile;

/* Parses the body, which it may change. 0, STATE_FILE_E_DAMAGED, -ENOMEM. */
typedef int StateFileParseFn(void *arg, char *body);

/* Removes what writers left behind that were killed. dir "": nothing is kept. 0 or -ENOMEM. */
int state_file_init(StateFile *file, const char *dir, const char *name, const char *head);
void state_file_deinit(StateFile *file);
/* Parses the body of the file that is there. A damaged file is set aside, and one that cannot be read left alone; the
 * log says so, and what is lost by it. 0 or -ENOMEM. */
int state_file_read(StateFile *file, size_t body_bytes_max, StateFileParseFn *parse, void *arg, const char *lost);
/* Replaces the file before it returns: waits for the disk. what: for the texts. 0, STATE_FILE_E_STORE with a text,
 * -ENOMEM. */
int state_file_write(const StateFile *file, const char *body, const char *what, ErrText *err);
bool state_file_is_name(const char *text); /* printable, so that it holds no tab and no line's end */

#endif
