// SPDX-License-Identifier: Apache-2.0
/* What replies about files on disks hold. */
#include <stdlib.h>

#include "client/client_reply_internal.h"

bool client_files_fill(CoordgenReply *reply, const Coordgen__V1__FilesReply *files) {
    reply->files.list = calloc(files->n_files + 1, sizeof(*reply->files.list));
    reply->files.systems = calloc(files->n_file_systems + 1, sizeof(*reply->files.systems));
    if (!reply->files.list || !reply->files.systems)
        return false;
    for (size_t i = 0; i < files->n_files; i++) {
        const Coordgen__V1__StoredFile *from = files->files[i];

        reply->files.list[i] = (CoordgenFile){
            .struct_bytes = sizeof(reply->files.list[i]),
            .kind = (CoordgenFileKind)from->kind,
            .path = client_or_empty(from->path),
            .model = client_or_empty(from->model),
            .bytes = from->bytes,
            .note = client_or_empty(from->note),
        };
    }
    for (size_t i = 0; i < files->n_file_systems; i++)
        reply->files.systems[i] = (CoordgenFileSystem){
            .struct_bytes = sizeof(reply->files.systems[i]),
            .path = client_or_empty(files->file_systems[i]->path),
            .free_bytes = files->file_systems[i]->free_bytes,
            .size_bytes = files->file_systems[i]->size_bytes,
        };
    reply->files.n = files->n_files;
    reply->files.n_systems = files->n_file_systems;
    return true;
}

size_t coordgen_reply_n_files(const CoordgenReply *reply) {
    return reply ? reply->files.n : 0;
}

const CoordgenFile *coordgen_reply_file(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->files.n ? &reply->files.list[index] : NULL;
}

uint64_t coordgen_reply_files_bytes(const CoordgenReply *reply, uint32_t *n_morep) {
    const Coordgen__V1__FilesReply *files = NULL;

    if (client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_MODEL_REMOVE))
        files = reply->response->model_remove;
    else if (client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_DISK))
        files = reply->response->disk;
    else if (client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_PRUNE))
        files = reply->response->prune;
    if (n_morep)
        *n_morep = files ? files->more : 0;
    return files ? files->total_bytes : 0;
}

size_t coordgen_reply_n_file_systems(const CoordgenReply *reply) {
    return reply ? reply->files.n_systems : 0;
}

const CoordgenFileSystem *coordgen_reply_file_system(const CoordgenReply *reply, size_t index) {
    return reply && index < reply->files.n_systems ? &reply->files.systems[index] : NULL;
}

const char *coordgen_file_kind_name(int kind) {
    static const char *const names[] = {
        [0] = "other",
        [COORDGEN_FILE_PACKAGE] = "package",
        [COORDGEN_FILE_SOURCE] = "source",
        [COORDGEN_FILE_IMPORTED] = "imported",
        [COORDGEN_FILE_IMAGE] = "image",
        [COORDGEN_FILE_IMPORT_WORK] = "import-work",
        [COORDGEN_FILE_DRAFT_DB] = "draft-database",
        [COORDGEN_FILE_SET_ASIDE] = "set-aside",
        [COORDGEN_FILE_OTHER] = "other",
    };

    return kind >= 0 && (size_t)kind < ARRAY_LEN(names) && names[kind] ? names[kind] : "other";
}
