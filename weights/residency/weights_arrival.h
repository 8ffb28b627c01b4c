// SPDX-License-Identifier: Apache-2.0
/* Matrices of a package that have their place on the device, and whose integers come later, in the order of use: from
 * the package, to be laid out, or as an image that is being read. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_ARRIVAL_H
#define COORDGEN_WEIGHTS_WEIGHTS_ARRIVAL_H

#include "backends/backend.h"
#include "weights/image/weights_image.h"
#include "weights/image/weights_image_file.h"
#include "weights/residency/weight_stream.h"

typedef struct WeightsArrival WeightsArrival; /* one thread, the one that owns the pool */

/* For matrices that lie in this order in the file; [n], copied. Reads begin at once. image: theirs, which is being read
 * ahead, or NULL;
 * image_file: where their images are written to as they come, its parts are theirs, or NULL; image_writer: the same,
 * behind them and without a wait, or NULL; all outlive the arrival. 0, BACKEND_E_*, -errno. */
int weights_arrival_new(WeightsArrival **arrivalp, Backend *backend, const WeightStreamOptions *options,
                        const StreamMatrix *matrices, size_t n, WeightsImage *image, ImageFile *image_file,
                        WeightsImageWriter *image_writer, ErrText *err);
WeightsArrival *weights_arrival_free(WeightsArrival *arrival);
DEFINE_CLEANUP(WeightsArrival, weights_arrival_free)

/* The next matrix has got its place. Scales, widths, bias and name of the source are copied: the file's map is not read
 * again for them. 0 or -ENOMEM. */
int weights_arrival_place(WeightsArrival *arrival, uint32_t stage, BackendLinear *linear, const LinearSource *source);
/* Of the image: the part of the matrix that is placed next; without one, none. */
WeightsImagePart weights_arrival_next_part(const WeightsArrival *arrival);
/* The stage of the first matrix that is not there; UINT32_MAX: all are. Every one must have been placed. */
uint32_t weights_arrival_stage(const WeightsArrival *arrival);
/* Of all weights those whose matrix is whole, in thousandths. */
uint32_t weights_arrival_permille(const WeightsArrival *arrival);
/* Takes in the next few MiB. 0, BACKEND_E_WEIGHTS (the file was cut short, values that the device does not take),
 * BACKEND_E_MEMORY, -errno. After an error every later call answers it again, with its text. */
int weights_arrival_advance(WeightsArrival *arrival, ErrText *err);

/* What follows on all of them has failed with r, which is not 0: every later call of weights_arrival_advance() answers
 * that, and this one does. */
int weights_arrival_fail(WeightsArrival *arrival, int r, const ErrText *why, ErrText *err);

/* How they came: bytes from the page cache, bytes from the disk, and the way, such as "io_uring, direct". */
typedef struct WeightsArrivalWay {
    uint64_t cached_bytes, read_bytes;
    char way[32];
} WeightsArrivalWay;
WeightsArrivalWay weights_arrival_way(const WeightsArrival *arrival);

#endif
