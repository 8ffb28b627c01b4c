// SPDX-License-Identifier: Apache-2.0
/* The file of a weights image, shared by its reader and its writer. Numbers are those of the machine that wrote it: an
 * image is a cache and does not travel. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_IMAGE_PRIVATE_H
#define COORDGEN_WEIGHTS_WEIGHTS_IMAGE_PRIVATE_H

#include <nettle/sha2.h>
#include <stdint.h>

#include "base/files/file_io.h"
#include "weights/image/weights_image.h"

#define IMAGE_MAGIC "CGIMAGE\n"
#define IMAGE_SUFFIX ".weights"

enum {
    IMAGE_VERSION = 2,
    IMAGE_PAGE = 4096,    /* alignment of the first part */
    IMAGE_ALIGNMENT = 64, /* of every part */
    IMAGE_PARTS_MAX = 1 << 16,
    IMAGE_STEP_BYTES = 4 << 20, /* read and written at a time */
    IMAGE_DIGEST_BYTES = SHA256_DIGEST_SIZE,
};

typedef struct ImageHead {
    char magic[8];
    uint32_t version, n_parts;
    uint64_t head_bytes, len_bytes; /* head, places and path together; the whole file */
    uint64_t package_inode, package_bytes;
    int64_t package_mtime_ns, package_ctime_ns;
    char layout[32], program[32];
    uint32_t path_bytes;           /* of the package's path, with its NUL */
    char sha256[SHA256_HEX_BYTES]; /* of head, places and path, while this field is zero */
} ImageHead;

typedef struct ImagePlace {
    uint64_t offset_bytes, len_bytes;
    uint8_t sha256[IMAGE_DIGEST_BYTES]; /* of the part */
} ImagePlace;

/* Fills magic, version, and the key with the program's version; all other bytes are zero. */
void image_head_init(ImageHead *head, const WeightsImageKey *key);
/* Hashes n bytes that begin with a head, whose own field becomes zero. */
void image_digest(void *head, size_t n, char sha256[SHA256_HEX_BYTES]);

/* Removes files of no use from the folder of an image: images whose package is gone or that another version made, and
 * files of writers that were killed. */
void weights_image_tidy(const char *image_path);

#endif
