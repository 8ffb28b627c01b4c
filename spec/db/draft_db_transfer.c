// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db_transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_io.h"
#include "spec/db/draft_db_blob.h"
#include "spec/db/draft_db_private.h"

/* An export, version 1; all numbers little-endian:
 *   8 bytes   "CGDRAFT" and the version as a byte
 *   documents, oldest first, each:
 *     u32     bytes of the blob, not 0
 *     u32     tokens of the prompt
 *     u64     time, seconds since 1970
 *     32      hash of the token table
 *     blob    as in the database (draft_db_blob.c); the owner its sum covers has uid 0xffffffff, for an export is
 *             anybody's who holds it
 *   u32       0: the end
 *   u64       documents
 *   32        SHA-256 of all before
 * docs/privacy.md tells what that means for whoever keeps one. */
enum {
    EXPORT_VERSION = 1,
    EXPORT_HEAD_BYTES = 48,
    EXPORT_END_BYTES = 12 + SHA256_DIGEST_SIZE,
};
static const uint8_t export_magic[8] = { 'C', 'G', 'D', 'R', 'A', 'F', 'T', EXPORT_VERSION };

static void export_put(uint8_t *at, uint64_t value, unsigned int n_bytes) {
    for (unsigned int i = 0; i < n_bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t export_get(const uint8_t *at, unsigned int n_bytes) {
    uint64_t value = 0;

    for (unsigned int i = 0; i < n_bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static int transfer_check_file(int fd, ErrText *err) {
    struct stat status;

    if (fstat(fd, &status) < 0)
        return err_set(err, -errno, "a draft database's export: %s", strerror(errno));
    return S_ISREG(status.st_mode) ? 0
                                   : err_set(err, -EINVAL, "a draft database's export is a regular file, not a pipe");
}

/* --- export ------------------------------------------------------------------------------------------------------- */

typedef struct ExportFile {
    int fd;
    uint64_t len_bytes, n_documents;
    struct sha256_ctx sum;
} ExportFile;

static int export_write(ExportFile *file, const void *data, size_t len_bytes, ErrText *err) {
    int r;

    if (len_bytes > DRAFT_DB_EXPORT_BYTES_MAX - file->len_bytes)
        return err_set(err, -EFBIG, "an export of more than %u bytes", DRAFT_DB_EXPORT_BYTES_MAX);
    r = file_write_all(file->fd, data, len_bytes);
    if (r)
        return err_set(err, r, "cannot write the export: %s", strerror(-r));
    sha256_update(&file->sum, len_bytes, data);
    file->len_bytes += len_bytes;
    return 0;
}

static int export_document(ExportFile *file, DraftDbDocument document, ErrText *err) {
    _cleanup_(freep) uint8_t *blob = NULL;
    uint8_t owner[DRAFT_DB_OWNER_BYTES], head[EXPORT_HEAD_BYTES];
    size_t blob_bytes;
    int r;

    document.uid = UINT32_MAX;
    draft_db_owner(&document, owner);
    r = draft_db_blob_encode(document.tokens, document.n_tokens, owner, sizeof(owner), &blob, &blob_bytes);
    if (r)
        return err_set(err, err_fold(r), "out of memory for a document");
    export_put(head, blob_bytes, 4);
    export_put(head + 4, document.n_prompt, 4);
    export_put(head + 8, document.time_s, 8);
    memcpy(head + 16, document.tokenizer, DRAFT_DB_TOKENIZER_BYTES);
    r = export_write(file, head, sizeof(head), err);
    if (!r)
        r = export_write(file, blob, blob_bytes, err);
    file->n_documents++;
    return r;
}

static int export_documents(DraftDb *db, uint32_t uid, ExportFile *file, ErrText *err) {
    int64_t id = INT64_MIN;

    for (;;) {
        _cleanup_(draft_db_row_deinit) DraftDbRow row = { 0 };
        bool found = false;
        int r;

        r = draft_db_next(db, uid, NULL, false, id, &row, &found, err);
        if (!r && found && !row.damaged)
            r = export_document(file, row.document, err);
        if (r || !found)
            return r;
        id = row.id;
    }
}

static int export_end(ExportFile *file, ErrText *err) {
    uint8_t end[EXPORT_END_BYTES];
    int r;

    export_put(end, 0, 4);
    export_put(end + 4, file->n_documents, 8);
    r = export_write(file, end, 12, err);
    if (r)
        return r;
    sha256_digest(&file->sum, SHA256_DIGEST_SIZE, end + 12);
    r = file_write_all(file->fd, end + 12, SHA256_DIGEST_SIZE);
    return r ? err_set(err, r, "cannot write the export: %s", strerror(-r)) : 0;
}

/**
 * draft_db_export() - write all documents of a user, of every tokenizer
 * @fd: a regular file, written from where it stands; after an error its export has no end, and is not valid
 *
 * Damaged documents are left out. Memory: one document.
 * Return: as draft_db_each(), or -errno of the file.
 */
int draft_db_export(DraftDb *db, uint32_t uid, int fd, uint64_t *n_documentsp, ErrText *err) {
    ExportFile file = { .fd = fd };
    int r;

    r = transfer_check_file(fd, err);
    if (r)
        return r;
    sha256_init(&file.sum);
    r = export_write(&file, export_magic, sizeof(export_magic), err);
    if (!r)
        r = draft_db_file_ready(&db->file, err);
    if (!r)
        r = draft_db_file_judge(&db->file, export_documents(db, uid, &file, err), err);
    if (!r)
        r = export_end(&file, err);
    if (!r)
        *n_documentsp = file.n_documents;
    return r;
}

/* --- import ------------------------------------------------------------------------------------------------------- */

/* Checks the whole form before the first document is added: the rest is as somebody has written it. */
static int import_check(const uint8_t *data, size_t len_bytes, ErrText *err) {
    struct sha256_ctx sum;
    uint8_t digest[SHA256_DIGEST_SIZE];

    if (len_bytes < sizeof(export_magic) || memcmp(data, export_magic, sizeof(export_magic) - 1))
        return err_set(err, DRAFT_DB_E_FORMAT, "not an export of a draft database");
    if (data[7] != EXPORT_VERSION)
        return err_set(err, DRAFT_DB_E_FORMAT, "an export of version %u; this coordgen reads version %d", data[7],
                       EXPORT_VERSION);
    if (len_bytes < sizeof(export_magic) + EXPORT_END_BYTES)
        return err_set(err, DRAFT_DB_E_FORMAT, "the export is cut short");
    sha256_init(&sum);
    sha256_update(&sum, len_bytes - sizeof(digest), data);
    sha256_digest(&sum, sizeof(digest), digest);
    if (memcmp(digest, data + len_bytes - sizeof(digest), sizeof(digest)))
        return err_set(err, DRAFT_DB_E_FORMAT, "the export is damaged or cut short: its checksum is another");
    return 0;
}

static int import_bad(uint64_t number, ErrText *err) {
    return err_set(err, DRAFT_DB_E_FORMAT, "the export's document %" PRIu64 " is none", number);
}

/* Reads the document at *@atp, which moves behind it; the caller frees the tokens. */
static int import_document(const uint8_t **atp, const uint8_t *end, uint64_t number, DraftDbDocument *document,
                           uint32_t **tokensp, ErrText *err) {
    const uint8_t *at = *atp;
    uint8_t owner[DRAFT_DB_OWNER_BYTES];
    size_t blob_bytes, n_tokens;
    int r;

    if ((size_t)(end - at) < EXPORT_HEAD_BYTES)
        return import_bad(number, err);
    blob_bytes = (size_t)export_get(at, 4);
    *document = (DraftDbDocument){ .uid = UINT32_MAX,
                                   .n_prompt = (size_t)export_get(at + 4, 4),
                                   .time_s = export_get(at + 8, 8),
                                   .tokenizer = at + 16 };
    at += EXPORT_HEAD_BYTES;
    if (blob_bytes > (size_t)(end - at) || document->time_s > INT64_MAX)
        return import_bad(number, err);
    draft_db_owner(document, owner);
    r = draft_db_blob_decode(at, blob_bytes, owner, sizeof(owner), tokensp, &n_tokens);
    if (r < 0)
        return err_set(err, r, "out of memory for a document");
    if (r || document->n_prompt > n_tokens)
        return import_bad(number, err);
    document->tokens = *tokensp;
    document->n_tokens = n_tokens;
    *atp = at + blob_bytes;
    return 0;
}

/* Adds the documents, within a transaction. A time ahead of the clock becomes the present: it would keep a document
 * beyond its age. Pauses that are not believed yet make no document older here, either. */
static int import_documents(DraftDb *db, uint32_t uid, const uint8_t *data, size_t len_bytes,
                            const DraftDbMoment *moment, int64_t *first_newp, DraftDbImported *imported, ErrText *err) {
    const uint8_t *at = data + sizeof(export_magic), *end = data + len_bytes - EXPORT_END_BYTES;
    const uint64_t now_s = (uint64_t)moment->date_s, doubted_s = (uint64_t)moment->doubted_s;
    uint64_t number = 0;

    while (at < end) {
        _cleanup_(freep) uint32_t *tokens = NULL;
        DraftDbDocument document;
        uint64_t age_s;
        int64_t id;
        int r;

        r = import_document(&at, end, ++number, &document, &tokens, err);
        if (r)
            return r;
        document.uid = uid;
        if (document.time_s > now_s)
            document.time_s = now_s;
        age_s = now_s - document.time_s;
        age_s = age_s > doubted_s ? age_s - doubted_s : 0;
        if (db->limits.age_max_s && age_s > db->limits.age_max_s) {
            imported->n_expired++;
            continue;
        }
        r = draft_db_insert(db, &document, moment->ran_s - (int64_t)age_s, &id, err);
        if (r)
            return r;
        if (!imported->n_documents++)
            *first_newp = id;
    }
    if (export_get(end, 4) || export_get(end + 4, 8) != number)
        return err_set(err, DRAFT_DB_E_FORMAT, "the export has another number of documents than it says");
    return 0;
}

static int import_data(DraftDb *db, uint32_t uid, const uint8_t *data, size_t len_bytes, const DraftClockReading *now,
                       DraftDbImported *imported, ErrText *err) {
    _cleanup_(draft_db_file_undo) DraftDbFile *open = NULL;
    DraftDbMoment moment = { 0 };
    int64_t first_new = INT64_MAX;
    int r;

    r = draft_db_file_begin(&open, &db->file, err);
    if (!r)
        r = draft_db_may_add(db, uid, err);
    if (!r)
        r = draft_db_age_advance(db, now, &moment, err);
    if (!r)
        r = import_documents(db, uid, data, len_bytes, &moment, &first_new, imported, err);
    if (!r)
        r = draft_db_trim(db, &moment, &uid, first_new, err);
    return r ? r : draft_db_file_commit(&db->file, err);
}

/**
 * draft_db_import() - add all documents of an export to a user's, or none of them
 * @fd: a regular file, read whole from where it stands (memory: its length); its author need not be trusted
 *
 * Earlier documents of the user, and those of users who have more, may be evicted for them. An export that has no room
 * even then is refused. Nothing looks for duplicates of existing documents.
 * Return: 0, DRAFT_DB_E_FORMAT, DRAFT_DB_E_FULL, DRAFT_DB_E_FROZEN, DRAFT_DB_E_TOO_LARGE, or as draft_db_add().
 */
int draft_db_import(DraftDb *db, uint32_t uid, int fd, const DraftClockReading *now, DraftDbImported *importedp,
                    ErrText *err) {
    _cleanup_(freep) char *data = NULL;
    DraftDbImported imported = { 0 };
    size_t len_bytes, max_bytes = DRAFT_DB_EXPORT_BYTES_MAX;
    int r;

    /* A document takes less room in an export than it is charged here. */
    if (db->limits.bytes_max && db->limits.bytes_max < DRAFT_DB_EXPORT_BYTES_MAX)
        max_bytes = (size_t)db->limits.bytes_max + sizeof(export_magic) + EXPORT_END_BYTES;

    r = transfer_check_file(fd, err);
    if (!r)
        r = file_slurp_fd(fd, "the export", max_bytes, &data, &len_bytes, err);
    if (!r)
        r = import_check((const uint8_t *)data, len_bytes, err);
    if (!r)
        r = draft_db_file_ready(&db->file, err);
    if (!r)
        r = import_data(db, uid, (const uint8_t *)data, len_bytes, now, &imported, err);
    r = draft_db_file_judge(&db->file, r, err);
    if (!r)
        *importedp = imported;
    return r;
}
