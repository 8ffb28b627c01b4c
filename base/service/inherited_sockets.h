// SPDX-License-Identifier: Apache-2.0
/* Listening sockets that the starter of this process has made: systemd (LISTEN_FDS) or Android's init
 * (ANDROID_SOCKET_*). Both pass sockets by environment variables, so neither's library is needed. Thread: one, at the
 * start. */
#ifndef COORDGEN_BASE_INHERITED_SOCKETS_H
#define COORDGEN_BASE_INHERITED_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define INHERITED_SOCKETS_MAX 8

/* A name of a socket, and what the program uses the socket for. */
typedef struct InheritedName {
    const char *name; /* FileDescriptorName= of the unit, or the environment variable of Android's init */
    int purpose;      /* the program's own number */
} InheritedName;

/* What a program takes. */
typedef struct InheritedNames {
    const InheritedName *systemd, *android;
    size_t n_systemd, n_android;
    const char *known;   /* the values of FileDescriptorName=, for the error: "api or admin" */
    int single_purpose;  /* of a single socket from systemd, whose name is not known */
    bool takes_loopback; /* TCP sockets of this machine's own addresses, beside Unix sockets */
} InheritedNames;

typedef struct InheritedSocket {
    int fd; /* a listening stream socket, closed when another program is executed */
    int purpose;
} InheritedSocket;

typedef struct InheritedSet {
    InheritedSocket sockets[INHERITED_SOCKETS_MAX];
    size_t n;
    int fds_end; /* above every descriptor that was handed over; 0: there is none */
} InheritedSet;

/* Reads the environment and changes nothing but the descriptors' state. 0; -EINVAL, -E2BIG or -errno with a text that
 * names the variable, or the descriptor and its name. After an error the set has the sockets that were valid before. */
int inherited_sockets_look(const InheritedNames *names, InheritedSet *set, ErrText *err);
/* Removes the variables, so that no child takes the descriptors for its own. */
void inherited_sockets_forget(const InheritedNames *names);

#endif
