// SPDX-License-Identifier: Apache-2.0
/* A file's bytes, in order, written by a thread behind whoever makes them and past the page cache. Gigabytes that are
 * written once and read by another process later, if ever, neither push out what is in use nor cost the finding of
 * new pages for them; and the bytes after them are made while the disk is at work. */
#ifndef COORDGEN_BASE_BEHIND_WRITER_H
#define COORDGEN_BASE_BEHIND_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum {
    BEHIND_WRITER_ALIGNMENT = 4096, /* of where it begins */
};

typedef struct BehindWriter BehindWriter;

/* From a byte of the file on. fd: open for writing; the caller's, who does nothing with it before the end. The thread
 * has the priorities of the one that calls. 0 or -errno. */
int behind_writer_new(BehindWriter **writerp, int fd, uint64_t at_bytes);
/* The next bytes; they are copied. Waits while the disk is two buffers behind. 0, or -errno of a write, of these bytes
 * or of some before them: then no more of the file is written. */
int behind_writer_put(BehindWriter *writer, const void *data, size_t len_bytes);
/* Waits until all is written, if not synced, and gives the file back. Zeros may follow the last byte up to the
 * alignment: the caller sets the file's length. 0 or -errno. */
int behind_writer_end(BehindWriter *writer);
/* Without an end what is not written stays unwritten. */
BehindWriter *behind_writer_free(BehindWriter *writer);
DEFINE_CLEANUP(BehindWriter, behind_writer_free)

#endif
