/* Matrices of a package that have their place on the device, and whose integers come later, in the order of use. */
#ifndef COORDGEN_ENGINE_WEIGHTS_ARRIVAL_H
#define COORDGEN_ENGINE_WEIGHTS_ARRIVAL_H

#include "backends/backend.h"
#include "engine/weight_stream.h"

typedef struct WeightsArrival WeightsArrival; /* one thread, the one that owns the pool */

/* For matrices that lie in this order in the file; [n], copied. Reads begin at once. 0, BACKEND_E_*, -errno. */
int weights_arrival_new(WeightsArrival **arrivalp, Backend *backend, const WeightStreamOptions *options,
                        const StreamMatrix *matrices, size_t n, ErrText *err);
WeightsArrival *weights_arrival_free(WeightsArrival *arrival);
DEFINE_CLEANUP(WeightsArrival, weights_arrival_free)

/* The next matrix has got its place. Scales, widths, bias and name of the source are copied: the file's map is not read
 * again for them. 0 or -ENOMEM. */
int weights_arrival_place(WeightsArrival *arrival, uint32_t stage, BackendLinear *linear, const LinearSource *source);
/* The stage of the first matrix that is not there; UINT32_MAX: all are. Every one must have been placed. */
uint32_t weights_arrival_stage(const WeightsArrival *arrival);
/* Of all weights those whose matrix is whole, in thousandths. */
uint32_t weights_arrival_permille(const WeightsArrival *arrival);
/* Takes in the next few MiB. 0, BACKEND_E_WEIGHTS (the file was cut short, values that the device does not take),
 * BACKEND_E_MEMORY, -errno. After an error every later call answers it again, with its text. */
int weights_arrival_advance(WeightsArrival *arrival, ErrText *err);
const WeightStream *weights_arrival_stream(const WeightsArrival *arrival);

#endif
