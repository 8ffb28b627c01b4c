// SPDX-License-Identifier: Apache-2.0
/*
 * Device and inode identify a file; size, mtime and ctime to the nanosecond identify its state. A write changes the
 * ctime, which no program can set back. A write within the clock's granularity of an earlier one could go unseen, so
 * no note is taken of a file that changed less than a few seconds ago.
 */
#include "base/files/file_note.h"

#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/files/file_io.h"

enum {
    SETTLED_SECONDS = 3,
    STATE_BYTES_MAX = 256,
};

static int note_path(char path[PATH_MAX], const char *folder, const struct stat *st) {
    const int n =
        snprintf(path, PATH_MAX, "%s/%" PRIx64 "-%" PRIx64, folder, (uint64_t)st->st_dev, (uint64_t)st->st_ino);

    return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Writes "1 SIZE MTIME CTIME ", which must match; the note's text follows it. */
static void state_text(char *text, size_t room_bytes, const struct stat *st) {
    snprintf(text, room_bytes, "1 %" PRIu64 " %" PRId64 ".%09ld %" PRId64 ".%09ld ", (uint64_t)st->st_size,
             (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (int64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

bool file_note_recall(const char *folder, const struct stat *st, char *text, size_t room_bytes) {
    _cleanup_(freep) char *note = NULL;
    char path[PATH_MAX], state[STATE_BYTES_MAX];
    size_t len_bytes, state_bytes;

    if (note_path(path, folder, st) || file_slurp(path, STATE_BYTES_MAX + FILE_NOTE_BYTES_MAX, &note, &len_bytes, NULL))
        return false;
    state_text(state, sizeof(state), st);
    state_bytes = strlen(state);
    /* A whole note has one newline, at its very end. */
    if (len_bytes <= state_bytes || len_bytes - state_bytes > room_bytes || memcmp(note, state, state_bytes) ||
        memchr(note, '\n', len_bytes) != note + len_bytes - 1)
        return false;
    note[len_bytes - 1] = 0;
    memcpy(text, note + state_bytes, len_bytes - state_bytes);
    return true;
}

void file_note_remember(const char *folder, const struct stat *st, const char *text) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    char path[PATH_MAX], note[STATE_BYTES_MAX + FILE_NOTE_BYTES_MAX + 1];
    const time_t settled = time(NULL) - SETTLED_SECONDS;
    size_t n;

    if (st->st_mtim.tv_sec > settled || st->st_ctim.tv_sec > settled || strlen(text) >= FILE_NOTE_BYTES_MAX ||
        note_path(path, folder, st) || file_make_dirs(folder, NULL))
        return;
    state_text(note, STATE_BYTES_MAX, st);
    n = strlen(note);
    snprintf(note + n, sizeof(note) - n, "%s\n", text);
    if (!atomic_file_new(&file, path, NULL) && !file_write_all(atomic_file_fd(file), note, strlen(note)))
        (void)atomic_file_commit_unsynced(file, NULL); /* an empty file counts as no note */
}
