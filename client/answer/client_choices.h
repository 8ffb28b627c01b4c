// SPDX-License-Identifier: Apache-2.0
/* The answers of one request, if it asks for several: the first one, and further ones as they arrive. */
#ifndef COORDGEN_CLIENT_CLIENT_CHOICES_H
#define COORDGEN_CLIENT_CLIENT_CHOICES_H

#include "client/answer/client_answer.h"

#define CLIENT_CHOICES_MAX 16

typedef struct ClientChoices { /* zero-initialised it is empty */
    ClientAnswer *further;     /* [n_further]: answers from 1 on */
    size_t n_further;
} ClientChoices;

/* Returns answer `choice`, made if it is new; 0: `first`. NULL: out of memory. */
ClientAnswer *client_choices_get(ClientChoices *choices, ClientAnswer *first, uint32_t choice);
/* Makes the list of answers for a result. Texts belong to `first` and `choices`, first_calls to the caller. *listp: by
 * client_choices_list_free(). false: out of memory. */
bool client_choices_list(const ClientChoices *choices, const ClientAnswer *first, const CoordgenToolCall *first_calls,
                         const Coordgen__V1__GenerateDone *done, CoordgenChoice **listp);
void client_choices_list_free(CoordgenChoice *list, size_t n);
void client_choices_deinit(ClientChoices *choices);

#endif
