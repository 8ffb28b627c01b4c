// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db_schema.h"

#include <stdio.h>
#include <string.h>

#include "spec/db/draft_db.h"

#define APPLICATION 0x43474442 /* "CGDB": application_id */
#define FORM 2                 /* user_version: the tables below */

/* The tables. SQLite's record of each is compared with this when the file is opened. Sums of a user are in app, so
 * that the limits cost a look at the users and not at all documents; triggers keep the sums true whatever adds and
 * deletes. */
#define TABLE_APP                                                                                                      \
    "CREATE TABLE app(uid INTEGER PRIMARY KEY, frozen INTEGER NOT NULL DEFAULT 0, documents INTEGER NOT NULL"          \
    " DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0)"
#define TABLE_DOCUMENT                                                                                                 \
    "CREATE TABLE document(id INTEGER PRIMARY KEY, uid INTEGER NOT NULL, tokenizer BLOB NOT NULL,"                     \
    " time INTEGER NOT NULL, n_tokens INTEGER NOT NULL, n_prompt INTEGER NOT NULL, bytes INTEGER NOT NULL,"            \
    " blob BLOB NOT NULL"
#define INDEX_APP "CREATE INDEX document_app ON document(uid)"
#define INDEX_TOKENIZER "CREATE INDEX document_tokenizer ON document(uid, tokenizer)"
#define TRIGGER_ADDED                                                                                                  \
    "CREATE TRIGGER document_added AFTER INSERT ON document BEGIN"                                                     \
    " INSERT OR IGNORE INTO app(uid) VALUES(new.uid);"                                                                 \
    " UPDATE app SET documents = documents + 1, bytes = bytes + new.bytes, tokens = tokens + new.n_tokens"             \
    " WHERE uid = new.uid; END"
#define TRIGGER_DELETED                                                                                                \
    "CREATE TRIGGER document_deleted AFTER DELETE ON document BEGIN"                                                   \
    " UPDATE app SET documents = documents - 1, bytes = bytes - old.bytes, tokens = tokens - old.n_tokens"             \
    " WHERE uid = old.uid; END"
/* spec/db/draft_db_age.c says what is in the columns of clock and pause. */
#define COLUMN_RAN "ran INTEGER NOT NULL DEFAULT 0"
#define INDEX_RAN "CREATE INDEX document_ran ON document(ran)"
#define TABLE_CLOCK                                                                                                    \
    "CREATE TABLE clock(boot BLOB NOT NULL, boot_s INTEGER NOT NULL, awake_s INTEGER NOT NULL, wall INTEGER NOT NULL," \
    " ran INTEGER NOT NULL, behind INTEGER NOT NULL, behind_seen INTEGER NOT NULL, looked INTEGER NOT NULL,"           \
    " has_looked INTEGER NOT NULL, start INTEGER NOT NULL)"
#define TABLE_PAUSE                                                                                                    \
    "CREATE TABLE pause(document INTEGER PRIMARY KEY, claimed INTEGER NOT NULL, seen INTEGER NOT NULL,"                \
    " believed INTEGER NOT NULL)"

static const char *const schema_old[] = {
    TABLE_APP,     TABLE_DOCUMENT ")", INDEX_APP, INDEX_TOKENIZER, "CREATE INDEX document_time ON document(time)",
    TRIGGER_ADDED, TRIGGER_DELETED,
};
static const char *const schema[] = {
    TABLE_APP,       TABLE_DOCUMENT ", " COLUMN_RAN ")",
    TABLE_CLOCK,     TABLE_PAUSE,
    INDEX_APP,       INDEX_TOKENIZER,
    INDEX_RAN,       TRIGGER_ADDED,
    TRIGGER_DELETED,
};

static int set_ids(DraftDbFile *file, ErrText *err) {
    char ids[96];

    snprintf(ids, sizeof(ids), "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION, FORM);
    return draft_db_file_run(file, ids, err);
}

int draft_db_schema_make(DraftDbFile *file, ErrText *err) {
    _cleanup_(draft_db_file_undo) DraftDbFile *open = NULL;
    int r;

    file->is_old = false;
    r = draft_db_file_begin(&open, file, err);
    for (size_t i = 0; !r && i < ARRAY_LEN(schema); i++)
        r = draft_db_file_run(file, schema[i], err);
    if (!r)
        r = set_ids(file, err);
    return r ? r : draft_db_file_commit(file, err);
}

/* Documents of form 1 grew old by their date: draft_db_age.c finds no clock, and makes one from the dates. */
int draft_db_schema_upgrade(DraftDbFile *file, ErrText *err) {
    static const char *const statements[] = {
        "ALTER TABLE document ADD COLUMN " COLUMN_RAN, "DROP INDEX document_time", TABLE_CLOCK, TABLE_PAUSE, INDEX_RAN,
    };
    _cleanup_(draft_db_file_undo) DraftDbFile *open = NULL;
    int r;

    file->is_old = false; /* open while the transaction is */
    r = draft_db_file_begin(&open, file, err);
    for (size_t i = 0; !r && i < ARRAY_LEN(statements); i++)
        r = draft_db_file_run(file, statements[i], err);
    if (!r)
        r = set_ids(file, err);
    if (!r)
        r = draft_db_file_commit(file, err);
    file->is_old = r != 0;
    return r;
}

/* Compares tables in any order: an upgrade and VACUUM have orders of their own. No two texts are equal. */
static int check_tables(DraftDbFile *file, ErrText *err) {
    const char *const *expected = file->is_old ? schema_old : schema;
    const size_t n_expected = file->is_old ? ARRAY_LEN(schema_old) : ARRAY_LEN(schema);
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    size_t n = 0, n_known = 0;
    bool row = false;
    int r;

    r = draft_db_file_prepare(file, &query, "SELECT sql FROM sqlite_schema", err);
    while (!r && !(r = draft_db_file_step(file, query, &row, err)) && row) {
        const char *text = (const char *)sqlite3_column_text(query, 0);

        n++;
        for (size_t i = 0; text && i < n_expected; i++)
            n_known += !strcmp(text, expected[i]);
    }
    if (!r && (n != n_expected || n_known != n_expected))
        r = err_set(err, DRAFT_DB_E_DAMAGED, "%s: other tables than the draft database has", file->path);
    return r;
}

int draft_db_schema_check(DraftDbFile *file, ErrText *err) {
    int64_t application = 0, form = 0, same = 0;
    int r;

    r = draft_db_file_number(file, "PRAGMA application_id", &application, err);
    if (!r)
        r = draft_db_file_number(file, "PRAGMA user_version", &form, err);
    if (r)
        return r;
    if (application != APPLICATION || form < 1 || form > FORM)
        return err_set(err, DRAFT_DB_E_DAMAGED, "%s: not a draft database of this version of coordgen", file->path);
    file->is_old = form < FORM;
    r = check_tables(file, err);
    if (!r)
        r = draft_db_file_number(file,
                                 "SELECT (SELECT count(*) FROM document) = (SELECT total(documents) FROM app) AND"
                                 " (SELECT total(bytes) FROM document) = (SELECT total(bytes) FROM app) AND"
                                 " (SELECT total(n_tokens) FROM document) = (SELECT total(tokens) FROM app)",
                                 &same, err);
    if (!r && !same)
        r = err_set(err, DRAFT_DB_E_DAMAGED, "%s: the draft database's sums are not those of its rows", file->path);
    return r;
}
