// SPDX-License-Identifier: Apache-2.0
/* The draft database: what a user's apps may ask of their part of it, and administrators of everybody's. The loop never
 * waits: a call is an errand of the draft store, whose answer comes later. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/files/file_io.h"
#include "base/log.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"

enum {
    CALLS_MAX = 4,          /* of one user that the store has not answered */
    PART_BYTES = 256 << 10, /* of an export, in one reply */
    PART_WORK = 10,         /* of connection_spend() */
    RETRY_MS = 1000,
    IMPORT_BESIDE_BYTES = 4096 /* of an export, beside what its documents count for the limit */
};

/* ---- calls and their answers ------------------------------------------------------------------------------------- */

static void refuse(Peer *peer, uint64_t request_id, Coordgen__V1__ErrorCode code, uint32_t retry_ms, const char *field,
                   const char *text) {
    connection_send_error(peer->connection, request_id, code, retry_ms, field, "%s", text);
}

bool handler_has_draft_call(const Peer *peer, uint64_t request_id) {
    const DraftErrand *errand;

    TAILQ_FOREACH (errand, &peer->service->drafts.calls, owner.link)
        if (errand->owner.client == peer && errand->owner.request_id == request_id)
            return true;
    return false;
}

void handler_end_draft_calls(Peer *peer) {
    DraftErrand *errand;

    TAILQ_FOREACH (errand, &peer->service->drafts.calls, owner.link)
        if (errand->owner.client == peer)
            errand->owner.client = NULL;
    peer->draft_transfer = draft_errand_free(peer->draft_transfer);
}

/* Counts a user's calls that the store has not answered, also those of clients that are gone: connecting again gives no
 * more of them. */
static unsigned int calls_of(const Service *service, uid_t uid, DraftErrandKind kind, bool any_kind) {
    const DraftErrand *errand;
    unsigned int n = 0;

    TAILQ_FOREACH (errand, &service->drafts.calls, owner.link)
        n += errand->owner.uid == uid && (any_kind || errand->kind == kind);
    return n;
}

/* An errand for this call, or NULL and the error is sent: whose part it is about is checked. */
static DraftErrand *new_call(Peer *peer, uint64_t request_id, DraftErrandKind kind, bool has_uid, uint32_t uid,
                             bool all_users) {
    const Service *service = peer->service;
    DraftErrand *errand;

    if (service->draining) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, service->config->timeouts.drain_ms,
               "", "the service is shutting down");
        return NULL;
    }
    if (!service->drafts.store) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, 0, "",
               "the service has no draft database (draftdb, draftdb-dir)");
        return NULL;
    }
    if (!peer->may_administer && (all_users || (has_uid && uid != peer->user->uid))) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "",
               "other users' part of the draft database is for administrators: use the administrators' socket");
        return NULL;
    }
    if (calls_of(service, peer->user->uid, kind, true) >= CALLS_MAX) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED, RETRY_MS, "",
               "this user's other requests to the draft database are not answered yet: try again later");
        return NULL;
    }
    errand = draft_errand_new(kind, has_uid ? uid : peer->user->uid, NULL);
    if (!errand) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS, "", "out of memory");
        return NULL;
    }
    errand->of_all_users = all_users;
    errand->owner.client = peer;
    errand->owner.request_id = request_id;
    errand->owner.uid = peer->user->uid;
    return errand;
}

static void submit(Peer *peer, DraftErrand *errand) {
    TAILQ_INSERT_TAIL(&peer->service->drafts.calls, errand, owner.link);
    peer->n_draft_calls++;
    draft_store_submit(peer->service->drafts.store, &errand);
}

/* Errors of the disk have paths in them. */
static void answer_failure(Peer *peer, const DraftErrand *errand) {
    const char *text = errand->result.err.text;
    Coordgen__V1__ErrorCode code;
    uint32_t retry_ms = 0;

    switch (errand->result.r) {
    case -ENOMEM:
    case DRAFT_DB_E_BUSY:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY;
        retry_ms = RETRY_MS;
        break;
    case DRAFT_DB_E_FULL:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED;
        break;
    case DRAFT_DB_E_FORMAT:
    case DRAFT_DB_E_TOO_LARGE:
    case DRAFT_DB_E_FROZEN:
    case -EFBIG:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        break;
    default:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL;
        if (!peer->may_administer)
            text = "the draft database cannot be used: the service's log says why";
    }
    connection_send_error(peer->connection, errand->owner.request_id, code, retry_ms, "", "%s", text);
}

