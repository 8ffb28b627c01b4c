// SPDX-License-Identifier: Apache-2.0
/* Measures the time from a package to the first token of a prompt, loaded from the disk and from memory. The floor
 * is the package's bytes at the disk's own speed plus the prompt's prefill.
 *
 * build/bin/bench-load --model FILE.cgm [--rounds N] [--threads N] [--prompt TOKENS] [--csv]
 *
 * Every round measures the disk (O_DIRECT, in order) and the prefill anew, then loads in every way. A cold load
 * follows dropping the file's pages, which is checked; a warm one follows reading the file. Figures are medians of
 * the rounds. `of floor` is the median of each round's own ratio, which is more robust than seconds against other
 * work on the disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/files/page_cache.h"
#include "base/log.h"
#include "base/min_max.h"
#include "base/system/thread.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "tools/bench/machine.h"

enum {
    ROUNDS_MAX = 101,
    PROMPT_MAX = 4096,
    READ_BYTES = 4 << 20,
};

static const struct Way {
    const char *name;
    WeightReading reading;
    bool is_cold;
} ways[] = {
    { "cold", WEIGHT_READING_BEST, true },
    { "cold, io_uring", WEIGHT_READING_URING, true },
    { "cold, threads", WEIGHT_READING_THREADS, true },
    { "cold, page cache", WEIGHT_READING_CACHED, true },
    { "warm", WEIGHT_READING_BEST, false },
    { "warm, page cache", WEIGHT_READING_CACHED, false },
};

typedef struct Options {
    const char *model;
    int rounds;
    unsigned int threads;
    uint32_t prompt_tokens;
    bool csv;
} Options;

typedef struct WayTimes {
    bool is_absent;
    double load_s[ROUNDS_MAX], token_s[ROUNDS_MAX], of_floor[ROUNDS_MAX];
} WayTimes;

typedef struct Bench {
    Options options;
    int fd;
    double file_bytes;
    WorkerPool *pool;
    uint32_t prompt[PROMPT_MAX];
    WayTimes times[ARRAY_LEN(ways)];
    double disk_bytes_per_s[ROUNDS_MAX], prefill_s[ROUNDS_MAX];
} Bench;

static double seconds_since(uint64_t start_ns) {
    return (double)(clock_now_ns() - start_ns) * 1e-9;
}

static void no_text(void *arg, const GenerationDelta *delta) {
}

static int first_token(const Bench *bench, Engine *engine, ErrText *err) {
    const GenerationOptions options = { .max_tokens = 1, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    _cleanup_(generation_freep) Generation *generation = NULL;
    int r;

    r = generation_new(&generation, engine, bench->prompt, bench->options.prompt_tokens, &options, err);
    while (!r && !generation_usage(generation)->n_output_tokens)
        r = generation_step(generation, no_text, NULL, err);
    return r;
}

/* Reads the whole file, so that the page cache has it. */
static int read_file(const Bench *bench, ErrText *err) {
    _cleanup_(freep) uint8_t *part = malloc(READ_BYTES);

    if (!part)
        return err_no_memory(err);
    for (uint64_t at = 0; at < (uint64_t)bench->file_bytes; at += READ_BYTES) {
        const uint64_t left = (uint64_t)bench->file_bytes - at;
        int r = file_read_exact(bench->fd, part, left < READ_BYTES ? (size_t)left : READ_BYTES, at);

        if (r)
            return err_set(err, r, "%s: cannot be read", bench->options.model);
    }
    return 0;
}

static int load_once(Bench *bench, size_t way, int round, double *prefill_sp, ErrText *err) {
    WayTimes *times = &bench->times[way];
    _cleanup_(engine_freep) Engine *engine = NULL;
    AccountTable accounts;
    uint64_t start_ns;
    int r;

    account_table_init(&accounts);
    r = ways[way].is_cold ? page_cache_drop(bench->fd, bench->options.model, err) : read_file(bench, err);
    if (r)
        return r;
    start_ns = clock_now_ns();
    r = engine_new(&engine,
                   &(EngineOptions){ .path = bench->options.model,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.isa = ISA_BEST,
                                     .pool = bench->pool,
                                     .accounts = &accounts,
                                     .load.weights.reading = ways[way].reading },
                   err);
    if (r == -EOPNOTSUPP) {
        times->is_absent = true;
        return 0;
    }
    times->load_s[round] = seconds_since(start_ns);
    if (!r)
        r = first_token(bench, engine, err);
    times->token_s[round] = seconds_since(start_ns);
    start_ns = clock_now_ns();
    if (!r)
        r = first_token(bench, engine, err); /* the second prefill finds all memory touched */
    *prefill_sp = seconds_since(start_ns);
    return r;
}

