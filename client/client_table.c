// SPDX-License-Identifier: Apache-2.0
/* The table of requests in flight. */
#include <stdlib.h>

#include "client/client_internal.h"

ClientRequest *client_request_free(ClientRequest *request) {
    if (request) {
        client_answer_deinit(&request->answer);
        client_choices_deinit(&request->choices);
        free(request);
    }
    return NULL;
}

ClientRequest *client_table_find(CoordgenClient *client, uint64_t id) {
    ClientRequest *request;

    pthread_mutex_lock(&client->lock);
    for (request = client->requests; request && request->id != id;)
        request = request->next;
    pthread_mutex_unlock(&client->lock);
    return request;
}

bool client_table_was_sent(CoordgenClient *client, uint64_t id) {
    bool sent;

    pthread_mutex_lock(&client->lock);
    sent = id && id < client->next_id;
    pthread_mutex_unlock(&client->lock);
    return sent;
}

void client_table_unlink(CoordgenClient *client, ClientRequest *request) {
    pthread_mutex_lock(&client->lock);
    for (ClientRequest **linkp = &client->requests; *linkp; linkp = &(*linkp)->next)
        if (*linkp == request) {
            *linkp = request->next;
            break;
        }
    pthread_mutex_unlock(&client->lock);
}
