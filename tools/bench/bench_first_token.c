// SPDX-License-Identifier: Apache-2.0
/* Measures the time from a package's file, or an image of its weights, to the first token: the wait of an app whose
 * model is not loaded. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/files/page_cache.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"

enum {
    READ_BYTES = 4 << 20,
};

/* Reads the whole file, so that the page cache has it. */
static int read_file(int fd, const char *path, ErrText *err) {
    _cleanup_(freep) uint8_t *part = malloc(READ_BYTES);
    struct stat st;
    uint64_t len_bytes;

    if (!part)
        return err_no_memory(err);
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    len_bytes = (uint64_t)st.st_size;
    for (uint64_t at = 0; at < len_bytes; at += READ_BYTES) {
        int r = file_read_exact(fd, part, len_bytes - at < READ_BYTES ? (size_t)(len_bytes - at) : READ_BYTES, at);

        if (r)
            return err_set(err, r, "%s: cannot be read", path);
    }
    return 0;
}

/* Prints the parts of a load and its first token on the computing thread: waiting for reads, laying out or copying
 * weights, beginning (head, places, the rest of the tokenizer), and computing. */
static void print_parts(const Trace *trace, size_t first, const char *name, uint64_t start_ns, uint64_t end_ns) {
    uint64_t wait_ns = 0, fill_ns = 0, begin_ns = 0, begin_end_ns = start_ns;
    const double percent = 100 / (double)(end_ns - start_ns);

    for (size_t i = trace_n(trace); i > first; i--) { /* "begin" stands behind the events during it */
        const TraceEvent *event = trace_at(trace, i - 1);
        const uint64_t span_ns = event->end_ns - event->start_ns;

        if (event->lane != TRACE_LANE_ENGINE || strcmp(event->category, "load"))
            continue;
        if (!strcmp(event->name, "load")) {
            begin_ns += span_ns;
            begin_end_ns = event->end_ns;
            continue;
        }
        if (!strcmp(event->name, "wait"))
            wait_ns += span_ns;
        else if (strstr(event->name, "lay out"))
            fill_ns += span_ns;
        else
            continue; /* spans that enclose others */
        begin_ns -= event->end_ns <= begin_end_ns ? span_ns : 0;
    }
    fprintf(stderr, "ttft, %s: %.0f ms: begin %.1f %%, wait for reads %.1f %%, lay out %.1f %%, compute %.1f %%\n",
            name, (double)(end_ns - start_ns) / 1e6, percent * (double)begin_ns, percent * (double)wait_ns,
            percent * (double)fill_ns, percent * (double)(end_ns - start_ns - begin_ns - wait_ns - fill_ns));
}

/* Loads the model and computes the prompt, recorded under the name @traced (NULL: not recorded). Computes the prompt a
 * second time for the prefill alone, when all memory has been touched. */
static int load_once(const BenchRun *run, const char *image, size_t n_prompt, const char *traced,
                     double *first_token_msp, double *prefill_msp, ErrText *err) {
    _cleanup_(engine_freep) Engine *engine = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = NULL;
    AccountTable accounts = { 0 };
    EngineOptions options = *run->engine_options;
    BenchRun loaded = *run;
    const size_t n_traced = run->trace ? trace_n(run->trace) : 0;
    uint64_t start_ns = clock_now_ns(), end_ns;
    int r;

    account_table_init(&accounts);
    options.accounts = &accounts;
    options.arriving = true; /* as coordgend loads */
    options.image_path = image;
    options.trace = traced ? run->trace : NULL;
    r = engine_new(&engine, &options, err);
    if (r)
        return r;
    if (image && !engine_info(engine)->weights.is_mapped)
        return err_set(err, -EINVAL, "%s: the image was not used: has the package been written to?", image);
    loaded.engine = engine;
    logits = malloc(engine_info(engine)->n_vocab * sizeof(*logits));
    r = logits ? sequence_new(&sequence, engine, n_prompt, err) : err_no_memory(err);
    if (!r)
        r = bench_fill(&loaded, sequence, n_prompt, logits, err);
    end_ns = clock_now_ns();
    *first_token_msp = (double)(end_ns - start_ns) / 1e6;
    bench_trace_measured(&loaded, traced, traced, start_ns, end_ns, n_prompt);
    bench_trace(&loaded, false);
    if (r)
        return r;
    if (traced && run->options->operators)
        print_parts(run->trace, n_traced, traced, start_ns, end_ns);
    sequence_rewind(sequence, 0);
    start_ns = clock_now_ns();
    r = bench_fill(&loaded, sequence, n_prompt, logits, err);
    *prefill_msp = (double)(clock_now_ns() - start_ns) / 1e6;
    return r;
}

/* Where the weights come from. */
typedef struct FirstToken {
    const BenchRun *run;
    const char *image; /* NULL: from the package */
    const char *path;  /* the file that holds the weights */
    int fd, package_fd;
    uint64_t len_bytes;
    double *values, *disk_ms, *prefill_ms; /* [repeats] */
    double *disk_gbytes_per_s;             /* [n_disk], one for every cold turn so far */
    size_t n_disk;
} FirstToken;

static const char *state_name(const FirstToken *first, bool is_cold) {
    if (first->image)
        return is_cold ? "image, page cache dropped" : "image, file in the page cache";
    return is_cold ? "page cache dropped" : "file in the page cache";
}

