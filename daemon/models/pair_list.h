// SPDX-License-Identifier: Apache-2.0
/* Which model drafts for which, by their names: a list, as the setting draft-model has it. */
#ifndef COORDGEN_DAEMON_PAIR_LIST_H
#define COORDGEN_DAEMON_PAIR_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    PAIR_LIST_E_TEXT = 1, /* no list of pairs; the text says where */
    PAIR_LIST_E_FULL = 2, /* more than PAIRS_MAX */
};

#define PAIRS_MAX 256
#define PAIR_NAME_BYTES_MAX 255 /* of a model's name: PROTO_MODEL_NAME_BYTES_MAX */

typedef struct NamePair {
    char *target;
    char *draft; /* "": none drafts for it */
} NamePair;

typedef struct PairList { /* zero is empty */
    NamePair *pairs;      /* [n], each target once */
    size_t n;
} PairList;

/* "TARGET=DRAFT", several with commas between, blanks around names; "": none. 0; PAIR_LIST_E_TEXT, PAIR_LIST_E_FULL,
 * with a text, -ENOMEM: the list is as it was. */
int pair_list_parse(PairList *list, const char *text, ErrText *err);
void pair_list_deinit(PairList *list);
/* A target's draft, instead of the one of before. 0, PAIR_LIST_E_FULL, -ENOMEM: it is as it was. */
int pair_list_set(PairList *list, const char *target, const char *draft);
void pair_list_remove(PairList *list, const char *target);
const char *pair_list_find(const PairList *list, const char *target); /* its draft; NULL: nothing is said of it */

/* What drafts for a target, by several lists together; NULL or "": nothing. */
typedef const char *PairLookupFn(const void *arg, const char *target);
/* Whether a target would draft for itself, if draft drafted for it: over any number of pairs. */
bool pair_makes_circle(PairLookupFn *lookup, const void *arg, const char *target, const char *draft);

#endif
