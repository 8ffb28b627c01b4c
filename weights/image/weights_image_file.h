// SPDX-License-Identifier: Apache-2.0
/* The file of a weights image while it is written, part by part, past the page cache (behind_writer). The next bytes
 * are hashed while the disk takes the last ones. Private to weights/. */
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
    bool is_optional; /* set by the writer before begin: nobody has asked for the image, and nothing needs it */
    bool lacks_room;  /* begin has failed by a lack of room */
    ImageRoom room;
    struct sha256_ctx context; /* of the part that is being written */
    AtomicFile *file;          /* from begin on */
    BehindWriter *writer;      /* of the parts; from begin on */
    uint64_t at_bytes;         /* of the file, where the next of them go */
} ImageFile;

/* Finds the places of n_parts parts of such sizes, and writes nothing. 0, -EINVAL, -ENOMEM; after 0 the caller owes an
 * image_file_deinit(). */
int image_file_init(ImageFile *file, const char *path, const WeightsImageKey *key, const size_t *part_bytes,
                    size_t n_parts, ErrText *err);
/* Removes what was not committed. */
void image_file_deinit(ImageFile *file);
/* Removes what was written, which takes room, as soon as it is known that there will be no commit. */
void image_file_drop(ImageFile *file);
const ImagePlace *image_file_places(const ImageFile *file);
/* Tidies the folder, removes the file that has the name, and writes the head. 0; -ENOSPC with lacks_room: the image
 * would take too much of the disk (weights/image/image_room); -errno. */
int image_file_begin(ImageFile *file, ErrText *err);
/* Writes bytes of a part from at_bytes on; parts come in their order, each from its begin to its end. Waits for the
 * disk, and tells of an error of earlier bytes. 0, -errno. */
int image_file_write(ImageFile *file, size_t part, size_t at_bytes, const void *data, size_t len_bytes, ErrText *err);
/* Ends the file, after all parts: the file is on the disk and has its name. 0, -errno. */
int image_file_commit(ImageFile *file, ErrText *err);

#endif
