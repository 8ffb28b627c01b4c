// SPDX-License-Identifier: Apache-2.0
/* Measures the costs of an import's steps side by side: nanoseconds of one thread, medians of rounds.
 *
 * build/bin/bench-import [--json | --csv] [--rounds N] [--inputs K]
 *
 * Rows have K inputs, 1536 by default. Every step has input of its own, because its work on a row does not depend on
 * the results of other steps. Each line names its unit: weights; for the calibration's statistics, values of the
 * inputs or elements of a Hessian (K * K, however many channels share it). */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "base/system/worker_pool.h"
#include "quant/format/ggml_type.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/relative_error.h"
#include "quant/rotate.h"
#include "quant/rounding/blas.h"
#include "quant/rounding/compensate.h"
#include "quant/rounding/descent.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/round.h"
#include "quant/rounding/rounding_error.h"
#include "quant/rounding/scale_search.h"
#include "tools/bench/machine.h"

enum {
    N = 64,            /* channels */
    CALIBRATION = 256, /* rows of inputs */
    ROUNDS_MAX = 101,
};

typedef struct Options {
    bool json, csv;
    int rounds;
    size_t k;
} Options;

typedef struct Data {
    size_t k;
    uint8_t *source; /* [N][4 k]: blocks of any type, with all floats normal */
    float *w;        /* [N][k] */
    float *moving;   /* [N][k]: rotated again and again */
    float *inputs;   /* [CALIBRATION][k] */
    float *hessian;  /* [k][k] */
    HessianFactor factor;
    int8_t *q; /* [N][k]: levels of the width that is measured */
    int8_t bits[N];
    float scales[N];
    double peaks[N];
    PackPlan plan;
    uint8_t *packed; /* packed levels, with room for the widest */
    WorkerPool *pool;
    Grid grid; /* grid of the measured step */
    volatile double sink;
} Data;

typedef struct Step {
    const char *name, *unit;
    const char *variant;                       /* NULL: "B bits" from the argument */
    int argument;                              /* width, or GgmlType */
    void (*prepare)(Data *data, int argument); /* not timed; or NULL */
    void (*run)(Data *data, int argument);
    bool heavy; /* runs fewer rounds */
    Grid grid;
} Step;

/* --- the steps ---------------------------------------------------------------------------------------------------- */

static void run_dequantize(Data *data, int type) {
    uint32_t values, bytes;

    ggml_type_block((uint32_t)type, &values, &bytes);
    for (size_t o = 0; o < N; o++)
        ggml_dequantize((uint32_t)type, data->source + o * (data->k / values * bytes), data->w + o * data->k, data->k);
}

static void prepare_weights(Data *data, int argument);

static void run_rotate(Data *data, int argument) {
    for (size_t o = 0; o < N; o++)
        rotate_row(data->moving + o * data->k, data->k, rotate_block_size(data->k));
}

static void run_peak(Data *data, int argument) {
    for (size_t o = 0; o < N; o++)
        relative_error_peak(data->w + o * data->k, data->k, &data->peaks[o]);
}

static void run_largest(Data *data, int bits) {
    for (size_t o = 0; o < N; o++)
        scale_of_largest(data->w + o * data->k, data->k, data->grid, bits, &data->scales[o]);
}

static void run_search(Data *data, int bits) {
    for (size_t o = 0; o < N; o++)
        scale_search(data->w + o * data->k, data->k, data->grid, bits, &data->scales[o]);
}

/* Tries a scale of the search. */
static void run_trial(Data *data, int bits) {
    RoundingError *error = rounding_error_select(cpu_features());
    RoundingSums sums;

    for (size_t o = 0; o < N; o++) {
        const RoundingChannel channel = { data->w + o * data->k, data->k, data->grid, bits };

        error(&channel, 1 / data->scales[o], false, &sums);
        data->sink += sums.error;
    }
}

static void prepare_scales(Data *data, int bits) {
    prepare_weights(data, bits);
    run_largest(data, bits);
}

static void run_round(Data *data, int bits) {
    for (size_t o = 0; o < N; o++)
        round_channel(data->w + o * data->k, data->k, data->grid, bits, data->scales[o], data->q + o * data->k);
}

