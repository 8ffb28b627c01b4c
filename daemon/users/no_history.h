// SPDX-License-Identifier: Apache-2.0
/* The setting no-history: users and apps whose texts stay out of the draft database. */
#ifndef COORDGEN_DAEMON_NO_HISTORY_H
#define COORDGEN_DAEMON_NO_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

typedef struct NoHistory {
    char *text;  /* names of apps, each ended by a NUL, with an empty name at the end; NULL: none */
    uid_t *uids; /* [n_uids] */
    size_t n_uids;
} NoHistory;

/* Takes over a comma-separated list of users (numbers or names) and apps (names of their Hello). A name may mean both.
 * User names are looked up once, here. 0, or -ENOMEM: the list is unchanged. */
int no_history_set(NoHistory *list, const char *text);
void no_history_deinit(NoHistory *list);
bool no_history_has(const NoHistory *list, uid_t uid, const char *app);

#endif
