// SPDX-License-Identifier: Apache-2.0
/* Tests of the client library's requests about the draft database: the message for each option, and the content of
 * replies. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>

#include "test/unit/client/client_peer.h"

/* Reply of the request that has ended; the caller owns it. */
static CoordgenReply *ended;

static int take_end(void *arg, const CoordgenEvent *event) {
    if (event->kind == COORDGEN_EVENT_END)
        ended = coordgen_reply_ref(event->reply);
    return 0;
}

static CoordgenReply *wait_for(CoordgenClient *client, int started) {
    assert_int_equal(started, 0);
    for (ended = NULL; !ended;) {
        struct pollfd fd = { .fd = coordgen_client_fd(client), .events = POLLIN };

        assert_int_equal(poll(&fd, 1, 60000), 1);
        assert_int_equal(coordgen_client_dispatch(client), 0);
    }
    assert_int_equal(coordgen_reply_error(ended), 0);
    return ended;
}

/* Answers with numbers that encode the request. */
static bool answer(Peer *peer, const Coordgen__V1__Request *request) {
    Coordgen__V1__DraftDbUser user = COORDGEN__V1__DRAFT_DB_USER__INIT, *users[] = { &user };
    Coordgen__V1__DraftDbStatsReply stats = COORDGEN__V1__DRAFT_DB_STATS_REPLY__INIT;
    Coordgen__V1__DraftDbForgetReply forget = COORDGEN__V1__DRAFT_DB_FORGET_REPLY__INIT;
    Coordgen__V1__DraftDbFreezeReply freeze = COORDGEN__V1__DRAFT_DB_FREEZE_REPLY__INIT;
    Coordgen__V1__DraftDbExportReply export = COORDGEN__V1__DRAFT_DB_EXPORT_REPLY__INIT;
    Coordgen__V1__DraftDbImportReply import = COORDGEN__V1__DRAFT_DB_IMPORT_REPLY__INIT;
    Coordgen__V1__Response out = COORDGEN__V1__RESPONSE__INIT;

    switch (request->op_case) {
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_STATS:
        user.uid = request->draft_db_stats->has_uid ? request->draft_db_stats->uid : 7;
        user.documents = request->draft_db_stats->all_users ? 3 : 2;
        user.frozen = true;
        stats.n_users = 1;
        stats.users = users;
        stats.age_max_s = 11;
        out.op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_STATS;
        out.draft_db_stats = &stats;
        user.has_uid = user.has_documents = user.has_frozen = stats.has_age_max_s = true;
        break;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FORGET:
        forget.has_documents = true;
        forget.documents = (request->draft_db_forget->has_before_s ? request->draft_db_forget->before_s : 1000) +
                           (request->draft_db_forget->model ? strlen(request->draft_db_forget->model) : 0);
        out.op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FORGET;
        out.draft_db_forget = &forget;
        break;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FREEZE:
        if (!request->draft_db_freeze->has_frozen || request->draft_db_freeze->frozen)
            return false;
        out.op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FREEZE;
        out.draft_db_freeze = &freeze;
        break;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_EXPORT:
        export.has_data = export.has_total_bytes = export.has_documents = true;
        export.data = (ProtobufCBinaryData){ 3, (uint8_t *)"abc" };
        export.total_bytes = 100 + request->draft_db_export->offset;
        export.documents = 5;
        out.op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT;
        out.draft_db_export = &export;
        break;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_IMPORT:
        import.has_documents = import.has_expired = true;
        import.documents = request->draft_db_import->data.len;
        import.expired = request->draft_db_import->first * 2u + request->draft_db_import->last;
        out.op_case = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_IMPORT;
        out.draft_db_import = &import;
        break;
    default:
        return false;
    }
    peer_send(peer, &out, request->request_id);
    return true;
}

static void script(Peer *peer) {
    bool go_on = peer_hello(peer);

    while (go_on) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);

        go_on = request && answer(peer, request);
    }
}

