// SPDX-License-Identifier: Apache-2.0
/* Which model drafts for which: by administrators' word, which is kept in a file, and by the setting draft-model. Names
 * alone: whether there are such models, and whether they fit, is model_drafts.h. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_PAIRS_H
#define COORDGEN_DAEMON_MODEL_PAIRS_H

#include "daemon/models/pair_list.h"
#include "daemon/state_file.h"

enum {
    MODEL_PAIRS_E_CIRCLE = 1, /* the target would draft for itself */
    MODEL_PAIRS_E_FULL = 2,   /* more than PAIRS_MAX */
    MODEL_PAIRS_E_STORE = 3,  /* it could not be written; nothing has changed */
};

#define MODEL_PAIRS_FILE "model-pairs" /* in the folder for them */

typedef struct ModelPairs { /* zero is empty, and keeps nothing */
    StateFile file;
    PairList stored; /* "": none, whatever the setting says */
    PairList set;    /* by the setting */
} ModelPairs;

/* Reads what is there. A file that is damaged is set aside, and one that cannot be read left alone; the log says so.
 * dir "": nothing is kept. 0 or -ENOMEM. */
int model_pairs_init(ModelPairs *pairs, const char *dir);
void model_pairs_deinit(ModelPairs *pairs);
/* Takes the setting over, without what would make a circle with stored pairs; the log says so. 0 or -ENOMEM: it is as
 * it was. */
int model_pairs_take_setting(ModelPairs *pairs, const char *text);
/* Stores that draft ("": none) drafts for the target from now on, before it returns: waits for the disk. 0;
 * MODEL_PAIRS_E_*, with a text, -ENOMEM: it is as it was. */
int model_pairs_set(ModelPairs *pairs, const char *target, const char *draft, ErrText *err);
/* Forgets all that was stored of a model, as target and as draft. 0; MODEL_PAIRS_E_STORE, with a text, -ENOMEM: the
 * pairs are as they were. */
int model_pairs_forget(ModelPairs *pairs, const char *model, ErrText *err);
const char *model_pairs_draft_of(const ModelPairs *pairs, const char *target); /* NULL: nothing drafts for it */

typedef struct ModelPairEntry {
    const char *target;
    const char *draft; /* "": none, against the setting */
    bool is_stored;    /* else by the setting */
} ModelPairEntry;
bool model_pairs_find(const ModelPairs *pairs, const char *target, ModelPairEntry *entry); /* whether one is said */
/* Names of those that a model drafts for, at most room of them. */
size_t model_pairs_targets_of(const ModelPairs *pairs, const char *draft, const char *targets[], size_t room);
/* All that is said, one after another. */
size_t model_pairs_list(const ModelPairs *pairs, ModelPairEntry entries[2 * PAIRS_MAX]);

#endif
