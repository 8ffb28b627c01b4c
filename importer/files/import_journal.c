// SPDX-License-Identifier: Apache-2.0
/* The file is a header and records, little-endian:
 *   header: magic[16], u32 version, u32 process that works on it, fingerprint[32], SHA-256 of all but the process
 *   record: u32 kind, u32 0, u64 len_bytes, data, SHA-256 of the digest before it and of all these */
#define _GNU_SOURCE
#include "importer/files/import_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_io.h"

#define JOURNAL_VERSION 1
#define JOURNAL_MAX_BYTES (256u << 20)

/* Not a string: no NUL at the end. */
static const char journal_magic[16] = "coordgen-import\n";

typedef struct JournalHeader {
    char magic[16];
    uint32_t version;
    uint32_t pid;
    uint8_t fingerprint[JOURNAL_DIGEST_BYTES];
    uint8_t digest[JOURNAL_DIGEST_BYTES];
} JournalHeader;

typedef struct RecordHead {
    uint32_t kind;
    uint32_t zero;
    uint64_t len_bytes;
} RecordHead;

_Static_assert(sizeof(JournalHeader) == 88 && sizeof(RecordHead) == 16, "no padding in the file");

struct ImportJournal {
    char *path;
    int fd;
    uint8_t first_digest[JOURNAL_DIGEST_BYTES]; /* of the header */
    JournalRecord *records;
    size_t n, room;
};

ImportJournal *import_journal_free(ImportJournal *journal) {
    if (!journal)
        return NULL;
    for (size_t i = 0; i < journal->n; i++)
        free(journal->records[i].data);
    free(journal->records);
    free(journal->path);
    if (journal->fd >= 0)
        close(journal->fd);
    free(journal);
    return NULL;
}

static void header_digest(const JournalHeader *header, uint8_t digest[JOURNAL_DIGEST_BYTES]) {
    struct sha256_ctx context;

    sha256_init(&context);
    sha256_update(&context, sizeof(header->magic), (const uint8_t *)header->magic);
    sha256_update(&context, sizeof(header->version), (const uint8_t *)&header->version);
    sha256_update(&context, sizeof(header->fingerprint), header->fingerprint);
    sha256_digest(&context, JOURNAL_DIGEST_BYTES, digest);
}

static const uint8_t *last_digest(const ImportJournal *journal) {
    return journal->n ? journal->records[journal->n - 1].digest : journal->first_digest;
}

static uint64_t end_bytes(const ImportJournal *journal) {
    return journal->n ? journal->records[journal->n - 1].end_bytes : sizeof(JournalHeader);
}

static void record_digest(const ImportJournal *journal, const RecordHead *head, const uint8_t *data,
                          uint8_t digest[JOURNAL_DIGEST_BYTES]) {
    struct sha256_ctx context;

    sha256_init(&context);
    sha256_update(&context, JOURNAL_DIGEST_BYTES, last_digest(journal));
    sha256_update(&context, sizeof(*head), (const uint8_t *)head);
    sha256_update(&context, (size_t)head->len_bytes, data);
    sha256_digest(&context, JOURNAL_DIGEST_BYTES, digest);
}

/* Appends a record and takes data over. */
static int take_record(ImportJournal *journal, uint32_t kind, uint8_t *data, size_t len_bytes,
                       const uint8_t digest[JOURNAL_DIGEST_BYTES]) {
    uint64_t end = end_bytes(journal) + sizeof(RecordHead) + len_bytes + JOURNAL_DIGEST_BYTES;

    if (journal->n == journal->room) {
        size_t room = journal->room ? 2 * journal->room : 64;
        JournalRecord *records = realloc(journal->records, room * sizeof(*records));

        if (!records) {
            free(data);
            return -ENOMEM;
        }
        journal->records = records;
        journal->room = room;
    }
    journal->records[journal->n] = (JournalRecord){ kind, len_bytes, data, end, { 0 } };
    memcpy(journal->records[journal->n].digest, digest, JOURNAL_DIGEST_BYTES);
    journal->n++;
    return 0;
}

static int io_error(const ImportJournal *journal, int r, ErrText *err) {
    return err_set(err, r, "%s: cannot write: %s", journal->path, strerror(-r));
}

/* Reads the record behind the last one. false: no valid record follows. */
static bool read_record(ImportJournal *journal, uint64_t file_bytes, int *rp) {
    uint64_t at = end_bytes(journal);
    uint8_t digest[JOURNAL_DIGEST_BYTES], found[JOURNAL_DIGEST_BYTES], *data;
    RecordHead head;

    if (file_bytes - at < sizeof(head) + JOURNAL_DIGEST_BYTES ||
        file_read_exact(journal->fd, &head, sizeof(head), at) || head.zero ||
        head.len_bytes > file_bytes - at - sizeof(head) - JOURNAL_DIGEST_BYTES)
        return false;
    data = malloc((size_t)head.len_bytes + 1);
    if (!data) {
        *rp = -ENOMEM;
        return false;
    }
    at += sizeof(head);
    if (file_read_exact(journal->fd, data, (size_t)head.len_bytes, at) ||
        file_read_exact(journal->fd, found, sizeof(found), at + head.len_bytes)) {
        free(data);
        return false;
    }
    record_digest(journal, &head, data, digest);
    if (memcmp(found, digest, sizeof(digest))) {
        free(data);
        return false;
    }
    *rp = take_record(journal, head.kind, data, (size_t)head.len_bytes, digest);
    return !*rp;
}

