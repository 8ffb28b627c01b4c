// SPDX-License-Identifier: Apache-2.0
/* Measures how fast the reader of layers goes round a file, relative to the disk's own speed in the same round.
 *
 * build/bin/bench-layers --file FILE [--rounds N] [--layer-bytes N] [--slots N] [--rate MB/S] [--latency US]
 *
 * The file is cut into layers that begin anywhere in a unit. Each layer is released as soon as it is held, so that
 * only the disk and the reader are measured. Every round measures the disk (O_DIRECT, in order) and one sweep, in
 * alternating order. `of disk` is the median of each round's own ratio; with a rate the ratio is to that rate. CPU
 * seconds are the whole process's for a sweep. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files/page_cache.h"
#include "tools/bench/machine.h"
#include "weights/ring/layer_reader.h"

enum {
    ROUNDS_MAX = 101,
    LAYERS_MAX = 4096,
    SHIFT_BYTES = 64,
    WAIT_NS = 100000000,
};

typedef struct Options {
    const char *file;
    long rounds, layer_bytes, slots, rate, latency;
} Options;

typedef struct Bench {
    Options options;
    int fd;
    LayerExtent layers[LAYERS_MAX];
    size_t n_layers;
    uint64_t sweep_bytes;
    size_t slot_bytes;
    void *memory;
} Bench;

static double cpu_seconds(void) {
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int cut_file(Bench *bench, ErrText *err) {
    const size_t layer_bytes = (size_t)bench->options.layer_bytes;
    struct stat st;

    if (fstat(bench->fd, &st) < 0 || (uint64_t)st.st_size < layer_bytes + SHIFT_BYTES)
        return err_set(err, -EINVAL, "%s: less than a layer", bench->options.file);
    for (uint64_t at = SHIFT_BYTES; at + layer_bytes <= (uint64_t)st.st_size && bench->n_layers < LAYERS_MAX;
         at += layer_bytes) {
        bench->layers[bench->n_layers] = (LayerExtent){ at, layer_bytes, (uint32_t)bench->n_layers };
        bench->n_layers++;
    }
    bench->sweep_bytes = bench->n_layers * (uint64_t)layer_bytes;
    bench->slot_bytes = extent_room_bytes(EXTENT_ALIGNMENT - 1, layer_bytes);
    bench->memory = machine_alloc(bench->slot_bytes * (size_t)bench->options.slots);
    if (!bench->memory)
        return err_no_memory(err);
    memset(bench->memory, 0, bench->slot_bytes * (size_t)bench->options.slots); /* before the clock runs */
    return 0;
}

static int sweep(const Bench *bench, double *bytes_per_sp, double *cpu_sp, char way[64], ErrText *err) {
    const LayerReaderOptions options = {
        .fd = bench->fd,
        .path = bench->options.file,
        .layers = bench->layers,
        .n_layers = bench->n_layers,
        .slots = bench->memory,
        .slot_bytes = bench->slot_bytes,
        .n_slots = (size_t)bench->options.slots,
        .limit = { (uint64_t)bench->options.rate * 1000000, (uint32_t)bench->options.latency },
    };
    const double before_s = cpu_seconds();
    const uint64_t start_ns = clock_now_ns();
    _cleanup_(layer_reader_freep) LayerReader *reader = NULL;
    int r = layer_reader_new(&reader, &options, err);

    for (size_t i = 0; !r && i < bench->n_layers; i++) {
        const uint8_t *data;

        while ((r = layer_reader_hold(reader, i, WAIT_NS, &data, err)) == LAYER_READER_E_WAITING)
            ;
        if (!r)
            layer_reader_release(reader, i);
    }
    if (r)
        return r;
    /* The count includes the bytes of the next sweep that have come meanwhile. */
    *bytes_per_sp = (double)layer_reader_counts(reader).read_bytes * 1e9 / (double)(clock_now_ns() - start_ns);
    *cpu_sp = cpu_seconds() - before_s;
    snprintf(way, 64, "%s", layer_reader_way(reader));
    return 0;
}

static int run(Bench *bench, ErrText *err) {
    double disk[ROUNDS_MAX], reader[ROUNDS_MAX], ratio[ROUNDS_MAX], cpu_s[ROUNDS_MAX];
    const size_t n = (size_t)bench->options.rounds;
    char machine[160], way[64] = "";

    for (size_t i = 0; i < n; i++) {
        int r = i % 2 ? sweep(bench, &reader[i], &cpu_s[i], way, err) : 0;

        if (!r)
            r = page_cache_disk_speed(bench->options.file, bench->sweep_bytes, &disk[i], err);
        if (!r && i % 2 == 0)
            r = sweep(bench, &reader[i], &cpu_s[i], way, err);
        if (r)
            return r;
        ratio[i] = reader[i] / (bench->options.rate ? (double)bench->options.rate * 1e6 : disk[i]);
    }
    machine_name(machine, sizeof(machine));
    fprintf(stderr, "# %s, %s, %s: %zu layers of %ld bytes, %ld slots; %zu rounds\n", machine, bench->options.file, way,
            bench->n_layers, bench->options.layer_bytes, bench->options.slots, n);
    printf("| disk MB/s | limit MB/s | reader MB/s | of %s | CPU s |\n| --- | --- | --- | --- | --- |\n",
           bench->options.rate ? "limit" : "disk");
    printf("| %.1f | %ld | %.1f | %.4f | %.3f |\n", machine_median(disk, n) * 1e-6, bench->options.rate,
           machine_median(reader, n) * 1e-6, machine_median(ratio, n), machine_median(cpu_s, n));
    return 0;
}

static int parse(Options *options, int argc, char **argv) {
    static const struct option long_options[] = {
        { "file", required_argument, NULL, 'f' },
        { "rounds", required_argument, NULL, 'r' },
        { "slots", required_argument, NULL, 's' },
        { "layer-bytes", required_argument, NULL, 'b' },
        { "rate", required_argument, NULL, 'm' },
        { "latency", required_argument, NULL, 'l' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    *options = (Options){ .rounds = 7, .layer_bytes = 25000000, .slots = 3 };
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        long value = option == 'f' ? 0 : machine_number(optarg ? optarg : "", 0, 1000000000);

        if (option == '?' || value < 0)
            return -EINVAL;
        if (option == 'f')
            options->file = optarg;
        *(option == 'r'   ? &options->rounds
          : option == 's' ? &options->slots
          : option == 'b' ? &options->layer_bytes
          : option == 'm' ? &options->rate
          : option == 'l' ? &options->latency
                          : &value) = value;
    }
    return options->file && optind == argc && options->rounds >= 1 && options->rounds <= ROUNDS_MAX &&
                   options->layer_bytes >= 1 && options->slots >= 2 && options->slots <= LAYER_SLOTS_MAX
               ? 0
               : -EINVAL;
}

int main(int argc, char **argv) {
    static Bench bench;
    ErrText err = { 0 };
    int r;

    if (parse(&bench.options, argc, argv)) {
        fprintf(stderr,
                "usage: bench-layers --file FILE [--rounds N] [--layer-bytes N] [--slots 2..%d] [--rate MB/S] "
                "[--latency US]\n",
                LAYER_SLOTS_MAX);
        return 2;
    }
    bench.fd = open(bench.options.file, O_RDONLY | O_CLOEXEC);
    r = bench.fd < 0 ? err_set(&err, -errno, "%s: %s", bench.options.file, strerror(errno)) : cut_file(&bench, &err);
    if (!r)
        r = run(&bench, &err);
    if (r)
        fprintf(stderr, "bench-layers: %s\n", err.text);
    free(bench.memory);
    return r ? 1 : 0;
}
