// SPDX-License-Identifier: Apache-2.0
/* What the service has on disks: told, and removed. The service does it itself, for the files are its own: whoever asks
 * need not be able to reach them. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/models/files/stored_files.h"
#include "daemon/models/model_drafts.h"
#include "daemon/net/reply.h"

enum {
    FILES_LISTED_MAX = 512, /* so that the reply stays below a frame */
    FILES_A_UNIT = 8,       /* of connection_spend(): so many are looked at */
    FILE_SYSTEMS_MAX = 4,
    PATH_SHOWN_BYTES_MAX = 600,
};

/* A reply while it is filled. */
typedef struct FilesReply {
    Coordgen__V1__FilesReply message;
    Coordgen__V1__StoredFile files[FILES_LISTED_MAX], *file_list[FILES_LISTED_MAX];
    Coordgen__V1__FileSystem systems[FILE_SYSTEMS_MAX], *system_list[FILE_SYSTEMS_MAX];
    char paths[FILES_LISTED_MAX][PATH_SHOWN_BYTES_MAX + 4];
    char system_paths[FILE_SYSTEMS_MAX][PATH_SHOWN_BYTES_MAX + 4];
} FilesReply;

static FilesReply *files_reply_new(void) {
    FilesReply *reply = malloc(sizeof(*reply));

    if (!reply)
        return NULL;
    coordgen__v1__files_reply__init(&reply->message);
    reply->message.files = reply->file_list;
    reply->message.file_systems = reply->system_list;
    reply->message.has_total_bytes = reply->message.has_more = true;
    return reply;
}

/* The strings stay the file's. */
static void put_file(FilesReply *reply, const StoredFile *file) {
    const size_t i = reply->message.n_files;
    Coordgen__V1__StoredFile *to;

    reply->message.total_bytes += file->bytes;
    if (i == FILES_LISTED_MAX) {
        reply->message.more++;
        return;
    }
    to = &reply->files[i];
    coordgen__v1__stored_file__init(to);
    printable_put(reply->paths[i], sizeof(reply->paths[i]), file->path, strlen(file->path));
    to->has_kind = to->has_bytes = true;
    to->kind = file->kind;
    to->path = reply->paths[i];
    to->model = file->model;
    to->bytes = file->bytes;
    to->note = (char *)(uintptr_t)file->note;
    reply->file_list[i] = to;
    reply->message.n_files++;
}

/* The file system of a folder, each once. */
static void put_file_system(FilesReply *reply, const char *folder, dev_t seen[FILE_SYSTEMS_MAX]) {
    const size_t i = reply->message.n_file_systems;
    struct statvfs vfs;
    struct stat st;

    if (!*folder || i == FILE_SYSTEMS_MAX || stat(folder, &st) < 0 || statvfs(folder, &vfs) < 0)
        return;
    for (size_t j = 0; j < i; j++)
        if (seen[j] == st.st_dev)
            return;
    seen[i] = st.st_dev;
    coordgen__v1__file_system__init(&reply->systems[i]);
    printable_put(reply->system_paths[i], sizeof(reply->system_paths[i]), folder, strlen(folder));
    reply->systems[i].path = reply->system_paths[i];
    reply->systems[i].has_free_bytes = reply->systems[i].has_size_bytes = true;
    reply->systems[i].free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    reply->systems[i].size_bytes = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    reply->system_list[i] = &reply->systems[i];
    reply->message.n_file_systems++;
}

/* Whether the client may ask, and the files are collected; if not, the error is sent. */
static bool begin(Peer *peer, uint64_t request_id, StoredFiles *files, FilesReply **replyp) {
    if (!peer->may_administer) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "",
                              "only administrators see and remove the service's files: use the administrators' socket, "
                              "or be root");
        return false;
    }
    *replyp = files_reply_new();
    if (!*replyp || stored_files_collect(files, &peer->service->models)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "out of memory");
        return false;
    }
    connection_spend(peer->connection, files->n / FILES_A_UNIT);
    return true;
}

static void send_files(Peer *peer, uint64_t request_id, FilesReply *reply, Coordgen__V1__Response__OpCase op) {
    Coordgen__V1__Response response;

    reply_init(&response, request_id);
    response.op_case = op;
    response.disk = &reply->message; /* a union: all three replies are this message */
    connection_send(peer->connection, &response);
}

void handle_disk(Peer *peer, uint64_t request_id) {
    const Config *config = peer->service->config;
    _cleanup_(stored_files_deinit) StoredFiles files = { 0 };
    _cleanup_(freep) FilesReply *reply = NULL;
    dev_t seen[FILE_SYSTEMS_MAX];

    if (!begin(peer, request_id, &files, &reply))
        return;
    for (size_t i = 0; i < files.n; i++)
        put_file(reply, &files.files[i]);
    put_file_system(reply, config->models.dir, seen);
    put_file_system(reply, config->cache_dir, seen);
    put_file_system(reply, config->state_dir, seen);
    put_file_system(reply, config->draft_db.dir, seen);
    send_files(peer, request_id, reply, COORDGEN__V1__RESPONSE__OP_DISK);
}

