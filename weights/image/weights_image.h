// SPDX-License-Identifier: Apache-2.0
/* The matrices of a package as the device had them in memory, in a file of their own: mapped, they need no laying out,
 * no memory to be zeroed, and nothing at all where an earlier process has left them in the page cache. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_IMAGE_H
#define COORDGEN_WEIGHTS_WEIGHTS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "scheduler/trace.h"
#include "weights/image/image_report.h"

enum {
    WEIGHTS_IMAGE_E_OTHER = 1, /* no image, or one of another package, device or program; the text says which */
};

/* What an image belongs to: the state of a package, and a layout. */
typedef struct WeightsImageKey {
    uint64_t inode, len_bytes;
    int64_t mtime_ns, ctime_ns;
    const char *package_path; /* absolute: by it an image is known whose package is gone */
    const char *layout;       /* the device's, with its revision; at most 31 bytes */
} WeightsImageKey;

/* The strings stay the caller's. 0 or -errno. */
int weights_image_key(WeightsImageKey *key, int package_fd, const char *package_path, const char *layout);

/* One matrix. */
typedef struct WeightsImagePart {
    const void *data; /* aligned to 64 */
    size_t len_bytes;
} WeightsImagePart;

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct WeightsImage WeightsImage;

/* Maps an image of n_parts. 0, WEIGHTS_IMAGE_E_OTHER, -errno. */
int weights_image_open(WeightsImage **imagep, const char *path, const WeightsImageKey *key, size_t n_parts,
                       ErrText *err);
/* No part may be used any more. */
WeightsImage *weights_image_free(WeightsImage *image);
DEFINE_CLEANUP(WeightsImage, weights_image_free)

/* Parts first..end - 1 are compared with the digests that they were written with: before anything is read, by who reads
 * them. notes: a folder where it is noted when all were, and which states of a file were before; NULL: none. 0 or
 * -errno, with a text. */
int weights_image_compare(WeightsImage *image, size_t first, size_t end, const char *notes, ErrText *err);
/* Whether these are a part's bytes, as far as it is to be compared; for who reads parts past the map. One thread at a
 * time. */
bool weights_image_part_is_whole(WeightsImage *image, size_t index, const void *data);

/* Mapped until weights_image_free(); to be read when it has come. */
WeightsImagePart weights_image_part(const WeightsImage *image, size_t index);
/* Its file, where the part begins in it, and the file's name; until weights_image_free(). */
int weights_image_fd(const WeightsImage *image);
uint64_t weights_image_offset_bytes(const WeightsImage *image, size_t index);
const char *weights_image_name(const WeightsImage *image);
/* It is of no use: the next load is not to meet it. Another image that has its name by now stays. */
void weights_image_discard(WeightsImage *image);
/* What is not in memory is read in the order of the parts, by a thread of its own; where none can be started, at
 * once. The first n_late parts come behind all others, and count as there from the start: who reads of them before
 * waits for the disk; where parts are compared, none is late. trace: of these reads, outlives the image; or NULL. */
void weights_image_read_ahead(WeightsImage *image, size_t n_late, Trace *trace);
/* Whether some of those are not in memory yet. Any thread. */
bool weights_image_is_late(const WeightsImage *image);
/* Waits until the next few MiB of what is read ahead are in memory; *n_partsp: so many parts are there. 0 or -errno,
 * which every later call answers again. */
int weights_image_advance(WeightsImage *image, size_t *n_partsp, ErrText *err);
/* Whether all that was read of the parts so far was the file's: 0; -EIO when it was cut short meanwhile, or its disk
 * has failed: the image is removed then, for the package has it all. Any thread. */
int weights_image_check(WeightsImage *image, ErrText *err);
uint64_t weights_image_len_bytes(const WeightsImage *image);
/* So far: bytes that were in the page cache, and bytes from the disk. */
uint64_t weights_image_cached_bytes(const WeightsImage *image);
uint64_t weights_image_read_bytes(const WeightsImage *image);

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* The name of a package's image in a cache folder. 0, -ENAMETOOLONG. */
int weights_image_path(char *path, size_t room_bytes, const char *cache_dir, const char *package_path);

/* What a file in the folder of images is, for whoever tidies it. */
typedef enum WeightsImageUse {
    WEIGHTS_IMAGE_IS_NONE,      /* no image */
    WEIGHTS_IMAGE_IS_CURRENT,   /* of a package as it is, or still being written */
    WEIGHTS_IMAGE_IS_OUTDATED,  /* its package is gone or has changed, or it is another version's */
    WEIGHTS_IMAGE_IS_LEFT_OVER, /* of a writer that was killed */
} WeightsImageUse;
/* package_path: room of PATH_MAX + 1 bytes, "" where it does not tell. */
WeightsImageUse weights_image_use(int folder_fd, const char *name, char *package_path);

typedef struct WeightsImageWriter WeightsImageWriter;

typedef enum WeightsImageHow {
    WEIGHTS_IMAGE_OPTIONAL = 1, /* nobody has asked for it: only where all images have room (image_room) */
    WEIGHTS_IMAGE_ANEW = 2,     /* even where one of this key is there by now */
} WeightsImageHow;              /* flags */

/* A thread of low priority tidies the folder and writes the parts, of such sizes, as they come. What the key points to
 * stays the caller's. 0 or -errno. */
int weights_image_write(WeightsImageWriter **writerp, const char *path, const WeightsImageKey *key,
                        const size_t *part_bytes, size_t n_parts, WeightsImageHow how, ErrText *err);
/* The next part has come: it does not change any more, and its memory stays until weights_image_writer_free(). Waits
 * for nothing. */
void weights_image_writer_bring(WeightsImageWriter *writer, const void *data, size_t len_bytes);
/* All have come, and all is well with them: the image may take its name. */
void weights_image_writer_complete(WeightsImageWriter *writer);
/* Any thread. */
ImageReport weights_image_writer_report(const WeightsImageWriter *writer);
/* Waits until it has ended; behind weights_image_writer_complete(). 0 or -errno, with a text. */
int weights_image_writer_wait(WeightsImageWriter *writer, ErrText *err);
/* Gives up what is not written yet. Parts may go behind it. */
WeightsImageWriter *weights_image_writer_free(WeightsImageWriter *writer);
DEFINE_CLEANUP(WeightsImageWriter, weights_image_writer_free)

#endif
