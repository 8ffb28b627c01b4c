// SPDX-License-Identifier: Apache-2.0
/* One operator of a layer on rows: what the forward pass of a request (forward.c) and the walk of calibration rows
 * (layer_walk.c) share. It knows no device and no sequence. */
#ifndef COORDGEN_ENGINE_LAYER_OPS_H
#define COORDGEN_ENGINE_LAYER_OPS_H

#include "backends/backend.h"
#include "engine/step/layer_graph.h"
#include "engine/step/rope_rows.h"
#include "model/hparams/hparams.h"

/* Rows of one or more sequences in one layer: only attention tells them apart. */
typedef struct LayerRows {
    const Hparams *hparams;
    Backend *backend;
    uint32_t layer;
    size_t rows;
    float *slots[_SLOT_N]; /* f32[rows][dim of the slot] */
    const RopeRows *rope;  /* of the kind the layer uses, for the positions of these rows */
    const Batch *batch;    /* the step's; these rows are [first, first + rows) of it */
    size_t first;
    size_t k_offset_bytes, v_offset_bytes; /* of the layer, in every block of a cache */
    void (*stored)(void *arg); /* called when OP_ATTENTION has written the rows' keys and values; NULL: nobody waits */
    void *stored_arg;
} LayerRows;

/* Keys and values of a layer in blocks that have those of all layers, key and value planes by turns. */
static inline void layer_rows_at(LayerRows *rows, uint32_t layer, size_t plane_bytes) {
    rows->layer = layer;
    rows->k_offset_bytes = 2 * (size_t)layer * plane_bytes;
    rows->v_offset_bytes = (2 * (size_t)layer + 1) * plane_bytes;
}

size_t layer_slot_width(const Hparams *hparams, Slot slot);
/* The architecture's norm of rows of n by the weights of a role, and where it has one its bias; vectors by role. */
void layer_norm_rows(Backend *backend, const Hparams *hparams, float *const *vectors, TensorRole role, const float *x,
                     size_t rows, size_t n, float *y);
/* vectors and linears by role, of the operator's layer. 0, or what the device's `linear` gives. */
int layer_run_op(const LayerRows *rows, const ArchOp *op, BackendLinear *const *linears, float *const *vectors,
                 ErrText *err);
int layer_run_node(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, float *const *vectors,
                   ErrText *err);

/* A node that is nothing but products, all of them the device's queue's: they begin in one of its slots, and end with
 * linear_end(); or they are the processors', as linear_here(). As layer_run_node() otherwise. */
bool layer_node_is_queued(const Backend *backend, const LayerNode *node, BackendLinear *const *linears);
void layer_submit_node(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, size_t slot);
int layer_run_node_here(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, BackendTime *time,
                        ErrText *err);

#endif
