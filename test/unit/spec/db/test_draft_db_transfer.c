// SPDX-License-Identifier: Apache-2.0
/* Exports of the draft database, and imports of true and false exports. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <nettle/sha2.h>

#include "base/files/file_io.h"
#include "spec/db/draft_db_transfer.h"
#include "test/unit/spec/db/draft_db_fixture.h"

static int file_of(const void *data, size_t len_bytes) {
    int fd = memfd_create("export", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, data, len_bytes), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* Returns the export of a user as bytes, which are the caller's. */
static uint8_t *export_of(DraftDbFixture *fixture, uint32_t uid, size_t *len_bytesp, uint64_t *n_documentsp) {
    _cleanup_(closep) int fd = memfd_create("export", MFD_CLOEXEC);
    char *data;

    assert_true(fd >= 0);
    assert_int_equal(draft_db_export(fixture->db, uid, fd, n_documentsp, &fixture->err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(file_slurp_fd(fd, "export", 1 << 30, &data, len_bytesp, NULL), 0);
    return (uint8_t *)data;
}

static int import(DraftDbFixture *fixture, uint32_t uid, const void *data, size_t len_bytes,
                  DraftDbImported *imported) {
    _cleanup_(closep) int fd = file_of(data, len_bytes);
    const DraftClockReading now = draft_db_fixture_now(fixture);

    fixture->err.text[0] = 0;
    return draft_db_import(fixture->db, uid, fd, &now, imported, &fixture->err);
}

static void refused(DraftDbFixture *fixture, const void *data, size_t len_bytes) {
    DraftDbImported imported = { .n_documents = 77 };

    assert_int_equal(import(fixture, 5, data, len_bytes, &imported), DRAFT_DB_E_FORMAT);
    assert_true(fixture->err.text[0]);
    assert_int_equal(imported.n_documents, 77);
    assert_int_equal(draft_db_fixture_seeds(fixture, 5, NULL, 0), 0);
}

/* Makes the checksum at the end right again. */
static void seal(uint8_t *data, size_t len_bytes) {
    struct sha256_ctx sum;

    sha256_init(&sum);
    sha256_update(&sum, len_bytes - 32, data);
    sha256_digest(&sum, 32, data + len_bytes - 32);
}

static void test_draft_db_transfer_round_trip(void **state) {
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) uint8_t *data = NULL, *again = NULL, *empty = NULL;
    size_t len_bytes, again_bytes;
    DraftDbImported imported;
    DraftDbStats before, after;
    uint32_t seeds[4];
    uint64_t n;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 1), 0);
    fixture->now_s += 5;
    assert_int_equal(draft_db_fixture_add(fixture, 2, 20, 10), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 65536), 0);
    data = export_of(fixture, 1, &len_bytes, &n);
    assert_int_equal(n, 2);
    fixture->now_s += 50;
    assert_int_equal(import(fixture, 3, data, len_bytes, &imported), 0);
    assert_int_equal(imported.n_documents, 2);
    assert_int_equal(imported.n_expired, 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 3, seeds, 4), 2);
    assert_int_equal(seeds[0], 11);
    assert_int_equal(seeds[1], 10);
    assert_int_equal(draft_db_stats(fixture->db, 1, &before, &fixture->err), 0);
    assert_int_equal(draft_db_stats(fixture->db, 3, &after, &fixture->err), 0);
    assert_int_equal(after.oldest_s, before.oldest_s);
    assert_int_equal(after.newest_s, before.newest_s);
    again = export_of(fixture, 3, &again_bytes, &n);
    assert_int_equal(again_bytes, len_bytes);
    assert_memory_equal(again, data, len_bytes);

    empty = export_of(fixture, 4, &len_bytes, &n);
    assert_int_equal(n, 0);
    assert_int_equal(import(fixture, 3, empty, len_bytes, &imported), 0);
    assert_int_equal(imported.n_documents, 0);
}

static void test_draft_db_transfer_damaged(void **state) {
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) uint8_t *data = NULL;
    size_t len_bytes;
    uint64_t n;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    data = export_of(fixture, 1, &len_bytes, &n);
    for (size_t i = 0; i < len_bytes; i++) {
        data[i] ^= 1;
        refused(fixture, data, len_bytes);
        data[i] ^= 1;
        refused(fixture, data, i);
    }
    data[7]++;
    refused(fixture, data, len_bytes);
    assert_non_null(strstr(fixture->err.text, "version 2"));
}

