// SPDX-License-Identifier: Apache-2.0
/* The pipeline of a prefill: a step's rows in groups that go through the layers each at its own pace. A thread computes
 * one operator of a group alone, and attention waits until the group before has stored its keys and values: so threads
 * do not meet behind every operator. Private to the engine. */
#ifndef COORDGEN_ENGINE_ROW_GROUPS_H
#define COORDGEN_ENGINE_ROW_GROUPS_H

#include "engine/step/engine_step.h"
#include "engine/step/layer_ops.h"
#include "scheduler/op_queues.h"
#include "scheduler/wavefront.h"

/* Longer steps have larger groups. */
#define ROW_GROUPS_WANTED 32

/* A device for each thread of the engine's pool, with scratch for the rows of a group. */
typedef struct RowGroupDevices {
    WorkerPool *single; /* one thread: the one that is there */
    Backend **threads;  /* [n_threads] */
    size_t n_threads;   /* 0: all steps go through the layers as a whole */
    size_t group_rows;
} RowGroupDevices;

typedef struct RowGroup {
    size_t first, rows; /* of the step's batch */
    bool continues;     /* the sequence that the group before ends with */
} RowGroup;

/* Those of one step. */
typedef struct RowGroups {
    size_t n; /* 0: the step goes through the layers as a whole */
    RowGroup groups[WAVEFRONT_GROUPS_MAX];
    uint32_t first_layer;       /* where they begin */
    bool by_queues;             /* the device's products have a queue (engine/step/queue_groups) */
    Wavefront front;            /* where they are */
    OpQueues queues;            /* or here */
    OpQueueLayer *queue_layers; /* [WAVEFRONT_GROUPS_MAX][n_layers], with room for more than one group of a graph */
} RowGroups;

/* Devices for steps of shape->rows, after the engine's own was reserved; none where the device, the pool, the options,
 * the memory or so few rows allow no groups. 0, -ENOMEM. */
int row_groups_reserve(Engine *engine, const BackendShape *shape, ErrText *err);
void row_groups_release(Engine *engine);
/* All devices, the engine's own too, can attend to so many positions from now on, and so can those that are reserved
 * later. As the device's reserve_positions(). */
int row_groups_reserve_positions(Engine *engine, size_t n_positions, ErrText *err);
/* Cuts the rows of a step, whose batch is there, when that gives every thread a group: from its layer to `end`. */
void row_groups_cut(EngineStep *step, uint32_t end);
/* Whether all are at the end of their last layer. */
bool row_groups_have_ended(const RowGroups *groups);
/* The rows of a group in a layer, on a device, and how they are turned. */
LayerRows row_groups_rows(EngineStep *step, const RowGroup *group, uint32_t layer, Backend *backend, RopeRows *rope);
/* From where the groups are to the end of their last layer: as the part of engine_step_run() that it is. */
int row_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err);

#endif
