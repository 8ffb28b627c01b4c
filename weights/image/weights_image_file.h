// SPDX-License-Identifier: Apache-2.0
/* The file of a weights image while it is written, part by part, past the page cache (behind_writer): a digest of
 * the next bytes is made while the disk takes the last ones. Private to weights/. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_IMAGE_FILE_H
#define COORDGEN_WEIGHTS_WEIGHTS_IMAGE_FILE_H

#include "base/files/behind_writer.h"
#include "weights/image/image_room.h"
#include "weights/image/weights_image_private.h"

typedef struct ImageFile {
    char *path;
    void *head; /* with places and path, as the file begins */
    uint64_t head_bytes, len_bytes;
    size_t n_parts;
    bool is_optional; /* by who writes it, before begin: nobody has asked for it, and nothing needs it */
    bool lacks_room;  /* that was begin's error */
    ImageRoom room;
    struct sha256_ctx context; /* of the part that is being written */
    AtomicFile *file;          /* from begin on */
    BehindWriter *writer;      /* of the parts; from begin on */
    uint64_t at_bytes;         /* of the file, where the next of them go */
} ImageFile;

/* The places of n_parts parts of such sizes; nothing is written yet. 0, -EINVAL, -ENOMEM; image_file_deinit() is for
 * whoever got 0. */
int image_file_init(ImageFile *file, const char *path, const WeightsImageKey *key, const size_t *part_bytes,
                    size_t n_parts, ErrText *err);
/* What was not committed is gone. */
void image_file_deinit(ImageFile *file);
/* The same, when it is known that there will be no commit: what was written takes room. */
void image_file_drop(ImageFile *file);
const ImagePlace *image_file_places(const ImageFile *file);
/* Tidies the folder, removes what has the name, and writes the head. 0, -ENOSPC with lacks_room: it would take too much
 * of the disk (weights/image/image_room); -errno. */
int image_file_begin(ImageFile *file, ErrText *err);
/* Bytes of a part from at_bytes on; the parts in their order, each from its begin to its end. It waits for the disk,
 * and tells of an error of earlier bytes. 0, -errno. */
int image_file_write(ImageFile *file, size_t part, size_t at_bytes, const void *data, size_t len_bytes, ErrText *err);
/* All parts were written: the file is on the disk and has its name. 0, -errno. */
int image_file_commit(ImageFile *file, ErrText *err);

#endif
