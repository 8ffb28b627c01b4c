// SPDX-License-Identifier: Apache-2.0
/* Pairs of target and draft model by name: from administrators' commands, which are stored in a file, and from the
 * setting draft-model. model_drafts.h finds the models and tells whether they fit. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_PAIRS_H
#define COORDGEN_DAEMON_MODEL_PAIRS_H

#include "daemon/models/pair_list.h"
#include "daemon/models/state_file.h"

enum {
    MODEL_PAIRS_E_CIRCLE = 1, /* the target would draft for itself */
    MODEL_PAIRS_E_FULL = 2,   /* more than PAIRS_MAX */
    MODEL_PAIRS_E_STORE = 3,  /* the file could not be written; nothing has changed */
};

#define MODEL_PAIRS_FILE "model-pairs" /* in the state directory */

typedef struct ModelPairs { /* zero is empty, and writes no file */
    StateFile file;
    PairList stored; /* from commands; a draft of "" overrides a pair of the setting with none */
    PairList set;    /* from the setting */
} ModelPairs;

/* Reads the file. A damaged file is set aside, an unreadable one left alone, and the log says so. dir "": no file. 0 or
 * -ENOMEM. */
int model_pairs_init(ModelPairs *pairs, const char *dir);
void model_pairs_deinit(ModelPairs *pairs);
/* Takes the setting over, except for pairs that would make a circle with stored ones; each of these is logged. 0, or
 * -ENOMEM: nothing has changed. */
int model_pairs_take_setting(ModelPairs *pairs, const char *text);
/* Stores the draft ("": none) of a target; waits for the disk. 0; MODEL_PAIRS_E_*, with a text, or -ENOMEM: nothing has
 * changed. */
int model_pairs_set(ModelPairs *pairs, const char *target, const char *draft, ErrText *err);
/* Forgets all stored pairs of a model, as target and as draft. 0; MODEL_PAIRS_E_STORE, with a text, or -ENOMEM: nothing
 * has changed. */
int model_pairs_forget(ModelPairs *pairs, const char *model, ErrText *err);
const char *model_pairs_draft_of(const ModelPairs *pairs, const char *target); /* NULL: none */

typedef struct ModelPairEntry {
    const char *target;
    const char *draft; /* "": none, in spite of the setting */
    bool is_stored;    /* from a command, not from the setting */
} ModelPairEntry;
bool model_pairs_find(const ModelPairs *pairs, const char *target, ModelPairEntry *entry); /* false: no pair */
/* Fills in the names of the targets that a model drafts for, at most room of them. Return: how many. */
size_t model_pairs_targets_of(const ModelPairs *pairs, const char *draft, const char *targets[], size_t room);
/* Lists all pairs. Return: how many. */
size_t model_pairs_list(const ModelPairs *pairs, ModelPairEntry entries[2 * PAIRS_MAX]);

#endif
