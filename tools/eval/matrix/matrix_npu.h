// SPDX-License-Identifier: Apache-2.0
/* The matrix's cells on the npu device: how graphs are switched and operators ordered, beside drafts and company. What
 * they give is what the cpu device gives on the same package of static activations. */
#ifndef COORDGEN_EVAL_MATRIX_NPU_H
#define COORDGEN_EVAL_MATRIX_NPU_H

#include "tools/eval/eval.h"

#define MATRIX_NPUS_N 10
#define MATRIX_NPU_CHUNK 1024 /* of several graphs, so that there is an order */

typedef struct MatrixNpu {
    const char *name; /* "sync, static" */
    GraphSwitchPolicy policy;
    OpOrder order;
    OpPlacementKind placement;
    const char *company;
    size_t way;   /* of drafting (tools/eval/matrix/matrix_way.h) */
    bool is_long; /* what others have apart */
} MatrixNpu;

extern const MatrixNpu matrix_npus[MATRIX_NPUS_N];

void matrix_npu_set(const MatrixNpu *npu, EvalModelOptions *options);
/* Whether there are any for a package. 0, or as package_open(). */
int matrix_npu_has_cells(const char *path, bool *hasp, ErrText *err);
/* The cell was what it is there for. 0, -EPROTO. */
int matrix_npu_check(const Engine *engine, ErrText *err);

#endif