static void run_round_int8(Data *data, int bits) {
    for (size_t o = 0; o < N; o++)
        round_channel_int8(data->w + o * data->k, data->k, data->q + o * data->k, &data->scales[o]);
}

static void prepare_levels(Data *data, int bits) {
    prepare_scales(data, bits);
    run_round(data, bits);
    memset(data->bits, bits, N);
    pack_plan_deinit(&data->plan);
    memset(&data->plan, 0, sizeof(data->plan));
    if (pack_plan_init(&data->plan, data->grid, data->bits, N, data->k)) {
        fprintf(stderr, "bench-import: no memory\n");
        exit(1);
    }
    for (size_t block = 0; block < data->plan.n_blocks; block++)
        pack_block(&data->plan, block, data->q, data->packed);
}

static void run_pack(Data *data, int bits) {
    for (size_t block = 0; block < data->plan.n_blocks; block++)
        pack_block(&data->plan, block, data->q, data->packed);
}

static void run_unpack(Data *data, int bits) {
    for (size_t block = 0; block < data->plan.n_blocks; block++)
        unpack_block(&data->plan, block, data->packed, data->q);
}

static void run_hessian_add(Data *data, int argument) {
    hessian_add(data->hessian, data->inputs, CALIBRATION, data->k, data->pool);
}

/* The factor takes ownership of its matrix. */
static void prepare_factor(Data *data, int argument) {
    hessian_factor_deinit(&data->factor);
    free(data->hessian);
    data->hessian = calloc(data->k * data->k, sizeof(float));
    if (!data->hessian) {
        fprintf(stderr, "bench-import: no memory\n");
        exit(1);
    }
    hessian_add(data->hessian, data->inputs, CALIBRATION, data->k, data->pool);
}

static void run_factor(Data *data, int argument) {
    int r = hessian_factor(&data->factor, steal(&data->hessian), data->k, 0.01, data->pool);

    if (r) {
        fprintf(stderr, "bench-import: the factorization failed (%d)\n", r);
        exit(1);
    }
}

static void prepare_compensate(Data *data, int bits) {
    if (!data->factor.m) {
        prepare_factor(data, bits);
        run_factor(data, bits);
    }
    prepare_scales(data, bits);
    memset(data->bits, bits, N);
}

static void run_compensate(Data *data, int bits) {
    const CompensateCall call = { &data->factor, N, data->w, data->grid, data->bits, data->scales, data->q, NULL };

    if (compensate_round(&call, data->pool)) {
        fprintf(stderr, "bench-import: no memory\n");
        exit(1);
    }
}

static void prepare_descent(Data *data, int bits) {
    prepare_compensate(data, bits);
    run_compensate(data, bits);
}

static void run_descent(Data *data, int bits) {
    const CompensateCall call = { &data->factor, N, data->w, data->grid, data->bits, data->scales, data->q, NULL };

    if (descent_refine(&call, DESCENT_PASSES, data->pool)) {
        fprintf(stderr, "bench-import: no memory\n");
        exit(1);
    }
}

static const char weight[] = "weight", input[] = "input value", element[] = "Hessian element";