static void answer_stats(Peer *peer, const DraftErrand *errand, Coordgen__V1__Response *response) {
    _cleanup_(freep) Coordgen__V1__DraftDbUser *users = calloc(errand->result.n_stats + 1, sizeof(*users));
    _cleanup_(freep) Coordgen__V1__DraftDbUser **list = calloc(errand->result.n_stats + 1, sizeof(*list));
    Coordgen__V1__DraftDbStatsReply reply = COORDGEN__V1__DRAFT_DB_STATS_REPLY__INIT;
    const DraftStoreCounts counts = draft_store_counts(peer->service->drafts.store);
    const Config *config = peer->service->config;

    if (!users || !list) {
        refuse(peer, errand->owner.request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS, "",
               "out of memory");
        return;
    }
    for (size_t i = 0; i < errand->result.n_stats; i++) {
        const DraftDbStats *stats = &errand->result.stats[i];

        list[i] = &users[i];
        coordgen__v1__draft_db_user__init(&users[i]);
        users[i].has_uid = users[i].has_frozen = users[i].has_documents = users[i].has_tokens = true;
        users[i].has_bytes = users[i].has_oldest_s = users[i].has_newest_s = true;
        users[i].uid = stats->uid;
        users[i].frozen = stats->frozen;
        users[i].documents = stats->n_documents;
        users[i].tokens = stats->n_tokens;
        users[i].bytes = stats->bytes;
        users[i].oldest_s = stats->oldest_s;
        users[i].newest_s = stats->newest_s;
    }
    reply.users = list;
    reply.n_users = errand->result.n_stats;
    reply.has_bytes_max = reply.has_documents_max = reply.has_age_max_s = true;
    reply.bytes_max = config->draft_db.limits.bytes_max;
    reply.documents_max = config->draft_db.limits.documents_max;
    reply.age_max_s = config->draft_db.limits.age_max_s;
    reply.has_stored = reply.has_dropped = peer->may_administer;
    reply.stored = counts.n_stored;
    reply.dropped = counts.n_dropped;
    response->op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_STATS;
    response->draft_db_stats = &reply;
    connection_send(peer->connection, response);
}

static void answer_forget(Peer *peer, const DraftErrand *errand, Coordgen__V1__Response *response) {
    Coordgen__V1__DraftDbForgetReply reply = COORDGEN__V1__DRAFT_DB_FORGET_REPLY__INIT;

    reply.has_documents = true;
    reply.documents = errand->result.n_documents;
    response->op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FORGET;
    response->draft_db_forget = &reply;
    connection_send(peer->connection, response);
    log_info_of(peer->user->uid, TOPIC_DAEMON,
                "draft database: %" PRIu64 " documents are forgotten, as uid %u has asked", errand->result.n_documents,
                (unsigned int)peer->user->uid);
}

static void answer_freeze(Peer *peer, Coordgen__V1__Response *response) {
    Coordgen__V1__DraftDbFreezeReply reply = COORDGEN__V1__DRAFT_DB_FREEZE_REPLY__INIT;

    response->op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FREEZE;
    response->draft_db_freeze = &reply;
    connection_send(peer->connection, response);
}

static void answer_import(Peer *peer, const DraftErrand *errand, Coordgen__V1__Response *response) {
    Coordgen__V1__DraftDbImportReply reply = COORDGEN__V1__DRAFT_DB_IMPORT_REPLY__INIT;

    reply.has_documents = reply.has_expired = true;
    reply.documents = errand->result.n_documents;
    reply.expired = errand->result.n_expired;
    response->op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_IMPORT;
    response->draft_db_import = &reply;
    connection_send(peer->connection, response);
}

/* A part of the export that the client reads; with the last one it is gone. */
static void send_part(Peer *peer, uint64_t request_id, uint64_t offset) {
    DraftErrand *export = peer->draft_transfer;
    _cleanup_(freep) uint8_t *part = malloc(PART_BYTES);
    Coordgen__V1__DraftDbExportReply reply = COORDGEN__V1__DRAFT_DB_EXPORT_REPLY__INIT;
    Coordgen__V1__Response response;
    const off_t end = lseek(export->fd, 0, SEEK_END);
    uint64_t n = end > 0 && offset < (uint64_t)end ? (uint64_t)end - offset : 0;

    if (n > PART_BYTES)
        n = PART_BYTES;
    if (!part || !n || file_read_exact(export->fd, part, n, offset)) {
        refuse(peer, request_id,
               part ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT : COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
               part ? 0 : RETRY_MS, part ? "draft_db_export.offset" : "",
               part ? "draft_db_export.offset: behind the end of the export" : "out of memory");
        return;
    }
    connection_spend(peer->connection, PART_WORK);
    reply_init(&response, request_id);
    reply.has_data = reply.has_total_bytes = reply.has_documents = true;
    reply.data.data = part;
    reply.data.len = n;
    reply.total_bytes = (uint64_t)end;
    reply.documents = export->result.n_documents;
    response.op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT;
    response.draft_db_export = &reply;
    connection_send(peer->connection, &response);
    if (offset + n == (uint64_t)end)
        peer->draft_transfer = draft_errand_free(peer->draft_transfer);
}

