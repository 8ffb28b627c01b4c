// SPDX-License-Identifier: Apache-2.0
/* coordgen-bench: how fast a model runs on this machine, beside what the machine could do. Verbs share one options
 * struct, the machine's floors and one report. */
#ifndef COORDGEN_BENCH_BENCH_H
#define COORDGEN_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "tools/bench/floor.h"
#include "tools/bench/number_list.h"
#include "tools/bench/report.h"
#include "tools/bench/speculation/flash_policy.h"
#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_mode.h"
#include "tools/eval/eval.h"

#define BENCH_LIST_MAX NUMBER_LIST_MAX
#define BENCH_DRAFT_SELF "self"

/* Exit codes. */
enum {
    BENCH_OK = 0,
    BENCH_FAILED = 1,
    BENCH_USAGE = 2,
};

typedef struct BenchFlashOptions {
    const char *draft;   /* a file, or BENCH_DRAFT_SELF */
    NumberList budgets;  /* per cent */
    NumberList rates;    /* MB/s; 0: the disk's */
    size_t plain_tokens; /* of an answer that flash-ar gives; 0: all */
    uint32_t policies;   /* bits 1 << index; flash-ar is always one */
} BenchFlashOptions;

typedef struct BenchMobileOptions {
    uint64_t memory_bytes; /* the budget of the process; 0: none */
    bool cold;             /* from a cold page cache to the first token, in place of all else */
    const char *timeline;  /* SVG, or JSON by its name; NULL: none */
} BenchMobileOptions;

typedef struct BenchOptions {
    const char *model;        /* as it was named */
    NumberList prompts;       /* tokens of each prompt, what pp, tg and ttft repeat with */
    NumberList requests;      /* mixed: at once, each up to GENERATION_TURNS_MAX */
    size_t output_tokens;     /* tg, mixed, latency */
    size_t background_tokens; /* latency */
    size_t repeats;
    const char *trace;      /* file for what the last turns did; NULL: none */
    bool image;             /* ttft: with an image of the weights, too */
    bool operators;         /* the time of every operator in the last turn */
    SpecDataOptions data;   /* spec, flash, mobile: requests from files */
    SamplerOptions sampler; /* of their answers */
    const char *plot;       /* spec, flash: CSV for tools/plot; NULL: none */
    SpecSettings spec;
    BenchFlashOptions flash;
    BenchMobileOptions mobile;
} BenchOptions;

/* The model as a verb works with it. */
typedef struct BenchRun {
    const BenchOptions *options;
    Engine *engine;                      /* NULL for verbs that open it themselves */
    const EngineOptions *engine_options; /* for these: the package, and how it is opened */
    const EvalModelOptions *model;       /* as the command line has it */
    WorkerPool *pool;
    Floors *floors;
    Trace *trace; /* of the last turns, or NULL */
    BenchReport *report;
} BenchRun;

typedef enum BenchForm {
    BENCH_FORM_TABLE, /* columns that line up */
    BENCH_FORM_MARKDOWN,
    BENCH_FORM_CSV,
    BENCH_FORM_JSON,
} BenchForm;

/* An exit code. json_flags: of jansson. */
int bench_print(const BenchRun *run, BenchForm form, size_t json_flags, unsigned int n_threads);

/* Each adds its results to the report: 0, or -errno or a condition of the engine with a text. */
int bench_prefill(const BenchRun *run, ErrText *err);
int bench_decode(const BenchRun *run, ErrText *err);
int bench_mixed(const BenchRun *run, ErrText *err);
int bench_latency(const BenchRun *run, ErrText *err);
int bench_first_token(const BenchRun *run, ErrText *err);
int bench_spec(const BenchRun *run, ErrText *err);
int bench_flash(const BenchRun *run, ErrText *err);
int bench_mobile(const BenchRun *run, ErrText *err); /* with --data bench_mobile_table() */
int bench_mobile_table(const BenchRun *run, ErrText *err);
int bench_mobile_memory(const BenchRun *run, ErrText *err); /* with --memory */

/* What neighbours take from the machine changes from one second to the next: every repetition is set beside what the
 * machine could do about then, the mean of what was measured before and after it. */
typedef struct BenchTurns {
    double *values, *floors, *parts;
    size_t n;
} BenchTurns;

/* Room for n repetitions: 0 or -ENOMEM; deinit either way. */
int bench_turns_init(BenchTurns *turns, size_t n);
void bench_turns_deinit(BenchTurns *turns);
/* floor in the unit; 0: unknown */
void bench_turns_add(BenchTurns *turns, BenchUnit unit, double value, double floor);
/* Medians and spread; sorts. */
void bench_turns_take(BenchTurns *turns, BenchResult *result);

/* Made-up tokens: what they are does not matter to the time. */
uint32_t bench_token(const EngineInfo *info, size_t position);
/* Appends n_tokens of them chunk by chunk; logits of the last one in f32[n_vocab]. */
int bench_fill(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err);
/* What an engine does from here on goes into the run's trace, or into none. */
void bench_trace(const BenchRun *run, bool on);
/* When that is on: the span that was measured, beside what ran in it. The name outlives the trace. */
void bench_trace_measured(const BenchRun *run, bool on, const char *name, uint64_t start_ns, uint64_t end_ns,
                          size_t rows);
/* On standard error: where the time of a trace went, the longest first. */
void bench_trace_print(const Trace *trace);
/* Whether n_tokens after n_before fit into the model's context: 0 or -EINVAL. */
int bench_check_context(const BenchRun *run, size_t n_before, size_t n_tokens, ErrText *err);

#endif
