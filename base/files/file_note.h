// SPDX-License-Identifier: Apache-2.0
/* What is known of a file as it is, in a folder of notes; it counts until the file changes. */
#ifndef COORDGEN_BASE_FILE_NOTE_H
#define COORDGEN_BASE_FILE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FILE_NOTE_BYTES_MAX 256

/* The line that was noted of the file in this state; false: none. */
bool file_note_recall(const char *folder, const struct stat *st, char *text, size_t room_bytes);
/* A line of at most FILE_NOTE_BYTES_MAX - 1 bytes. Makes the folder. Without a note things only take longer, so that
 * errors are not told; and none is taken of a file that changed a moment ago. */
void file_note_remember(const char *folder, const struct stat *st, const char *text);

#endif
