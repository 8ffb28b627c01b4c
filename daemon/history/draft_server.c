// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/history/draft_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "spec/sources/suffix_automaton.h"

/* ---- the database ------------------------------------------------------------------------------------------------ */

static int make_parents(const char *path, ErrText *err) {
    _cleanup_(freep) char *folder = strdup(path);
    char *slash;

    for (int i = 0; folder && i < 2; i++) { /* the database creates the last folder itself */
        slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            return 0;
        *slash = 0;
    }
    return folder ? file_make_dirs(folder, err) : err_no_memory(err);
}

static int count_documents(void *arg, const DraftDbStats *stats) {
    *(uint64_t *)arg += stats->n_documents;
    return 0;
}

/* Logs that the database was set aside, and returns 0 then, for callers that can use the empty database instead. */
static int taken_as_empty(int r, const ErrText *err) {
    if (r == DRAFT_DB_E_SET_ASIDE) {
        log_error(TOPIC_DAEMON, "draft database %s", err->text);
        return 0;
    }
    return r;
}

/* Opens the database and logs that, also after attempts that failed. */
static int server_open(DraftServer *server, ErrText *err) {
    uint64_t n_documents = 0;
    ErrText ignored;
    DraftClockReading now;
    int r = make_parents(server->path, err);

    draft_clock_read_system(&now);
    if (!r)
        r = taken_as_empty(draft_db_open(&server->db, server->path, &server->limits, &now, err), err);
    if (r == DRAFT_DB_E_FULL) { /* the database is open; errands that need room try again */
        log_warn(TOPIC_DAEMON, "nothing is stored for later drafts: draft database %s", err->text);
        return 0;
    }
    if (!r && !draft_db_stats_each(server->db, count_documents, &n_documents, &ignored))
        log_info(TOPIC_DAEMON, "draft database %s: %" PRIu64 " documents%s", server->path, n_documents,
                 *server->why.text ? "; it could not be opened before, and now answers are stored" : "");
    return r;
}

/* Opens the database again once a minute if that failed before. If another process holds the database, the next attempt
 * follows after a few seconds and at every use; an attempt costs a few system calls. */
bool draft_server_ready(DraftServer *server) {
    const uint64_t now_ns = clock_now_ns();
    ErrText err = { 0 };

    if (server->db)
        return true;
    if (server->why_r != DRAFT_DB_E_BUSY && now_ns < server->retry_ns)
        return false;
    server->why_r = server_open(server, &err);
    server->retry_ns = now_ns + (server->why_r == DRAFT_DB_E_BUSY ? DRAFT_SERVER_BUSY_NS : DRAFT_SERVER_RETRY_NS);
    if (!server->why_r) {
        server->why.text[0] = 0;
        return true;
    }
    server->db = draft_db_free(server->db);
    if (strcmp(err.text, server->why.text)) /* the same reason is logged once */
        log_warn(TOPIC_DAEMON, "nothing is stored for later drafts: draft database %s", err.text);
    server->why = err;
    return false;
}

void draft_server_expire(DraftServer *server) {
    const uint64_t now_ns = clock_now_ns();
    DraftClockReading now;
    ErrText err = { 0 };
    int r;

    if (!server->limits.age_max_s || now_ns < server->expire_ns || !draft_server_ready(server))
        return;
    server->expire_ns = now_ns + DRAFT_SERVER_EXPIRE_NS;
    draft_clock_read_system(&now);
    r = taken_as_empty(draft_db_expire(server->db, &now, &err), &err);
    if (r)
        log_warn(TOPIC_DAEMON, "draft database %s", err.text);
}

/* ---- errands of the engine thread -------------------------------------------------------------------------------- */

static int add_once(DraftServer *server, const DraftErrand *errand, ErrText *err) {
    const DraftDbDocument document = { .uid = errand->uid,
                                       .tokenizer = errand->tokenizer,
                                       .tokens = errand->answer.tokens,
                                       .n_tokens = errand->answer.n_tokens };
    DraftClockReading now;

    draft_clock_read_system(&now);
    return draft_db_add(server->db, &document, &now, err);
}