static int run_round(Bench *bench, int round, ErrText *err) {
    double prefill_s[ARRAY_LEN(ways)] = { 0 };
    size_t n_prefills = 0;
    int r;

    r = page_cache_disk_speed(bench->options.model, 0, &bench->disk_bytes_per_s[round], err);
    for (size_t i = 0; !r && i < ARRAY_LEN(ways); i++) {
        const size_t way = (i + (size_t)round) % ARRAY_LEN(ways); /* each way is first in turn */

        if (bench->times[way].is_absent)
            continue;
        r = load_once(bench, way, round, &prefill_s[n_prefills], err);
        n_prefills += !bench->times[way].is_absent;
    }
    if (r)
        return r;
    bench->prefill_s[round] = machine_median(prefill_s, n_prefills);
    for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
        const double disk_s = ways[way].is_cold ? bench->file_bytes / bench->disk_bytes_per_s[round] : 0;

        bench->times[way].of_floor[round] = bench->times[way].token_s[round] / (disk_s + bench->prefill_s[round]);
    }
    return 0;
}

static void report(Bench *bench) {
    const Options *options = &bench->options;
    const size_t n = (size_t)options->rounds;
    const double disk = machine_median(bench->disk_bytes_per_s, n), prefill_s = machine_median(bench->prefill_s, n);
    char machine[160];

    machine_name(machine, sizeof(machine));
    fprintf(stderr, "# %s, %u threads, %s, %.0f MB; disk %.2f GB/s; prefill of %u tokens %.3f s; %d rounds\n", machine,
            options->threads, options->model, bench->file_bytes * 1e-6, disk * 1e-9, options->prompt_tokens, prefill_s,
            options->rounds);
    printf(options->csv ? "way,load_s,first_token_s,floor_s,of_floor\n"
                        : "| way | load s | first token s | floor s | of floor |\n| --- | --- | --- | --- | --- |\n");
    for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
        WayTimes *times = &bench->times[way];

        if (times->is_absent)
            continue;
        printf(options->csv ? "\"%s\",%.4f,%.4f,%.4f,%.3f\n" : "| %s | %.3f | %.3f | %.3f | %.2f |\n", ways[way].name,
               machine_median(times->load_s, n), machine_median(times->token_s, n),
               (ways[way].is_cold ? bench->file_bytes / disk : 0) + prefill_s, machine_median(times->of_floor, n));
    }
}

static int parse(Options *options, int argc, char **argv) {
    static const struct option long_options[] = {
        { "model", required_argument, NULL, 'm' },   { "rounds", required_argument, NULL, 'r' },
        { "threads", required_argument, NULL, 't' }, { "prompt", required_argument, NULL, 'p' },
        { "csv", no_argument, NULL, 'c' },           { NULL, 0, NULL, 0 },
    };
    long value = 0;
    int option;

    *options = (Options){ .rounds = 5, .threads = thread_n_processors() };
    options->prompt_tokens = 128;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        switch (option) {
        case 'm':
            options->model = optarg;
            break;
        case 'r':
            value = machine_number(optarg, 1, ROUNDS_MAX);
            options->rounds = (int)value;
            break;
        case 't':
            value = machine_number(optarg, 1, 1024);
            options->threads = (unsigned int)value;
            break;
        case 'p':
            value = machine_number(optarg, 1, PROMPT_MAX);
            options->prompt_tokens = (uint32_t)value;
            break;
        case 'c':
            options->csv = true;
            break;
        default:
            value = -1;
        }
    return value < 0 || !options->model || optind < argc ? -EINVAL : 0;
}

int main(int argc, char **argv) {
    static Bench bench;
    ErrText err = { 0 };
    struct stat st;
    int r;

    if (parse(&bench.options, argc, argv)) {
        fprintf(stderr, "usage: bench-load --model FILE.cgm [--rounds 1..%d] [--threads N] [--prompt 1..%d] [--csv]\n",
                ROUNDS_MAX, PROMPT_MAX);
        return 2;
    }
    log_set_level(LOG_LEVEL_WARN);
    bench.fd = open(bench.options.model, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (bench.fd < 0 || fstat(bench.fd, &st) < 0) {
        fprintf(stderr, "bench-load: %s: %s\n", bench.options.model, strerror(errno));
        return 1;
    }
    bench.file_bytes = (double)st.st_size;
    for (uint32_t i = 0; i < PROMPT_MAX; i++)
        bench.prompt[i] = 1 + i * 37 % 200; /* token ids that every vocabulary has */
    r = worker_pool_new(&bench.pool, bench.options.threads);
    if (r)
        err_set(&err, r, "cannot start the worker threads: %s", strerror(-r));
    for (int round = -1; !r && round < bench.options.rounds; round++)
        r = run_round(&bench, MAX(0, round), &err); /* the first one warms up the host */
    if (r)
        fprintf(stderr, "bench-load: %s\n", err.text);
    else
        report(&bench);
    worker_pool_free(bench.pool);
    close(bench.fd);
    return r ? 1 : 0;
}
