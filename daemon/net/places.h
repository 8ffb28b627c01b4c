// SPDX-License-Identifier: Apache-2.0
/* Places for connections: decides which user gets a place, and closes an idle connection if none is free. Owned by the
 * loop. */
#ifndef COORDGEN_DAEMON_PLACES_H
#define COORDGEN_DAEMON_PLACES_H

#include "daemon/net/peer.h"

enum {
    PLACES_E_FULL = 1, /* all places are taken */
    PLACES_E_USER,     /* the user has its share of places */
};

/* Makes sure that one more connection has a place. No connection may be up the stack. 0 or PLACES_E_*. */
int places_make(UserTable *users, bool is_admin, uid_t uid);

#endif
