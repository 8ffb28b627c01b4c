// SPDX-License-Identifier: Apache-2.0
/* coordgen-eval: the yardstick. Verbs share one options struct and one opened model. */
#ifndef COORDGEN_EVAL_EVAL_H
#define COORDGEN_EVAL_EVAL_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "importer/importer.h"
#include "tools/eval/quality/mcq.h"

#define EVAL_MCQ_MAX 8

/* Exit codes. */
enum {
    EVAL_OK = 0,
    EVAL_OUTSIDE = 1, /* a value outside the tolerance, or a failure; the text says which */
    EVAL_USAGE = 2,
};

/* The model, and how it is opened. */
typedef struct EvalModelOptions {
    const char *path;          /* .gguf or .cgm */
    unsigned int threads;      /* 0: as many as the device does best with */
    EngineOptions engine;      /* but for path, image_path, pool and accounts, which are set when it is opened */
    QuantRecipe recipe;        /* of the import that a device of packages does for a .gguf */
    const char *recipe_option; /* that said something of it; NULL: nobody did */
    const char *calibration;   /* of recipes that need one: a text; NULL: the project's own */
} EvalModelOptions;

typedef struct EvalJson {
    bool is_wanted;
    size_t flags; /* of jansson */
} EvalJson;

/* logits, perplexity */
typedef struct EvalLimits {
    double tolerance;     /* logits: share of the rms; perplexity: relative; below 0: the device's default */
    double greedy_margin; /* below 0: the device's default */
} EvalLimits;

/* perplexity, divergence, quant-table */
typedef struct EvalTextOptions {
    size_t window;       /* tokens */
    size_t windows;      /* 0: all that fit */
    const char *against; /* divergence: the other model */
    const char *expect;  /* perplexity: file of golden values */
    const char *name;    /* perplexity: entry of that file */
} EvalTextOptions;

/* mcq, cloze, quant-table */
typedef struct EvalQuestionOptions {
    size_t limit; /* rows; 0: all */
    McqNormalise normalise;
} EvalQuestionOptions;

typedef struct EvalMatrixOptions {
    size_t n_tokens;   /* of output */
    bool full;         /* every combination */
    const char *cells; /* "few", or a company; NULL, "all": all */
    const char *dump;  /* one run into this file, and no other; NULL: all */
    bool brief;        /* that run with the shorter prompt */
} EvalMatrixOptions;

typedef struct EvalTableOptions {
    const char *rows;              /* recipe specs with commas between; NULL: the default */
    const char *mcq[EVAL_MCQ_MAX]; /* files of questions */
    size_t n_mcq;
    const char *work_dir; /* packages */
    const char *save;     /* results; NULL: in work_dir */
    const char *plot;     /* CSV for tools/plot; NULL: none */
    bool drop_packages;   /* remove each when its row is done */
} EvalTableOptions;

typedef struct EvalOptions {
    EvalModelOptions model;
    const char *file; /* of the verb */
    EvalJson json;
    EvalLimits limits;
    EvalTextOptions text;
    EvalQuestionOptions questions;
    EvalMatrixOptions matrix;
    EvalTableOptions table;
} EvalOptions;

/* A worker pool, accounts and an engine on the options' device; a .gguf for the cpu device is imported on first use. */
typedef struct EvalModel {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
} EvalModel;

/* The engine alone, with somebody's workers and accounts, which outlive it. */
int eval_engine_open(Engine **enginep, const EvalModelOptions *options, WorkerPool *pool, AccountTable *accounts,
                     ErrText *err);
int eval_model_open(EvalModel *model, const EvalModelOptions *options, ErrText *err);
void eval_model_close(EvalModel *model);
/* options->path with a recipe as a package in cache_dir (NULL: the user's cache); progress on a terminal. */
int eval_import(const EvalModelOptions *options, const QuantRecipe *recipe, const char *cache_dir, ImportReport *report,
                ErrText *err);
/* The file the cpu device loads for options->path, importing it when needed; owned by the caller. */
int eval_package_path(const EvalModelOptions *options, char **pathp, ErrText *err);

/* Each prints its report and returns an exit code. */
int eval_tokens(const EvalOptions *options);
int eval_logits(const EvalOptions *options);
int eval_perplexity(const EvalOptions *options);
int eval_divergence(const EvalOptions *options);
int eval_matrix(const EvalOptions *options);
int eval_mcq(const EvalOptions *options);
int eval_cloze(const EvalOptions *options);
int eval_quant_table(const EvalOptions *options);

/* Reports an error in the form asked for and returns EVAL_OUTSIDE. */
int eval_fail(const EvalOptions *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the report as JSON and consumes it; `status` becomes the exit code. NULL: it could not be made, and that is
 * the exit code. */
int eval_print_json(const EvalOptions *options, json_t *report, int status);
/* Adds the members of `more`, which is consumed, to a report; where either could not be made, there is no report. */
json_t *eval_report_add(json_t *report, json_t *more);
/* A number, or null when it is not finite: JSON has no other word for it. */
json_t *eval_json_real(double value);
/* "verb", model, device and kernel: the head of every report. */
json_t *eval_report_new(const EvalOptions *options, const EvalModel *model, const char *verb);

/* One JSON object a line. Calls fn with each; stops at a non-zero value. Errors name file and line. */
typedef int EvalLineFn(void *arg, json_t *object, size_t line, ErrText *err);
int eval_each_line(const char *path, EvalLineFn *fn, void *arg, ErrText *err);
/* Array of token ids below n_vocab, as a new array; -EINVAL with a text otherwise. */
int eval_ids(const json_t *array, uint32_t n_vocab, uint32_t **idsp, size_t *np, ErrText *err);

#endif
