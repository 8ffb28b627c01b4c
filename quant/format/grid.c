// SPDX-License-Identifier: Apache-2.0
#include "quant/format/grid.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* The levels of each width: integers from -127 to 127, symmetric around 0, with the least mean squared error for a
 * normal distribution at their best standard deviation. Dynamic programming over the positive levels found them, for
 * standard deviations of 1000 / 59 to 1000 / 18 levels; test_grid repeats it. */
_Alignas(64) const int8_t grid_normal_levels[GRID_TABLE_BITS_MAX + 1][GRID_TABLE_CODES] = {
    [2] = {
        -63, -19, 19, 63,
    },
    [3] = {
        -80, -50, -28, -9, 9, 28, 50, 80,
    },
    [4] = {
        -105, -79, -62, -48, -36, -25, -15, -5, 5, 15, 25, 36, 48, 62, 79, 105,
    },
    [5] = {
        -96, -79, -68, -60, -53, -47, -41, -36, -31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26,
        31, 36, 41, 47, 53, 60, 68, 79, 96,
    },
    [6] = {
        -106, -92, -83, -76, -70, -65, -61, -57, -53, -50, -47, -44, -41, -38, -35, -33, -31, -29, -27, -25,
        -23, -21, -19, -17, -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
        27, 29, 31, 33, 35, 38, 41, 44, 47, 50, 53, 57, 61, 65, 70, 76, 83, 92, 106,
    },
    [7] = {
        -116, -103, -95, -89, -84, -80, -76, -73, -70, -67, -65, -63, -61, -59, -57, -55, -53, -51, -49, -47,
        -45, -43, -42, -41, -40, -39, -38, -37, -36, -35, -34, -33, -32, -31, -30, -29, -28, -27, -26, -25, -24,
        -23, -22, -21, -20, -19, -18, -17, -16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2,
        -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63,
        65, 67, 70, 73, 76, 80, 84, 89, 95, 103, 116,
    },
};

static float nearest_levels[GRID_TABLE_BITS_MAX + 1][GRID_NEAREST_CELLS];
static pthread_once_t nearest_once = PTHREAD_ONCE_INIT;

static void make_nearest(void) {
    for (int bits = GRID_TABLE_BITS_MIN; bits <= GRID_TABLE_BITS_MAX; bits++) {
        const int8_t *levels = grid_normal_levels[bits];
        int code = 1 << (bits - 1), last = (1 << bits) - 1;

        for (int cell = 0; cell < GRID_NEAREST_CELLS; cell++) {
            while (code < last && cell >= levels[code] + levels[code + 1])
                code++;
            nearest_levels[bits][cell] = levels[code];
        }
    }
}

const float *grid_nearest(Grid grid, int bits) {
    if (!grid_has_table(grid, bits))
        return NULL;
    pthread_once(&nearest_once, make_nearest);
    return nearest_levels[bits];
}

static const char *const names[_GRID_N] = {
    [GRID_UNIFORM] = "uniform",
    [GRID_NORMAL] = "normal",
};

const char *grid_name(Grid grid) {
    return (unsigned int)grid < _GRID_N ? names[grid] : "?";
}

int grid_named(Grid *gridp, const char *name) {
    for (unsigned int i = 0; i < _GRID_N; i++)
        if (!strcmp(names[i], name)) {
            *gridp = (Grid)i;
            return 0;
        }
    return -ENOENT;
}
