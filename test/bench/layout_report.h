// SPDX-License-Identifier: Apache-2.0
/* Output of the layout bench's results as a table, CSV or JSON. */
#ifndef COORDGEN_BENCH_LAYOUT_REPORT_H
#define COORDGEN_BENCH_LAYOUT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/system/cpu.h"
#include "test/bench/layout.h"

/* Results of a layout with one set of kernels: instructions and nanoseconds are per weight. */
typedef struct LayoutResult {
    const LayoutSpec *spec;
    Isa isa;                    /* lowest level that selects these kernels */
    unsigned int register_bits; /* of the expansion */
    LayoutKernels kernels;
    double stored_bytes;   /* per weight, in a file */
    double expand_all;     /* instructions to expand to int8 in a buffer; NAN: not counted, or nothing to expand */
    double expand_vector;  /* instructions on vector registers */
    double edgeflow_steps; /* EdgeFlow's steps at this register width, vector only; NAN: not its layout */
    double product_all;    /* instructions of a product of one row; NAN: not counted */
    double product_added;  /* instructions beyond those of the int8 tiles on the same instruction set */
    double expand_ns;      /* NAN: nothing to expand */
    double product_ns;
    double product_gb_s; /* bytes of the layout that the product reads per nanosecond */
    double of_read;      /* relative to reading memory in the same round */
    double of_tiles;     /* weights per second relative to the int8 tiles on the best instruction set, same round */
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

/* Returns the SIMD instructions per weight by EdgeFlow's figure 8 with registers of R bits: (B + 8 (3 c + 1)) / R for B
 * bits in c components. A group of R weights takes B loads of blocks. Each of its 8 stripes takes a mask and a shift
 * per component, c - 1 merges, the cast and the store. */
double layout_edgeflow_steps(int bits, unsigned int register_bits);

void layout_report_table(const LayoutReport *report);
void layout_report_csv(const LayoutReport *report);
/* Writes the report. Returns 0 or -ENOMEM. */
int layout_report_json(const LayoutReport *report);

#endif
