// SPDX-License-Identifier: Apache-2.0
/* Layers that are not in memory. Their matrices are there without their integers, which come from an image of the
 * weights, layer by layer, into a ring of slots. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_RING_H
#define COORDGEN_WEIGHTS_WEIGHTS_RING_H

#include "backends/backend.h"
#include "weights/image/weights_image.h"
#include "weights/ring/layer_reader.h"

enum {
    WEIGHTS_RING_E_MEMORY = 1,  /* the account of the weights has no room for the slots */
    WEIGHTS_RING_E_WAITING = 2, /* the layer is on its way */
    WEIGHTS_RING_E_READ = 3,    /* the layer could not be read; the text names it, and another try may succeed */
};

/* A matrix of a layer, and the place of its integers in the image. */
typedef struct RingMatrix {
    BackendLinear *linear;
    uint32_t layer;
    size_t part; /* of the image; consecutive for consecutive matrices */
    uint64_t offset_bytes, len_bytes;
} RingMatrix;

typedef struct WeightsRing WeightsRing; /* thread: the one that computes */

/* Makes a ring for the layers of a model from first_layer on. Takes the slots and reads nothing. n matrices by layer
 * and offset, copied; their linears may still be NULL. 0, WEIGHTS_RING_E_MEMORY, -ENOMEM. */
int weights_ring_new(WeightsRing **ringp, const BackendOps *ops, AccountTable *accounts, uint32_t first_layer,
                     const RingMatrix *matrices, size_t n, ErrText *err);
WeightsRing *weights_ring_free(WeightsRing *ring);
DEFINE_CLEANUP(WeightsRing, weights_ring_free)

uint32_t weights_ring_first_layer(const WeightsRing *ring);
/* Returns the ring's parts of the image: *firstp..*endp - 1. */
void weights_ring_parts(const WeightsRing *ring, size_t *firstp, size_t *endp);
/* Adds the object of the next matrix, in the order of weights_ring_new(). Until there is an image the matrix's integers
 * are laid out in a slot that other matrices will use: whoever makes the image writes them before that. */
void weights_ring_add(WeightsRing *ring, BackendLinear *linear);
/* Begins to read from an image, which the ring owns from now on. A part that is to be compared is compared when it is
 * read for the first time; a layer with a damaged part is not used. limit: of the reads' speed. 0, -errno. */
int weights_ring_start(WeightsRing *ring, WeightsImage *image, ReadLimit limit, ErrText *err);
/* Holds a layer: its matrices have their integers until weights_ring_release(). 0; WEIGHTS_RING_E_WAITING after
 * wait_ns, or when a piece has come; WEIGHTS_RING_E_READ; -ENOMEM. */
int weights_ring_hold(WeightsRing *ring, uint32_t layer, uint64_t wait_ns, ErrText *err);
void weights_ring_release(WeightsRing *ring, uint32_t layer);
/* Checks that the image is still what it was: 0; -EIO with a text: the image was cut short or changed, and no layer
 * comes from it any more. Any thread. */
int weights_ring_check(const WeightsRing *ring, ErrText *err);
void weights_ring_set_limit(WeightsRing *ring, ReadLimit limit);

/* Bytes that a sweep over all layers reads; bytes of the slots; bytes and time of all reads so far. */
typedef struct WeightsRingCounts {
    uint64_t sweep_bytes, slots_bytes;
    uint64_t read_bytes, reading_ns;
} WeightsRingCounts;
WeightsRingCounts weights_ring_counts(const WeightsRing *ring);
const char *weights_ring_way(const WeightsRing *ring); /* "io_uring, direct"; "" before it has started */

#endif
