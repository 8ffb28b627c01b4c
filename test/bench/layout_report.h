// SPDX-License-Identifier: Apache-2.0
/* Writes the layout bench's results as a table, CSV or JSON. */
#ifndef COORDGEN_BENCH_LAYOUT_REPORT_H
#define COORDGEN_BENCH_LAYOUT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/system/cpu.h"
#include "test/bench/layout.h"

/* Instructions and times (ns) are for one weight. */
typedef struct LayoutResult {
    const LayoutSpec *spec;
    Isa isa;                    /* lowest level that selects these kernels */
    unsigned int register_bits; /* register width of the expansion */
    LayoutKernels kernels;
    double stored_bytes;   /* a weight, in a file */
    double expand_all;     /* instructions to int8 in a buffer; NAN: not counted, or nothing to expand */
    double expand_vector;  /* expand_all's instructions on vector registers */
    double edgeflow_steps; /* EdgeFlow's steps at this register width, vector only; NAN: not its layout */
    double product_all;    /* instructions of a product of one row; NAN: not counted */
    double product_added;  /* instructions beyond those of the int8 tiles on the same instruction set */
    double expand_ns;      /* NAN: nothing to expand */
    double product_ns;
    double product_gb_s; /* bytes of the layout read by the product in a ns */
    double of_read;      /* product_gb_s over the speed of reading memory in the same round */
    double of_tiles; /* weights a second over those of the int8 tiles on the best instruction set in the same round */
} LayoutResult;

typedef struct LayoutReport {
    char machine[192];
    char date[32]; /* UTC */
    size_t arena_bytes;
    int rounds;
    double read_gb_s;
    const char *not_counted; /* reason, or NULL */
    const LayoutResult *results;
    size_t n_results;
} LayoutReport;

/* Returns SIMD instructions a weight by EdgeFlow's figure 8 for registers of that many bits: (B + 8 (3 c + 1)) / R for
 * B bits in c components. A group of R weights loads B blocks. Each of its 8 stripes takes a mask and a shift for each
 * component, c - 1 merges, the cast and the store. */
double layout_edgeflow_steps(int bits, unsigned int register_bits);

void layout_report_table(const LayoutReport *report);
void layout_report_csv(const LayoutReport *report);
/* Prints JSON. Return: 0 or -ENOMEM. */
int layout_report_json(const LayoutReport *report);

#endif
