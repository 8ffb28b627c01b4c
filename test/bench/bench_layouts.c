// SPDX-License-Identifier: Apache-2.0
/* Compares weight layouts: bytes per weight, exact instructions per weight, time, and the speed of a one-row product
 * relative to memory.
 *
 * build/bin/bench-layouts [--json | --csv] [--isa NAME] [--rounds N] [--mbytes N] [--no-count]
 *
 * Every round reads a window of memory and runs the int8 tiles over a window. Then each kernel of the layout runs
 * over windows of its own. Windows continue where the last one ended, in an arena larger than any cache. Ratios
 * belong to one round; printed figures are medians over the rounds. Other work on the machine thus affects the
 * times, but hardly the ratios. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "test/bench/instruction_count.h"
#include "test/bench/layout.h"
#include "test/bench/layout_report.h"
#include "tools/bench/machine.h"

enum {
    ROUNDS_MAX = 101,
    RESULTS_MAX = 256,
    WINDOW_BYTES = 4 << 20,
    UNIFORM_CHANNELS = 16, /* enough to count, for every 16 channels take the same instructions */
};

typedef struct Options {
    bool json, csv, no_count;
    Isa isa; /* ISA_BEST: all */
    int rounds;
    size_t arena_bytes;
} Options;

/* --- counting ----------------------------------------------------------------------------------------------------- */

typedef struct CountCall {
    const Layout *layout;
    LayoutKernels kernels;
    size_t n_channels;
} CountCall;

static void count_product(const void *argument) {
    const CountCall *call = argument;
    float y[LAYOUT_N];

    layout_product(call->layout, &call->kernels, 0, call->n_channels, y);
}

static void count_expand(const void *argument) {
    const CountCall *call = argument;

    layout_expand(call->layout, &call->kernels, 0, call->n_channels);
}

/* Fills in the counted fields; prints once why they cannot be counted. */
static int count(LayoutResult *result, const Layout *layout) {
    const CountCall call = { layout, result->kernels, layout_is_uniform(layout) ? UNIFORM_CHANNELS : LAYOUT_N };
    const double n_weights = (double)call.n_channels * LAYOUT_K;
    InstructionCount counted;
    int r = instruction_count(count_product, &call, &counted);

    if (r)
        return r;
    result->product_all = (double)counted.all / n_weights;
    if (!result->kernels.expand_name)
        return 0;
    r = instruction_count(count_expand, &call, &counted);
    if (r)
        return r;
    result->expand_all = (double)counted.all / n_weights;
    result->expand_vector = (double)counted.vector / n_weights;
    return 0;
}

/* --- times -------------------------------------------------------------------------------------------------------- */

/* A position in an arena that wraps round. */
typedef struct Window {
    Layout *layout;
    size_t next, n_matrices;
} Window;

static Window window_of(Layout *layout) {
    size_t n = WINDOW_BYTES / layout_matrix_bytes(layout);

    return (Window){ layout, 0, n < 1 ? 1 : MIN(n, layout_n_matrices(layout)) };
}

typedef void WindowCall(const Layout *layout, const LayoutKernels *kernels, size_t matrix);

static void product_call(const Layout *layout, const LayoutKernels *kernels, size_t matrix) {
    float y[LAYOUT_N];

    layout_product(layout, kernels, matrix, LAYOUT_N, y);
}

static void expand_call(const Layout *layout, const LayoutKernels *kernels, size_t matrix) {
    layout_expand(layout, kernels, matrix, LAYOUT_N);
}

/* Returns the ns a weight over the next matrices of the window. */
static double window_ns(Window *window, const LayoutKernels *kernels, WindowCall *call) {
    uint64_t start;

    if (window->next + window->n_matrices > layout_n_matrices(window->layout))
        window->next = 0;
    start = machine_ns();
    for (size_t m = 0; m < window->n_matrices; m++)
        call(window->layout, kernels, window->next + m);
    start = machine_ns() - start;
    window->next += window->n_matrices;
    return (double)start / ((double)window->n_matrices * LAYOUT_N * LAYOUT_K);
}

typedef struct Samples {
    double expand_ns[ROUNDS_MAX], product_ns[ROUNDS_MAX], gb_s[ROUNDS_MAX], of_read[ROUNDS_MAX], of_tiles[ROUNDS_MAX];
} Samples;

