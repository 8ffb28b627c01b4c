// SPDX-License-Identifier: Apache-2.0
/* Listening sockets of the service that the starter of this process has made (base/service/inherited_sockets.h), and
 * whom each one is for. */
#ifndef COORDGEN_DAEMON_ACTIVATION_H
#define COORDGEN_DAEMON_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/service/inherited_sockets.h"

#define ACTIVATION_SOCKETS_MAX INHERITED_SOCKETS_MAX

typedef struct ActivationSocket {
    int fd; /* a listening Unix stream socket, closed when another program is executed */
    bool is_admin;
} ActivationSocket;

typedef struct ActivationSet {
    ActivationSocket sockets[ACTIVATION_SOCKETS_MAX];
    size_t n;
    int fds_end; /* above every descriptor that was handed over; 0: there is none */
} ActivationSet;

/* Reads the environment and changes nothing but the descriptors' state. 0; -EINVAL, -E2BIG or -errno with a text that
 * names the variable, or the descriptor and its name. After an error the set has the sockets that were valid before. */
int activation_look(ActivationSet *set, ErrText *err);
/* Removes the variables, so that no child takes the descriptors for its own. */
void activation_forget(void);

#endif
