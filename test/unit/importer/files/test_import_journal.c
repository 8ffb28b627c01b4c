// SPDX-License-Identifier: Apache-2.0
/* Tests the journal of an import: added records come back; torn, changed and foreign files give a prefix of them, never
 * more. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "importer/files/import_journal.h"
#include "test/unit/fixtures/model_maker.h"

#define N_RECORDS 5

static const uint8_t mine[JOURNAL_DIGEST_BYTES] = { 1, 2, 3 }, others[JOURNAL_DIGEST_BYTES] = { 1, 2, 4 };
static char folder[256], path[300];

static int setup(void **state) {
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/journal", folder);
    return 0;
}

static int teardown(void **state) {
    test_folder_remove(folder);
    return 0;
}

/* Record i: kind 10 + i, i * 100 bytes. */
static void record_of(size_t i, uint8_t data[N_RECORDS * 100]) {
    for (size_t j = 0; j < i * 100; j++)
        data[j] = (uint8_t)(i * 7 + j);
}

static void check_records(const ImportJournal *journal, size_t n) {
    uint8_t data[N_RECORDS * 100];

    assert_int_equal(import_journal_n(journal), n);
    for (size_t i = 0; i < n; i++) {
        const JournalRecord *record = import_journal_at(journal, i);

        record_of(i, data);
        assert_int_equal(record->kind, 10 + i);
        assert_int_equal(record->len_bytes, i * 100);
        assert_memory_equal(record->data, data, i * 100);
    }
    assert_null(import_journal_at(journal, n));
}

static ImportJournal *open_journal(const uint8_t *fingerprint) {
    ImportJournal *journal = NULL;

    assert_int_equal(import_journal_open(&journal, path, fingerprint, NULL), 0);
    return journal;
}

static void add_records(ImportJournal *journal, size_t from, size_t to) {
    uint8_t data[N_RECORDS * 100];

    for (size_t i = from; i < to; i++) {
        record_of(i, data);
        assert_int_equal(import_journal_add(journal, (uint32_t)(10 + i), data, i * 100, NULL), 0);
    }
    assert_int_equal(import_journal_sync(journal, NULL), 0);
}

static void write_all_records(void) {
    ImportJournal *journal;

    unlink(path);
    journal = open_journal(mine);
    check_records(journal, 0);
    add_records(journal, 0, N_RECORDS);
    check_records(journal, N_RECORDS);
    import_journal_free(journal);
}

static void test_import_journal_comes_back(void **state) {
    ImportJournal *journal;

    write_all_records();
    assert_int_equal(import_journal_owner(path), getpid());
    journal = open_journal(mine);
    check_records(journal, N_RECORDS);
    assert_int_equal(import_journal_keep(journal, 2, NULL), 0);
    check_records(journal, 2);
    import_journal_free(journal);
    journal = open_journal(mine);
    check_records(journal, 2);
    add_records(journal, 2, N_RECORDS);
    import_journal_free(journal);
    journal = open_journal(mine);
    check_records(journal, N_RECORDS);
    import_journal_free(journal);
}

static void test_import_journal_of_other_settings(void **state) {
    ImportJournal *journal;

    write_all_records();
    journal = open_journal(others);
    check_records(journal, 0);
    add_records(journal, 0, 1);
    import_journal_free(journal);
    journal = open_journal(mine);
    check_records(journal, 0);
    import_journal_free(journal);
}

/* Ends of records in the file: header 88; each 16 + data + 32. */
static size_t records_in(size_t len_bytes) {
    size_t end = 88, n = 0;

    while (n < N_RECORDS && end + 48 + n * 100 <= len_bytes)
        end += 48 + n++ * 100;
    return n;
}

static void test_import_journal_torn(void **state) {
    struct stat st;

    write_all_records();
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(records_in((size_t)st.st_size), N_RECORDS);
    for (size_t len_bytes = 0; len_bytes < (size_t)st.st_size; len_bytes += 7) {
        ImportJournal *journal;

        write_all_records();
        assert_int_equal(truncate(path, (off_t)len_bytes), 0);
        journal = open_journal(mine);
        check_records(journal, records_in(len_bytes));
        /* The tail is gone: a record that is added now is found again. */
        add_records(journal, records_in(len_bytes), N_RECORDS);
        import_journal_free(journal);
        journal = open_journal(mine);
        check_records(journal, N_RECORDS);
        import_journal_free(journal);
    }
}

static void test_import_journal_changed(void **state) {
    struct stat st;

    write_all_records();
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 0; at < st.st_size; at++) {
        bool is_pid = at >= 20 && at < 24; /* the process in the header does not count */
        ImportJournal *journal;
        uint8_t byte;
        int fd;

        write_all_records();
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1 << at % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        journal = open_journal(mine);
        check_records(journal, is_pid ? N_RECORDS : at < 88 ? 0 : records_in((size_t)at));
        import_journal_free(journal);
    }
}

/* Records of one journal behind those of another, and a length that would overflow. */
static void test_import_journal_foreign_records(void **state) {
    _cleanup_(freep) char *text = NULL;
    static const uint8_t huge[16] = { 10, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255 };
    ImportJournal *journal;
    size_t len_bytes;
    int fd;

    write_all_records();
    assert_int_equal(file_slurp(path, 1 << 20, &text, &len_bytes, NULL), 0);
    unlink(path);
    journal = open_journal(mine);
    add_records(journal, 0, 1);
    import_journal_free(journal);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    /* Without record 1: record 2 does not follow record 0. */
    assert_int_equal(file_write_all(fd, text + 88 + 48 + 148, len_bytes - 88 - 48 - 148), 0);
    close(fd);
    journal = open_journal(mine);
    check_records(journal, 1);
    import_journal_free(journal);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, huge, sizeof(huge)), 0);
    assert_int_equal(file_write_all(fd, text, 200), 0);
    close(fd);
    journal = open_journal(mine);
    check_records(journal, 1);
    import_journal_free(journal);
}

static void test_import_journal_not_ours(void **state) {
    ImportJournal *journal = NULL;
    char other[300];

    snprintf(other, sizeof(other), "%s/other", folder);
    test_write_file(folder, "other", "precious", 8);
    assert_int_equal(import_journal_owner(other), 0);
    assert_int_equal(import_journal_owner(path), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(import_journal_open(&journal, path, mine, NULL), -ELOOP);
    unlink(path);
    assert_int_equal(link(other, path), 0);
    assert_int_equal(import_journal_open(&journal, path, mine, NULL), -EEXIST);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(import_journal_open(&journal, path, mine, NULL), -EISDIR);
    assert_null(journal);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_import_journal_comes_back),
        IN_FOLDER(test_import_journal_of_other_settings),
        IN_FOLDER(test_import_journal_torn),
        IN_FOLDER(test_import_journal_changed),
        IN_FOLDER(test_import_journal_foreign_records),
        IN_FOLDER(test_import_journal_not_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
