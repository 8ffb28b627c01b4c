// SPDX-License-Identifier: Apache-2.0
/* Compares the parts of an image with what its writer had in memory. Each part is hashed once for a state of the file,
 * and a note is taken when all were. Private to weights/. */
#ifndef COORDGEN_WEIGHTS_IMAGE_COMPARE_H
#define COORDGEN_WEIGHTS_IMAGE_COMPARE_H

#include <stdbool.h>

#include "weights/image/weights_image_private.h"

typedef struct ImageCompare ImageCompare; /* thread: one at a time */

/* Begins to compare parts first..end - 1 of the open file as it is now. places, of all parts, outlive the object.
 * notes: the folder; NULL: earlier comparisons do not count. *comparep: NULL: a note says that these parts were
 * compared. 0, -ENOMEM, -errno. */
int image_compare_new(ImageCompare **comparep, int fd, const ImagePlace *places, size_t first, size_t end,
                      const char *notes);
ImageCompare *image_compare_free(ImageCompare *compare);
DEFINE_CLEANUP(ImageCompare, image_compare_free)

/* Whether these are the bytes of a part. A part that was compared is not hashed again. compare may be NULL: true. */
bool image_compare_part(ImageCompare *compare, size_t part, const void *data);
#endif
