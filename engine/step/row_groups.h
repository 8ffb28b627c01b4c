// SPDX-License-Identifier: Apache-2.0
/* The pipeline of a prefill: a step's rows in groups that go through the layers each at its own pace. One thread
 * computes one operator of a group, and attention waits until the group before has stored its keys and values. Threads
 * therefore do not meet behind every operator. Private to the engine. */
#ifndef COORDGEN_ENGINE_ROW_GROUPS_H
#define COORDGEN_ENGINE_ROW_GROUPS_H

#include "engine/step/engine_step.h"
#include "engine/step/layer_ops.h"
#include "scheduler/op_queues.h"
#include "scheduler/row_cut.h"
#include "scheduler/wavefront.h"

/* A device for each thread of the engine's pool, with scratch for the rows of a group. */
typedef struct RowGroupDevices {
    WorkerPool *single; /* a pool of the calling thread alone */
    Backend **threads;  /* [n_threads] */
    size_t n_threads;   /* 0: all steps go through the layers as a whole */
    size_t group_rows;
} RowGroupDevices;

/* The groups of one step. */
typedef struct RowGroups {
    size_t n; /* 0: the step goes through the layers as a whole */
    RowGroup groups[WAVEFRONT_GROUPS_MAX];
    uint32_t first_layer;       /* where the groups begin */
    bool by_queues;             /* the device's products have a queue (engine/step/queue_groups) */
    Wavefront front;            /* how far the groups are, without queues */
    OpQueues queues;            /* how far the groups are, by_queues */
    OpQueueLayer *queue_layers; /* [WAVEFRONT_GROUPS_MAX][n_layers]; NULL: no step has more than one group of a graph */
} RowGroups;

/* Makes devices for steps of shape->rows, after the engine's own was reserved. There are none if the device, the pool,
 * the options, the memory or the number of rows allow no groups. 0, -ENOMEM. */
int row_groups_reserve(Engine *engine, const BackendShape *shape, ErrText *err);
void row_groups_release(Engine *engine);
/* Lets all devices, also the engine's own and those that are reserved later, attend to so many positions. As the
 * device's reserve_positions(). */
int row_groups_reserve_positions(Engine *engine, size_t n_positions, ErrText *err);
/* Cuts the rows of a step, whose batch is there, if that gives every thread a group: from its layer to `end`. */
void row_groups_cut(EngineStep *step, uint32_t end);
/* Whether all groups are at the end of their last layer. */
bool row_groups_have_ended(const RowGroups *groups);
/* Returns the rows of a group in a layer, on a device; *rope: their rotary values. */
LayerRows row_groups_rows(EngineStep *step, const RowGroup *group, uint32_t layer, Backend *backend, RopeRows *rope);
/* Runs the groups from where they are to the end of their last layer. Returns as engine_step_run(). */
int row_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err);

#endif
