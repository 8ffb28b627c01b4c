// SPDX-License-Identifier: Apache-2.0
/* Tests of notes on files: a note is found while the file is unchanged, and whole or not at all. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_note.h"
#include "test/unit/fixtures/model_maker.h"

static char folder[256], notes[300];

static const struct stat settled = {
    .st_dev = 5, .st_ino = 0xab, .st_size = 1000, .st_mtim = { 1000, 1 }, .st_ctim = { 2000, 2 }
};

static void test_file_note_of_a_state(void **state) {
    char text[FILE_NOTE_BYTES_MAX], longest[FILE_NOTE_BYTES_MAX + 1] = "";
    struct stat st = settled;

    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
    file_note_remember(notes, &st, "seen");
    assert_true(file_note_recall(notes, &st, text, sizeof(text)));
    assert_string_equal(text, "seen");
    assert_true(file_note_recall(notes, &st, text, 5));
    assert_false(file_note_recall(notes, &st, text, 4)); /* with the NUL */
    st.st_size++;
    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
    st = settled;
    st.st_mtim.tv_nsec++;
    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
    st = settled;
    st.st_ctim.tv_sec++;
    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
    st = settled;
    st.st_dev++;
    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
    /* A changed file: the new note replaces the old one. */
    st = settled;
    st.st_size = 7;
    memset(longest, 'x', FILE_NOTE_BYTES_MAX);
    file_note_remember(notes, &st, longest); /* one byte too long */
    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
    longest[FILE_NOTE_BYTES_MAX - 1] = 0;
    file_note_remember(notes, &st, longest);
    assert_true(file_note_recall(notes, &st, text, sizeof(text)));
    assert_string_equal(text, longest);
    assert_false(file_note_recall(notes, &settled, text, sizeof(text)));
    st.st_ino++;
    st.st_ctim.tv_sec = time(NULL); /* the file may change again unseen */
    file_note_remember(notes, &st, "seen");
    assert_false(file_note_recall(notes, &st, text, sizeof(text)));
}

/* A note of which some bytes did not reach the disk before a power cut. */
static void test_file_note_torn(void **state) {
    char text[FILE_NOTE_BYTES_MAX], path[400];

    file_note_remember(notes, &settled, "seen");
    snprintf(path, sizeof(path), "%s/5-ab", notes);
    assert_true(file_note_recall(notes, &settled, text, sizeof(text)));
    for (off_t len_bytes = 40; len_bytes >= 0; len_bytes--) {
        file_note_remember(notes, &settled, "seen");
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(truncate(path, len_bytes), 0);
        assert_false(file_note_recall(notes, &settled, text, sizeof(text)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_note_of_a_state),
        cmocka_unit_test(test_file_note_torn),
    };
    int r;

    test_folder_make(folder);
    snprintf(notes, sizeof(notes), "%s/notes", folder);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return r;
}