static const Step steps[] = {
    { "dequantize", weight, "F32", GGML_F32, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "F16", GGML_F16, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "BF16", GGML_BF16, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "Q4_0", GGML_Q4_0, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "Q5_0", GGML_Q5_0, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "Q8_0", GGML_Q8_0, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "Q4_K", GGML_Q4_K, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "Q5_K", GGML_Q5_K, NULL, run_dequantize, false, GRID_UNIFORM },
    { "dequantize", weight, "Q6_K", GGML_Q6_K, NULL, run_dequantize, false, GRID_UNIFORM },
    { "rotate", weight, "", 0, prepare_weights, run_rotate, false, GRID_UNIFORM },
    { "relative error", weight, "", 0, prepare_weights, run_peak, false, GRID_UNIFORM },
    { "scale of largest", weight, "", 4, prepare_weights, run_largest, false, GRID_UNIFORM },
    { "scale search", weight, NULL, 3, prepare_weights, run_search, false, GRID_UNIFORM },
    { "scale search", weight, NULL, 4, prepare_weights, run_search, false, GRID_UNIFORM },
    { "scale search", weight, NULL, 5, prepare_weights, run_search, false, GRID_UNIFORM },
    { "scale search", weight, NULL, 6, prepare_weights, run_search, false, GRID_UNIFORM },
    { "scale search", weight, NULL, 6, prepare_weights, run_search, false, GRID_NORMAL },
    { "one trial of it", weight, NULL, 4, prepare_scales, run_trial, false, GRID_UNIFORM },
    { "round", weight, NULL, 4, prepare_scales, run_round, false, GRID_UNIFORM },
    { "round", weight, NULL, 4, prepare_scales, run_round, false, GRID_NORMAL },
    { "round", weight, NULL, 8, prepare_scales, run_round_int8, false, GRID_UNIFORM },
    { "pack", weight, NULL, 1, prepare_levels, run_pack, false, GRID_UNIFORM },
    { "pack", weight, NULL, 4, prepare_levels, run_pack, false, GRID_UNIFORM },
    { "pack", weight, NULL, 5, prepare_levels, run_pack, false, GRID_UNIFORM },
    { "pack", weight, NULL, 5, prepare_levels, run_pack, false, GRID_NORMAL },
    { "pack", weight, NULL, 7, prepare_levels, run_pack, false, GRID_UNIFORM },
    { "pack", weight, NULL, 8, prepare_levels, run_pack, false, GRID_UNIFORM },
    { "unpack", weight, NULL, 5, prepare_levels, run_unpack, false, GRID_UNIFORM },
    { "Hessian, add", input, "", 0, NULL, run_hessian_add, true, GRID_UNIFORM },
    { "Hessian, factor", element, "", 0, prepare_factor, run_factor, true, GRID_UNIFORM },
    { "compensate", weight, NULL, 4, prepare_compensate, run_compensate, true, GRID_UNIFORM },
    { "compensate", weight, NULL, 4, prepare_compensate, run_compensate, true, GRID_NORMAL },
    { "descend", weight, NULL, 4, prepare_descent, run_descent, true, GRID_UNIFORM },
    { "descend", weight, NULL, 4, prepare_descent, run_descent, true, GRID_NORMAL },
};

/* --- data --------------------------------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Draws from an approximately normal distribution. */
static float draw_weight(uint32_t *seed) {
    float sum = 0;

    for (int i = 0; i < 4; i++)
        sum += (float)(draw(seed) % 2001) - 1000;
    return sum / 50000;
}

static void prepare_weights(Data *data, int argument) {
    uint32_t seed = 20240607;

    for (size_t i = 0; i < N * data->k; i++)
        data->w[i] = data->moving[i] = draw_weight(&seed);
}

static void data_init(Data *data, size_t k) {
    uint32_t seed = 20240608;

    *data = (Data){ .k = k };
    data->source = machine_alloc(N * 4 * k);
    data->w = machine_alloc(N * k * sizeof(float));
    data->moving = machine_alloc(N * k * sizeof(float));
    data->inputs = machine_alloc(CALIBRATION * k * sizeof(float));
    data->hessian = machine_alloc(k * k * sizeof(float));
    data->q = machine_alloc(N * k);
    data->packed = machine_alloc(N * (k + PACK_TILE_INPUTS));
    for (size_t i = 0; i < N * 4 * k; i++)
        data->source[i] = (uint8_t)((draw(&seed) & 0x13) | 0x28); /* a normal float below 1 in every format */
    for (size_t i = 0; i < CALIBRATION * k; i++)
        data->inputs[i] = draw_weight(&seed) * 30;
    memset(data->hessian, 0, k * k * sizeof(float));
    if (worker_pool_new(&data->pool, 1)) {
        fprintf(stderr, "bench-import: no memory\n");
        exit(1);
    }
}