/* Measures results[n_results] of one layout, whose kernels are set; read_gb_s[rounds] gets the speeds of reading. */
static void measure(const Options *options, Layout *layout, LayoutResult *results, size_t n_results, Layout *tiles,
                    const uint8_t *tiles_arena, double *read_gb_s) {
    const LayoutKernels tiles_kernels = layout_kernels(tiles, cpu_features());
    const double bytes = (double)layout_matrix_bytes(layout) / (LAYOUT_N * LAYOUT_K);
    _cleanup_(freep) Samples *samples = machine_alloc(n_results * sizeof(*samples));
    Window window = window_of(layout), beside = window_of(tiles);
    size_t read_at = options->arena_bytes / 2; /* far from the tiles that are read */

    for (int round = -1; round < options->rounds; round++) { /* round -1 warms up */
        double read, tiles_ns;
        const size_t i = round < 0 ? 0 : (size_t)round;

        if (read_at + WINDOW_BYTES > options->arena_bytes)
            read_at = 0;
        read = (double)WINDOW_BYTES / (double)machine_read(tiles_arena + read_at, WINDOW_BYTES);
        read_at += WINDOW_BYTES;
        tiles_ns = window_ns(&beside, &tiles_kernels, product_call);
        read_gb_s[i] = read;
        for (size_t k = 0; k < n_results; k++) {
            const double ns = window_ns(&window, &results[k].kernels, product_call);

            samples[k].product_ns[i] = ns;
            samples[k].gb_s[i] = bytes / ns;
            samples[k].of_read[i] = bytes / ns / read;
            samples[k].of_tiles[i] = tiles_ns / ns;
            if (results[k].kernels.expand_name)
                samples[k].expand_ns[i] = window_ns(&window, &results[k].kernels, expand_call);
        }
    }
    for (size_t k = 0; k < n_results; k++) {
        const size_t n = (size_t)options->rounds;

        results[k].product_ns = machine_median(samples[k].product_ns, n);
        results[k].product_gb_s = machine_median(samples[k].gb_s, n);
        results[k].of_read = machine_median(samples[k].of_read, n);
        results[k].of_tiles = machine_median(samples[k].of_tiles, n);
        if (results[k].kernels.expand_name)
            results[k].expand_ns = machine_median(samples[k].expand_ns, n);
    }
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* Returns the register bits by the suffix of the kernel's name; portable C is compiled for the architecture's basic
 * vectors. */
static unsigned int register_bits_of(const char *kernel) {
    return !kernel                                                 ? 0
           : strstr(kernel, "__avx512") || strstr(kernel, "__amx") ? 512
           : strstr(kernel, "__avx2")                              ? 256
                                                                   : 128;
}

/* Lists a result for each set of kernels that the machine's instruction sets select, best first. Portable C, the
 * reference, is listed only alone or if it is asked for. */
static size_t list_kernels(const Options *options, const Layout *layout, const LayoutSpec *spec,
                           LayoutResult *results) {
    size_t n = 0;

    for (int level = _ISA_N - 1; level >= 0; level--) {
        const Isa isa = (Isa)level;
        LayoutKernels kernels;

        if (!isa_present(isa) || (options->isa != ISA_BEST && options->isa != isa))
            continue;
        if (isa == ISA_SCALAR && n && options->isa == ISA_BEST)
            continue;
        kernels = layout_kernels(layout, isa_features(isa));
        /* A level that adds no kernels to the one below has that one's name. */
        if (n && kernels.product == results[n - 1].kernels.product && kernels.expand == results[n - 1].kernels.expand)
            n--;
        results[n++] = (LayoutResult){
            .spec = spec,
            .isa = isa,
            .register_bits = register_bits_of(kernels.expand_name),
            .kernels = kernels,
            .stored_bytes = layout_stored_bytes(layout),
            .expand_all = NAN,
            .expand_vector = NAN,
            .edgeflow_steps = NAN,
            .product_all = NAN,
            .product_added = NAN,
            .expand_ns = NAN,
        };
        if (!strncmp(spec->name, "packed", strlen("packed"))) {
            double steps = 0;

            for (size_t i = 0; i < 5; i++)
                steps += layout_edgeflow_steps(spec->widths[i], results[n - 1].register_bits) / 5;
            results[n - 1].edgeflow_steps = steps;
        }
    }
    return n;
}

static void add_to_tiles(LayoutResult *results, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < n && !strcmp(results[t].spec->name, "int8 tiles"); t++)
            if (results[t].isa == results[i].isa)
                results[i].product_added = results[i].product_all - results[t].product_all;
}

