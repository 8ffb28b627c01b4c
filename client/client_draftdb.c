// SPDX-License-Identifier: Apache-2.0
/* The draft database: requests about it, and what their replies hold. */
#include <string.h>

#include "client/client_internal.h"

void coordgen_draft_db_options_init_sized(CoordgenDraftDbOptions *options, size_t struct_bytes) {
    CoordgenDraftDbOptions defaults = { .struct_bytes = struct_bytes, .timeout_ms = -1 };

    if (!options)
        return;
    memset(options, 0, struct_bytes);
    memcpy(options, &defaults, struct_bytes < sizeof(defaults) ? struct_bytes : sizeof(defaults));
}

static int options_take(CoordgenClient *client, CoordgenDraftDbOptions *options, const CoordgenDraftDbOptions *given) {
    coordgen_draft_db_options_init(options);
    return client_options_copy(client, options, sizeof(*options), given, sizeof(*options));
}

/* Of conditions that one of the requests has alone: refused, never ignored. */
static int only_uid(CoordgenClient *client, const CoordgenDraftDbOptions *options, const char *op) {
    if (options->all_users)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "all_users", 0, "%s is of one user at a time", op);
    if (options->has_before || options->model)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, options->model ? "model" : "before_s", 0,
                           "%s is of all documents of the user", op);
    return 0;
}

