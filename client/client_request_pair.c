// SPDX-License-Identifier: Apache-2.0
/* Requests about pairs of models, one of which drafts for the other. */
#include "client/client_internal.h"

int coordgen_model_pair_start(CoordgenClient *client, const char *target, const char *draft, int timeout_ms,
                              CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    Coordgen__V1__ModelPairRequest pair = COORDGEN__V1__MODEL_PAIR_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    pair.target = client_text(target);
    pair.draft = client_text(draft ? draft : "");
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_PAIR;
    message.model_pair = &pair;
    return client_start(client, REQUEST_MODEL_PAIR, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_pair_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                   uint64_t *request_idp) {
    Coordgen__V1__ModelPairListRequest list = COORDGEN__V1__MODEL_PAIR_LIST_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_PAIR_LIST;
    message.model_pair_list = &list;
    return client_start(client, REQUEST_MODEL_PAIR_LIST, &message, timeout_ms, fn, arg, request_idp);
}
