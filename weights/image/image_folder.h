// SPDX-License-Identifier: Apache-2.0
/* The folder of images: their names, and what its files are. */
#ifndef COORDGEN_WEIGHTS_IMAGE_FOLDER_H
#define COORDGEN_WEIGHTS_IMAGE_FOLDER_H

#include <stddef.h>

/* The name of a package's image in a cache folder. 0, -ENAMETOOLONG. */
int weights_image_path(char *path, size_t room_bytes, const char *cache_dir, const char *package_path);

/* What a file in the folder of images is, for tidying it. */
typedef enum WeightsImageUse {
    WEIGHTS_IMAGE_IS_NONE,      /* no image */
    WEIGHTS_IMAGE_IS_CURRENT,   /* of a package as it is, or still being written */
    WEIGHTS_IMAGE_IS_OUTDATED,  /* its package is gone or has changed, or another version made it */
    WEIGHTS_IMAGE_IS_LEFT_OVER, /* the temporary file of a writer that was killed */
} WeightsImageUse;
/* package_path: room of PATH_MAX + 1 bytes; out: the image's package, or "" if the file does not name one. */
WeightsImageUse weights_image_use(int folder_fd, const char *name, char *package_path);
/* Removes files of no use from the folder of an image: images whose package is gone or that another version made, and
 * files of writers that were killed. */
void weights_image_tidy(const char *image_path);

#endif
