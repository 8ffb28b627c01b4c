// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "tools/bench/mobile/mobile_cold.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/page_cache.h"
#include "base/min_max.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "weights/image/weights_image.h"
#include "weights/weights_report.h"

#define MOBILE_COLD_WAYS 5

/* A way with a prompt; times are medians over the turns, in ms. */
typedef struct MobileColdRow {
    const char *way;
    const char *form; /* form of the graphs in the last turn */
    size_t prompt_tokens, n_turns;
    double first_token_ms;
    /* Parts of that time in which each kind of work ran; the parts overlap. */
    double read_ms, expand_ms, fill_ms, compute_ms;
    double wait_ms;    /* time in which nothing was computed */
    double prefill_ms; /* the same prompt again, with everything in memory */
    uint64_t read_bytes;
} MobileColdRow;

typedef struct MobileCold {
    MobileColdRow rows[BENCH_LIST_MAX * MOBILE_COLD_WAYS]; /* by prompt, then way; the first way is the baseline */
    size_t n;
    char why[300];        /* reason of auto's choice */
    double disk_mb_per_s; /* limit of the disk's speed; 0: none */
    double own_mb_per_s;
} MobileCold;

enum {
    COLD_EVENTS = 1 << 17, /* events of a turn's trace */
};

static const struct {
    const char *name;
    GraphForm form;
    bool is_behind;
} ways[MOBILE_COLD_WAYS] = { { "all read, then run; materialised", GRAPH_FORM_MATERIALISED, false },
                             { "all read, then run; packed", GRAPH_FORM_PACKED, false },
                             { "behind the load; materialised", GRAPH_FORM_MATERIALISED, true },
                             { "behind the load; packed", GRAPH_FORM_PACKED, true },
                             { "behind the load; auto", GRAPH_FORM_AUTO, true } };

/* Measurements of a turn, an array for each. */
enum {
    COLD_FIRST_TOKEN,
    COLD_READ,
    COLD_EXPAND,
    COLD_FILL,
    COLD_COMPUTE,
    COLD_WAIT,
    COLD_PREFILL,
    _COLD_N,
};

typedef struct ColdSpan {
    uint64_t start_ns, end_ns;
} ColdSpan;

typedef struct ColdBench {
    const BenchRun *run;
    char image[PATH_MAX];
    int package_fd, image_fd;
    Trace *trace;
    ColdSpan *spans; /* [COLD_EVENTS] */
    double *values[MOBILE_COLD_WAYS][_COLD_N];
    MobileColdRow *rows; /* [MOBILE_COLD_WAYS] of the prompt */
    char *why;
} ColdBench;

static void cold_bench_deinit(ColdBench *bench) {
    if (bench->package_fd >= 0)
        close(bench->package_fd);
    if (bench->image_fd >= 0)
        close(bench->image_fd);
    trace_free(bench->trace);
    free(bench->spans);
    for (size_t i = 0; i < MOBILE_COLD_WAYS; i++)
        for (size_t v = 0; v < _COLD_N; v++)
            free(bench->values[i][v]);
}

/* --- a turn ------------------------------------------------------------------------------------------------------- */

static int open_way(const ColdBench *bench, size_t way, AccountTable *accounts, Trace *trace, Engine **enginep,
                    ErrText *err) {
    EngineOptions options = *bench->run->engine_options;

    account_table_init(accounts);
    options.accounts = accounts;
    options.load.device = ENGINE_DEVICE_NPU;
    options.image_path = bench->image;
    options.load.weights.graphs.form = ways[way].form;
    options.load.weights.limits_all = true;
    options.arriving = ways[way].is_behind;
    options.trace = trace;
    return engine_new(enginep, &options, err);
}