static int run_turn(FirstToken *first, bool is_cold, size_t n_prompt, size_t turn, ErrText *err) {
    const char *traced = turn + 1 == first->run->options->repeats ? state_name(first, is_cold) : NULL;
    double bytes_per_s;
    int r;

    if (is_cold) {
        r = page_cache_disk_speed(first->path, 0, &bytes_per_s, err);
        if (!r)
            first->disk_gbytes_per_s[first->n_disk++] = bytes_per_s / 1e9;
        if (!r)
            r = page_cache_drop(first->fd, first->path, err);
        if (!r)
            r = page_cache_drop(first->package_fd, first->run->engine_options->path, err);
        first->disk_ms[turn] = r ? 0 : 1e3 * (double)first->len_bytes / bytes_per_s;
    } else {
        /* The package is needed beside an image, which has no scales and vectors. The larger file is read last. */
        r = first->image ? read_file(first->package_fd, first->run->engine_options->path, err) : 0;
        if (!r)
            r = read_file(first->fd, first->path, err);
        first->disk_ms[turn] = 0;
    }
    return r ? r
             : load_once(first->run, first->image, n_prompt, traced, &first->values[turn], &first->prefill_ms[turn],
                         err);
}

static int run_state(FirstToken *first, bool is_cold, size_t n_prompt, ErrText *err) {
    const size_t repeats = first->run->options->repeats;
    BenchResult result = {
        .test = "ttft",
        .rows = n_prompt,
        .threads = worker_pool_n_threads(first->run->pool),
        .unit = BENCH_MS,
    };

    snprintf(result.name, sizeof(result.name), "%s", state_name(first, is_cold));
    for (size_t turn = 0; turn < repeats; turn++) {
        int r = run_turn(first, is_cold, n_prompt, turn, err);

        if (r)
            return r;
    }
    bench_result_take(&result, first->values, repeats);
    result.floor = machine_median(first->disk_ms, repeats) + machine_median(first->prefill_ms, repeats);
    return bench_report_add(first->run->report, &result);
}

static int run_states(FirstToken *first, ErrText *err) {
    const BenchOptions *options = first->run->options;
    const char *package = first->run->engine_options->path;
    _cleanup_(closep) int fd = open(first->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    _cleanup_(closep) int package_fd = open(package, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", first->path, strerror(errno));
    if (package_fd < 0)
        return err_set(err, -errno, "%s: %s", package, strerror(errno));
    first->fd = fd;
    first->package_fd = package_fd;
    first->len_bytes = (uint64_t)st.st_size;
    for (size_t i = 0; i < options->prompts.n && !r; i++)
        for (int is_cold = 1; is_cold >= 0 && !r; is_cold--)
            r = run_state(first, is_cold, options->prompts.at[i], err);
    return r;
}

/* Makes the image as coordgend does after a load with weights-image. */
static int make_image(const BenchRun *run, const char *image, ErrText *err) {
    _cleanup_(engine_freep) Engine *engine = NULL;
    AccountTable accounts = { 0 };
    EngineOptions options = *run->engine_options;
    int r;

    account_table_init(&accounts);
    options.accounts = &accounts;
    options.image_path = image;
    r = engine_new(&engine, &options, err);
    return r ? r : weights_wait_image(engine_weights(engine), err);
}

/* Measures with an image in a temporary folder beside the package. */
static int run_with_image(FirstToken *first, ErrText *err) {
    _cleanup_(freep) char *package = realpath(first->run->engine_options->path, NULL), *folder = NULL, *image = NULL;
    int r;

    if (!package || asprintf(&folder, "%s.bench-XXXXXX", package) < 0) {
        folder = NULL;
        return err_set(err, -errno, "%s: %s", first->path, strerror(errno));
    }
    if (!mkdtemp(folder) || asprintf(&image, "%s/image.weights", folder) < 0) {
        image = NULL;
        return err_set(err, -errno, "%s: cannot make a folder for the image: %s", folder, strerror(errno));
    }
    r = make_image(first->run, image, err);
    first->image = first->path = image;
    if (!r)
        r = run_states(first, err);
    unlink(image);
    rmdir(folder);
    return r;
}

/**
 * bench_first_token() - measure load and prefill of a prompt, from the disk and from the page cache
 *
 * The floor is the time to read the file at the disk's own speed (O_DIRECT, measured before each turn) and then the
 * prefill, though a load overlaps the two. Before each cold turn the file's pages are dropped, and those of the package
 * beside an image; a check makes sure that they are gone. The floor of an image leaves out what still comes from the
 * package. Neither the import nor making an image counts.
 */
int bench_first_token(const BenchRun *run, ErrText *err) {
    const size_t repeats = run->options->repeats, n_cold = repeats * run->options->prompts.n * 2;
    _cleanup_(freep) double *values = calloc(3 * repeats + n_cold, sizeof(*values));
    FirstToken first = {
        .run = run,
        .path = run->engine_options->path,
        .fd = -1,
        .package_fd = -1,
        .values = values,
        .disk_ms = values + repeats,
        .prefill_ms = values + 2 * repeats,
        .disk_gbytes_per_s = values + 3 * repeats,
    };
    int r;

    if (!values)
        return err_no_memory(err);
    r = run_states(&first, err);
    if (!r && run->options->image)
        r = run_with_image(&first, err);
    if (!r)
        run->floors->disk_gbytes_per_s = machine_median(first.disk_gbytes_per_s, first.n_disk);
    return r;
}
