// SPDX-License-Identifier: Apache-2.0
/* What a step takes by its rows, where only some row counts were measured: times that never fall as rows rise. It reads
 * no clock. */
#ifndef COORDGEN_SPEC_ROW_TIMES_H
#define COORDGEN_SPEC_ROW_TIMES_H

#include <stdint.h>

enum {
    ROW_TIMES_MAX = 128,   /* rows of a step whose time is known */
    ROW_TIMES_AVERAGED = 8 /* measurements that an average has the weight of, at most */
};

/* Embedded; all zero: nothing is measured yet. */
typedef struct RowTimes {
    float seen_ms[ROW_TIMES_MAX];   /* average of steps with i + 1 rows */
    uint32_t n_seen[ROW_TIMES_MAX]; /* 0: not measured */
    uint32_t n_steps;
    float ms[ROW_TIMES_MAX]; /* never falling; 0 until steps are measured */
} RowTimes;

/* ms f32[n], n at most ROW_TIMES_MAX, from averages of so many measurements (0: none) by rows, at least one of them.
 * row_ms: what a row more takes at most, where nobody has measured it; 0: not known. */
void row_times_fill(const float *seen_ms, const uint32_t *n_seen, uint32_t n, float row_ms, float *ms);
/* A step of so many rows, 1 or more, took ms. */
void row_times_measure(RowTimes *times, uint32_t rows, float ms);
/* 0: not known yet. */
float row_times_ms(const RowTimes *times, uint32_t rows);

#endif