static void data_deinit(Data *data) {
    free(data->source);
    free(data->w);
    free(data->moving);
    free(data->inputs);
    free(data->hessian);
    hessian_factor_deinit(&data->factor);
    free(data->q);
    free(data->packed);
    pack_plan_deinit(&data->plan);
    worker_pool_free(data->pool);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static double values_of(const Data *data, const Step *step) {
    const double k = (double)data->k;

    return step->unit == weight ? N * k : step->unit == input ? CALIBRATION * k : k * k;
}

/* Returns the ns a value of a step. */
static double measure(const Options *options, Data *data, const Step *step) {
    double times[ROUNDS_MAX];
    const int rounds = step->heavy && 3 < options->rounds ? 3 : options->rounds;

    data->grid = step->grid;
    for (int round = step->heavy ? 0 : -1; round < rounds; round++) { /* -1 warms up */
        uint64_t start;

        if (step->prepare && (round <= 0 || step->heavy))
            step->prepare(data, step->argument);
        start = machine_ns();
        step->run(data, step->argument);
        times[round < 0 ? 0 : round] = (double)(machine_ns() - start) / values_of(data, step);
    }
    return machine_median(times, (size_t)rounds);
}

static int run(const Options *options) {
    char machine[192], date[32], variant[24];
    const time_t now = time(NULL);
    json_t *rows = json_array(), *root;
    struct tm utc;
    Data data;

    machine_name(machine, sizeof(machine));
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (options->csv)
        printf("# %s, %s, rows of %zu, %d rounds\nstep,variant,unit,ns_per_unit\n", machine, date, options->k,
               options->rounds);
    else if (!options->json)
        printf("%s\n%s, one thread by its CPU time, rows of %zu, medians of %d rounds\n\n%-18s %-8s %9s\n", machine,
               date, options->k, options->rounds, "step", "", "ns");
    data_init(&data, options->k);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        const Step *step = &steps[i];
        const double ns = measure(options, &data, step);

        snprintf(variant, sizeof(variant), "%d bits%s", step->argument, step->grid == GRID_NORMAL ? " normal" : "");
        if (step->variant)
            snprintf(variant, sizeof(variant), "%s", step->variant);
        if (options->csv)
            printf("%s,%s,%s,%.6g\n", step->name, variant, step->unit, ns);
        else if (!options->json)
            printf("%-18s %-13s %9.3f a%s %s\n", step->name, variant, ns, step->unit == input ? "n" : "", step->unit);
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:f}", "step", step->name, "variant", variant, "unit",
                                              step->unit, "ns_per_unit", ns));
        fflush(stdout);
    }
    data_deinit(&data);
    root =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:o}", "bench", "import", "machine", machine, "date", date,
                  "compiler", __VERSION__, "rounds", options->rounds, "inputs", (json_int_t)options->k, "rows", rows);
    if (!root)
        return -ENOMEM;
    if (options->json) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        printf("\n");
    }
    json_decref(root);
    return 0;
}

static int usage(FILE *to, int code) {
    fprintf(to, "usage: bench-import [--json | --csv] [--rounds 1..%d] [--inputs 256..16384, a multiple of 256]\n",
            ROUNDS_MAX);
    return code;
}

int main(int argc, char **argv) {
    static const struct option long_options[] = {
        { "json", no_argument, NULL, 'j' },         { "csv", no_argument, NULL, 'c' },
        { "rounds", required_argument, NULL, 'r' }, { "inputs", required_argument, NULL, 'k' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };
    Options options = { .rounds = 15, .k = 1536 };
    ErrText err;
    int option;
    long value;

    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case 'j':
            options.json = true;
            break;
        case 'c':
            options.csv = true;
            break;
        case 'r':
            value = machine_number(optarg, 1, ROUNDS_MAX);
            if (value < 0)
                return usage(stderr, 2);
            options.rounds = (int)value;
            break;
        case 'k':
            value = machine_number(optarg, 256, 16384);
            if (value < 0 || value % 256)
                return usage(stderr, 2);
            options.k = (size_t)value;
            break;
        case 'h':
            return usage(stdout, 0);
        default:
            return usage(stderr, 2);
        }
    }
    if (optind < argc)
        return usage(stderr, 2);
    if (blas_load(&err)) {
        fprintf(stderr, "bench-import: %s\n", err.text);
        return 1;
    }
    return run(&options) ? 1 : 0;
}
