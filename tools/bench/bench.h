// SPDX-License-Identifier: Apache-2.0
/* coordgen-bench measures how fast a model runs on this machine, beside what the machine could do. All verbs share one
 * options struct, the machine's floors and one report. */
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
    size_t plain_tokens; /* tokens of an answer that flash-ar decodes; 0: all */
    uint32_t policies;   /* bits 1 << index of the policy; flash-ar is always set */
} BenchFlashOptions;

typedef struct BenchMobileOptions {
    uint64_t memory_bytes; /* budget of the whole process; 0: none */
    bool cold;             /* measure the cold start up to the first token, and nothing else */
    const char *timeline;  /* file for the timeline: JSON if its name ends in .json, else SVG; NULL: none */
} BenchMobileOptions;

typedef struct BenchOptions {
    const char *model;        /* as it was named */
    NumberList prompts;       /* prompt lengths in tokens; pp, tg and ttft repeat with each */
    NumberList requests;      /* mixed: numbers of simultaneous requests, up to GENERATION_TURNS_MAX each */
    size_t output_tokens;     /* tg, mixed, latency */
    size_t background_tokens; /* latency */
    size_t repeats;
    const char *trace;      /* file for the trace of the last turns; NULL: none */
    bool image;             /* ttft: measure with an image of the weights, too */
    bool operators;         /* print the time of every operator in the last turn */
    SpecDataOptions data;   /* spec, flash, mobile: the requests in files */
    SamplerOptions sampler; /* sampling of the answers to data */
    const char *plot;       /* spec, flash: CSV for tools/plot; NULL: none */
    SpecSettings spec;
    BenchFlashOptions flash;
    BenchMobileOptions mobile;
} BenchOptions;

/* The model as a verb works with it. */
typedef struct BenchRun {
    const BenchOptions *options;
    Engine *engine;                      /* NULL for verbs that open the engine themselves */
    const EngineOptions *engine_options; /* for such verbs: the package, and how to open it */
    const EvalModelOptions *model;       /* how the model is opened, from the command line */
    WorkerPool *pool;
    Floors *floors;
    Trace *trace; /* records the last turns; NULL: no trace */
    BenchReport *report;
} BenchRun;

typedef enum BenchForm {
    BENCH_FORM_TABLE, /* columns that line up */
    BENCH_FORM_MARKDOWN,
    BENCH_FORM_CSV,
    BENCH_FORM_JSON,
} BenchForm;

/* Prints the report and returns an exit code. @json_flags are jansson's. */
int bench_print(const BenchRun *run, BenchForm form, size_t json_flags, unsigned int n_threads);

/* The functions run one verb and add its results to the report. Return: 0, -errno or a positive condition of the
 * engine, with a text. */
int bench_prefill(const BenchRun *run, ErrText *err);
int bench_decode(const BenchRun *run, ErrText *err);
int bench_mixed(const BenchRun *run, ErrText *err);
int bench_latency(const BenchRun *run, ErrText *err);
int bench_first_token(const BenchRun *run, ErrText *err);
int bench_spec(const BenchRun *run, ErrText *err);
int bench_flash(const BenchRun *run, ErrText *err);
int bench_mobile(const BenchRun *run, ErrText *err); /* runs bench_mobile_table() if --data is given */
int bench_mobile_table(const BenchRun *run, ErrText *err);
int bench_mobile_memory(const BenchRun *run, ErrText *err); /* with --memory */

/* Repetitions of a test. Other users' load changes from second to second, so each repetition has a floor of its own:
 * the mean of what the machine could do just before and just after it. */
typedef struct BenchTurns {
    double *values, *floors, *parts;
    size_t n;
} BenchTurns;

/* Allocates room for n repetitions. Return: 0 or -ENOMEM; bench_turns_deinit() is called either way. */
int bench_turns_init(BenchTurns *turns, size_t n);
void bench_turns_deinit(BenchTurns *turns);
/* Adds a repetition; @floor is in the same unit, 0: unknown. */
void bench_turns_add(BenchTurns *turns, BenchUnit unit, double value, double floor);
/* Fills in the medians and the spread; sorts the repetitions. */
void bench_turns_take(BenchTurns *turns, BenchResult *result);

/* Returns a made-up token for a position; the time of a step does not depend on its tokens. */
uint32_t bench_token(const EngineInfo *info, size_t position);
/* Appends n_tokens made-up tokens chunk by chunk; @logits f32[n_vocab] gets the logits of the last one. */
int bench_fill(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err);
/* Starts (@on) or stops recording the engine's operators in the run's trace. */
void bench_trace(const BenchRun *run, bool on);
/* Adds the measured span to the trace if @on. @name must outlive the trace. */
void bench_trace_measured(const BenchRun *run, bool on, const char *name, uint64_t start_ns, uint64_t end_ns,
                          size_t rows);
/* Prints where the time of a trace went to standard error, the longest operators first. */
void bench_trace_print(const Trace *trace);
/* Checks that n_tokens after n_before fit into the model's context. Return: 0 or -EINVAL with a text. */
int bench_check_context(const BenchRun *run, size_t n_before, size_t n_tokens, ErrText *err);

#endif
