/* From the file of a package to the first token: what an app waits for when the model is not loaded. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_io.h"
#include "base/page_cache.h"
#include "bench/bench.h"
#include "bench/machine.h"

enum {
    READ_BYTES = 4 << 20,
};

/* All of the file into the page cache. */
static int read_file(int fd, const char *path, uint64_t len_bytes, ErrText *err) {
    _cleanup_(freep) uint8_t *part = malloc(READ_BYTES);

    if (!part)
        return err_set(err, -ENOMEM, "out of memory");
    for (uint64_t at = 0; at < len_bytes; at += READ_BYTES) {
        int r = file_read_exact(fd, part, len_bytes - at < READ_BYTES ? (size_t)(len_bytes - at) : READ_BYTES, at);

        if (r)
            return err_set(err, r, "%s: cannot be read", path);
    }
    return 0;
}

/* Loads, then computes the prompt; once more for the prefill alone, when all memory has been touched. */
static int load_once(const BenchRun *run, size_t n_prompt, double *first_token_msp, double *prefill_msp, ErrText *err) {
    _cleanup_(engine_freep) Engine *engine = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = NULL;
    AccountTable accounts = { 0 };
    EngineOptions options = *run->engine_options;
    BenchRun loaded = *run;
    uint64_t start_ns = clock_now_ns();
    int r;

    account_table_init(&accounts);
    options.accounts = &accounts;
    options.arriving = true; /* as coordgend loads */
    r = engine_new(&engine, &options, err);
    if (r)
        return r;
    loaded.engine = engine;
    logits = malloc(engine_info(engine)->n_vocab * sizeof(*logits));
    r = logits ? sequence_new(&sequence, engine, n_prompt, err) : err_set(err, -ENOMEM, "out of memory");
    if (!r)
        r = bench_fill(&loaded, sequence, n_prompt, logits, err);
    *first_token_msp = (double)(clock_now_ns() - start_ns) / 1e6;
    if (r)
        return r;
    sequence_rewind(sequence, 0);
    start_ns = clock_now_ns();
    r = bench_fill(&loaded, sequence, n_prompt, logits, err);
    *prefill_msp = (double)(clock_now_ns() - start_ns) / 1e6;
    return r;
}

typedef struct FirstToken {
    const BenchRun *run;
    int fd;
    uint64_t len_bytes;
    double *values, *disk_ms, *prefill_ms; /* [repeats] */
} FirstToken;

static int run_turn(const FirstToken *first, bool is_cold, size_t n_prompt, size_t turn, ErrText *err) {
    const char *path = first->run->engine_options->path;
    double bytes_per_s;
    int r;

    if (is_cold) {
        r = page_cache_disk_speed(path, 0, &bytes_per_s, err);
        if (!r)
            r = page_cache_drop(first->fd, path, err);
        first->disk_ms[turn] = r ? 0 : 1e3 * (double)first->len_bytes / bytes_per_s;
    } else {
        r = read_file(first->fd, path, first->len_bytes, err);
        first->disk_ms[turn] = 0;
    }
    return r ? r : load_once(first->run, n_prompt, &first->values[turn], &first->prefill_ms[turn], err);
}

static int run_state(const FirstToken *first, bool is_cold, size_t n_prompt, ErrText *err) {
    const size_t repeats = first->run->options->repeats;
    BenchResult result = {
        .test = "ttft",
        .rows = n_prompt,
        .threads = worker_pool_n_threads(first->run->pool),
        .unit = BENCH_MS,
    };

    snprintf(result.name, sizeof(result.name), "%s", is_cold ? "page cache dropped" : "file in the page cache");
    for (size_t turn = 0; turn < repeats; turn++) {
        int r = run_turn(first, is_cold, n_prompt, turn, err);

        if (r)
            return r;
    }
    bench_result_take(&result, first->values, repeats);
    result.floor = machine_median(first->disk_ms, repeats) + machine_median(first->prefill_ms, repeats);
    return bench_report_add(first->run->report, &result);
}

/**
 * bench_first_token() - load of the package and prefill of a prompt, from the disk and from the page cache
 *
 * Floor: the file's bytes at the disk's own speed (O_DIRECT, measured before each turn), and the prefill alone. Pages are
 * dropped before each cold turn, and that they are gone is checked. The import is not a part of it.
 */
int bench_first_token(const BenchRun *run, ErrText *err) {
    const char *path = run->engine_options->path;
    const size_t repeats = run->options->repeats;
    _cleanup_(freep) double *values = calloc(3 * repeats, sizeof(*values));
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    FirstToken first = { run, fd, 0, values, values + repeats, values + 2 * repeats };
    struct stat st;
    int r = 0;

    if (!values)
        return err_set(err, -ENOMEM, "out of memory");
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    first.len_bytes = (uint64_t)st.st_size;
    for (size_t i = 0; i < run->options->n_prompts && !r; i++)
        for (int is_cold = 1; is_cold >= 0 && !r; is_cold--)
            r = run_state(&first, is_cold, run->options->prompt_tokens[i], err);
    return r;
}
