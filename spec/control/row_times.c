// SPDX-License-Identifier: Apache-2.0
#include "spec/control/row_times.h"

#include <assert.h>

#include "base/min_max.h"

enum {
    WARM = 2 /* steps before any time is told: the first one reads what is not in memory yet */
};

static const float outlier = 1.5F;    /* times what was seen: a longer step had to wait for something else */
static const float row_share = 0.02F; /* of a step with one row, for a further row where nothing better is known */

/* Makes averages that never fall: where they do, neighbours share one (pool adjacent violators). Returns how many row
 * counts are measured; levels and rows of those by rising rows. */
static uint32_t isotonic(const float *seen_ms, const uint32_t *n_seen, uint32_t n_rows, float *levels, uint32_t *rows) {
    float pools[ROW_TIMES_MAX], weights[ROW_TIMES_MAX];
    uint32_t pooled[ROW_TIMES_MAX], n_pools = 0, n = 0, at = 0;

    for (uint32_t i = 0; i < n_rows; i++) {
        if (!n_seen[i])
            continue;
        rows[n++] = i + 1;
        pools[n_pools] = seen_ms[i];
        weights[n_pools] = (float)n_seen[i];
        pooled[n_pools++] = 1;
        for (; n_pools > 1 && pools[n_pools - 2] > pools[n_pools - 1]; n_pools--) {
            float sum = weights[n_pools - 2] + weights[n_pools - 1];

            pools[n_pools - 2] =
                (pools[n_pools - 2] * weights[n_pools - 2] + pools[n_pools - 1] * weights[n_pools - 1]) / sum;
            weights[n_pools - 2] = sum;
            pooled[n_pools - 2] += pooled[n_pools - 1];
        }
    }
    for (uint32_t pool = 0; pool < n_pools; pool++)
        for (uint32_t i = 0; i < pooled[pool]; i++)
            levels[at++] = pools[pool];
    return n;
}

/**
 * row_times_fill() - fill the times of all row counts from the measured ones
 *
 * Between measured row counts times lie on a line, and below the first they equal its time. Above the last they rise by
 * the steeper of two slopes: that from the first to the last, and a guess that counts less the more is measured. Beside
 * reading weights from flash, rows cost next to nothing.
 */
void row_times_fill(const float *seen_ms, const uint32_t *n_seen, uint32_t n, float row_ms, float *ms) {
    float levels[ROW_TIMES_MAX], slope, guess;
    uint32_t rows[ROW_TIMES_MAX], n_levels, last;

    assert(n <= ROW_TIMES_MAX);
    n_levels = isotonic(seen_ms, n_seen, n, levels, rows);
    assert(n_levels);
    last = rows[n_levels - 1];
    for (uint32_t row = 1; row <= rows[0]; row++)
        ms[row - 1] = levels[0];
    for (uint32_t i = 1; i < n_levels; i++)
        for (uint32_t row = rows[i - 1] + 1; row <= rows[i]; row++)
            ms[row - 1] = row == rows[i] ? levels[i]
                                         : levels[i - 1] + (levels[i] - levels[i - 1]) * (float)(row - rows[i - 1]) /
                                                               (float)(rows[i] - rows[i - 1]);
    slope = n_levels > 1 ? (levels[n_levels - 1] - levels[0]) / (float)(last - rows[0]) : 0;
    guess = row_share * levels[0];
    guess = (row_ms > 0 && row_ms < guess ? row_ms : guess) / (float)(n_levels > 1 ? n_levels - 1 : 1);
    slope = MAX(slope, guess);
    for (uint32_t row = last + 1; row <= n; row++)
        ms[row - 1] = levels[n_levels - 1] + slope * (float)(row - last);
}

/**
 * row_times_measure() - add a step
 *
 * A step that took far longer than earlier ones of as many rows counts as half as long again as they did. If a single
 * earlier step took far longer than this one, the earlier one had to wait, and is forgotten.
 */
void row_times_measure(RowTimes *times, uint32_t rows, float ms) {
    const uint32_t i = MIN(rows, ROW_TIMES_MAX) - 1;

    assert(rows >= 1);
    if (!(ms > 0))
        return;
    times->n_steps++;
    if (times->n_seen[i] == 1 && times->seen_ms[i] > outlier * ms)
        times->n_seen[i] = 0;
    if (times->n_seen[i] && ms > outlier * times->seen_ms[i])
        ms = outlier * times->seen_ms[i];
    if (times->n_seen[i] < ROW_TIMES_AVERAGED)
        times->n_seen[i]++;
    times->seen_ms[i] += (ms - times->seen_ms[i]) / (float)times->n_seen[i];
    if (times->n_steps >= WARM)
        row_times_fill(times->seen_ms, times->n_seen, ROW_TIMES_MAX, 0, times->ms);
}

float row_times_ms(const RowTimes *times, uint32_t rows) {
    return rows ? times->ms[MIN(rows, ROW_TIMES_MAX) - 1] : 0;
}
