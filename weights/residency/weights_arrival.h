// SPDX-License-Identifier: Apache-2.0
/* The arrival of a package: its matrices have their place on the device, and their integers come later, in the order of
 * use. Integers come from the package, to be laid out, or as an image that is being read. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_ARRIVAL_H
#define COORDGEN_WEIGHTS_WEIGHTS_ARRIVAL_H

#include "backends/backend.h"
#include "weights/image/weights_image.h"
#include "weights/image/weights_image_file.h"
#include "weights/residency/weight_stream.h"

typedef struct WeightsArrival WeightsArrival; /* thread: the one that owns the pool */

/* Begins to read matrices[n], copied, which lie in this order in the file. image: the matrices' image, which is being
 * read ahead; or NULL. image_file: every matrix is written to it when it has come, and the arrival waits for that; or
 * NULL. image_writer: writes the matrices in the background; or NULL. All three outlive the arrival. 0, BACKEND_E_*,
 * -errno. */
int weights_arrival_new(WeightsArrival **arrivalp, Backend *backend, const WeightStreamOptions *options,
                        const StreamMatrix *matrices, size_t n, WeightsImage *image, ImageFile *image_file,
                        WeightsImageWriter *image_writer, ErrText *err);
WeightsArrival *weights_arrival_free(WeightsArrival *arrival);
DEFINE_CLEANUP(WeightsArrival, weights_arrival_free)

/* Adds the place of the next matrix. Scales, widths, bias and name of the source are copied: the file's map is not read
 * again for them. 0 or -ENOMEM. */
int weights_arrival_place(WeightsArrival *arrival, uint32_t stage, BackendLinear *linear, const LinearSource *source);
/* Returns the image's part for the matrix that is placed next; no part if there is no image. */
WeightsImagePart weights_arrival_next_part(const WeightsArrival *arrival);
/* Returns the stage of the first matrix that has not come; UINT32_MAX: all have. All matrices must have been placed. */
uint32_t weights_arrival_stage(const WeightsArrival *arrival);
/* Returns the share of weights whose matrix is whole, in thousandths. */
uint32_t weights_arrival_permille(const WeightsArrival *arrival);
/* Takes in the next few MiB. 0, BACKEND_E_WEIGHTS (the file was cut short, values that the device does not take),
 * BACKEND_E_MEMORY, -errno. After an error every later call answers it again, with its text. */
int weights_arrival_advance(WeightsArrival *arrival, ErrText *err);

/* Notes that the work after the arrival has failed with r, which is not 0. This call and every later call of
 * weights_arrival_advance() return r. */
int weights_arrival_fail(WeightsArrival *arrival, int r, const ErrText *why, ErrText *err);

/* How the matrices came: bytes from the page cache, bytes from the disk, and the way, such as "io_uring, direct". */
typedef struct WeightsArrivalWay {
    uint64_t cached_bytes, read_bytes;
    char way[32];
} WeightsArrivalWay;
WeightsArrivalWay weights_arrival_way(const WeightsArrival *arrival);

#endif
