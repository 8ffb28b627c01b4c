// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/matrix/matrix_npu.h"

#include <errno.h>

#include "model/package/package.h"
#include "tools/eval/matrix/matrix_way.h"

/* The short cells have each policy, order and placement once, with a tree or a chain. Unit tests have more combinations
 * on small models. */
const MatrixNpu matrix_npus[] = {
    { "progressive, out-of-order", GRAPH_SWITCH_PROGRESSIVE, OP_ORDER_OUT_OF_ORDER, OP_PLACEMENT_PROFILE, "alone",
      WAY_TREE, false },
    { "none, position", GRAPH_SWITCH_NONE, OP_ORDER_POSITION, OP_PLACEMENT_NPU, "alone", WAY_CHAIN, false },
    { "sync, static", GRAPH_SWITCH_SYNC, OP_ORDER_STATIC, OP_PLACEMENT_ALL, "sharing steps", WAY_TREE, false },
    { "async, in-order", GRAPH_SWITCH_ASYNC, OP_ORDER_IN_ORDER, OP_PLACEMENT_PROFILE, "prefix reuse", WAY_CHAIN,
      false },
    { "progressive, position", GRAPH_SWITCH_PROGRESSIVE, OP_ORDER_POSITION, OP_PLACEMENT_PROFILE, "sharing steps",
      WAY_CHAIN, true },
    { "progressive, static", GRAPH_SWITCH_PROGRESSIVE, OP_ORDER_STATIC, OP_PLACEMENT_NPU, "making way", WAY_TREE,
      true },
    { "sync, out-of-order", GRAPH_SWITCH_SYNC, OP_ORDER_OUT_OF_ORDER, OP_PLACEMENT_NPU, "between others", WAY_TREE,
      true },
    { "async, position", GRAPH_SWITCH_ASYNC, OP_ORDER_POSITION, OP_PLACEMENT_PROFILE, "fork", WAY_TREE, true },
    { "progressive, position, with attention", GRAPH_SWITCH_PROGRESSIVE, OP_ORDER_POSITION, OP_PLACEMENT_ALL,
      "prefix reuse", WAY_TREE, true },
    { "none, out-of-order", GRAPH_SWITCH_NONE, OP_ORDER_OUT_OF_ORDER, OP_PLACEMENT_PROFILE, "prefix reuse", WAY_PLAIN,
      true },
    { "progressive, out-of-order", GRAPH_SWITCH_PROGRESSIVE, OP_ORDER_OUT_OF_ORDER, OP_PLACEMENT_PROFILE,
      "after cancelled", WAY_PRUNED, true },
};

void matrix_npu_set(const MatrixNpu *npu, EvalModelOptions *options) {
    options->engine.load.device = ENGINE_DEVICE_NPU;
    options->engine.load.weights.graphs.policy = npu->policy;
    options->engine.load.op_order = npu->order;
    options->engine.load.op_placement = npu->placement;
    options->engine.load.steal_beyond = OP_STEAL_MEASURED;
}

int matrix_npu_has_cells(const char *path, bool *hasp, ErrText *err) {
    _cleanup_(package_freep) Package *package = NULL;
    int r = package_open(&package, path, err);

    if (!r)
        *hasp = package_quant(package)->static_activations;
    return r;
}

int matrix_npu_check(const MatrixNpu *npu, const Engine *engine, ErrText *err) {
    const EngineQueueCounts counts = engine_queue_counts(engine);

    if (!counts.n_products)
        return err_set(err, -EPROTO, "no step had rows for several graphs");
    if (npu->placement == OP_PLACEMENT_ALL && !counts.n_joint)
        return err_set(err, -EPROTO, "the npu had no part in attention");
    return 0;
}
