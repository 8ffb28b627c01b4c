// SPDX-License-Identifier: Apache-2.0
/* Source of exp_row, compiled once for each instruction set; the including file defines EXP_ROW_NAME and
 * EXP_ROW_NEED. */
#ifndef COORDGEN_NUMERIC_EXP_ROW_IMPL_H
#define COORDGEN_NUMERIC_EXP_ROW_IMPL_H

#include "backends/numeric/exp_row.h"
#include "backends/numeric/lanes.h"
#include "base/system/cpu.h"

static void exp_row(const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(y + i, n - i, lanes_exp(lanes_load_n(x + i, n - i, 0)));
}

static void soft_cap_row(float *x, size_t n, float cap) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(x + i, n - i, lanes_soft_cap(lanes_load_n(x + i, n - i, 0), cap));
}

extern const ExpRow EXP_ROW_NAME;
#define NAME_TEXT_(name) #name
#define NAME_TEXT(name) NAME_TEXT_(name)
const ExpRow EXP_ROW_NAME = {
    .name = NAME_TEXT(EXP_ROW_NAME), .need = EXP_ROW_NEED, .exp = exp_row, .soft_cap = soft_cap_row
};

#endif