/* Stores the errand's document. Return: 0 once the document is on disk. */
int draft_server_add(DraftServer *server, DraftErrand *errand) {
    ErrText err = { 0 };
    int r;

    if (!draft_server_ready(server)) {
        atomic_fetch_add(&server->n_dropped, 1);
        return -ENOENT;
    }
    r = add_once(server, errand, &err);
    if (r == DRAFT_DB_E_SET_ASIDE && !taken_as_empty(r, &err))
        r = add_once(server, errand, &err);
    if (!r) {
        atomic_fetch_add(&server->n_stored, 1);
        log_debug(TOPIC_DAEMON, "draft database: uid %" PRIu32 ": an answer of %zu tokens is stored", errand->uid,
                  errand->answer.n_tokens);
        return 0;
    }
    if (r == DRAFT_DB_E_FROZEN) /* the user has frozen their documents, so this is no failure */
        return r;
    atomic_fetch_add(&server->n_dropped, 1);
    log_warn_of(errand->uid, TOPIC_DAEMON, "an answer is not stored for later drafts: %s", err.text);
    return r;
}

/* The documents read from the database, the newest first. */
typedef struct Collection {
    DraftServer *server;
    uint32_t **texts; /* [n], each [lengths[i]] */
    size_t *lengths;
    size_t n, room;
    Bill bill;
} Collection;

static void collection_deinit(Collection *collection) {
    for (size_t i = 0; i < collection->n; i++)
        free(collection->texts[i]);
    free(collection->texts);
    free(collection->lengths);
    bill_settle(&collection->bill);
}

static bool collection_grow(Collection *collection) {
    const size_t room = collection->room ? 2 * collection->room : 64;
    uint32_t **texts = reallocarray(collection->texts, room, sizeof(*texts));
    size_t *lengths;

    if (!texts)
        return false;
    collection->texts = texts;
    lengths = reallocarray(collection->lengths, room, sizeof(*lengths));
    if (!lengths)
        return false;
    collection->lengths = lengths;
    collection->room = room;
    return true;
}

/* Collects one document, and stops the reading if memory runs out: the documents read so far are the newest. */
static int collect(void *arg, const DraftDbDocument *document) {
    Collection *collection = arg;
    const size_t len_bytes = document->n_tokens * sizeof(uint32_t);
    uint32_t *tokens;

    if (atomic_load(&collection->server->is_stopping))
        return 1;
    if (!document->n_tokens)
        return 0;
    if ((collection->n == collection->room && !collection_grow(collection)) ||
        account_charge(collection->server->accounts, ACCOUNT_DRAFTDB, &collection->bill,
                       len_bytes + sizeof(uint32_t *) + sizeof(size_t)))
        return 1;
    tokens = malloc(len_bytes);
    if (!tokens)
        return 1;
    memcpy(tokens, document->tokens, len_bytes);
    collection->texts[collection->n] = tokens;
    collection->lengths[collection->n++] = document->n_tokens;
    return 0;
}

/* Builds the errand's History of the documents of a user and tokenizer; NULL without a database. The oldest text goes
 * in first, in the order in which texts were written. */
void draft_server_build(DraftServer *server, DraftErrand *errand) {
    _cleanup_(collection_deinit) Collection collection = { .server = server };
    _cleanup_(history_freep) History *history = NULL;
    ErrText err = { 0 };
    DraftDbRead read;
    int r;

    if (!draft_server_ready(server))
        return;
    r = taken_as_empty(draft_db_each(server->db, errand->uid, errand->tokenizer,
                                     DRAFT_SERVER_HISTORY_BYTES / SUFFIX_AUTOMATON_TOKEN_BYTES, collect, &collection,
                                     &read, &err),
                       &err);
    if (r) {
        log_warn(TOPIC_DAEMON, "draft database %s", err.text);
        return;
    }
    if (read.n_dropped)
        log_warn(TOPIC_DAEMON, "draft database %s: %" PRIu64 " damaged documents were deleted", server->path,
                 read.n_dropped);
    r = history_new(server->accounts, DRAFT_SERVER_HISTORY_BYTES, &history);
    for (size_t i = collection.n; !r && i-- > 0;)
        r = history_add(history, collection.texts[i], collection.lengths[i]);
    if (r < 0) {
        log_warn(TOPIC_DAEMON, "no drafts from earlier answers: %s", strerror(-r));
        return;
    }
    log_debug(TOPIC_DAEMON, "draft database: uid %" PRIu32 ": drafts from %zu documents", errand->uid, collection.n);
    errand->result.history = steal(&history);
}

/* Lists the users with the latest documents of the tokenizer; without a database the list is empty. */
void draft_server_recent(DraftServer *server, DraftErrand *errand) {
    ErrText err = { 0 };
    int r;

    if (!draft_server_ready(server))
        return;
    r = taken_as_empty(draft_db_recent(server->db, errand->tokenizer, errand->result.recent, DRAFT_RECENT_MAX,
                                       &errand->result.n_recent, &err),
                       &err);
    if (r) {
        errand->result.n_recent = 0;
        log_warn(TOPIC_DAEMON, "draft database %s", err.text);
    }
}

