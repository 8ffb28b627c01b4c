// SPDX-License-Identifier: Apache-2.0
/*
 * Forgetting leaves no byte in the files, and needs no room. The usual way is a transaction, then a file that is
 * written anew. Both go through SQLite's log, which grows, so they fail on a full disk. There, what is to stay is made
 * in memory, the log is deleted, and the file is overwritten in place. A process that ends in between leaves a damaged
 * database, which the next start sets aside: this is why it is not the usual way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "base/min_max.h"
#include "spec/db/draft_db.h"
#include "spec/db/draft_db_private.h"

static int forget_rows(DraftDb *db, const DraftDbForget *what, uint64_t *n_documentsp, ErrText *err) {
    _cleanup_(draft_db_sql_undo) DraftDbFile *open = NULL;
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    uint64_t n_documents;
    int r;

    r = draft_db_file_begin(&open, &db->file, err);
    if (!r)
        r = draft_db_sql_prepare(&db->file, &query,
                                 "DELETE FROM document WHERE (?1 IS NULL OR uid = ?1) AND"
                                 " (?2 IS NULL OR tokenizer = ?2) AND (?3 IS NULL OR time < ?3)",
                                 err);
    if (r)
        return r;
    if (what->uid)
        sqlite3_bind_int64(query, 1, *what->uid);
    if (what->tokenizer)
        sqlite3_bind_blob(query, 2, what->tokenizer, DRAFT_DB_TOKENIZER_BYTES, SQLITE_STATIC);
    if (what->before_s)
        sqlite3_bind_int64(query, 3, *what->before_s > INT64_MAX ? INT64_MAX : (int64_t)*what->before_s);
    r = draft_db_sql_step(&db->file, query, NULL, err);
    n_documents = (uint64_t)sqlite3_changes64(db->file.sql);
    sqlite3_reset(query);
    if (!r)
        r = draft_db_sql_run(&db->file, "DELETE FROM app WHERE NOT documents AND NOT frozen", err);
    if (!r)
        r = draft_db_sql_commit(&db->file, err);
    if (!r)
        *n_documentsp += n_documents;
    return r;
}

/* Writes the file anew from the rows that are left; in memory first. secure_delete is not enough: when SQLite balances
 * its tree, copies of rows stay in the gaps of pages, and are no rows any more when the originals are deleted. */
static int rewrite(DraftDb *db, ErrText *err) {
    int r = draft_db_sql_run(&db->file, "VACUUM", err);

    return r ? r : draft_db_sql_checkpoint(&db->file, err);
}

/* --- without room ------------------------------------------------------------------------------------------------- */

typedef struct Image {
    DraftDb db; /* a database in memory; path is that of the file */
    unsigned char *data;
    sqlite3_int64 len_bytes;
} Image;

static void image_deinit(Image *image) {
    sqlite3_free(image->data);
    (void)sqlite3_close_v2(image->db.file.sql);
}

/* Copies the database into memory, with its log's pages; the form stays. */
static int image_take(Image *image, DraftDb *db, ErrText *err) {
    sqlite3_backup *backup;

    image->db = *db;
    image->db.file.sql = NULL;
    image->db.file.is_old = false; /* deletion works in any form, and bringing the form up would need room */
    if (sqlite3_open_v2(":memory:", &image->db.file.sql,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                        NULL))
        return err_set(err, -ENOMEM, "%s: out of memory", db->file.path);
    backup = sqlite3_backup_init(image->db.file.sql, "main", db->file.sql, "main");
    if (backup)
        (void)sqlite3_backup_step(backup, -1);
    return draft_db_sql_result(&db->file, backup ? sqlite3_backup_finish(backup) : SQLITE_NOMEM, err);
}

/* Makes the bytes of the file. What VACUUM needs is in memory: a folder for all is no place for it. */
static int image_pack(Image *image, ErrText *err) {
    int r = draft_db_sql_run(&image->db.file, "PRAGMA temp_store = MEMORY; VACUUM", err);

    if (r)
        return r;
    image->data = sqlite3_serialize(image->db.file.sql, "main", &image->len_bytes, 0);
    if (!image->data)
        return err_set(err, -ENOMEM, "%s: out of memory", image->db.file.path);
    /* Marks the bytes as a file with a log: a database in memory has none, and making one takes room. */
    image->data[18] = image->data[19] = 2;
    return 0;
}

