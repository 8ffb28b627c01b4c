// SPDX-License-Identifier: Apache-2.0
/* Whether the parts of an image are what its writer had in memory: each is hashed once for a state of the file, and it
 * is noted in a folder when all were. Private to weights/. */
#ifndef COORDGEN_WEIGHTS_IMAGE_COMPARE_H
#define COORDGEN_WEIGHTS_IMAGE_COMPARE_H

#include <stdbool.h>

#include "weights/image/weights_image_private.h"

typedef struct ImageCompare ImageCompare; /* one thread at a time */

/* Of parts first..end - 1 of the open file as it is now. places, of all parts, outlive the object. notes: the folder;
 * NULL: whatever was compared before counts for nothing. *comparep is NULL where it is noted that these parts were
 * compared. 0, -ENOMEM, -errno. */
int image_compare_new(ImageCompare **comparep, int fd, const ImagePlace *places, size_t first, size_t end,
                      const char *notes);
ImageCompare *image_compare_free(ImageCompare *compare);
DEFINE_CLEANUP(ImageCompare, image_compare_free)

/* Whether these are the bytes of a part; one that was found to be so is not hashed again. compare may be NULL: true. */
bool image_compare_part(ImageCompare *compare, size_t part, const void *data);
#endif
