// SPDX-License-Identifier: Apache-2.0
/* Journal of an import: its settings, and records of finished work. Every record is chained to the one before by its
 * SHA-256, so that a torn, changed or misplaced record ends the journal. */
#ifndef COORDGEN_IMPORTER_IMPORT_JOURNAL_H
#define COORDGEN_IMPORTER_IMPORT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

#define JOURNAL_DIGEST_BYTES 32

typedef struct JournalRecord {
    uint32_t kind;
    size_t len_bytes;
    uint8_t *data;      /* the journal's */
    uint64_t end_bytes; /* offset of its end in the file */
    uint8_t digest[JOURNAL_DIGEST_BYTES];
} JournalRecord;

typedef struct ImportJournal ImportJournal;

/* Opens the file, which this process then owns; records of another fingerprint are thrown away. */
int import_journal_open(ImportJournal **journalp, const char *path, const uint8_t fingerprint[JOURNAL_DIGEST_BYTES],
                        ErrText *err);
ImportJournal *import_journal_free(ImportJournal *journal);
DEFINE_CLEANUP(ImportJournal, import_journal_free)

size_t import_journal_n(const ImportJournal *journal);
const JournalRecord *import_journal_at(const ImportJournal *journal, size_t index); /* NULL past the end */
/* Forgets all but the first n records. */
int import_journal_keep(ImportJournal *journal, size_t n, ErrText *err);
int import_journal_add(ImportJournal *journal, uint32_t kind, const void *data, size_t len_bytes, ErrText *err);
/* Returns when every record that was added is on the disk. */
int import_journal_sync(const ImportJournal *journal, ErrText *err);

/* Reads the id of the process that owns the journal at path; 0: not known. */
pid_t import_journal_owner(const char *path);

#endif
