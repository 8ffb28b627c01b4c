// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "spec/draft_db_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spec/draft_db.h"

#define DRAFT_DB_APPLICATION 0x43474442 /* "CGDB": application_id */
#define DRAFT_DB_FORM 1                 /* user_version: the tables below */

/* What SQLite keeps of each is compared with this when the file is opened. Sums of a user stand in app, so that the
 * limits cost a look at the users and not one at all documents; triggers keep them true whatever adds and deletes. */
static const char *const file_schema[] = {
    "CREATE TABLE app(uid INTEGER PRIMARY KEY, frozen INTEGER NOT NULL DEFAULT 0, documents INTEGER NOT NULL DEFAULT 0,"
    " bytes INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE document(id INTEGER PRIMARY KEY, uid INTEGER NOT NULL, tokenizer BLOB NOT NULL,"
    " time INTEGER NOT NULL, n_tokens INTEGER NOT NULL, n_prompt INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " blob BLOB NOT NULL)",
    "CREATE INDEX document_app ON document(uid)",
    "CREATE INDEX document_tokenizer ON document(uid, tokenizer)",
    "CREATE INDEX document_time ON document(time)",
    "CREATE TRIGGER document_added AFTER INSERT ON document BEGIN"
    " INSERT OR IGNORE INTO app(uid) VALUES(new.uid);"
    " UPDATE app SET documents = documents + 1, bytes = bytes + new.bytes, tokens = tokens + new.n_tokens"
    " WHERE uid = new.uid; END",
    "CREATE TRIGGER document_deleted AFTER DELETE ON document BEGIN"
    " UPDATE app SET documents = documents - 1, bytes = bytes - old.bytes, tokens = tokens - old.n_tokens"
    " WHERE uid = old.uid; END",
};

static bool is_space(int number) {
    return number == ENOSPC || number == EDQUOT || number == EFBIG;
}

/* The errno behind a result. What SQLite did after the error, to undo a transaction, may have changed the connection's
 * own; the files have theirs. One that tells of a lack of room goes first. */
static int file_errno(const DraftDbFile *file) {
    sqlite3_file *log = NULL;
    int numbers[3] = { 0 }, number = 0;

    if (!file->sql)
        return 0;
    numbers[0] = sqlite3_system_errno(file->sql);
    (void)sqlite3_file_control(file->sql, "main", SQLITE_FCNTL_LAST_ERRNO, &numbers[1]);
    (void)sqlite3_file_control(file->sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods)
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &numbers[2]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (!number || (is_space(numbers[i]) && !is_space(number)))
            number = numbers[i];
    return number;
}

/* The result of a call as a code of the module. SQLite's own messages stay out: they quote what it was given. */
static int file_fault(const DraftDbFile *file, int code, ErrText *err) {
    int number = file_errno(file);

    if (code == SQLITE_IOERR_NOMEM)
        code = SQLITE_NOMEM;
    if (code == SQLITE_IOERR_CORRUPTFS || ((code & 0xff) == SQLITE_READONLY && !access(file->path, W_OK)))
        code = SQLITE_CORRUPT; /* read-only: by what its first page says, not by who may write */
    if (((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN) && is_space(number))
        code = SQLITE_FULL;
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
    case SQLITE_ERROR:    /* a table is not what it was: our statements are right */
    case SQLITE_MISMATCH: /* an integer is none */
    case SQLITE_CONSTRAINT:
        return err_set(err, DRAFT_DB_E_DAMAGED, "%s: the draft database is damaged (%s)", file->path,
                       sqlite3_errstr(code));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, DRAFT_DB_E_BUSY, "%s: another process has been using it for %d ms", file->path,
                       DRAFT_DB_BUSY_MS);
    case SQLITE_NOMEM:
        return err_set(err, -ENOMEM, "%s: out of memory", file->path);
    case SQLITE_FULL:
        return err_set(err, DRAFT_DB_E_FULL, "%s: no room for the draft database: %s", file->path,
                       strerror(is_space(number) ? number : ENOSPC));
    default:
        return err_set(err, number ? -number : -EIO, "%s: cannot use the draft database: %s", file->path,
                       number ? strerror(number) : sqlite3_errstr(code));
    }
}

int draft_db_file_prepare(DraftDbFile *file, sqlite3_stmt **statementp, const char *statement, ErrText *err) {
    int code = sqlite3_prepare_v2(file->sql, statement, -1, statementp, NULL);

    return code ? file_fault(file, code, err) : 0;
}

int draft_db_file_step(DraftDbFile *file, sqlite3_stmt *statement, bool *rowp, ErrText *err) {
    int code = sqlite3_step(statement);

    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return file_fault(file, sqlite3_extended_errcode(file->sql), err);
    if (rowp)
        *rowp = code == SQLITE_ROW;
    return 0;
}

