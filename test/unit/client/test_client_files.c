// SPDX-License-Identifier: Apache-2.0
/* Tests of the client's requests about the service's files on disks: the messages sent, and the content of replies,
 * also of a nearly empty one. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/client/client_peer.h"

static char path[] = "/m/a.cgm", model[] = "a", note[] = "a link";

static void script(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *disk = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *remove = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *prune = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *cancel = NULL;
    Coordgen__V1__StoredFile file = COORDGEN__V1__STORED_FILE__INIT, bare = COORDGEN__V1__STORED_FILE__INIT;
    Coordgen__V1__StoredFile *files[] = { &file, &bare };
    Coordgen__V1__FileSystem system = COORDGEN__V1__FILE_SYSTEM__INIT, *systems[] = { &system };
    Coordgen__V1__FilesReply told = COORDGEN__V1__FILES_REPLY__INIT, none = COORDGEN__V1__FILES_REPLY__INIT;
    Coordgen__V1__RequestCancelReply cancelled = COORDGEN__V1__REQUEST_CANCEL_REPLY__INIT;

    file.has_kind = file.has_bytes = true;
    file.kind = COORDGEN__V1__FILE_KIND__FILE_KIND_PACKAGE;
    file.bytes = UINT64_C(1) << 40;
    file.path = path;
    file.model = model;
    file.note = note;
    system.path = path;
    system.has_free_bytes = system.has_size_bytes = true;
    system.free_bytes = 7;
    system.size_bytes = 9;
    told.files = files;
    told.n_files = 2;
    told.file_systems = systems;
    told.n_file_systems = 1;
    told.has_total_bytes = told.has_more = true;
    told.total_bytes = 11;
    told.more = 3;
    if (!peer_hello(peer) || !(disk = peer_next(peer)) || disk->op_case != COORDGEN__V1__REQUEST__OP_DISK)
        return;
    RESPONSE(first, DISK, disk, &told);
    peer_send(peer, &first, disk->request_id);
    if (!(remove = peer_next(peer)) || remove->op_case != COORDGEN__V1__REQUEST__OP_MODEL_REMOVE ||
        strcmp(remove->model_remove->model, model) || !remove->model_remove->dry_run)
        return;
    RESPONSE(second, MODEL_REMOVE, model_remove, &told);
    peer_send(peer, &second, remove->request_id);
    if (!(prune = peer_next(peer)) || prune->op_case != COORDGEN__V1__REQUEST__OP_PRUNE || prune->prune->imports ||
        !prune->prune->corrupt || prune->prune->dry_run)
        return;
    RESPONSE(third, PRUNE, prune, &none);
    peer_send(peer, &third, prune->request_id);
    if (!(cancel = peer_next(peer)) || cancel->op_case != COORDGEN__V1__REQUEST__OP_REQUEST_CANCEL ||
        cancel->request_cancel->number != 77)
        return;
    RESPONSE(fourth, REQUEST_CANCEL, request_cancel, &cancelled);
    peer_send(peer, &fourth, cancel->request_id);
    frame_request_free(peer_next(peer)); /* until the client hangs up */
}

static void test_client_files_are_read(void **state) {
    const CoordgenFileSystem *system;
    CoordgenReply *reply = NULL;
    const CoordgenFile *file;
    uint32_t n_more;
    Peer peer;
    CoordgenClient *client = peer_connect(&peer, script);

    assert_int_equal(coordgen_disk(client, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_files(reply), 2);
    assert_int_equal(coordgen_reply_files_bytes(reply, &n_more), 11);
    assert_int_equal(n_more, 3);
    file = coordgen_reply_file(reply, 0);
    assert_int_equal(file->struct_bytes, sizeof(*file));
    assert_int_equal(file->kind, COORDGEN_FILE_PACKAGE);
    assert_true(file->bytes == UINT64_C(1) << 40);
    assert_string_equal(file->path, path);
    assert_string_equal(file->model, model);
    assert_string_equal(file->note, note);
    file = coordgen_reply_file(reply, 1);
    assert_string_equal(file->path, "");
    assert_string_equal(file->model, "");
    assert_string_equal(coordgen_file_kind_name((int)file->kind), "other");
    assert_null(coordgen_reply_file(reply, 2));
    assert_int_equal(coordgen_reply_n_file_systems(reply), 1);
    system = coordgen_reply_file_system(reply, 0);
    assert_string_equal(system->path, path);
    assert_int_equal(system->free_bytes, 7);
    assert_int_equal(system->size_bytes, 9);
    coordgen_reply_unref(reply);

    assert_int_equal(coordgen_model_remove(client, model, true, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_files(reply), 2);
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_prune(client, COORDGEN_PRUNE_CORRUPT, 5000, &reply), 0);
    assert_int_equal(coordgen_reply_n_files(reply), 0);
    assert_int_equal(coordgen_reply_files_bytes(reply, NULL), 0);
    coordgen_reply_unref(reply);
    assert_int_equal(coordgen_request_cancel(client, 77, 5000, NULL), 0);
    assert_int_equal(coordgen_model_remove(client, "", false, 5000, NULL), COORDGEN_E_INVALID_ARGUMENT);
    assert_string_equal(coordgen_client_field(client), "model_remove.model");
    peer_end(&peer, client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_files_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
