// SPDX-License-Identifier: Apache-2.0
/* Tells clients that the service cannot start: the service manager keeps the sockets open, and they would wait. */
#ifndef COORDGEN_DAEMON_REFUSAL_H
#define COORDGEN_DAEMON_REFUSAL_H

#include "daemon/net/listener.h"

/* Duplicates the sockets that were handed over (daemon/systemd/activation.h), for the case that the start fails. Call
 * this before the service takes them. */
void refusal_prepare(ListenerSet *spare);
/* Answers every client of the next seconds with an error, and closes the sockets. Returns at once without sockets. */
void refusal_serve(ListenerSet *spare, const char *reason);

#endif
