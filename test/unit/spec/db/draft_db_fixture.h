// SPDX-License-Identifier: Apache-2.0
/* Draft databases in a folder of the test's own, and documents whose tokens follow from a number. */
#ifndef COORDGEN_TEST_DRAFT_DB_FIXTURE_H
#define COORDGEN_TEST_DRAFT_DB_FIXTURE_H

#include "spec/db/draft_db.h"

#define DRAFT_DB_FIXTURE_NOW 1700000000u
#define DRAFT_DB_FIXTURE_MARK_BYTES 16

typedef struct DraftDbFixture {
    char top[64];    /* /tmp/... */
    char folder[96]; /* TOP/draftdb */
    char path[128];  /* FOLDER/drafts.db */
    DraftDbLimits limits;
    uint64_t now_s; /* the date and how long the machine runs, without jump_s and boot */
    int64_t jump_s; /* seconds by which the date is off */
    uint8_t boot;   /* number of the machine's start */
    DraftDb *db;
    ErrText err;
} DraftDbFixture;

extern const uint8_t draft_db_fixture_tokenizer[DRAFT_DB_TOKENIZER_BYTES];

void draft_db_fixture_init(DraftDbFixture *fixture);
void draft_db_fixture_deinit(DraftDbFixture *fixture);
/* Setup and teardown of a cmocka test, whose state is the fixture. */
int draft_db_fixture_setup(void **state);
int draft_db_fixture_teardown(void **state);
int draft_db_fixture_open(DraftDbFixture *fixture); /* closes an open database */
void draft_db_fixture_close(DraftDbFixture *fixture);

DraftClockReading draft_db_fixture_now(const DraftDbFixture *fixture);

/* Returns u32[n] that no compression makes shorter; the first is seed. The caller frees it. */
uint32_t *draft_db_fixture_tokens(uint32_t seed, size_t n);
int draft_db_fixture_add(DraftDbFixture *fixture, uint32_t uid, uint32_t seed, size_t n);
/* Returns bytes of a document of draft_db_fixture_add() as the file has them, and of no other document: its
 * checksum. */
void draft_db_fixture_mark(const DraftDbFixture *fixture, uint32_t uid, uint32_t seed, size_t n,
                           uint8_t mark[DRAFT_DB_FIXTURE_MARK_BYTES]);
/* Reads the seeds of the user's documents, newest first, and checks that each is whole; returns how many. */
size_t draft_db_fixture_seeds(DraftDbFixture *fixture, uint32_t uid, uint32_t *seeds, size_t max);
/* A DraftDbVisit whose arg is the uid: checks that the document is whole, and that user's. */
int draft_db_fixture_whole(void *uidp, const DraftDbDocument *document);
/* Whether the bytes are anywhere in the files of the folder. */
bool draft_db_fixture_holds(const DraftDbFixture *fixture, const void *bytes, size_t len_bytes);

/* Mounts a file system of that many KiB over the folder; false: this process may not. options "": none. */
bool draft_db_fixture_mount(const DraftDbFixture *fixture, unsigned int kib, const char *options);
void draft_db_fixture_unmount(const DraftDbFixture *fixture);
/* Takes all the room that is left on the file system, to the last byte. */
void draft_db_fixture_fill_disk(const DraftDbFixture *fixture);

#endif
