// SPDX-License-Identifier: Apache-2.0
/* The image of a package: its matrices as the device has them in memory, in a file of their own. A mapped image needs
 * no laying out and no zeroed memory, and no reads either if an earlier process has left it in the page cache. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_IMAGE_H
#define COORDGEN_WEIGHTS_WEIGHTS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "scheduler/operators/trace.h"
#include "weights/image/image_folder.h"
#include "weights/image/image_format.h"
#include "weights/image/image_report.h"

enum {
    WEIGHTS_IMAGE_E_OTHER = 1, /* no image, or that of another package, device or program; the text says which */
};

/* The bytes of one matrix. */
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

/* Has parts first..end - 1 compared with their digests, by whoever reads them; called before anything is read. notes: a
 * folder of notes on which states of a file were compared; NULL: none. 0 or -errno, with a text. */
int weights_image_compare(WeightsImage *image, size_t first, size_t end, const char *notes, ErrText *err);
/* Whether these are a part's bytes, if the part is to be compared; for readers that do not use the map. Thread: one at
 * a time. */
bool weights_image_part_is_whole(WeightsImage *image, size_t index, const void *data);

/* Returns a part, mapped until weights_image_free(). The part may be read when it has come. */
WeightsImagePart weights_image_part(const WeightsImage *image, size_t index);
/* Returns the file, the place where a part begins in it, and its name; valid until weights_image_free(). */
int weights_image_fd(const WeightsImage *image);
uint64_t weights_image_offset_bytes(const WeightsImage *image, size_t index);
const char *weights_image_name(const WeightsImage *image);
/* Removes an image of no use, so that the next load does not find it. Another image that has its name by now stays. */
void weights_image_discard(WeightsImage *image);
/* Begins to read what is not in memory, in the order of the parts, by a thread of its own, or at once if no thread can
 * be started. The first n_late parts come last, and count as there from the start: whoever reads them before waits for
 * the disk. If parts are compared, none is late. trace: for these reads, outlives the image; or NULL. */
void weights_image_read_ahead(WeightsImage *image, size_t n_late, Trace *trace);
/* Whether some of the late parts are not in memory yet. Any thread. */
bool weights_image_is_late(const WeightsImage *image);
/* Waits until the next few MiB are in memory; *n_partsp: number of parts that are there. 0 or -errno, which every later
 * call returns again. */
int weights_image_advance(WeightsImage *image, size_t *n_partsp, ErrText *err);
/* Checks that all bytes read so far were the file's: 0; -EIO: the file was cut short meanwhile, or its disk has failed.
 * The image is removed then, for the package has all. Any thread. */
int weights_image_check(WeightsImage *image, ErrText *err);
uint64_t weights_image_len_bytes(const WeightsImage *image);
/* Returns the number of bytes so far: from the page cache, and from the disk. */
uint64_t weights_image_cached_bytes(const WeightsImage *image);
uint64_t weights_image_read_bytes(const WeightsImage *image);

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct WeightsImageWriter WeightsImageWriter;

/* When a load makes an image for later loads. Layers on disk and static graphs need an image in every mode. */
typedef enum WeightsImageMode {
    WEIGHTS_IMAGE_ON,   /* if the image itself has room */
    WEIGHTS_IMAGE_AUTO, /* if all images have room (image_room) */
    WEIGHTS_IMAGE_OFF,
} WeightsImageMode;

typedef enum WeightsImageHow {
    WEIGHTS_IMAGE_OPTIONAL = 1, /* nobody has asked for the image: only if all images have room (image_room) */
    WEIGHTS_IMAGE_ANEW = 2,     /* even if an image of this key is there */
} WeightsImageHow;              /* flags */

/* Starts a thread of low priority, which tidies the folder and writes the parts, of such sizes, as they come. Strings
 * of the key stay the caller's. 0 or -errno. */
int weights_image_write(WeightsImageWriter **writerp, const char *path, const WeightsImageKey *key,
                        const size_t *part_bytes, size_t n_parts, WeightsImageHow how, ErrText *err);
/* Hands over the next part, which does not change any more, and whose memory stays until weights_image_writer_free().
 * Does not wait. */
void weights_image_writer_bring(WeightsImageWriter *writer, const void *data, size_t len_bytes);
/* Tells that all parts have come and are good: the image may take its name. */
void weights_image_writer_complete(WeightsImageWriter *writer);
/* Any thread. */
ImageReport weights_image_writer_report(const WeightsImageWriter *writer);
/* Waits until the thread has ended; after weights_image_writer_complete(). 0 or -errno, with a text. */
int weights_image_writer_wait(WeightsImageWriter *writer, ErrText *err);
/* Gives up what is not written yet. The parts' memory may be freed after it. */
WeightsImageWriter *weights_image_writer_free(WeightsImageWriter *writer);
DEFINE_CLEANUP(WeightsImageWriter, weights_image_writer_free)

#endif
