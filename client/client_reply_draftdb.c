// SPDX-License-Identifier: Apache-2.0
/* What replies of the draft database hold. */
#include <stdlib.h>

#include "client/client_reply_internal.h"

static bool stats_fill(CoordgenReply *reply, const Coordgen__V1__DraftDbStatsReply *stats) {
    reply->draft_db.db.bytes_max = stats->bytes_max;
    reply->draft_db.db.documents_max = stats->documents_max;
    reply->draft_db.db.age_max_s = stats->age_max_s;
    reply->draft_db.db.stored = stats->stored;
    reply->draft_db.db.dropped = stats->dropped;
    reply->draft_db.users = calloc(stats->n_users ? stats->n_users : 1, sizeof(*reply->draft_db.users));
    if (!reply->draft_db.users)
        return false;
    for (size_t i = 0; i < stats->n_users; i++)
        reply->draft_db.users[i] = (CoordgenDraftDbUser){
            .struct_bytes = sizeof(reply->draft_db.users[i]),
            .uid = stats->users[i]->uid,
            .frozen = stats->users[i]->frozen,
            .documents = stats->users[i]->documents,
            .tokens = stats->users[i]->tokens,
            .bytes = stats->users[i]->bytes,
            .oldest_s = stats->users[i]->oldest_s,
            .newest_s = stats->users[i]->newest_s,
        };
    reply->draft_db.n_users = stats->n_users;
    return true;
}

bool client_draft_db_fill(CoordgenReply *reply) {
    const Coordgen__V1__Response *response = reply->response;
    CoordgenDraftDb *draft_db = &reply->draft_db.db;

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
    return reply && reply->draft_db.db.struct_bytes ? &reply->draft_db.db : NULL;
}

size_t coordgen_reply_n_draft_db_users(const CoordgenReply *reply) {
    return reply ? reply->draft_db.n_users : 0;
}

const CoordgenDraftDbUser *coordgen_reply_draft_db_user(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->draft_db.n_users ? &reply->draft_db.users[index] : NULL;
}

const void *coordgen_reply_data(const CoordgenReply *reply, size_t *len_bytesp) {
    const bool is_export = client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT);
    const ProtobufCBinaryData *data = is_export ? &reply->response->draft_db_export->data : NULL;

    if (len_bytesp)
        *len_bytesp = data ? data->len : 0;
    return !data ? NULL : data->data ? (const void *)data->data : "";
}