/* Exports with a right checksum, crafted by somebody who knows the form. */
static void test_draft_db_transfer_hostile(void **state) {
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) uint8_t *data = NULL;
    DraftDbImported imported;
    size_t len_bytes, n_taken = 0;
    uint64_t n;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 5), 0);
    data = export_of(fixture, 1, &len_bytes, &n);
    for (size_t i = 8; i < len_bytes - 32; i++) {
        static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
        uint8_t kept = data[i];

        for (size_t k = 0; k < ARRAY_LEN(values); k++) {
            if (values[k] == kept)
                continue;
            data[i] = values[k];
            seal(data, len_bytes);
            refused(fixture, data, len_bytes); /* the checksums of documents are still another's */
        }
        data[i] = kept;
        n_taken++;
    }
    assert_int_equal(n_taken, len_bytes - 40);
    seal(data, len_bytes);
    assert_int_equal(import(fixture, 5, data, len_bytes, &imported), 0);
}

static void test_draft_db_transfer_all_or_nothing(void **state) {
    DraftDbFixture *fixture = *state;
    DraftClockReading now;
    _cleanup_(freep) uint8_t *data = NULL;
    DraftDbImported imported;
    size_t len_bytes;
    uint32_t seeds[4];
    uint64_t n;
    int ends[2];

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(draft_db_fixture_add(fixture, 1, i, 5), 0);
    data = export_of(fixture, 1, &len_bytes, &n);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);

    /* Three documents of one user, where the others leave room for two. */
    fixture->limits = (DraftDbLimits){ .documents_max = 4, .age_max_s = 100 };
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(draft_db_fixture_add(fixture, 2, i, 5), 0);
    assert_int_equal(import(fixture, 5, data, len_bytes, &imported), DRAFT_DB_E_FULL);
    assert_int_equal(draft_db_fixture_seeds(fixture, 5, NULL, 0), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, NULL, 0), 2);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);

    /* The user's own earlier documents make way. */
    for (uint32_t i = 100; i < 104; i++)
        assert_int_equal(draft_db_fixture_add(fixture, 5, i, 5), 0);
    assert_int_equal(import(fixture, 5, data, len_bytes, &imported), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 5, seeds, 4), 4);
    assert_int_equal(seeds[2], 0);
    assert_int_equal(seeds[3], 103);

    assert_int_equal(draft_db_freeze(fixture->db, 5, true, &fixture->err), 0);
    assert_int_equal(import(fixture, 5, data, len_bytes, &imported), DRAFT_DB_E_FROZEN);
    fixture->now_s += 101;
    assert_int_equal(import(fixture, 6, data, len_bytes, &imported), 0);
    assert_int_equal(imported.n_documents, 0);
    assert_int_equal(imported.n_expired, 3);

    /* Documents from a clock that was ahead are not kept for longer. */
    fixture->jump_s -= 1101;
    /* user 5 is frozen, and has 4 documents */
    assert_int_equal(import(fixture, 6, data, len_bytes, &imported), DRAFT_DB_E_FULL);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);
    assert_int_equal(import(fixture, 6, data, len_bytes, &imported), 0);
    assert_int_equal(imported.n_documents, 3);
    fixture->now_s += 101;
    now = draft_db_fixture_now(fixture);
    assert_int_equal(draft_db_expire(fixture->db, &now, &fixture->err), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 6, NULL, 0), 0);

    /* A pipe never holds the service up. */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(draft_db_import(fixture->db, 6, ends[0], &now, &imported, &fixture->err), -EINVAL);
    assert_int_equal(draft_db_export(fixture->db, 6, ends[1], &n, &fixture->err), -EINVAL);
    close(ends[0]);
    close(ends[1]);
}

/* An export longer than the database may have is not read into memory. */
static void test_draft_db_transfer_too_long(void **state) {
    DraftDbFixture *fixture = *state;
    const DraftClockReading now = draft_db_fixture_now(fixture);
    _cleanup_(closep) int fd = memfd_create("export", MFD_CLOEXEC);
    DraftDbImported imported;

    fixture->limits.bytes_max = 100000;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 1 << 30), 0);
    assert_int_equal(draft_db_import(fixture->db, 1, fd, &now, &imported, &fixture->err), -EFBIG);
    fixture->limits.bytes_max = 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, draft_db_fixture_setup, draft_db_fixture_teardown)
    static const struct CMUnitTest tests[] = {
        TEST(test_draft_db_transfer_round_trip), TEST(test_draft_db_transfer_damaged),
        TEST(test_draft_db_transfer_hostile),    TEST(test_draft_db_transfer_all_or_nothing),
        TEST(test_draft_db_transfer_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
