// SPDX-License-Identifier: Apache-2.0
/* How a model is loaded: the values that a user chooses. The daemon's settings and the options of the laboratory's
 * programs embed them; files and memory of one load are in EngineOptions. */
#ifndef COORDGEN_ENGINE_LOAD_OPTIONS_H
#define COORDGEN_ENGINE_LOAD_OPTIONS_H

#include "base/system/cpu.h"
#include "engine/engine_device.h"
#include "scheduler/operators/op_placement.h"
#include "scheduler/operators/op_queues.h"
#include "weights/weights_options.h"

typedef struct LoadOptions {
    EngineDevice device;
    Isa isa;                      /* ISA_BEST, or the level to stay within (cpu device) */
    uint32_t threads;             /* of the pool, which the engine's owner makes; 0: load_options_threads() chooses */
    uint32_t chunk_tokens;        /* rows of a prefill step, 1..ENGINE_CHUNK_MAX; 0: the device chooses */
    bool no_pipeline;             /* splits every operator of a step over all threads (engine/step/row_groups) */
    bool preemption;              /* reserves memory for a second step, while one has made way */
    OpOrder op_order;             /* for a device whose products have a queue: what goes first */
    OpPlacementKind op_placement; /* for a device whose products have a queue: who runs products */
    WeightsOptions weights;       /* of a package */
    /* For tests and benches: */
    uint32_t group_rows; /* rows of a group of the pipeline, at least; 0: the device chooses */
    size_t steal_beyond; /* with op_order in the order of positions: as OpQueuesSetup has it */
} LoadOptions;

/* Returns the number of threads for the pool of the engine, at least 1. By default there is one for every processor
 * that this process may use, less one that a device of static graphs needs for its queue. */
unsigned int load_options_threads(const LoadOptions *load);

#endif
