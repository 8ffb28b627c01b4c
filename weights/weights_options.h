// SPDX-License-Identifier: Apache-2.0
/* How the weights of a package are loaded: values that a user chooses, without files and memory of the load itself. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_OPTIONS_H
#define COORDGEN_WEIGHTS_WEIGHTS_OPTIONS_H

#include "base/files/read_limiter.h"
#include "weights/graphs/weights_graphs.h"
#include "weights/image/weights_image.h"
#include "weights/residency/weight_stream.h"
#include "weights/residency/weights_check.h"
#include "weights/residency/weights_memory.h"

/* All zero: every weight is in memory, nothing is compared, and an image is made if its path is given. */
typedef struct WeightsOptions {
    WeightsMemory memory;     /* how much is in memory; every step reads the rest from an image, layer by layer */
    WeightsChecking checking; /* which parts of a package are compared with its checksums */
    WeightsImageMode image;
    ReadLimit flash_limit; /* for layers that are not in memory, and graphs: reads as from a slower disk */
    GraphsOptions graphs;  /* for a device of static graphs */
    WeightReading reading; /* how a package is read; tests and benches choose */
    bool limits_all;       /* all reads of a package count towards flash_limit; benches choose */
} WeightsOptions;

#endif