/* Removes a file and tells of it. False: it stays, which is in the log. */
static bool remove_file(const Peer *peer, const StoredFile *file, ErrText *err) {
    ErrText why = { .text = "out of memory" };

    if (stored_file_remove(file, &why)) {
        log_warn_of(peer->user->uid, TOPIC_DAEMON, "%s", why.text);
        *err = why;
        return false;
    }
    log_notice_of(peer->user->uid, TOPIC_DAEMON, "removed by uid %u: %s, %" PRIu64 " bytes",
                  (unsigned int)peer->user->uid, file->path, file->bytes);
    return true;
}

static bool is_prunable(const StoredFile *file, const Coordgen__V1__PruneRequest *prune) {
    return file->fate == STORED_USELESS || (file->fate == STORED_RESUMABLE && prune->imports) ||
           (file->fate == STORED_SET_ASIDE && prune->corrupt);
}

void handle_prune(Peer *peer, uint64_t request_id, const Coordgen__V1__PruneRequest *prune) {
    _cleanup_(stored_files_deinit) StoredFiles files = { 0 };
    _cleanup_(freep) FilesReply *reply = NULL;
    ErrText err = { 0 };

    if (!begin(peer, request_id, &files, &reply))
        return;
    for (size_t i = 0; i < files.n; i++)
        if (is_prunable(&files.files[i], prune) && (prune->dry_run || remove_file(peer, &files.files[i], &err)))
            put_file(reply, &files.files[i]);
    if (*err.text)
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "%s; the service's log says what was removed", err.text);
    else
        send_files(peer, request_id, reply, COORDGEN__V1__RESPONSE__OP_PRUNE);
}

/* --- models ------------------------------------------------------------------------------------------------------- */

/* Whether a model may be removed now; if not, the error is sent. */
static bool may_remove(Peer *peer, uint64_t request_id, const Model *model, bool dry_run) {
    const char *model_dir = peer->service->config->models.dir;
    const size_t n = strlen(model_dir);
    const char *rest = model->source.path + n;

    while (*model_dir && !strncmp(model->source.path, model_dir, n) && *rest == '/')
        rest++;
    if (!*model_dir || strncmp(model->source.path, model_dir, n) || strchr(rest, '/')) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "model_remove.model",
                              "model %.*s is not in the service's folder: remove %.*s yourself, where it is",
                              UTF8_PREFIX(model->name, 64), UTF8_PREFIX(model->source.shown_path, 512));
        return false;
    }
    if (dry_run ||
        ((model->stage == MODEL_AVAILABLE || model->stage == MODEL_FAILED) && !model->engine && !model->n_users))
        return true;
    if (model->n_users)
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE, 0,
                              "model_remove.model",
                              "model %.*s is in use by %u requests: try again when they have ended",
                              UTF8_PREFIX(model->name, 64), model->n_users);
    else
        connection_send_error(
            peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE, 0, "model_remove.model",
            "model %.*s is loaded, or on its way: unload it first (coordgenctl model rm --force does)",
            UTF8_PREFIX(model->name, 64));
    return false;
}

/* What was made of it goes before the model itself: what is left after an error is still a model. */
static bool is_turn(const StoredFile *file, bool last) {
    return last == (file->kind == COORDGEN__V1__FILE_KIND__FILE_KIND_PACKAGE ||
                    file->kind == COORDGEN__V1__FILE_KIND__FILE_KIND_SOURCE);
}

/* Removes all that goes with a model, or only lists it. */
static void remove_files(const Peer *peer, const StoredFiles *files, const Model *model, bool dry_run,
                         FilesReply *reply, ErrText *err) {
    for (int last = 0; last < 2; last++)
        for (size_t i = 0; i < files->n && !*err->text; i++) {
            const StoredFile *file = &files->files[i];

            if (is_turn(file, last) && stored_file_goes_with(files, file, model) &&
                (dry_run || remove_file(peer, file, err)))
                put_file(reply, file);
        }
}

static void forget_pairs(Peer *peer, const char *name) {
    ErrText err = { .text = "out of memory" };

    if (model_pairs_forget(&peer->service->pairs, name, &err))
        log_warn_of(peer->user->uid, TOPIC_DAEMON, "model %s: its pairs stay: %s", name, err.text);
    model_drafts_renew_all(&peer->service->models);
    if (!peer->service->draining)
        model_drafts_settle(&peer->service->models);
}

void handle_model_remove(Peer *peer, uint64_t request_id, const Coordgen__V1__ModelRemoveRequest *remove) {
    _cleanup_(stored_files_deinit) StoredFiles files = { 0 };
    _cleanup_(freep) FilesReply *reply = NULL;
    ErrText err = { 0 };
    Model *model = NULL;

    if (peer->may_administer) {
        model = handler_find_model(peer, request_id, remove->model, "model_remove.model");
        if (!model || !may_remove(peer, request_id, model, remove->dry_run))
            return;
    }
    if (!begin(peer, request_id, &files, &reply))
        return;
    remove_files(peer, &files, model, remove->dry_run, reply, &err);
    if (*err.text) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "%s; the service's log says what was removed", err.text);
        return;
    }
    if (!remove->dry_run)
        forget_pairs(peer, remove->model);
    send_files(peer, request_id, reply, COORDGEN__V1__RESPONSE__OP_MODEL_REMOVE);
}
