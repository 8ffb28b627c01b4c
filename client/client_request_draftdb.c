// SPDX-License-Identifier: Apache-2.0
/* Requests about the draft database. */
#include "client/client_internal.h"

static int options_take(CoordgenClient *client, CoordgenDraftDbOptions *options, const CoordgenDraftDbOptions *given) {
    coordgen_draft_db_options_init(options);
    return client_options_copy(client, options, sizeof(*options), given, sizeof(*options));
}

/* Refuses conditions that this request does not have. */
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
    forget.model = client_text(options.model);
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
