// SPDX-License-Identifier: Apache-2.0
/* Which model requests mean that name none, by its name: what the setting `model` says, else what an administrator has
 * said, else the first model that there was. The last two are kept in a file. Whether there is such a model is the
 * registry's business. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_DEFAULT_H
#define COORDGEN_DAEMON_MODEL_DEFAULT_H

#include "daemon/state_file.h"

enum {
    MODEL_DEFAULT_E_SETTING = 1, /* the setting names one, and goes before */
    MODEL_DEFAULT_E_STORE = 2,   /* it could not be written; nothing has changed */
};

#define MODEL_DEFAULT_FILE "default-model" /* in the state directory */
#define MODEL_DEFAULT_NAME_BYTES_MAX 255   /* PROTO_MODEL_NAME_BYTES_MAX */

typedef enum ModelDefaultBy {
    MODEL_DEFAULT_NONE,
    MODEL_DEFAULT_BY_SETTING,
    MODEL_DEFAULT_BY_COMMAND,
    MODEL_DEFAULT_BY_FIRST, /* nobody has said anything: it was there before the others */
} ModelDefaultBy;

typedef struct ModelDefault { /* zero is empty, and keeps nothing */
    StateFile file;
    char *set;                /* by the setting; NULL: it names none */
    char *stored;             /* NULL: none is */
    ModelDefaultBy stored_by; /* BY_COMMAND or BY_FIRST */
} ModelDefault;

/* Reads what is there; a damaged file is told and set aside. dir "": nothing is kept. 0 or -ENOMEM. */
int model_default_init(ModelDefault *def, const char *dir);
void model_default_deinit(ModelDefault *def);
/* Takes the name over that the setting gives; "": it gives none. The log tells where it is not the stored one. 0 or
 * -ENOMEM. */
int model_default_take_setting(ModelDefault *def, const char *name);
const char *model_default_name(const ModelDefault *def); /* NULL: nothing names one */
ModelDefaultBy model_default_by(const ModelDefault *def);
/* Stores what an administrator says, before it returns: waits for the disk. 0; MODEL_DEFAULT_E_*, with a text, -ENOMEM:
 * it is as it was. */
int model_default_set(ModelDefault *def, const char *name, ErrText *err);
/* Notes the model that was there first. is_kept: also for after a restart; where it cannot be written the log says
 * so. */
void model_default_note_first(ModelDefault *def, const char *name, bool is_kept);

#endif