int draft_db_file_run(DraftDbFile *file, const char *statement, ErrText *err) {
    int code = sqlite3_exec(file->sql, statement, NULL, NULL, NULL);

    return code ? file_fault(file, sqlite3_extended_errcode(file->sql), err) : 0;
}

int draft_db_file_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err) {
    int r = draft_db_file_run(file, "BEGIN IMMEDIATE", err);

    if (!r)
        *openp = file;
    return r;
}

/* With synchronous = FULL the log is on the disk when this returns 0: kill -9 and a loss of power leave it. */
int draft_db_file_commit(DraftDbFile *file, ErrText *err) {
    return draft_db_file_run(file, "COMMIT", err);
}

void draft_db_file_undo(DraftDbFile **openp) {
    if (*openp && (*openp)->sql && !sqlite3_get_autocommit((*openp)->sql))
        (void)sqlite3_exec((*openp)->sql, "ROLLBACK", NULL, NULL, NULL);
}

int draft_db_file_checkpoint(DraftDbFile *file, ErrText *err) {
    int code = sqlite3_wal_checkpoint_v2(file->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    return code ? file_fault(file, code, err) : 0;
}

static int file_number(DraftDbFile *file, const char *statement, int64_t *valuep, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_file_prepare(file, &query, statement, err);
    if (!r)
        r = draft_db_file_step(file, query, &row, err);
    if (!r && !row)
        r = file_fault(file, SQLITE_CORRUPT, err);
    if (!r)
        *valuep = sqlite3_column_int64(query, 0);
    return r;
}

/* --- made and looked over --------------------------------------------------------------------------------------- */

static int file_configure(DraftDbFile *file, ErrText *err) {
    sqlite3_busy_timeout(file->sql, DRAFT_DB_BUSY_MS);
    sqlite3_extended_result_codes(file->sql, 1);
    sqlite3_limit(file->sql, SQLITE_LIMIT_LENGTH, 16 << 20);
    sqlite3_limit(file->sql, SQLITE_LIMIT_ATTACHED, 1); /* VACUUM attaches the new file */
    (void)sqlite3_db_config(file->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    /* No map: a disk's error is a result then, not a signal. secure_delete: what is evicted is overwritten with zeros.
     * synchronous = FULL: a commit of the log waits for the disk. What VACUUM needs beside the file is in memory, for
     * it would be history in a folder for all. */
    return draft_db_file_run(file,
                             "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;"
                             "PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON;"
                             "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304;",
                             err);
}

/* The log that a commit goes to. A file that was damaged may say that it has none. */
static int file_want_log(DraftDbFile *file, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    const char *text;
    bool row = false;
    int r;

    r = draft_db_file_prepare(file, &query, "PRAGMA journal_mode = WAL", err);
    if (!r)
        r = draft_db_file_step(file, query, &row, err);
    if (r)
        return r;
    text = row ? (const char *)sqlite3_column_text(query, 0) : NULL;
    return text && !strcmp(text, "wal")
               ? 0
               : err_set(err, -ENOTSUP,
                         "%s: this file system cannot hold a draft database (no shared memory for its log)",
                         file->path);
}

static int file_make_tables(DraftDbFile *file, ErrText *err) {
    _cleanup_(draft_db_file_undo) DraftDbFile *open = NULL;
    char ids[96];
    int r;

    r = draft_db_file_begin(&open, file, err);
    for (size_t i = 0; !r && i < ARRAY_LEN(file_schema); i++)
        r = draft_db_file_run(file, file_schema[i], err);
    snprintf(ids, sizeof(ids), "PRAGMA application_id = %d; PRAGMA user_version = %d", DRAFT_DB_APPLICATION,
             DRAFT_DB_FORM);
    if (!r)
        r = draft_db_file_run(file, ids, err);
    return r ? r : draft_db_file_commit(file, err);
}

static int file_check_schema(DraftDbFile *file, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_file_prepare(file, &query, "SELECT sql FROM sqlite_schema ORDER BY rowid", err);
    for (size_t i = 0; !r; i++) {
        const char *text;

        r = draft_db_file_step(file, query, &row, err);
        if (r || (!row && i == ARRAY_LEN(file_schema)))
            break;
        text = row ? (const char *)sqlite3_column_text(query, 0) : NULL;
        if (i >= ARRAY_LEN(file_schema) || !text || strcmp(text, file_schema[i]))
            r = err_set(err, DRAFT_DB_E_DAMAGED, "%s: other tables than the draft database has", file->path);
    }
    return r;
}

static int file_check_pages(DraftDbFile *file, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    const char *text;
    bool row = false;
    int r;

    r = draft_db_file_prepare(file, &query, "PRAGMA quick_check(1)", err);
    if (!r)
        r = draft_db_file_step(file, query, &row, err);
    if (r)
        return r;
    text = row ? (const char *)sqlite3_column_text(query, 0) : NULL;
    return text && !strcmp(text, "ok") ? 0 : file_fault(file, SQLITE_CORRUPT, err);
}

static int file_check(DraftDbFile *file, ErrText *err) {
    int64_t application = 0, form = 0, same = 0;
    int r;

    r = file_number(file, "PRAGMA application_id", &application, err);
    if (!r)
        r = file_number(file, "PRAGMA user_version", &form, err);
    if (r)
        return r;
    if (application != DRAFT_DB_APPLICATION || form != DRAFT_DB_FORM)
        return err_set(err, DRAFT_DB_E_DAMAGED, "%s: not a draft database of this version of coordgen", file->path);
    r = file_check_schema(file, err);
    if (!r)
        r = file_check_pages(file, err);
    if (!r)
        r = file_number(file,
                        "SELECT (SELECT count(*) FROM document) = (SELECT total(documents) FROM app) AND"
                        " (SELECT total(bytes) FROM document) = (SELECT total(bytes) FROM app) AND"
                        " (SELECT total(n_tokens) FROM document) = (SELECT total(tokens) FROM app)",
                        &same, err);
    if (!r && !same)
        r = err_set(err, DRAFT_DB_E_DAMAGED, "%s: the draft database's sums are not those of its rows", file->path);
    return r;
}

/* --- names beside the file ---------------------------------------------------------------------------------------- */

/* "PATH" and what follows it. */
static int file_name(const DraftDbFile *file, char name[PATH_MAX], const char *suffix, unsigned int i, ErrText *err) {
    int n = i ? snprintf(name, PATH_MAX, "%s.corrupt-%u%s", file->path, i, suffix)
              : snprintf(name, PATH_MAX, "%s%s", file->path, suffix);

    return n < PATH_MAX ? 0 : err_set(err, -ENAMETOOLONG, "%s: the name is too long", file->path);
}

static int file_remove(const DraftDbFile *file, const char *suffix, unsigned int i, ErrText *err) {
    char name[PATH_MAX];
    int r = file_name(file, name, suffix, i, err);

    if (!r && unlink(name) < 0 && errno != ENOENT)
        r = err_set(err, -errno, "%s: cannot remove: %s", name, strerror(errno));
    return r;
}

static int file_move(const DraftDbFile *file, const char *suffix, unsigned int from, unsigned int to, ErrText *err) {
    char old[PATH_MAX], new[PATH_MAX];
    int r = file_name(file, old, suffix, from, err);

    if (!r)
        r = file_name(file, new, suffix, to, err);
    if (!r && rename(old, new) < 0 && errno != ENOENT)
        r = err_set(err, -errno, "%s: cannot rename to %s: %s", old, new, strerror(errno));
    return r;
}

int draft_db_file_drop_set_aside(DraftDbFile *file, uint64_t before_s, ErrText *err) {
    int r = 0;

    for (unsigned int i = 1; !r && i <= DRAFT_DB_SET_ASIDE_MAX; i++) {
        struct stat status;
        char name[PATH_MAX];

        r = file_name(file, name, "", i, err);
        if (r || (before_s != UINT64_MAX && (lstat(name, &status) < 0 || (uint64_t)status.st_mtime >= before_s)))
            continue;
        r = file_remove(file, "-wal", i, err);
        if (!r)
            r = file_remove(file, "", i, err);
    }
    return r;
}

static void file_close(DraftDbFile *file) {
    (void)sqlite3_close_v2(file->sql);
    file->sql = NULL;
}

/* With its log, as it is: SQLite must not write what it makes of a damaged log into the file. Killed in between, the
 * next start finds the database damaged still, or none. */
static int file_set_aside(DraftDbFile *file, ErrText *err) {
    int r = 0;

    if (file->sql)
        (void)sqlite3_db_config(file->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    file_close(file);
    for (unsigned int to = DRAFT_DB_SET_ASIDE_MAX; !r && to; to--) {
        r = file_remove(file, "-wal", to, err);
        if (!r)
            r = file_remove(file, "", to, err);
        if (!r)
            r = file_move(file, "-wal", to - 1, to, err);
        if (!r)
            r = file_move(file, "", to - 1, to, err);
    }
    if (!r)
        r = file_remove(file, "-shm", 0, err);
    return r;
}

/* --- opened ------------------------------------------------------------------------------------------------------- */

int draft_db_check_folder(const char *folder, ErrText *err) {
    struct stat status;

    if (stat(folder, &status) < 0)
        return err_set(err, -errno, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return err_set(err, -ENOTDIR, "%s: not a folder", folder);
    if (status.st_uid != geteuid() || status.st_mode & 077)
        return err_set(err, -EPERM, "%s: the draft database's folder must be this user's and nobody else's (chmod 700)",
                       folder);
    return 0;
}

static int file_check_folder(const DraftDbFile *file, ErrText *err) {
    char folder[PATH_MAX];
    char *slash;
    int r = file_name(file, folder, "", 0, err);

    if (r)
        return r;
    slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return err_set(err, -EINVAL, "%s: the draft database needs a folder of its own", file->path);
    *slash = 0;
    if (!file->reader && mkdir(folder, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: cannot make the folder: %s", folder, strerror(errno));
    return draft_db_check_folder(folder, err);
}

static int file_lock(DraftDbFile *file, ErrText *err) {
    char name[PATH_MAX];
    int r;

    if (file->reader || file->lock_fd >= 0)
        return 0;
    r = file_name(file, name, ".lock", 0, err);
    if (r)
        return r;
    file->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (file->lock_fd < 0)
        return err_set(err, -errno, "%s: %s", name, strerror(errno));
    if (!flock(file->lock_fd, LOCK_EX | LOCK_NB))
        return 0;
    r = errno;
    closep(&file->lock_fd);
    file->lock_fd = -1;
    if (r == EWOULDBLOCK)
        return err_set(err, DRAFT_DB_E_BUSY, "%s: another process writes to this draft database", file->path);
    return err_set(err, -r, "%s: %s", name, strerror(r));
}

/* An empty file that only its owner may read; SQLite gives the log beside it the same permissions, and deletes one that
 * an earlier file has left. Never opened here while SQLite has it open: closing would drop its locks. */
static int file_make(DraftDbFile *file, ErrText *err) {
    _cleanup_(closep) int fd = -1;
    struct stat status;

    if (!lstat(file->path, &status)) {
        if (!S_ISREG(status.st_mode))
            return err_set(err, -EINVAL, "%s: not a regular file", file->path);
        if (status.st_mode & 077)
            return err_set(err, -EPERM, "%s: others may read or write the draft database (chmod 600)", file->path);
        return 0;
    }
    if (errno != ENOENT || file->reader)
        return err_set(err, -errno, "%s: %s", file->path, strerror(errno));
    fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fsync(fd) < 0)
        return err_set(err, -errno, "%s: cannot make the draft database: %s", file->path, strerror(errno));
    return 0;
}

static int file_open(DraftDbFile *file, ErrText *err) {
    int64_t n_tables = 0, ids = 0;
    int code, r;

    r = file_make(file, err);
    if (r)
        return r;
    code = sqlite3_open_v2(file->path, &file->sql,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
    if (code)
        return file_fault(file, code, err);
    r = file_configure(file, err);
    if (!r && file->reader)
        return draft_db_file_run(file, "PRAGMA query_only = ON", err);
    if (!r)
        r = file_want_log(file, err);
    if (!r)
        r = file_number(file, "SELECT count(*) FROM sqlite_schema", &n_tables, err);
    if (!r)
        r = file_number(file, "PRAGMA user_version", &ids, err);
    if (!r && !n_tables && !ids)
        r = file_make_tables(file, err);
    return r ? r : file_check(file, err);
}

/* Opens it, and once more where the first was damaged and is out of the way. */
int draft_db_file_ready(DraftDbFile *file, ErrText *err) {
    int r;

    if (file->sql)
        return 0;
    r = file_check_folder(file, err);
    if (!r)
        r = file_lock(file, err);
    if (!r)
        r = file_open(file, err);
    if (r == DRAFT_DB_E_DAMAGED && !file->reader)
        return draft_db_file_judge(file, r, err);
    if (r)
        file_close(file);
    return r;
}

int draft_db_file_judge(DraftDbFile *file, int r, ErrText *err) {
    ErrText why = { "" };

    if (r != DRAFT_DB_E_DAMAGED || file->reader)
        return r;
    r = file_set_aside(file, &why);
    if (!r)
        r = file_open(file, &why);
    if (r) { /* a new one that is damaged at once: the disk does not keep what is written to it */
        file_close(file);
        return err_set(err, r < 0 ? r : -EIO, "%s; it cannot be set aside: %s", err ? err->text : "", why.text);
    }
    err_set(err, 0, "%s; it is set aside as %s.corrupt-1, and a new one begins", err ? err->text : "", file->path);
    return DRAFT_DB_E_SET_ASIDE;
}

int draft_db_file_init(DraftDbFile *file, const char *path, bool reader, ErrText *err) {
    *file = (DraftDbFile){ .lock_fd = -1, .reader = reader };
    file->path = strdup(path);
    if (!file->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    return draft_db_file_ready(file, err);
}

void draft_db_file_deinit(DraftDbFile *file) {
    file_close(file);
    closep(&file->lock_fd);
    file->lock_fd = -1;
    free(file->path);
    file->path = NULL;
}
