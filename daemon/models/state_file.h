// SPDX-License-Identifier: Apache-2.0
/* A small file of the state directory: a first line that names its kind, a body of lines, and a hash of both. The owner
 * knows what the body means. Owned by the loop. */
#ifndef COORDGEN_DAEMON_STATE_FILE_H
#define COORDGEN_DAEMON_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    STATE_FILE_E_STORE = 1,   /* the file could not be written and is unchanged */
    STATE_FILE_E_DAMAGED = 2, /* StateFileParseFn: the body makes no sense */
};

typedef struct StateFile { /* zero: no file */
    char *path;            /* NULL: there is no folder for it */
    const char *head;      /* the first line, with its end */
    bool is_unreadable;    /* the file exists but could not be read: never overwritten */
} StateFile;

/* Parses the body, which it may change. 0, STATE_FILE_E_DAMAGED, -ENOMEM. */
typedef int StateFileParseFn(void *arg, char *body);

/* Sets the path, and removes files that killed writers have left behind. dir "": no file. 0 or -ENOMEM. */
int state_file_init(StateFile *file, const char *dir, const char *name, const char *head);
void state_file_deinit(StateFile *file);
/* Parses the body of the file, if there is one. A damaged file is set aside, an unreadable one left alone, and the log
 * says so with the text lost. 0 or -ENOMEM. */
int state_file_read(StateFile *file, size_t body_bytes_max, StateFileParseFn *parse, void *arg, const char *lost);
/* Replaces the file, and waits for the disk. what: names the content in error texts. 0, STATE_FILE_E_STORE with a text,
 * -ENOMEM. */
int state_file_write(const StateFile *file, const char *body, const char *what, ErrText *err);
bool state_file_is_name(const char *text); /* printable, so that it holds no tab and no line's end */

#endif
