// SPDX-License-Identifier: Apache-2.0
/* Runs one operator of a layer on rows, for the forward pass (forward.c) and for the walk of calibration rows
 * (layer_walk.c). This module knows no device and no sequence. */
#ifndef COORDGEN_ENGINE_LAYER_OPS_H
#define COORDGEN_ENGINE_LAYER_OPS_H

#include "backends/backend.h"
#include "engine/step/layer_graph.h"
#include "engine/step/rope_rows.h"
#include "model/hparams/hparams.h"

/* Rows of a batch in one layer; only attention distinguishes sequences. */
typedef struct LayerRows {
    const Hparams *hparams;
    Backend *backend;
    const Batch *batch;
    BatchRange rows;
    uint32_t layer;
    KvLayer kv;                /* the layer's place in the sequences' caches */
    const float *balance;      /* AttentionCall.balance of the layer, or NULL */
    float *const *slots;       /* [_SLOT_N] f32[rows of the batch][dim of the slot] */
    const RopeRows *rope;      /* the rotary tables that the layer uses, for all rows of the batch */
    BackendJointTime *joint;   /* attention runs together with the device's queue, and this gets its time; NULL: not */
    void (*stored)(void *arg); /* called when OP_ATTENTION has written the rows' keys and values; may be NULL */
    void *stored_arg;
} LayerRows;

/* Returns the next piece of a block, aligned to 64 bytes, and moves *at_bytesp behind it; block NULL: only moves it. */
void *layer_carve(uint8_t *block, size_t *at_bytesp, size_t len_bytes);
/* Returns what a device reserves for so many rows of a model. */
BackendShape layer_backend_shape(const Hparams *hparams, size_t rows);
size_t layer_slot_width(const Hparams *hparams, Slot slot);
/* Normalises rows of n by the architecture's norm, with the weights of a role and their bias if there is one; vectors
 * by role. */
void layer_norm_rows(Backend *backend, const Hparams *hparams, float *const *vectors, TensorRole role, const float *x,
                     size_t rows, size_t n, float *y);
/* Runs an operator. vectors and linears: of its layer, by role. Return: 0, or as the device's `linear`. */
int layer_run_op(const LayerRows *rows, const ArchOp *op, BackendLinear *const *linears, float *const *vectors,
                 ErrText *err);
/* Runs the operators of a node as one, as layer_run_op(). */
int layer_run_node(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, float *const *vectors,
                   ErrText *err);

/* Returns whether a node consists of products that the device's queue can run. */
bool layer_node_is_queued(const Backend *backend, const LayerNode *node, BackendLinear *const *linears);
/* Begins the products of such a node in a slot of the queue, to be ended by linear_end(). */
void layer_submit_node(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, size_t slot);
/* Runs the products of such a node on the processors, as linear_here(). */
int layer_run_node_here(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, BackendTime *time,
                        ErrText *err);

#endif