/* ---- errands of the loop ----------------------------------------------------------------------------------------- */

static int take_stats(void *arg, const DraftDbStats *stats) {
    DraftErrand *errand = arg;
    DraftDbStats *grown = reallocarray(errand->result.stats, errand->result.n_stats + 1, sizeof(*grown));

    if (!grown) {
        errand->result.r = err_no_memory(&errand->result.err);
        return 1;
    }
    errand->result.stats = grown;
    errand->result.stats[errand->result.n_stats++] = *stats;
    return 0;
}

static int serve_stats(DraftServer *server, DraftErrand *errand) {
    DraftDbStats own;
    int r;

    if (errand->of_all_users) {
        r = taken_as_empty(draft_db_stats_each(server->db, take_stats, errand, &errand->result.err),
                           &errand->result.err);
        return r ? r : errand->result.r;
    }
    own = (DraftDbStats){ .uid = errand->uid };
    r = taken_as_empty(draft_db_stats(server->db, errand->uid, &own, &errand->result.err), &errand->result.err);
    if (!r)
        (void)take_stats(errand, &own);
    return r ? r : errand->result.r;
}

static int serve_forget(DraftServer *server, DraftErrand *errand) {
    const DraftDbForget what = {
        .uid = errand->of_all_users ? NULL : &errand->uid,
        .tokenizer = errand->forget.has_tokenizer ? errand->tokenizer : NULL,
        .before_s = errand->forget.has_before ? &errand->forget.before_s : NULL,
    };
    const int r = taken_as_empty(draft_db_forget(server->db, &what, &errand->result.n_documents, &errand->result.err),
                                 &errand->result.err);

    if (r) /* the log has details that the user must not see */
        log_error(TOPIC_DAEMON, "draft database %s", errand->result.err.text);
    return r;
}

/* Exports into a file in memory. The database's charge for the documents, which is more than their size in the file, is
 * paid before the file is written. */
static int serve_export(DraftServer *server, DraftErrand *errand) {
    DraftDbStats own = { 0 };
    int r = taken_as_empty(draft_db_stats(server->db, errand->uid, &own, &errand->result.err), &errand->result.err);

    if (r)
        return r;
    if (account_charge(server->accounts, ACCOUNT_DRAFTDB, &errand->bill, own.bytes + 4096))
        return account_refused(&errand->result.err, -ENOMEM, ACCOUNT_E_LIMIT, server->accounts, ACCOUNT_DRAFTDB,
                               own.bytes + 4096, "an export");
    errand->fd = memfd_create("draftdb-export", MFD_CLOEXEC);
    if (errand->fd < 0)
        return err_set(&errand->result.err, -errno, "no memory for an export: %s", strerror(errno));
    return draft_db_export(server->db, errand->uid, errand->fd, &errand->result.n_documents, &errand->result.err);
}

static int serve_import(DraftServer *server, DraftErrand *errand) {
    DraftDbImported imported = { 0 };
    DraftClockReading now;
    int r;

    draft_clock_read_system(&now);
    if (lseek(errand->fd, 0, SEEK_SET) < 0)
        return err_set(&errand->result.err, -errno, "cannot read the import: %s", strerror(errno));
    r = draft_db_import(server->db, errand->uid, errand->fd, &now, &imported, &errand->result.err);
    if (r == DRAFT_DB_E_SET_ASIDE && !taken_as_empty(r, &errand->result.err)) {
        if (lseek(errand->fd, 0, SEEK_SET) == 0)
            r = draft_db_import(server->db, errand->uid, errand->fd, &now, &imported, &errand->result.err);
    }
    errand->result.n_documents = imported.n_documents;
    errand->result.n_expired = imported.n_expired;
    return r;
}

int draft_server_call(DraftServer *server, DraftErrand *errand) {
    if (!draft_server_ready(server))
        return err_set(&errand->result.err, server->why_r > 0 ? server->why_r : -ENOENT,
                       "the draft database cannot be used: %s", server->why.text);
    switch (errand->kind) {
    case DRAFT_STATS:
        return serve_stats(server, errand);
    case DRAFT_FORGET:
        return serve_forget(server, errand);
    case DRAFT_FREEZE:
        return taken_as_empty(draft_db_freeze(server->db, errand->uid, errand->is_frozen, &errand->result.err),
                              &errand->result.err);
    case DRAFT_EXPORT:
        return serve_export(server, errand);
    case DRAFT_IMPORT:
        return serve_import(server, errand);
    case DRAFT_ADD:
    case DRAFT_BUILD:
    case DRAFT_RECENT:
        break;
    }
    return -EINVAL;
}
