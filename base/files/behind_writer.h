// SPDX-License-Identifier: Apache-2.0
/* Writes the bytes of a file in order, by a thread and past the page cache, while the caller makes the next bytes. A
 * file of gigabytes that is written once thus pushes nothing out of the page cache, and costs no time to find pages
 * for it. */
#ifndef COORDGEN_BASE_BEHIND_WRITER_H
#define COORDGEN_BASE_BEHIND_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum {
    BEHIND_WRITER_ALIGNMENT = 4096, /* of the first byte's place in the file */
};

typedef struct BehindWriter BehindWriter;

/* Makes a writer that begins at at_bytes. fd is open for writing, and the caller leaves it alone until the end. The
 * thread inherits the caller's priorities. 0 or -errno. */
int behind_writer_new(BehindWriter **writerp, int fd, uint64_t at_bytes);
/* Copies the next bytes; waits while the disk is two buffers behind. 0, or the -errno of this or an earlier write,
 * after which nothing more is written. */
int behind_writer_put(BehindWriter *writer, const void *data, size_t len_bytes);
/* Waits until all bytes are written (not synced), and gives the file back. Zeros may follow the last byte up to the
 * alignment: the caller sets the file's length. 0 or -errno. */
int behind_writer_end(BehindWriter *writer);
/* Frees the writer; bytes that behind_writer_end() did not wait for may stay unwritten. */
BehindWriter *behind_writer_free(BehindWriter *writer);
DEFINE_CLEANUP(BehindWriter, behind_writer_free)

#endif
