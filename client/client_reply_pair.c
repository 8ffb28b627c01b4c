// SPDX-License-Identifier: Apache-2.0
/* What replies about pairs of models, and defaults, hold. */
#include <stdlib.h>

#include "client/client_reply_internal.h"

void client_pair_fill(CoordgenModelPair *to, const Coordgen__V1__ModelPair *from) {
    *to = (CoordgenModelPair){
        .struct_bytes = sizeof(*to),
        .target = from->target ? from->target : "",
        .draft = from->draft ? from->draft : "",
        .is_stored = from->is_stored,
        .state = (CoordgenModelPairState)from->state,
        .detail = from->detail ? from->detail : "",
    };
}

bool client_pairs_fill(CoordgenReply *reply, Coordgen__V1__ModelPair *const *pairs, size_t n) {
    reply->models.pairs = calloc(n ? n : 1, sizeof(*reply->models.pairs));
    if (!reply->models.pairs)
        return false;
    for (size_t i = 0; i < n; i++)
        client_pair_fill(&reply->models.pairs[i], pairs[i]);
    reply->models.n_pairs = n;
    return true;
}

size_t coordgen_reply_n_model_pairs(const CoordgenReply *reply) {
    return reply ? reply->models.n_pairs : 0;
}

const CoordgenModelPair *coordgen_reply_model_pair(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->models.n_pairs ? &reply->models.pairs[index] : NULL;
}

const char *coordgen_reply_warning(const CoordgenReply *reply) {
    const bool is_pair = client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_MODEL_PAIR);

    return is_pair && reply->response->model_pair->warning ? reply->response->model_pair->warning : "";
}

const char *coordgen_model_pair_state_name(int state) {
    static const char *const names[] = {
        [0] = "unknown",
        [COORDGEN_MODEL_PAIR_IDLE] = "idle",
        [COORDGEN_MODEL_PAIR_LOADING] = "loading",
        [COORDGEN_MODEL_PAIR_READY] = "ready",
        [COORDGEN_MODEL_PAIR_ABSENT] = "absent",
        [COORDGEN_MODEL_PAIR_MISMATCH] = "mismatch",
        [COORDGEN_MODEL_PAIR_FAILED] = "failed",
    };

    return state >= 0 && (size_t)state < ARRAY_LEN(names) ? names[state] : "unknown";
}

const char *coordgen_model_default_by_name(int by) {
    static const char *const names[] = {
        [0] = "unknown",
        [COORDGEN_MODEL_DEFAULT_BY_SETTING] = "setting",
        [COORDGEN_MODEL_DEFAULT_BY_COMMAND] = "command",
        [COORDGEN_MODEL_DEFAULT_BY_FIRST] = "first",
    };

    return by >= 0 && (size_t)by < ARRAY_LEN(names) ? names[by] : "unknown";
}