/* Reads all valid records; the file ends behind the last of them afterwards. */
static int read_records(ImportJournal *journal, const JournalHeader *mine) {
    JournalHeader header;
    struct stat st;
    int r = 0;

    if (fstat(journal->fd, &st) < 0)
        return -errno;
    if (st.st_size < (off_t)sizeof(header) || st.st_size > (off_t)JOURNAL_MAX_BYTES ||
        file_read_exact(journal->fd, &header, sizeof(header), 0) ||
        memcmp(header.magic, mine->magic, sizeof(header.magic)) || header.version != mine->version ||
        memcmp(header.fingerprint, mine->fingerprint, sizeof(header.fingerprint)) ||
        memcmp(header.digest, mine->digest, sizeof(header.digest)))
        return ftruncate(journal->fd, 0) < 0 ? -errno : 0;
    while (read_record(journal, (uint64_t)st.st_size, &r))
        ;
    if (!r && ftruncate(journal->fd, (off_t)end_bytes(journal)) < 0)
        r = -errno;
    return r;
}

/**
 * import_journal_open() - read the records that an earlier process with the same fingerprint has left
 *
 * The caller holds the lock that makes it the only user of the file. A file of other settings, of another version or
 * with a bad header is begun anew. Bytes behind the last valid record are cut off. The process's id is written into
 * the header at once.
 *
 * Return: 0 or -errno.
 */
int import_journal_open(ImportJournal **journalp, const char *path, const uint8_t fingerprint[JOURNAL_DIGEST_BYTES],
                        ErrText *err) {
    _cleanup_(import_journal_freep) ImportJournal *journal = calloc(1, sizeof(*journal));
    JournalHeader header = { .version = JOURNAL_VERSION, .pid = (uint32_t)getpid() };
    struct stat st;
    int r;

    if (!journal)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    journal->fd = -1;
    journal->path = strdup(path);
    if (!journal->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    journal->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0666);
    if (journal->fd < 0 || fstat(journal->fd, &st) < 0)
        return err_set(err, -errno, "%s: cannot create a file there: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return err_set(err, -EEXIST, "%s: is not a file of ours: remove it", path);
    memcpy(header.magic, journal_magic, sizeof(header.magic));
    memcpy(header.fingerprint, fingerprint, sizeof(header.fingerprint));
    header_digest(&header, header.digest);
    memcpy(journal->first_digest, header.digest, sizeof(header.digest));
    r = read_records(journal, &header);
    if (!r)
        r = file_write_at(journal->fd, &header, sizeof(header), 0);
    if (r)
        return io_error(journal, r, err);
    *journalp = steal(&journal);
    return 0;
}

size_t import_journal_n(const ImportJournal *journal) {
    return journal->n;
}

const JournalRecord *import_journal_at(const ImportJournal *journal, size_t index) {
    return index < journal->n ? &journal->records[index] : NULL;
}

int import_journal_keep(ImportJournal *journal, size_t n, ErrText *err) {
    while (journal->n > n)
        free(journal->records[--journal->n].data);
    if (ftruncate(journal->fd, (off_t)end_bytes(journal)) < 0)
        return io_error(journal, -errno, err);
    return 0;
}

int import_journal_add(ImportJournal *journal, uint32_t kind, const void *data, size_t len_bytes, ErrText *err) {
    RecordHead head = { .kind = kind, .len_bytes = len_bytes };
    uint64_t at = end_bytes(journal);
    uint8_t digest[JOURNAL_DIGEST_BYTES], *copy = malloc(len_bytes + 1);
    int r;

    if (!copy)
        return err_set(err, -ENOMEM, "%s: out of memory", journal->path);
    memcpy(copy, data, len_bytes);
    record_digest(journal, &head, copy, digest);
    r = file_write_at(journal->fd, &head, sizeof(head), at);
    if (!r)
        r = file_write_at(journal->fd, data, len_bytes, at + sizeof(head));
    if (!r)
        r = file_write_at(journal->fd, digest, sizeof(digest), at + sizeof(head) + len_bytes);
    if (r) {
        free(copy);
        return io_error(journal, r, err);
    }
    r = take_record(journal, kind, copy, len_bytes, digest);
    return r ? err_set(err, r, "%s: out of memory", journal->path) : 0;
}

int import_journal_sync(const ImportJournal *journal, ErrText *err) {
    return fdatasync(journal->fd) < 0 ? io_error(journal, -errno, err) : 0;
}

pid_t import_journal_owner(const char *path) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    JournalHeader header;

    if (fd < 0 || file_read_exact(fd, &header, sizeof(header), 0) ||
        memcmp(header.magic, journal_magic, sizeof(header.magic)) || header.pid > INT32_MAX)
        return 0;
    return (pid_t)header.pid;
}
