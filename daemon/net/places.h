// SPDX-License-Identifier: Apache-2.0
/* Places for connections: who gets one, and whose is taken back when there is none. Owned by the loop. */
#ifndef COORDGEN_DAEMON_PLACES_H
#define COORDGEN_DAEMON_PLACES_H

#include "daemon/net/peer.h"

enum {
    PLACES_E_FULL = 1, /* all are taken */
    PLACES_E_USER,     /* this user has enough */
};

/* Called from the loop, with no connection at work. 0: there is a place for one more; PLACES_E_*. */
int places_make(UserTable *users, bool is_admin, uid_t uid);

#endif