/* Writes the part beyond the file's old length first: that part alone needs room, which the log has left, and nothing
 * is lost if it fails. */
static int image_write(const Image *image, int fd, uint64_t old_bytes) {
    const uint64_t len_bytes = (uint64_t)image->len_bytes;
    const uint64_t inside_bytes = MIN(old_bytes, len_bytes);
    int r = file_write_at(fd, image->data + inside_bytes, (size_t)(len_bytes - inside_bytes), inside_bytes);

    if (!r)
        r = file_write_at(fd, image->data, (size_t)inside_bytes, 0);
    if (!r && ftruncate(fd, (off_t)len_bytes) < 0)
        r = -errno;
    if (!r && fsync(fd) < 0)
        r = -errno;
    return r;
}

/* Replaces file and log. A disk may take not even that: it writes no byte over another, and somebody else took the room
 * of the log. The file is emptied then, and what finds no room is lost, because what is to be forgotten must go in any
 * case. */
static int image_put(const Image *image, DraftDbFile *file, ErrText *err) {
    _cleanup_(closep) int fd = -1;
    struct stat status;
    char log[PATH_MAX];
    int r;

    (void)sqlite3_db_config(file->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    draft_db_file_close(file);
    if (snprintf(log, sizeof(log), "%s-wal", file->path) >= (int)sizeof(log))
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", file->path);
    fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0 || (unlink(log) < 0 && errno != ENOENT))
        return err_set(err, -errno, "%s: cannot forget in the file: %s", file->path, strerror(errno));
    r = image_write(image, fd, (uint64_t)status.st_size);
    if (r && !ftruncate(fd, 0))
        r = image_write(image, fd, 0);
    if (!r)
        return 0;
    (void)ftruncate(fd, 0);
    return err_set(err, r, "%s: the disk has no room for what was not to be forgotten: all of it is lost: %s",
                   file->path, strerror(-r));
}

static int forget_in_memory(DraftDb *db, const DraftDbForget *what, uint64_t *n_documentsp, ErrText *err) {
    _cleanup_(image_deinit) Image image = { 0 };
    int r;

    r = image_take(&image, db, err);
    if (!r)
        r = forget_rows(&image.db, what, n_documentsp, err);
    if (!r)
        r = image_pack(&image, err);
    if (!r)
        r = image_put(&image, &db->file, err);
    return r ? r : draft_db_file_ready(&db->file, err);
}

/* --- either way --------------------------------------------------------------------------------------------------- */

/**
 * draft_db_forget() - delete documents so that no byte of them is left in the files, even without room on the disk
 * @n_documentsp: out: how many; 0 if the database was damaged and is gone as a whole
 *
 * All copies that were set aside go too: nobody can tell what is in a damaged one. While the file is written anew, it
 * takes memory for the whole file (twice that on a full disk), and seconds on a slow disk: call it on a thread that
 * nobody waits for.
 * Return: 0; DRAFT_DB_E_SET_ASIDE (and what was set aside is deleted), DRAFT_DB_E_BUSY, -errno. With an error and
 * *@n_documentsp above 0 the documents are deleted, but the files may still hold bytes of them: try again.
 */
int draft_db_forget(DraftDb *db, const DraftDbForget *what, uint64_t *n_documentsp, ErrText *err) {
    ErrText dropped = { 0 };
    int r, r_drop;

    *n_documentsp = 0;
    (void)draft_db_file_drop_set_aside(&db->file, &dropped); /* comes first, for the room */
    r = draft_db_file_ready(&db->file, err);
    if (r == DRAFT_DB_E_FULL && draft_db_file_is_blank(&db->file))
        return 0;
    if (!r)
        r = forget_rows(db, what, n_documentsp, err);
    if (!r)
        r = rewrite(db, err);
    if (r == DRAFT_DB_E_FULL && db->file.sql)
        r = forget_in_memory(db, what, n_documentsp, err);
    r = draft_db_file_judge(&db->file, r, err);
    r_drop = draft_db_file_drop_set_aside(&db->file, &dropped);
    return r_drop ? err_set(err, r_drop, "%s", dropped.text) : r;
}
