// SPDX-License-Identifier: Apache-2.0
/* Requests about files on disks. */
#include "client/client_internal.h"

int coordgen_model_remove_start(CoordgenClient *client, const char *model, bool dry_run, int timeout_ms,
                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    Coordgen__V1__ModelRemoveRequest remove = COORDGEN__V1__MODEL_REMOVE_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    remove.model = client_text(model);
    remove.has_dry_run = true;
    remove.dry_run = dry_run;
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_REMOVE;
    message.model_remove = &remove;
    return client_start(client, REQUEST_MODEL_REMOVE, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_disk_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    Coordgen__V1__DiskRequest disk = COORDGEN__V1__DISK_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    message.op_case = COORDGEN__V1__REQUEST__OP_DISK;
    message.disk = &disk;
    return client_start(client, REQUEST_DISK, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_prune_start(CoordgenClient *client, unsigned int flags, int timeout_ms, CoordgenEventFn *fn, void *arg,
                         uint64_t *request_idp) {
    Coordgen__V1__PruneRequest prune = COORDGEN__V1__PRUNE_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    prune.has_imports = prune.has_corrupt = prune.has_dry_run = true;
    prune.imports = flags & COORDGEN_PRUNE_IMPORTS;
    prune.corrupt = flags & COORDGEN_PRUNE_CORRUPT;
    prune.dry_run = flags & COORDGEN_PRUNE_DRY_RUN;
    message.op_case = COORDGEN__V1__REQUEST__OP_PRUNE;
    message.prune = &prune;
    return client_start(client, REQUEST_PRUNE, &message, timeout_ms, fn, arg, request_idp);
}
