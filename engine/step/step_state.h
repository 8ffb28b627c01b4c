// SPDX-License-Identifier: Apache-2.0
/* The fields of a step, and of what an engine has for its steps. Private to engine/. */
#ifndef COORDGEN_ENGINE_STEP_STATE_H
#define COORDGEN_ENGINE_STEP_STATE_H

#include "engine/kv/sequence_state.h"
#include "engine/load_options.h"
#include "engine/step/engine_step.h"
#include "engine/step/layer_ops.h"
#include "scheduler/operators/op_queues.h"
#include "scheduler/operators/queue_profile.h"
#include "scheduler/operators/wavefront.h"
#include "scheduler/requests/row_cut.h"

#define ENGINE_STEPS_MAX 2 /* one that has made way, and the one it made way for */

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

/* A step and the memory of its rows. */
struct EngineStep {
    Engine *engine;
    AccountedBlock memory; /* the slots, rotary rows and rows of the batch below */
    float *slots[_SLOT_N]; /* f32[chunk][dim of the slot] */
    RopeRows rope, rope_local;
    bool is_taken;     /* from begin to the step's end */
    EngineSpan *spans; /* [n_spans], the caller's; the sequences of the batch are theirs, in their order */
    size_t n_spans;
    Batch batch;       /* at most chunk_tokens rows, and behind them those of earlier steps */
    uint32_t *outputs; /* [rows of the batch]: rows that the head runs at */
    BatchSequence sequences[ENGINE_SPANS_MAX];
    uint32_t layer;    /* with node: the operator that runs next; n_layers: the head */
    size_t node;       /* of the layer's graph */
    bool has_rows;     /* the embeddings are computed */
    uint32_t n_looked; /* layers behind which spans have looked at their rows already */
    bool in_layers;    /* within a run of layers, up to run_end */
    uint32_t run_end;  /* end of the layers whose weights were there together */
    RowGroups groups;
};

/* What an engine has for its steps. */
typedef struct EngineSteps {
    LayerGraph layer; /* as the device runs it */
    uint32_t chunk_tokens;
    bool chunk_is_chosen; /* by the device */
    EngineStep step[ENGINE_STEPS_MAX];
    size_t n;         /* steps that there is memory for */
    LoadOptions load; /* as the engine was loaded; engine_set_op_order() changes the order */
    RowGroupDevices group_devices;
    QueueProfile queue_profile;
    EngineQueueCounts queue_counts;
    size_t n_positions;       /* positions that the devices can attend to */
    AccountedBlock head_rows; /* scratch of the head, from the first step on whose head runs at several rows */
} EngineSteps;

#endif