int coordgen_draft_db_stats_start(CoordgenClient *client, const CoordgenDraftDbOptions *given, CoordgenEventFn *fn,
                                  void *arg, uint64_t *request_idp) {
    Coordgen__V1__DraftDbStatsRequest stats = COORDGEN__V1__DRAFT_DB_STATS_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    CoordgenDraftDbOptions options;
    int r = options_take(client, &options, given);

    if (!r && (options.has_before || options.model))
        r = client_fail(client, COORDGEN_E_INVALID_ARGUMENT, options.model ? "model" : "before_s", 0,
                        "stats are of all documents of a user");
    if (r)
        return r;
    stats.has_uid = options.has_uid;
    stats.uid = options.has_uid ? options.uid : 0;
    stats.has_all_users = stats.all_users = options.all_users;
    message.op_case = COORDGEN__V1__REQUEST__OP_DRAFT_DB_STATS;
    message.draft_db_stats = &stats;
    return client_start(client, REQUEST_DRAFT_DB_STATS, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_draft_db_forget_start(CoordgenClient *client, const CoordgenDraftDbOptions *given, CoordgenEventFn *fn,
                                   void *arg, uint64_t *request_idp) {
    Coordgen__V1__DraftDbForgetRequest forget = COORDGEN__V1__DRAFT_DB_FORGET_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    CoordgenDraftDbOptions options;
    int r = options_take(client, &options, given);

    if (r)
        return r;
    forget.has_uid = options.has_uid;
    forget.uid = options.has_uid ? options.uid : 0;
    forget.has_all_users = forget.all_users = options.all_users;
    forget.has_before_s = options.has_before;
    forget.before_s = options.has_before ? options.before_s : 0;
    forget.model = (char *)(uintptr_t)options.model;
    message.op_case = COORDGEN__V1__REQUEST__OP_DRAFT_DB_FORGET;
    message.draft_db_forget = &forget;
    return client_start(client, REQUEST_DRAFT_DB_FORGET, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_draft_db_freeze_start(CoordgenClient *client, const CoordgenDraftDbOptions *given, bool frozen,
                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    Coordgen__V1__DraftDbFreezeRequest freeze = COORDGEN__V1__DRAFT_DB_FREEZE_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    CoordgenDraftDbOptions options;
    int r = options_take(client, &options, given);

    if (!r)
        r = only_uid(client, &options, "freezing");
    if (r)
        return r;
    freeze.has_uid = options.has_uid;
    freeze.uid = options.has_uid ? options.uid : 0;
    freeze.has_frozen = true;
    freeze.frozen = frozen;
    message.op_case = COORDGEN__V1__REQUEST__OP_DRAFT_DB_FREEZE;
    message.draft_db_freeze = &freeze;
    return client_start(client, REQUEST_DRAFT_DB_FREEZE, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_draft_db_export_start(CoordgenClient *client, const CoordgenDraftDbOptions *given, uint64_t offset,
                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    Coordgen__V1__DraftDbExportRequest export = COORDGEN__V1__DRAFT_DB_EXPORT_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    CoordgenDraftDbOptions options;
    int r = options_take(client, &options, given);

    if (!r)
        r = only_uid(client, &options, "an export");
    if (r)
        return r;
    export.has_uid = options.has_uid;
    export.uid = options.has_uid ? options.uid : 0;
    export.has_offset = true;
    export.offset = offset;
    message.op_case = COORDGEN__V1__REQUEST__OP_DRAFT_DB_EXPORT;
    message.draft_db_export = &export;
    return client_start(client, REQUEST_DRAFT_DB_EXPORT, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_draft_db_import_start(CoordgenClient *client, const CoordgenDraftDbOptions *given, const void *data,
                                   size_t data_bytes, bool first, bool last, CoordgenEventFn *fn, void *arg,
                                   uint64_t *request_idp) {
    Coordgen__V1__DraftDbImportRequest import = COORDGEN__V1__DRAFT_DB_IMPORT_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    CoordgenDraftDbOptions options;
    int r = options_take(client, &options, given);

    if (!r)
        r = only_uid(client, &options, "an import");
    if (!r && data_bytes && !data)
        r = client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "data", 0, "%zu bytes are given, which are NULL",
                        data_bytes);
    if (r)
        return r;
    import.has_uid = options.has_uid;
    import.uid = options.has_uid ? options.uid : 0;
    import.has_data = true;
    import.data.len = data_bytes;
    import.data.data = (uint8_t *)(uintptr_t)data;
    import.has_first = import.first = first;
    import.has_last = import.last = last;
    message.op_case = COORDGEN__V1__REQUEST__OP_DRAFT_DB_IMPORT;
    message.draft_db_import = &import;
    return client_start(client, REQUEST_DRAFT_DB_IMPORT, &message, options.timeout_ms, fn, arg, request_idp);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static bool stats_fill(CoordgenReply *reply, const Coordgen__V1__DraftDbStatsReply *stats) {
    reply->draft_db.bytes_max = stats->bytes_max;
    reply->draft_db.documents_max = stats->documents_max;
    reply->draft_db.age_max_s = stats->age_max_s;
    reply->draft_db.stored = stats->stored;
    reply->draft_db.dropped = stats->dropped;
    reply->draft_db_users = calloc(stats->n_users ? stats->n_users : 1, sizeof(*reply->draft_db_users));
    if (!reply->draft_db_users)
        return false;
    for (size_t i = 0; i < stats->n_users; i++)
        reply->draft_db_users[i] = (CoordgenDraftDbUser){
            .struct_bytes = sizeof(reply->draft_db_users[i]),
            .uid = stats->users[i]->uid,
            .frozen = stats->users[i]->frozen,
            .documents = stats->users[i]->documents,
            .tokens = stats->users[i]->tokens,
            .bytes = stats->users[i]->bytes,
            .oldest_s = stats->users[i]->oldest_s,
            .newest_s = stats->users[i]->newest_s,
        };
    reply->n_draft_db_users = stats->n_users;
    return true;
}

bool client_draft_db_fill(CoordgenReply *reply) {
    const Coordgen__V1__Response *response = reply->response;
    CoordgenDraftDb *draft_db = &reply->draft_db;

    *draft_db = (CoordgenDraftDb){ .struct_bytes = sizeof(*draft_db) };
    switch (response->op_case) {
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_STATS:
        return stats_fill(reply, response->draft_db_stats);
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FORGET:
        draft_db->documents = response->draft_db_forget->documents;
        return true;
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT:
        draft_db->documents = response->draft_db_export->documents;
        draft_db->total_bytes = response->draft_db_export->total_bytes;
        return true;
    case COORDGEN__V1__RESPONSE__OP_DRAFT_DB_IMPORT:
        draft_db->documents = response->draft_db_import->documents;
        draft_db->expired = response->draft_db_import->expired;
        return true;
    default:
        return true;
    }
}

const CoordgenDraftDb *coordgen_reply_draft_db(const CoordgenReply *reply) {
    return reply && reply->draft_db.struct_bytes ? &reply->draft_db : NULL;
}

size_t coordgen_reply_n_draft_db_users(const CoordgenReply *reply) {
    return reply ? reply->n_draft_db_users : 0;
}

const CoordgenDraftDbUser *coordgen_reply_draft_db_user(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->n_draft_db_users ? &reply->draft_db_users[index] : NULL;
}

const void *coordgen_reply_data(const CoordgenReply *reply, size_t *len_bytesp) {
    const bool is_export =
        reply && reply->response && reply->response->op_case == COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT;
    const ProtobufCBinaryData *data = is_export ? &reply->response->draft_db_export->data : NULL;

    if (len_bytesp)
        *len_bytesp = data ? data->len : 0;
    return !data ? NULL : data->data ? (const void *)data->data : "";
}