static int by_start(const void *a, const void *b) {
    const ColdSpan *left = a, *right = b;

    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

/* Returns the time in ms, before end_ns, that the picked events of the trace cover together. */
static double union_ms(const ColdBench *bench, bool (*is_picked)(const TraceEvent *event), uint64_t end_ns) {
    uint64_t sum_ns = 0, until_ns = 0;
    size_t n = 0;

    for (size_t i = 0; i < trace_n(bench->trace) && n < COLD_EVENTS; i++) {
        const TraceEvent *event = trace_at(bench->trace, i);

        if (is_picked(event) && event->start_ns < end_ns)
            bench->spans[n++] = (ColdSpan){ event->start_ns, MIN(event->end_ns, end_ns) };
    }
    qsort(bench->spans, n, sizeof(*bench->spans), by_start);
    for (size_t i = 0; i < n; i++) {
        const uint64_t from_ns = MAX(bench->spans[i].start_ns, until_ns);

        if (bench->spans[i].end_ns > from_ns) {
            sum_ns += bench->spans[i].end_ns - from_ns;
            until_ns = bench->spans[i].end_ns;
        }
    }
    return (double)sum_ns / 1e6;
}

static bool is_load(const TraceEvent *event) {
    return !strcmp(event->category, "load");
}

/* A graph is read for as long as it is expanded. */
static bool is_read(const TraceEvent *event) {
    return is_load(event) && (!strncmp(event->name, "graph of", 8) || !strcmp(event->name, "read"));
}

static bool is_expansion(const TraceEvent *event) {
    return is_load(event) && !strcmp(event->name, "expand");
}

static bool is_filling(const TraceEvent *event) {
    return is_load(event) && (!strcmp(event->name, "lay out") || !strcmp(event->name, "copy and lay out"));
}

static bool is_computing(const TraceEvent *event) {
    return !is_load(event) && event->lane != TRACE_LANE_RUN && event->lane != TRACE_LANE_TOKENIZER;
}

static uint64_t bytes_read(const ColdBench *bench, uint64_t end_ns) {
    uint64_t sum_bytes = 0;

    for (size_t i = 0; i < trace_n(bench->trace); i++) {
        const TraceEvent *event = trace_at(bench->trace, i);

        sum_bytes += is_read(event) && event->end_ns <= end_ns ? event->bytes : 0;
    }
    return sum_bytes;
}

/* Appends the last turn of a way to the run's trace. */
static void keep_trace(const ColdBench *bench, size_t way, uint64_t start_ns, uint64_t end_ns) {
    for (size_t i = 0; i < trace_n(bench->trace); i++)
        trace_add(bench->run->trace, trace_at(bench->trace, i));
    trace_add(bench->run->trace, &(TraceEvent){ .name = ways[way].name,
                                                .category = "bench",
                                                .start_ns = start_ns,
                                                .end_ns = end_ns,
                                                .layer = -1,
                                                .lane = TRACE_LANE_RUN });
}

static void take_times(ColdBench *bench, size_t way, size_t at, uint64_t start_ns, uint64_t end_ns) {
    double *const *values = bench->values[way];

    values[COLD_FIRST_TOKEN][at] = (double)(end_ns - start_ns) / 1e6;
    values[COLD_READ][at] = union_ms(bench, is_read, end_ns);
    values[COLD_EXPAND][at] = union_ms(bench, is_expansion, end_ns);
    values[COLD_FILL][at] = union_ms(bench, is_filling, end_ns);
    values[COLD_COMPUTE][at] = union_ms(bench, is_computing, end_ns);
    values[COLD_WAIT][at] = values[COLD_FIRST_TOKEN][at] - values[COLD_COMPUTE][at];
    bench->rows[way].read_bytes = bytes_read(bench, end_ns);
}

static int drop_caches(const ColdBench *bench, ErrText *err) {
    int r = page_cache_drop(bench->package_fd, bench->run->engine_options->path, err);

    return r ? r : page_cache_drop(bench->image_fd, bench->image, err);
}

/* Loads the model, computes the prompt to the first token, and computes the prompt once more. @at is the index among
 * the turns that count; SIZE_MAX: the turn does not count. */
static int run_way(ColdBench *bench, size_t way, size_t n_prompt, size_t at, ErrText *err) {
    _cleanup_(engine_freep) Engine *engine = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = NULL;
    AccountTable accounts = { 0 };
    BenchRun loaded = *bench->run;
    WeightsGraphsCounts counts;
    uint64_t start_ns, end_ns;
    int r = drop_caches(bench, err);

    if (r)
        return r;
    trace_clear(bench->trace);
    start_ns = clock_now_ns();
    r = open_way(bench, way, &accounts, bench->trace, &engine, err);
    if (!r && !ways[way].is_behind)
        r = weights_load_graphs(engine_weights(engine), err);
    if (r)
        return r;
    loaded.engine = engine;
    logits = malloc(engine_info(engine)->n_vocab * sizeof(*logits));
    r = logits ? sequence_new(&sequence, engine, n_prompt, err) : err_no_memory(err);
    if (!r)
        r = bench_fill(&loaded, sequence, n_prompt, logits, err);
    end_ns = clock_now_ns();
    if (r)
        return r;
    if (at != SIZE_MAX)
        take_times(bench, way, at, start_ns, end_ns);
    if (bench->run->trace && at + 1 == bench->run->options->repeats)
        keep_trace(bench, way, start_ns, end_ns);
    weights_graph_counts(engine_weights(engine), &counts);
    bench->rows[way].form = graph_form_name(counts.form);
    if (ways[way].form == GRAPH_FORM_AUTO)
        snprintf(bench->why, sizeof(((MobileCold *)NULL)->why), "%s", weights_graph_form_why(engine_weights(engine)));
    sequence_rewind(sequence, 0);
    start_ns = clock_now_ns();
    r = bench_fill(&loaded, sequence, n_prompt, logits, err);
    if (at != SIZE_MAX)
        bench->values[way][COLD_PREFILL][at] = (double)(clock_now_ns() - start_ns) / 1e6;
    return r;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

/* Returns how many times sooner the first token came than with the first way. */
static double over_baseline(const MobileCold *cold, size_t index) {
    const MobileColdRow *row = &cold->rows[index], *first = &cold->rows[index / MOBILE_COLD_WAYS * MOBILE_COLD_WAYS];

    return row->first_token_ms > 0 ? first->first_token_ms / row->first_token_ms : 0;
}

static double percent(const MobileColdRow *row, double ms) {
    return row->first_token_ms > 0 ? 100 * ms / row->first_token_ms : 0;
}

static void put_table(const void *findings, FILE *file) {
    const MobileCold *cold = findings;

    fprintf(file, "From a cold page cache to the first token on the npu device; disk ");
    if (cold->disk_mb_per_s > 0)
        fprintf(file, "at most %.0f MB/s (by itself %.0f). ", cold->disk_mb_per_s, cold->own_mb_per_s);
    else
        fprintf(file, "%.0f MB/s. ", cold->own_mb_per_s);
    fprintf(file, "Parts of the time in which each was at work overlap; waiting: nothing was computed.\n\n"
                  "| prompt | way | graphs | first token ms | times sooner | MB read | reading | expanding | filling "
                  "| computing | waiting | prefill alone ms |\n"
                  "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < cold->n; i++) {
        const MobileColdRow *row = &cold->rows[i];

        fprintf(file,
                "| %zu | %s | %s | %.1f | %.2f | %.1f | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.1f |\n",
                row->prompt_tokens, row->way, row->form, row->first_token_ms, over_baseline(cold, i),
                (double)row->read_bytes / 1e6, percent(row, row->read_ms), percent(row, row->expand_ms),
                percent(row, row->fill_ms), percent(row, row->compute_ms), percent(row, row->wait_ms), row->prefill_ms);
    }
    if (*cold->why)
        fprintf(file, "\nauto: %s.\n", cold->why);
}

static void put_csv(const void *findings, const char *machine, FILE *file) {
    const MobileCold *cold = findings;

    fprintf(file, "prompt_tokens,way,form,turns,first_token_ms,times_sooner,read_bytes,read_ms,expand_ms,fill_ms,"
                  "compute_ms,wait_ms,prefill_ms\n");
    for (size_t i = 0; i < cold->n; i++) {
        const MobileColdRow *row = &cold->rows[i];

        fprintf(file, "%zu,\"%s\",%s,%zu,%.6g,%.4g,%llu,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n", row->prompt_tokens, row->way,
                row->form, row->n_turns, row->first_token_ms, over_baseline(cold, i),
                (unsigned long long)row->read_bytes, row->read_ms, row->expand_ms, row->fill_ms, row->compute_ms,
                row->wait_ms, row->prefill_ms);
    }
}

static json_t *row_json(const MobileCold *cold, size_t index) {
    const MobileColdRow *row = &cold->rows[index];

    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "test",
                     "mobile-cold", "way", row->way, "form", row->form, "prompt_tokens", (json_int_t)row->prompt_tokens,
                     "turns", (json_int_t)row->n_turns, "first_token_ms", row->first_token_ms, "times_sooner",
                     over_baseline(cold, index), "read_bytes", (json_int_t)row->read_bytes, "read_ms", row->read_ms,
                     "expand_ms", row->expand_ms, "fill_ms", row->fill_ms, "compute_ms", row->compute_ms, "wait_ms",
                     row->wait_ms, "prefill_ms", row->prefill_ms, "disk_mb_per_s",
                     cold->disk_mb_per_s > 0 ? cold->disk_mb_per_s : cold->own_mb_per_s, "why", cold->why);
}

static bool add_json(const void *findings, json_t *report) {
    const MobileCold *cold = findings;
    json_t *rows = json_array();

    for (size_t i = 0; i < cold->n && rows; i++)
        json_array_append_new(rows, row_json(cold, i));
    return !json_object_set_new(report, "results", rows);
}

static const BenchFindings findings_kind = {
    .len_bytes = sizeof(MobileCold), .table = put_table, .csv = put_csv, .json = add_json
};

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void take_medians(const ColdBench *bench, size_t way, size_t n) {
    MobileColdRow *row = &bench->rows[way];
    double *const results[_COLD_N] = {
        [COLD_FIRST_TOKEN] = &row->first_token_ms, [COLD_READ] = &row->read_ms,
        [COLD_EXPAND] = &row->expand_ms,           [COLD_FILL] = &row->fill_ms,
        [COLD_COMPUTE] = &row->compute_ms,         [COLD_WAIT] = &row->wait_ms,
        [COLD_PREFILL] = &row->prefill_ms,
    };

    for (size_t v = 0; v < _COLD_N; v++)
        *results[v] = machine_median(bench->values[way][v], n);
}

/* Runs all ways in turns, each turn beginning with another way. The first turn does not count: it notes the times that
 * switching is planned by. */
static int run_prompt(ColdBench *bench, size_t n_prompt, ErrText *err) {
    const size_t repeats = bench->run->options->repeats;
    int r = 0;

    for (size_t way = 0; way < MOBILE_COLD_WAYS; way++)
        bench->rows[way] =
            (MobileColdRow){ .way = ways[way].name, .prompt_tokens = n_prompt, .n_turns = repeats, .form = "" };
    for (size_t turn = 0; turn <= repeats && !r; turn++)
        for (size_t i = 0; i < MOBILE_COLD_WAYS && !r; i++)
            r = run_way(bench, (turn + i) % MOBILE_COLD_WAYS, n_prompt, turn ? turn - 1 : SIZE_MAX, err);
    for (size_t way = 0; way < MOBILE_COLD_WAYS && !r; way++)
        take_medians(bench, way, repeats);
    return r;
}

/* Makes the image where the service would have it for a package that an import has made. */
static int make_image(ColdBench *bench, ErrText *err) {
    const char *package = bench->run->engine_options->path;
    _cleanup_(freep) char *path = realpath(package, NULL), *folder = path ? strdup(path) : NULL;
    _cleanup_(engine_freep) Engine *engine = NULL;
    AccountTable accounts = { 0 };
    char *slash = folder ? strrchr(folder, '/') : NULL;
    int r;

    if (!slash)
        return err_set(err, -errno, "%s: %s", package, strerror(errno));
    *slash = 0;
    if (weights_image_path(bench->image, sizeof(bench->image), folder, path))
        return err_set(err, -ENAMETOOLONG, "%s: no room for an image beside it: its path is too long", package);
    r = open_way(bench, 0, &accounts, NULL, &engine, err);
    if (r)
        return r;
    bench->package_fd = open(package, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    bench->image_fd = open(bench->image, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (bench->package_fd < 0 || bench->image_fd < 0)
        return err_set(err, -errno, "%s: %s", bench->package_fd < 0 ? package : bench->image, strerror(errno));
    return 0;
}

static int take_memory(ColdBench *bench, ErrText *err) {
    bool is_there = !trace_new(&bench->trace, COLD_EVENTS);

    bench->spans = calloc(COLD_EVENTS, sizeof(*bench->spans));
    for (size_t way = 0; way < MOBILE_COLD_WAYS; way++)
        for (size_t v = 0; v < _COLD_N; v++)
            is_there &= !!(bench->values[way][v] = calloc(bench->run->options->repeats, sizeof(double)));
    return is_there && bench->spans ? 0 : err_no_memory(err);
}

int mobile_cold_run(const BenchRun *run, ErrText *err) {
    _cleanup_(cold_bench_deinit) ColdBench bench = { .run = run, .package_fd = -1, .image_fd = -1 };
    MobileCold *cold = bench_report_begin(run->report, &findings_kind);
    double bytes_per_s = 0;
    int r = cold ? take_memory(&bench, err) : err_no_memory(err);

    if (r)
        return r;
    bench.why = cold->why;
    r = make_image(&bench, err);
    if (!r)
        r = page_cache_disk_speed(bench.image, 0, &bytes_per_s, err);
    cold->own_mb_per_s = bytes_per_s / 1e6;
    cold->disk_mb_per_s = (double)run->model->engine.load.weights.flash_limit.bytes_per_s / 1e6;
    for (size_t i = 0; i < run->options->prompts.n && !r; i++) {
        bench.rows = &cold->rows[i * MOBILE_COLD_WAYS];
        r = run_prompt(&bench, run->options->prompts.at[i], err);
        cold->n += r ? 0 : MOBILE_COLD_WAYS;
    }
    return r;
}
