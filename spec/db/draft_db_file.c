// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "spec/db/draft_db_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spec/db/draft_db_schema.h"
#include "spec/db/draft_db_types.h"

int draft_db_file_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err) {
    int r = file->is_old ? draft_db_schema_upgrade(file, err) : 0;

    return r ? r : draft_db_sql_begin(openp, file, err);
}

/* --- made and looked over --------------------------------------------------------------------------------------- */

/* Configures the connection. The locking mode comes first, before anything looks at the file: SQLite then keeps the
 * index of its log in its own memory, and maps no file (PATH-shm) that others could cut short. A connection that finds
 * the file locked does not wait: the caller is told at once, and may come again. */
static int file_configure(DraftDbFile *file, ErrText *err) {
    sqlite3_busy_timeout(file->sql, 0);
    sqlite3_extended_result_codes(file->sql, 1);
    sqlite3_limit(file->sql, SQLITE_LIMIT_LENGTH, 16 << 20);
    sqlite3_limit(file->sql, SQLITE_LIMIT_ATTACHED, 1); /* VACUUM attaches the new file */
    (void)sqlite3_db_config(file->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    /* No map: a disk's error is a result then, not a signal. secure_delete: what is evicted is overwritten with zeros.
     * synchronous = FULL: a commit waits for the disk. What VACUUM needs beside the file is in memory: in a folder for
     * all it would be history that others can read. */
    return draft_db_sql_run(
        file,
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
        "PRAGMA mmap_size = 0; PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON;"
        "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304;",
        err);
}

/* Turns on the log that commits go to. A damaged file may claim that it has none. */
static int file_want_log(DraftDbFile *file, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    const char *text;
    bool row = false;
    int r;

    r = draft_db_sql_prepare(file, &query, "PRAGMA journal_mode = WAL", err);
    if (!r)
        r = draft_db_sql_step(file, query, &row, err);
    if (r)
        return r;
    text = row ? (const char *)sqlite3_column_text(query, 0) : NULL;
    return text && !strcmp(text, "wal")
               ? 0
               : err_set(err, -ENOTSUP, "%s: this file system cannot hold a draft database (SQLite makes no log on it)",
                         file->path);
}

static int file_check_pages(DraftDbFile *file, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    const char *text;
    bool row = false;
    int r;

    r = draft_db_sql_prepare(file, &query, "PRAGMA quick_check(1)", err);
    if (!r)
        r = draft_db_sql_step(file, query, &row, err);
    if (r)
        return r;
    text = row ? (const char *)sqlite3_column_text(query, 0) : NULL;
    return text && !strcmp(text, "ok") ? 0 : draft_db_sql_result(file, SQLITE_CORRUPT, err);
}

/* --- names beside the file ---------------------------------------------------------------------------------------- */

/* Returns PATH with a suffix. */
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

static int drop_set_aside(const DraftDbFile *file, unsigned int i, ErrText *err) {
    int r = file_remove(file, "-wal", i, err);

    return r ? r : file_remove(file, "", i, err);
}

int draft_db_file_drop_set_aside(DraftDbFile *file, ErrText *err) {
    int r = 0;

    for (unsigned int i = 1; !r && i <= DRAFT_DB_SET_ASIDE_MAX; i++)
        r = drop_set_aside(file, i, err);
    return r;
}

int draft_db_file_expire_set_aside(DraftDbFile *file, int64_t date_s, int64_t believed_s, uint64_t age_max_s,
                                   ErrText *err) {
    int r = 0;

    for (unsigned int i = 1; !r && i <= DRAFT_DB_SET_ASIDE_MAX; i++) {
        const struct timespec times[2] = { { .tv_sec = date_s }, { .tv_sec = date_s } };
        struct stat status;
        char name[PATH_MAX];

        r = file_name(file, name, "", i, err);
        if (r || lstat(name, &status) < 0)
            continue;
        if (status.st_mtime > date_s)
            (void)utimensat(AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW);
        else if (believed_s > status.st_mtime && (uint64_t)(believed_s - status.st_mtime) > age_max_s)
            r = drop_set_aside(file, i, err);
    }
    return r;
}

void draft_db_file_close(DraftDbFile *file) {
    (void)sqlite3_close_v2(file->sql);
    file->sql = NULL;
}

/* Sets the file aside with its log, as they are: SQLite must not write what it makes of a damaged log into the file.
 * After a kill in between, the next start finds the database still damaged, or none. */
static int file_set_aside(DraftDbFile *file, ErrText *err) {
    int r = 0;

    if (file->sql)
        (void)sqlite3_db_config(file->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    draft_db_file_close(file);
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

int draft_db_file_check_folder(const char *folder, ErrText *err) {
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

static int file_make_folder(const DraftDbFile *file, ErrText *err) {
    char folder[PATH_MAX];
    char *slash;
    int r = file_name(file, folder, "", 0, err);

    if (r)
        return r;
    slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return err_set(err, -EINVAL, "%s: the draft database needs a folder of its own", file->path);
    *slash = 0;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: cannot make the folder: %s", folder, strerror(errno));
    return draft_db_file_check_folder(folder, err);
}

/* Sets the error text that tells who uses the database; pid: 0 if unknown. */
static int file_busy(const DraftDbFile *file, pid_t pid, ErrText *err) {
    char who[48] = "another process";

    if (pid > 0)
        snprintf(who, sizeof(who), "process %d", (int)pid);
    return err_set(err, DRAFT_DB_E_BUSY, "%s: %s uses this draft database, and one at a time can", file->path, who);
}

/* Writes the process's id into the lock's file, for whoever finds it locked. The earlier id is overwritten, which takes
 * no room. A full disk may refuse the id in a new file, which then stays empty. */
static void lock_sign(int fd) {
    char pid[16];
    int n = snprintf(pid, sizeof(pid), "%-11d\n", (int)getpid());

    (void)!pwrite(fd, pid, (size_t)n, 0);
}

/* Reads the process's id from the lock's file. 0: there is none, or no valid one. */
static pid_t lock_signature(int fd) {
    char pid[16] = "";
    uint64_t number = 0;

    if (pread(fd, pid, sizeof(pid) - 1, 0) > 0)
        number = strtoul(pid, NULL, 10);
    return number <= INT_MAX ? (pid_t)number : 0;
}

/* Finds a process that holds SQLite's locks on the file; 0: none is found. No connection of this process may be open:
 * closing any descriptor of a file drops all locks that the process has on it. */
static pid_t file_holder(const DraftDbFile *file) {
    _cleanup_(closep) int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000, .l_len = 512 };

    if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid;
}

static int file_lock(DraftDbFile *file, ErrText *err) {
    char name[PATH_MAX];
    int r;

    if (file->lock_fd >= 0)
        return 0;
    r = file_name(file, name, ".lock", 0, err);
    if (r)
        return r;
    file->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (file->lock_fd < 0)
        return err_set(err, -errno, "%s: %s", name, strerror(errno));
    if (!flock(file->lock_fd, LOCK_EX | LOCK_NB)) {
        lock_sign(file->lock_fd);
        return 0;
    }
    r = errno;
    if (r == EWOULDBLOCK)
        r = file_busy(file, lock_signature(file->lock_fd), err);
    else
        r = err_set(err, -r, "%s: %s", name, strerror(r));
    closep(&file->lock_fd);
    file->lock_fd = -1;
    return r;
}

/* A file of one page holds no table, and the tables hold nothing without a log. */
bool draft_db_file_is_blank(const DraftDbFile *file) {
    char log[PATH_MAX];
    struct stat status;

    if (file_name(file, log, "-wal", 0, NULL) || (!stat(log, &status) && status.st_size))
        return false;
    return stat(file->path, &status) < 0 ? errno == ENOENT : status.st_size <= 4096;
}

/* Makes an empty file that only its owner may read. SQLite gives the log beside it the same permissions, and deletes a
 * log that an earlier file has left. Never opened here while SQLite has it open: closing would drop its locks. */
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
    if (errno != ENOENT)
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
        return draft_db_sql_result(file, code, err);
    r = file_configure(file, err);
    if (!r)
        r = file_want_log(file, err);
    if (!r)
        r = file_remove(file, "-shm", 0, err); /* earlier versions shared the log's index in this file */
    if (!r)
        r = draft_db_sql_number(file, "SELECT count(*) FROM sqlite_schema", &n_tables, err);
    if (!r)
        r = draft_db_sql_number(file, "PRAGMA user_version", &ids, err);
    if (!r && !n_tables && !ids)
        r = draft_db_schema_make(file, err);
    if (!r)
        r = draft_db_schema_check(file, err);
    if (!r)
        r = file_check_pages(file, err);
    if (!r && file->is_old)
        r = draft_db_schema_upgrade(file, err);
    return r == DRAFT_DB_E_FULL && file->is_old ? 0 : r; /* the file is read as it is; writing needs room anyway */
}

/* Opens the file, and opens again where the first was damaged and was set aside. */
int draft_db_file_ready(DraftDbFile *file, ErrText *err) {
    int r;

    if (file->sql)
        return 0;
    r = file_make_folder(file, err);
    if (!r)
        r = file_lock(file, err);
    if (!r)
        r = file_open(file, err);
    if (r == DRAFT_DB_E_DAMAGED)
        return draft_db_file_judge(file, r, err);
    if (!r)
        return 0;
    draft_db_file_close(file);
    return r == DRAFT_DB_E_BUSY && file->lock_fd >= 0 ? file_busy(file, file_holder(file), err) : r;
}

int draft_db_file_judge(DraftDbFile *file, int r, ErrText *err) {
    ErrText why = { 0 };

    if (r != DRAFT_DB_E_DAMAGED)
        return r;
    r = file_set_aside(file, &why);
    if (!r)
        r = file_open(file, &why);
    if (r == DRAFT_DB_E_FULL) {
        draft_db_file_close(file);
        return err_set(err, r, "%s; it is set aside as %s.corrupt-1, and the disk has no room for a new one",
                       err ? err->text : "", file->path);
    }
    if (r) { /* a new file that is damaged at once: the disk does not keep what is written to it */
        draft_db_file_close(file);
        return err_set(err, r < 0 ? r : -EIO, "%s; it cannot be set aside: %s", err ? err->text : "", why.text);
    }
    err_set(err, 0, "%s; it is set aside as %s.corrupt-1, and a new one begins", err ? err->text : "", file->path);
    return DRAFT_DB_E_SET_ASIDE;
}

int draft_db_file_init(DraftDbFile *file, const char *path, ErrText *err) {
    *file = (DraftDbFile){ .lock_fd = -1 };
    file->path = strdup(path);
    if (!file->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    return draft_db_file_ready(file, err);
}

void draft_db_file_deinit(DraftDbFile *file) {
    draft_db_file_close(file);
    closep(&file->lock_fd);
    file->lock_fd = -1;
    free(file->path);
    file->path = NULL;
}