static void test_client_draftdb_requests(void **state) {
    CoordgenDraftDbOptions options;
    CoordgenReply *reply;
    size_t n;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script);

    coordgen_draft_db_options_init(&options);
    assert_int_equal(options.timeout_ms, -1);
    reply = wait_for(client, coordgen_draft_db_stats_start(client, &options, take_end, NULL, NULL));
    assert_int_equal(coordgen_reply_n_draft_db_users(reply), 1);
    assert_int_equal(coordgen_reply_draft_db_user(reply, 0)->uid, 7);
    assert_int_equal(coordgen_reply_draft_db_user(reply, 0)->documents, 2);
    assert_true(coordgen_reply_draft_db_user(reply, 0)->frozen);
    assert_int_equal(coordgen_reply_draft_db_user(reply, 0)->struct_bytes, sizeof(CoordgenDraftDbUser));
    assert_null(coordgen_reply_draft_db_user(reply, 1));
    assert_int_equal(coordgen_reply_draft_db(reply)->age_max_s, 11);
    assert_null(coordgen_reply_data(reply, &n));
    assert_int_equal(n, 0);
    coordgen_reply_unref(reply);
    options.has_uid = options.all_users = true;
    reply = wait_for(client, coordgen_draft_db_stats_start(client, &options, take_end, NULL, NULL));
    assert_int_equal(coordgen_reply_draft_db_user(reply, 0)->uid, 0);
    assert_int_equal(coordgen_reply_draft_db_user(reply, 0)->documents, 3);
    coordgen_reply_unref(reply);

    reply = wait_for(client, coordgen_draft_db_forget_start(client, &options, take_end, NULL, NULL));
    assert_int_equal(coordgen_reply_draft_db(reply)->documents, 1000);
    coordgen_reply_unref(reply);
    options.has_before = true;
    options.before_s = 50;
    options.model = "four";
    reply = wait_for(client, coordgen_draft_db_forget_start(client, &options, take_end, NULL, NULL));
    assert_int_equal(coordgen_reply_draft_db(reply)->documents, 54);
    coordgen_reply_unref(reply);

    coordgen_draft_db_options_init(&options);
    coordgen_reply_unref(
        wait_for(client, coordgen_draft_db_freeze_start(client, &options, false, take_end, NULL, NULL)));
    reply = wait_for(client, coordgen_draft_db_export_start(client, &options, 9, take_end, NULL, NULL));
    assert_memory_equal(coordgen_reply_data(reply, &n), "abc", 3);
    assert_int_equal(n, 3);
    assert_int_equal(coordgen_reply_draft_db(reply)->total_bytes, 109);
    coordgen_reply_unref(reply);
    reply = wait_for(client,
                     coordgen_draft_db_import_start(client, &options, "hello", 5, true, false, take_end, NULL, NULL));
    assert_int_equal(coordgen_reply_draft_db(reply)->documents, 5);
    assert_int_equal(coordgen_reply_draft_db(reply)->expired, 2);
    coordgen_reply_unref(reply);
    reply =
        wait_for(client, coordgen_draft_db_import_start(client, &options, NULL, 0, false, true, take_end, NULL, NULL));
    assert_int_equal(coordgen_reply_draft_db(reply)->expired, 1);
    coordgen_reply_unref(reply);
    peer_end(&peer, client);
}

static void script_nothing(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

    if (peer_hello(peer))
        request = peer_next(peer); /* every request is refused before it is sent */
}

static void refused(CoordgenClient *client, int code, const char *field) {
    assert_int_equal(code, COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), field);
    assert_string_not_equal(coordgen_client_message(client), "");
}

/* A condition that a request does not support is refused: the request would forget, freeze or export too much. */
static void test_client_draftdb_conditions(void **state) {
    CoordgenDraftDbOptions options;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script_nothing);

    coordgen_draft_db_options_init_sized(NULL, sizeof(options));
    refused(client, coordgen_draft_db_stats_start(client, NULL, NULL, NULL, NULL), "options");
    coordgen_draft_db_options_init(&options);
    options.all_users = true;
    refused(client, coordgen_draft_db_freeze_start(client, &options, true, NULL, NULL, NULL), "all_users");
    refused(client, coordgen_draft_db_export_start(client, &options, 0, NULL, NULL, NULL), "all_users");
    refused(client, coordgen_draft_db_import_start(client, &options, "", 0, true, true, NULL, NULL, NULL), "all_users");
    coordgen_draft_db_options_init(&options);
    refused(client, coordgen_draft_db_import_start(client, &options, NULL, 1, true, true, NULL, NULL, NULL), "data");
    options.has_before = true;
    refused(client, coordgen_draft_db_stats_start(client, &options, NULL, NULL, NULL), "before_s");
    refused(client, coordgen_draft_db_freeze_start(client, &options, true, NULL, NULL, NULL), "before_s");
    options.model = "m";
    refused(client, coordgen_draft_db_export_start(client, &options, 0, NULL, NULL, NULL), "model");
    memset(&options, 0x5a, sizeof(options)); /* never filled in */
    refused(client, coordgen_draft_db_forget_start(client, &options, NULL, NULL, NULL), "struct_bytes");
    assert_int_equal(coordgen_draft_db_stats_start(NULL, &options, NULL, NULL, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_null(coordgen_reply_draft_db(NULL));
    assert_int_equal(coordgen_reply_n_draft_db_users(NULL), 0);
    assert_null(coordgen_reply_draft_db_user(NULL, 0));
    assert_null(coordgen_reply_data(NULL, NULL));
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_draftdb_requests),
        cmocka_unit_test(test_client_draftdb_conditions),
    };

    return cmocka_run_group_tests_name("client_draftdb", tests, NULL, NULL);
}
