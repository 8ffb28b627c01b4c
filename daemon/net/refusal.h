// SPDX-License-Identifier: Apache-2.0
/* A service that cannot start, while the service manager keeps its sockets: whoever comes is told, not left waiting. */
#ifndef COORDGEN_DAEMON_REFUSAL_H
#define COORDGEN_DAEMON_REFUSAL_H

#include "daemon/net/listener.h"

/* Holds the sockets that were handed over (daemon/activation.h) once more, until it is clear that they are served. Call
 * this before they are taken. */
void refusal_prepare(ListenerSet *spare);
/* Answers everybody who comes within some seconds with an error, and closes the sockets. With none it returns at
 * once. */
void refusal_serve(ListenerSet *spare, const char *reason);

#endif
