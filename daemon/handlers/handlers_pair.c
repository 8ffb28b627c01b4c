// SPDX-License-Identifier: Apache-2.0
/* Which model drafts for which: said by administrators, told to everybody. */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/models/model_drafts.h"
#include "daemon/models/model_message.h"
#include "daemon/net/reply.h"

void handle_model_pair_list(Peer *peer, uint64_t request_id) {
    ModelRegistry *registry = &peer->service->models;
    _cleanup_(freep) Coordgen__V1__ModelPair *pairs = calloc(2 * PAIRS_MAX, sizeof(*pairs));
    _cleanup_(freep) Coordgen__V1__ModelPair **list = calloc(2 * PAIRS_MAX, sizeof(*list));
    Coordgen__V1__ModelPairListReply reply = COORDGEN__V1__MODEL_PAIR_LIST_REPLY__INIT;
    ModelPairEntry entries[2 * PAIRS_MAX];
    Coordgen__V1__Response response;

    if (!pairs || !list) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "out of memory");
        return;
    }
    reply.n_pairs = model_pairs_list(registry->pairs, entries);
    reply.pairs = list;
    for (size_t i = 0; i < reply.n_pairs; i++) {
        model_describe_pair(&pairs[i], registry, &entries[i], peer->may_administer);
        list[i] = &pairs[i];
    }
    connection_spend(peer->connection, (unsigned int)reply.n_pairs / MODELS_A_UNIT);
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_PAIR_LIST;
    response.model_pair_list = &reply;
    connection_send(peer->connection, &response);
}

/* As far as it shows: of models that are loaded by their parameters, else by their files. */
static void warn_if_large(Model *target, Model *draft, ErrText *warning) {
    const bool are_ready = target->stage == MODEL_READY && draft->stage == MODEL_READY;
    uint64_t own, other;

    model_measure(target);
    model_measure(draft);
    own = are_ready ? engine_info(target->engine)->n_parameters : target->source.bytes;
    other = are_ready ? engine_info(draft->engine)->n_parameters : draft->source.bytes;
    if (own && other > own)
        err_set(warning, 0,
                "%.*s is larger than %.*s (%" PRIu64 " and %" PRIu64 " %s): drafts will take longer than they bring",
                UTF8_PREFIX(draft->name, 64), UTF8_PREFIX(target->name, 64), other, own,
                are_ready ? "parameters" : "bytes of files");
}

/* Whether it can draft for the target, as far as that shows now; if not, the error is sent. */
static bool check_pair(Peer *peer, uint64_t request_id, Model *target, Model *draft) {
    uint32_t n_shared;
    ErrText err;

    if (target == draft) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "model_pair.draft", "%.*s cannot draft for itself: name a smaller model",
                              UTF8_PREFIX(draft->name, 64));
        return false;
    }
    if (target->stage != MODEL_READY || draft->stage != MODEL_READY)
        return true;
    if (!model_drafts_compare(target, draft, &n_shared, &err))
        return true;
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_VOCAB_MISMATCH, 0,
                          "model_pair.draft", "%.*s cannot draft for %.*s: %s", UTF8_PREFIX(draft->name, 64),
                          UTF8_PREFIX(target->name, 64), err.text);
    return false;
}

/* Stores it; if that fails, the error is sent. */
static bool set_pair(Peer *peer, uint64_t request_id, const char *target, const char *draft) {
    ErrText err = { .text = "out of memory" };
    int r = model_pairs_set(&peer->service->pairs, target, draft, &err);

    if (!r)
        return true;
    connection_send_error(peer->connection, request_id,
                          r == MODEL_PAIRS_E_CIRCLE || r == MODEL_PAIRS_E_FULL
                              ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT
                              : COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL,
                          0, r == MODEL_PAIRS_E_CIRCLE ? "model_pair.draft" : "", "%s", err.text);
    return false;
}

static void send_pair(Peer *peer, uint64_t request_id, const char *target, const ErrText *warning) {
    Coordgen__V1__ModelPairReply reply = COORDGEN__V1__MODEL_PAIR_REPLY__INIT;
    Coordgen__V1__Response response;
    Coordgen__V1__ModelPair pair;
    ModelPairEntry entry;

    if (model_pairs_find(&peer->service->pairs, target, &entry) && *entry.draft) {
        model_describe_pair(&pair, &peer->service->models, &entry, peer->may_administer);
        reply.pair = &pair;
    }
    reply.warning = *warning->text ? (char *)(uintptr_t)warning->text : NULL;
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_PAIR;
    response.model_pair = &reply;
    connection_send(peer->connection, &response);
}

void handle_model_pair(Peer *peer, uint64_t request_id, const Coordgen__V1__ModelPairRequest *pair) {
    ModelRegistry *registry = &peer->service->models;
    Model *target = model_registry_find(registry, pair->target), *draft = NULL;
    ErrText warning = { 0 };
    ModelPairEntry entry;

    if (!peer->may_administer) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "",
                              "only administrators pair models: use the administrators' socket, or be root");
        return;
    }
    /* What is said of a model can be undone when its file has gone. */
    if (!target && (*pair->draft || !model_pairs_find(&peer->service->pairs, pair->target, &entry))) {
        target = handler_find_model(peer, request_id, pair->target, "model_pair.target");
        if (!target)
            return;
    }
    if (*pair->draft) {
        draft = handler_find_model(peer, request_id, pair->draft, "model_pair.draft");
        if (!draft || !check_pair(peer, request_id, target, draft))
            return;
        warn_if_large(target, draft, &warning);
    }
    if (!set_pair(peer, request_id, pair->target, pair->draft))
        return;
    if (draft)
        log_notice_of(peer->user->uid, TOPIC_DAEMON, "model %s: paired with the draft model %s", pair->target,
                      pair->draft);
    else
        log_notice_of(peer->user->uid, TOPIC_DAEMON, "model %s: has no draft model any more", pair->target);
    if (target)
        model_drafts_renew(target);
    if (!peer->service->draining)
        model_drafts_settle(registry);
    send_pair(peer, request_id, pair->target, &warning);
}
