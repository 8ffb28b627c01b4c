// SPDX-License-Identifier: Apache-2.0
/* Remembers a line about a file, in a folder of notes; the line counts until the file changes. */
#ifndef COORDGEN_BASE_FILE_NOTE_H
#define COORDGEN_BASE_FILE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FILE_NOTE_BYTES_MAX 256

/* Reads the line about the file in this state; false: there is none. */
bool file_note_recall(const char *folder, const struct stat *st, char *text, size_t room_bytes);
/* Writes a line of at most FILE_NOTE_BYTES_MAX - 1 bytes; makes the folder. Reports no errors, because without a note
 * work only takes longer. Writes none about a file that changed a moment ago. */
void file_note_remember(const char *folder, const struct stat *st, const char *text);

#endif
