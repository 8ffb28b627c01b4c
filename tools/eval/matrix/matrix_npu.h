// SPDX-License-Identifier: Apache-2.0
/* Cells of the matrix on the npu device: graph switching and orders of operators, with drafts and company. Their
 * results equal the cpu device's on the same package of static activations. */
#ifndef COORDGEN_EVAL_MATRIX_NPU_H
#define COORDGEN_EVAL_MATRIX_NPU_H

#include "tools/eval/eval.h"

#define MATRIX_NPUS_N 11
#define MATRIX_NPU_CHUNK 1024 /* tokens of several graphs, so that there is an order */

typedef struct MatrixNpu {
    const char *name; /* "sync, static" */
    GraphSwitchPolicy policy;
    OpOrder order;
    OpPlacementKind placement;
    const char *company;
    size_t way;   /* way of drafting (tools/eval/matrix/matrix_way.h) */
    bool is_long; /* with --full only */
} MatrixNpu;

extern const MatrixNpu matrix_npus[MATRIX_NPUS_N];

void matrix_npu_set(const MatrixNpu *npu, EvalModelOptions *options);
/* Tells whether the package has such cells. Return: 0, or as package_open(). */
int matrix_npu_has_cells(const char *path, bool *hasp, ErrText *err);
/* Checks that the cell tested an order of operators, and the placement of attention. Return: 0, or -EPROTO with a
 * text. */
int matrix_npu_check(const MatrixNpu *npu, const Engine *engine, ErrText *err);

#endif
