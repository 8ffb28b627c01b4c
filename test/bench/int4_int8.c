// SPDX-License-Identifier: Apache-2.0
#include "test/bench/int4_int8.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/format/grid.h"

#define INT4_INT8_OPS(name) extern const Int4Int8Ops name;
#include "test/bench/int4_int8.inc"
#undef INT4_INT8_OPS

static const Int4Int8Ops *const builds[] = {
#define INT4_INT8_OPS(name) &name,
#include "test/bench/int4_int8.inc"
#undef INT4_INT8_OPS
};

const Int4Int8Ops *int4_int8_select(uint32_t cpu) {
    for (size_t i = 0; i + 1 < ARRAY_LEN(builds); i++)
        if (!(builds[i]->need & ~cpu))
            return builds[i];
    return builds[ARRAY_LEN(builds) - 1];
}

size_t int4_int8_n(void) {
    return ARRAY_LEN(builds);
}

const Int4Int8Ops *int4_int8_at(size_t index) {
    assert(index < ARRAY_LEN(builds));
    return builds[index];
}

static size_t padded(size_t k) {
    return (k + INT4_INT8_STEP - 1) / INT4_INT8_STEP * INT4_INT8_STEP;
}

void int4_int8_layout(const int8_t *bits, size_t n, size_t k, uint64_t *offsets) {
    offsets[0] = 0;
    for (size_t o = 0; o < n; o++)
        offsets[o + 1] = offsets[o] + (int4_int8_is_nibbles(bits[o]) ? padded(k) / 2 : padded(k));
}

void int4_int8_pack(const int8_t *q, const int8_t *bits, size_t n, size_t k, const uint64_t *offsets, uint8_t *rows,
                    int32_t *sums) {
    memset(rows, 0, offsets[n]);
    for (size_t o = 0; o < n; o++, q += k) {
        uint8_t *row = rows + offsets[o];

        sums[o] = 0;
        for (size_t i = 0; i < k; i++) {
            sums[o] += q[i];
            if (int4_int8_is_nibbles(bits[o]))
                row[i / 2] |= (uint8_t)(grid_code(GRID_UNIFORM, q[i], bits[o]) << i % 2 * 4);
            else
                row[i] = (uint8_t)q[i];
        }
    }
}