static void answer(DraftErrand **errandp) {
    const DraftErrand *errand = *errandp;
    Peer *peer = errand->owner.client;
    Coordgen__V1__Response response;

    reply_init(&response, errand->owner.request_id);
    if (errand->result.r) {
        answer_failure(peer, errand);
        return;
    }
    switch (errand->kind) {
    case DRAFT_STATS:
        answer_stats(peer, errand, &response);
        return;
    case DRAFT_FORGET:
        answer_forget(peer, errand, &response);
        return;
    case DRAFT_FREEZE:
        answer_freeze(peer, &response);
        return;
    case DRAFT_IMPORT:
        answer_import(peer, errand, &response);
        return;
    case DRAFT_EXPORT:
        draft_errand_free(peer->draft_transfer);
        peer->draft_transfer = steal(errandp);
        send_part(peer, peer->draft_transfer->owner.request_id, 0);
        return;
    case DRAFT_ADD:
    case DRAFT_BUILD:
    case DRAFT_RECENT:
        return;
    }
}

void handler_on_draft_answers(evutil_socket_t fd, short what, void *arg) {
    Service *service = arg;

    assert_on_loop(&service->loop);
    for (;;) {
        _cleanup_(draft_errand_freep) DraftErrand *errand = draft_store_take_answer(service->drafts.store);

        if (!errand)
            break;
        TAILQ_REMOVE(&service->drafts.calls, errand, owner.link);
        if (errand->owner.client) {
            ((Peer *)errand->owner.client)->n_draft_calls--;
            answer(&errand);
        }
    }
    loop_pump(&service->loop);
}

/* ---- each of them ------------------------------------------------------------------------------------------------ */

static void handle_stats(Peer *peer, uint64_t request_id, const Coordgen__V1__DraftDbStatsRequest *stats) {
    DraftErrand *errand = new_call(peer, request_id, DRAFT_STATS, stats->has_uid, stats->uid, stats->all_users);

    if (errand)
        submit(peer, errand);
}

/* The tokens of a model are known while it is loaded. */
static bool take_model(Peer *peer, uint64_t request_id, const char *name, DraftErrand *errand) {
    static const char field[] = "draft_db_forget.model";
    const Model *model = handler_find_model(peer, request_id, name, field);

    if (!model)
        return false;
    if (model->stage != MODEL_READY) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, field,
               "the model is not loaded, and its tokens are not known: load it, or forget without a model");
        return false;
    }
    errand->forget.has_tokenizer = true;
    memcpy(errand->tokenizer, tokenizer_hash(engine_tokenizer(model->engine)), sizeof(errand->tokenizer));
    return true;
}

static void handle_forget(Peer *peer, uint64_t request_id, const Coordgen__V1__DraftDbForgetRequest *forget) {
    _cleanup_(draft_errand_freep) DraftErrand *errand =
        new_call(peer, request_id, DRAFT_FORGET, forget->has_uid, forget->uid, forget->all_users);

    if (!errand || (forget->model && !take_model(peer, request_id, forget->model, errand)))
        return;
    errand->forget.has_before = forget->has_before_s;
    errand->forget.before_s = forget->before_s;
    submit(peer, steal(&errand));
}

static void handle_freeze(Peer *peer, uint64_t request_id, const Coordgen__V1__DraftDbFreezeRequest *freeze) {
    DraftErrand *errand = new_call(peer, request_id, DRAFT_FREEZE, freeze->has_uid, freeze->uid, false);

    if (!errand)
        return;
    errand->is_frozen = freeze->frozen;
    submit(peer, errand);
}

/* A user has one export or import at a time over all connections, because they are in memory. */
static bool may_transfer(Peer *peer, uint64_t request_id) {
    const Peer *other;
    const uid_t uid = peer->user->uid;
    unsigned int n =
        calls_of(peer->service, uid, DRAFT_EXPORT, false) + calls_of(peer->service, uid, DRAFT_IMPORT, false);

    TAILQ_FOREACH (other, &peer->user->peers, user_link)
        n += other != peer && other->draft_transfer;
    if (n)
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED, RETRY_MS, "",
               "another export or import of this user is under way: try again later");
    return !n;
}