static int run(const Options *options) {
    _cleanup_(freep) uint8_t *arena = machine_alloc(options->arena_bytes);
    _cleanup_(freep) uint8_t *tiles_arena = machine_alloc(options->arena_bytes);
    _cleanup_(freep) LayoutResult *results = machine_alloc(RESULTS_MAX * sizeof(*results));
    _cleanup_(freep) double *read_gb_s = machine_alloc(layout_n_specs() * (size_t)options->rounds * sizeof(*read_gb_s));
    LayoutReport report = { .arena_bytes = options->arena_bytes, .rounds = options->rounds, .results = results };
    Layout *tiles = layout_new(layout_spec_at(0), tiles_arena, options->arena_bytes);
    const time_t now = time(NULL);
    struct tm utc;
    int r = 0;

    machine_name(report.machine, sizeof(report.machine));
    strftime(report.date, sizeof(report.date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (options->no_count)
        report.not_counted = "--no-count";
    for (size_t s = 0; s < layout_n_specs(); s++) {
        const LayoutSpec *spec = layout_spec_at(s);
        Layout *layout = layout_new(spec, arena, options->arena_bytes);
        LayoutResult *first = results + report.n_results;
        const size_t n = list_kernels(options, layout, spec, first);

        fprintf(stderr, "%s, %s\n", spec->name, spec->variant);
        for (size_t i = 0; i < n && !report.not_counted; i++) {
            r = count(&first[i], layout);
            if (r)
                report.not_counted = r == -ENOSYS ? "no single steps on this system" : strerror(-r);
        }
        measure(options, layout, first, n, tiles, tiles_arena, read_gb_s + s * (size_t)options->rounds);
        report.n_results += n;
        layout_free(layout);
    }
    layout_free(tiles);
    add_to_tiles(results, report.n_results);
    report.read_gb_s = machine_median(read_gb_s, layout_n_specs() * (size_t)options->rounds);
    if (options->json)
        return layout_report_json(&report);
    (options->csv ? layout_report_csv : layout_report_table)(&report);
    return 0;
}

static int usage(FILE *to, int code) {
    fprintf(to, "usage: bench-layouts [--json | --csv] [--isa NAME] [--rounds 1..%d] [--mbytes 8..4096] [--no-count]\n",
            ROUNDS_MAX);
    return code;
}

int main(int argc, char **argv) {
    static const struct option long_options[] = {
        { "json", no_argument, NULL, 'j' },         { "csv", no_argument, NULL, 'c' },
        { "isa", required_argument, NULL, 'i' },    { "rounds", required_argument, NULL, 'r' },
        { "mbytes", required_argument, NULL, 'm' }, { "no-count", no_argument, NULL, 'n' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };
    Options options = { .isa = ISA_BEST, .rounds = 15 };
    const size_t cache = machine_cache_bytes();
    uint32_t features;
    ErrText err;
    int option;
    long value;

    /* Twice the last-level cache, so that a repeated window is read from memory. */
    options.arena_bytes = MAX((size_t)96 << 20, 2 * cache);
    if (options.arena_bytes > (size_t)512 << 20)
        options.arena_bytes = (size_t)512 << 20;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case 'j':
            options.json = true;
            break;
        case 'c':
            options.csv = true;
            break;
        case 'n':
            options.no_count = true;
            break;
        case 'i':
            if (isa_parse(optarg, &options.isa, &err) || isa_select(options.isa, &features, &err)) {
                fprintf(stderr, "bench-layouts: %s\n", err.text);
                return 2;
            }
            break;
        case 'r':
        case 'm':
            value = machine_number(optarg, option == 'r' ? 1 : 8, option == 'r' ? ROUNDS_MAX : 4096);
            if (value < 0)
                return usage(stderr, 2);
            if (option == 'r')
                options.rounds = (int)value;
            else
                options.arena_bytes = (size_t)value << 20;
            break;
        case 'h':
            return usage(stdout, 0);
        default:
            return usage(stderr, 2);
        }
    }
    if (optind < argc)
        return usage(stderr, 2);
    return run(&options) ? 1 : 0;
}
