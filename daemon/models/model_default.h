// SPDX-License-Identifier: Apache-2.0
/* Name of the default model, which serves requests that name none: from the setting `model`, else from an
 * administrator's command, else the first model that existed. The last two are stored in a file. The registry knows
 * whether a model of that name exists. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_DEFAULT_H
#define COORDGEN_DAEMON_MODEL_DEFAULT_H

#include "daemon/models/state_file.h"

enum {
    MODEL_DEFAULT_E_SETTING = 1, /* the setting names a model, which has precedence */
    MODEL_DEFAULT_E_STORE = 2,   /* the file could not be written; nothing has changed */
};

#define MODEL_DEFAULT_FILE "default-model" /* in the state directory */
#define MODEL_DEFAULT_NAME_BYTES_MAX 255   /* PROTO_MODEL_NAME_BYTES_MAX */

typedef enum ModelDefaultBy {
    MODEL_DEFAULT_NONE,
    MODEL_DEFAULT_BY_SETTING,
    MODEL_DEFAULT_BY_COMMAND,
    MODEL_DEFAULT_BY_FIRST, /* the earliest model, as long as no default was named */
} ModelDefaultBy;

typedef struct ModelDefault { /* zero is empty, and writes no file */
    StateFile file;
    char *set;                /* from the setting; NULL: none */
    char *stored;             /* from the file; NULL: none */
    ModelDefaultBy stored_by; /* BY_COMMAND or BY_FIRST */
} ModelDefault;

/* Reads the file; a damaged one is logged and set aside. dir "": no file. 0 or -ENOMEM. */
int model_default_init(ModelDefault *def, const char *dir);
void model_default_deinit(ModelDefault *def);
/* Takes over the setting's name; "": none. Logs if the stored name is another one. 0 or -ENOMEM. */
int model_default_take_setting(ModelDefault *def, const char *name);
const char *model_default_name(const ModelDefault *def); /* NULL: none is named */
ModelDefaultBy model_default_by(const ModelDefault *def);
/* Stores the name that an administrator gives; waits for the disk. 0; MODEL_DEFAULT_E_*, with a text, or -ENOMEM:
 * nothing has changed. */
int model_default_set(ModelDefault *def, const char *name, ErrText *err);
/* Makes the earliest model the default. is_kept: stores the name for restarts, and logs if that fails. */
void model_default_note_first(ModelDefault *def, const char *name, bool is_kept);

#endif
