// SPDX-License-Identifier: Apache-2.0
/* Times of a step by its rows, where only some row counts were measured. Times never fall as rows rise. Reads no
 * clock. */
#ifndef COORDGEN_SPEC_ROW_TIMES_H
#define COORDGEN_SPEC_ROW_TIMES_H

#include <stdint.h>

enum {
    ROW_TIMES_MAX = 128,   /* most rows of a step whose time is known */
    ROW_TIMES_AVERAGED = 8 /* most measurements that count in an average */
};

/* Embedded; all zero: nothing is measured yet. */
typedef struct RowTimes {
    float seen_ms[ROW_TIMES_MAX];   /* [i]: average time of steps with i + 1 rows */
    uint32_t n_seen[ROW_TIMES_MAX]; /* 0: not measured */
    uint32_t n_steps;
    float ms[ROW_TIMES_MAX]; /* [i]: time of i + 1 rows, never falling; 0 until steps are measured */
} RowTimes;

/* Fills ms f32[n] (n at most ROW_TIMES_MAX) from averages and their numbers of measurements (0: none) by rows; at least
 * one is measured. row_ms: the most that a further unmeasured row takes; 0: not known. */
void row_times_fill(const float *seen_ms, const uint32_t *n_seen, uint32_t n, float row_ms, float *ms);
/* Adds a step of `rows` (at least 1) rows that took ms. */
void row_times_measure(RowTimes *times, uint32_t rows, float ms);
/* Returns the time of `rows` rows; 0: not known yet. */
float row_times_ms(const RowTimes *times, uint32_t rows);

#endif