static void handle_export(Peer *peer, uint64_t request_id, const Coordgen__V1__DraftDbExportRequest *export) {
    DraftErrand *errand;

    if (export->offset) {
        if (peer->draft_transfer && peer->draft_transfer->kind == DRAFT_EXPORT)
            send_part(peer, request_id, export->offset);
        else
            refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, "draft_db_export.offset",
                   "draft_db_export.offset: the connection reads no export: begin with 0");
        return;
    }
    if (!may_transfer(peer, request_id))
        return;
    errand = new_call(peer, request_id, DRAFT_EXPORT, export->has_uid, export->uid, false);
    if (errand)
        submit(peer, errand);
}

static uint64_t import_max_bytes(const Config *config) {
    const uint64_t bytes_max = config->draft_db.limits.bytes_max;

    return bytes_max && bytes_max < DRAFT_DB_EXPORT_BYTES_MAX ? bytes_max + IMPORT_BESIDE_BYTES
                                                              : DRAFT_DB_EXPORT_BYTES_MAX;
}

/* 0; else the error is sent. */
static int take_part(Peer *peer, uint64_t request_id, const ProtobufCBinaryData *data) {
    static const char field[] = "draft_db_import.data";
    DraftErrand *errand = peer->draft_transfer;

    if (errand->bill.bytes + data->len > import_max_bytes(peer->service->config)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              field, "draft_db_import.data: more than the draft database may hold (%" PRIu64 " bytes)",
                              import_max_bytes(peer->service->config));
        return -EFBIG;
    }
    if (user_charge(peer->user, peer->is_admin, &errand->bill, data->len) ||
        (data->len && file_write_all(errand->fd, data->data, data->len))) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS, field,
                              "no memory for the import: %s is reached", user_memory_limit(peer->user, peer->is_admin));
        return -ENOMEM;
    }
    connection_spend(peer->connection, data->len / (PART_BYTES / PART_WORK));
    return 0;
}

/* The first part: what came before is forgotten. */
static bool begin_import(Peer *peer, uint64_t request_id, const Coordgen__V1__DraftDbImportRequest *import) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = NULL;

    if (!may_transfer(peer, request_id))
        return false;
    errand = new_call(peer, request_id, DRAFT_IMPORT, import->has_uid, import->uid, false);
    if (!errand)
        return false;
    errand->fd = memfd_create("draftdb-import", MFD_CLOEXEC);
    if (errand->fd < 0) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS, "", "no memory for the import");
        return false;
    }
    draft_errand_free(peer->draft_transfer);
    peer->draft_transfer = steal(&errand);
    return true;
}

/* What has come goes to the store. It outlives the client, so the user no longer pays for it. */
static void end_import(Peer *peer, uint64_t request_id) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = steal(&peer->draft_transfer);
    const uint64_t len_bytes = errand->bill.bytes;

    bill_settle(&errand->bill);
    errand->bill = (Bill){ 0 };
    if (account_charge(&peer->service->accounts, ACCOUNT_DRAFTDB, &errand->bill, len_bytes)) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, RETRY_MS, "",
               "no memory for the import: memory-limit is reached");
        return;
    }
    submit(peer, steal(&errand));
}

static void handle_import(Peer *peer, uint64_t request_id, const Coordgen__V1__DraftDbImportRequest *import) {
    static const ProtobufCBinaryData nothing = { 0 };
    Coordgen__V1__Response response;

    if (import->first && !begin_import(peer, request_id, import))
        return;
    if (!peer->draft_transfer || peer->draft_transfer->kind != DRAFT_IMPORT) {
        refuse(peer, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, "draft_db_import.first",
               "draft_db_import.first: the connection has begun no import");
        return;
    }
    if (take_part(peer, request_id, import->has_data ? &import->data : &nothing)) {
        peer->draft_transfer = draft_errand_free(peer->draft_transfer);
        return;
    }
    peer->draft_transfer->owner.request_id = request_id;
    if (import->last) {
        end_import(peer, request_id);
        return;
    }
    reply_init(&response, request_id);
    answer_import(peer, peer->draft_transfer, &response);
}

void handle_draft_db(Peer *peer, const Coordgen__V1__Request *message) {
    switch (message->op_case) {
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_STATS:
        handle_stats(peer, message->request_id, message->draft_db_stats);
        return;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FORGET:
        handle_forget(peer, message->request_id, message->draft_db_forget);
        return;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FREEZE:
        handle_freeze(peer, message->request_id, message->draft_db_freeze);
        return;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_EXPORT:
        handle_export(peer, message->request_id, message->draft_db_export);
        return;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_IMPORT:
        handle_import(peer, message->request_id, message->draft_db_import);
        return;
    default:
        return;
    }
}
