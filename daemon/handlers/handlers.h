// SPDX-License-Identifier: Apache-2.0
/* Passes clients' messages to their handlers (daemon/handlers/handlers_list.h). */
#ifndef COORDGEN_DAEMON_HANDLERS_H
#define COORDGEN_DAEMON_HANDLERS_H

#include "daemon/net/connection.h"

extern const ConnectionOps handlers_ops; /* for the connection of a Peer */

#endif
