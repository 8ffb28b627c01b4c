// SPDX-License-Identifier: Apache-2.0
/* What the layout bench found, as a table for people, CSV or JSON. */
#ifndef COORDGEN_BENCH_LAYOUT_REPORT_H
#define COORDGEN_BENCH_LAYOUT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/system/cpu.h"
#include "test/bench/layout.h"

/* Instructions are a weight each, times nanoseconds a weight. */
typedef struct LayoutResult {
    const LayoutSpec *spec;
    Isa isa;                    /* the lowest level that selects these kernels */
    unsigned int register_bits; /* of the expansion */
    LayoutKernels kernels;
    double stored_bytes;   /* a weight, in a file */
    double expand_all;     /* instructions to int8 in a buffer; NAN: not counted, or nothing to expand */
    double expand_vector;  /* those on vector registers */
    double edgeflow_steps; /* EdgeFlow's steps at this register width, vector only; NAN: not its layout */
    double product_all;    /* instructions of a product of one row; NAN: not counted */
    double product_added;  /* more than the int8 tiles take on the same instruction set */
    double expand_ns;      /* NAN: nothing to expand */
    double product_ns;
    double product_gb_s; /* bytes of the layout that the product reads, a nanosecond */
    double of_read;      /* that beside reading memory in the same round */
    double of_tiles;     /* weights a second beside the int8 tiles on the best instruction set, same round */
} LayoutResult;

typedef struct LayoutReport {
    char machine[192];
    char date[32]; /* UTC */
    size_t arena_bytes;
    int rounds;
    double read_gb_s;
    const char *not_counted; /* why, or NULL */
    const LayoutResult *results;
    size_t n_results;
} LayoutReport;

/* SIMD instructions a weight by EdgeFlow's figure 8 with registers of that many bits: (B + 8 (3 c + 1)) / R for B bits
 * in c components. Loads of B blocks a group of R weights; in each of its 8 stripes a mask and a shift a component, c -
 * 1 merges, the cast and the store. */
double layout_edgeflow_steps(int bits, unsigned int register_bits);

void layout_report_table(const LayoutReport *report);
void layout_report_csv(const LayoutReport *report);
/* 0, or -ENOMEM. */
int layout_report_json(const LayoutReport *report);

#endif
