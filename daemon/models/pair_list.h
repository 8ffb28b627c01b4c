// SPDX-License-Identifier: Apache-2.0
/* A list of pairs of names, target and draft model, as the setting draft-model has them. */
#ifndef COORDGEN_DAEMON_PAIR_LIST_H
#define COORDGEN_DAEMON_PAIR_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    PAIR_LIST_E_TEXT = 1, /* not a list of pairs; the text says where */
    PAIR_LIST_E_FULL = 2, /* more than PAIRS_MAX */
};

#define PAIRS_MAX 256
#define PAIR_NAME_BYTES_MAX 255 /* limit on a model's name: PROTO_MODEL_NAME_BYTES_MAX */

typedef struct NamePair {
    char *target;
    char *draft; /* "": no draft model */
} NamePair;

typedef struct PairList { /* zero is empty */
    NamePair *pairs;      /* [n], each target once */
    size_t n;
} PairList;

/* Parses "TARGET=DRAFT" pairs with commas between and blanks around names; "": none. 0; PAIR_LIST_E_*, with a text, or
 * -ENOMEM: the list is unchanged. */
int pair_list_parse(PairList *list, const char *text, ErrText *err);
void pair_list_deinit(PairList *list);
/* Sets a target's draft. 0; PAIR_LIST_E_FULL or -ENOMEM: the list is unchanged. */
int pair_list_set(PairList *list, const char *target, const char *draft);
void pair_list_remove(PairList *list, const char *target);
const char *pair_list_find(const PairList *list, const char *target); /* the target's draft; NULL: not in the list */

/* Looks a target's draft up, in one list or several; NULL or "": none. */
typedef const char *PairLookupFn(const void *arg, const char *target);
/* Tells whether a target would draft for itself over any number of pairs, if draft drafted for it. */
bool pair_makes_circle(PairLookupFn *lookup, const void *arg, const char *target, const char *draft);

#endif
