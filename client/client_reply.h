// SPDX-License-Identifier: Apache-2.0
/* Makes replies out of responses. */
#ifndef COORDGEN_CLIENT_CLIENT_REPLY_H
#define COORDGEN_CLIENT_CLIENT_REPLY_H

#include "client/client_internal.h"

DEFINE_CLEANUP(CoordgenReply, coordgen_reply_unref)

/* Makes a reply with one reference; takes response, answer and further answers over. NULL: out of memory. */
CoordgenReply *client_reply_new(RequestKind kind, const ClientFailure *failure, Coordgen__V1__Response **responsep,
                                ClientAnswer *answer, ClientChoices *choices);

#endif
