// SPDX-License-Identifier: Apache-2.0
/* coordgen-eval measures the quality of the engine. All verbs share one options struct and one opened model. */
#ifndef COORDGEN_EVAL_EVAL_H
#define COORDGEN_EVAL_EVAL_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "importer/importer.h"
#include "tools/eval/quality/mcq.h"

#define EVAL_MCQ_MAX 8
#define EVAL_DIVERGENCE_MAX 8

/* Exit codes. */
enum {
    EVAL_OK = 0,
    EVAL_OUTSIDE = 1, /* a value is outside the tolerance, or the verb failed; the text says which */
    EVAL_USAGE = 2,
};

/* The model, and how it is opened. */
typedef struct EvalModelOptions {
    const char *path;     /* .gguf or .cgm */
    EngineOptions engine; /* options of the engine; path, image_path, pool and accounts are set when it is opened */
    QuantRecipe recipe;   /* recipe of the import, which a device of packages does for a .gguf */
    const char *recipe_option; /* the option that set the recipe, for errors; NULL: none did */
    const char *calibration;   /* a text for recipes that need one; NULL: the project's own */
} EvalModelOptions;

typedef struct EvalJson {
    bool is_wanted;
    size_t flags; /* flags of jansson */
} EvalJson;

/* Tolerances of logits and perplexity. */
typedef struct EvalLimits {
    double tolerance;     /* logits: share of the rms; perplexity: relative difference; below 0: the device's default */
    double greedy_margin; /* logits: margin of golden greedy tokens; below 0: the device's default */
} EvalLimits;

/* Text options of perplexity, divergence and quant-table. */
typedef struct EvalTextOptions {
    size_t window;       /* tokens */
    size_t windows;      /* 0: all that fit */
    const char *against; /* divergence: the other model */
    const char *expect;  /* perplexity: file of golden values */
    const char *name;    /* perplexity: entry of the golden file */
} EvalTextOptions;

/* Question options of mcq, cloze and quant-table. */
typedef struct EvalQuestionOptions {
    size_t limit; /* rows; 0: all */
    McqNormalise normalise;
} EvalQuestionOptions;

typedef struct EvalMatrixOptions {
    size_t n_tokens;   /* output tokens */
    bool full;         /* every combination */
    const char *cells; /* "few", or a company; NULL, "all": all */
    const char *dump;  /* file for the output of a single run; NULL: run the matrix */
    bool brief;        /* the single run has the shorter prompt */
} EvalMatrixOptions;

typedef struct EvalTableOptions {
    const char *rows;              /* recipe specs with commas between; NULL: the default */
    const char *mcq[EVAL_MCQ_MAX]; /* files of questions */
    size_t n_mcq;
    const char *divergence[EVAL_DIVERGENCE_MAX]; /* texts on which rows are compared with the reference */
    size_t n_divergence;
    const char *work_dir; /* packages, rows of the reference */
    const char *save;     /* results; NULL: in work_dir */
    const char *plot;     /* CSV for tools/plot; NULL: none */
    bool drop_packages;   /* remove a package when its row is done */
} EvalTableOptions;

typedef struct EvalOptions {
    EvalModelOptions model;
    const char *file; /* input file of the verb */
    EvalJson json;
    EvalLimits limits;
    EvalTextOptions text;
    EvalQuestionOptions questions;
    EvalMatrixOptions matrix;
    EvalTableOptions table;
    bool list;         /* mask: print each schema that is refused or wrong */
    bool any_order;    /* mask: properties in any order */
    const char *trace; /* mask: file for vocabulary, tokens and times, for other matchers; NULL: none */
} EvalOptions;

/* An open model: worker pool, accounts and engine on the options' device. A .gguf for a device of packages is imported
 * on first use. */
typedef struct EvalModel {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
} EvalModel;

/* Opens an engine with the caller's workers and accounts, which must outlive the engine. Return: 0, or a code of the
 * import or engine_new(), with a text. */
int eval_engine_open(Engine **enginep, const EvalModelOptions *options, WorkerPool *pool, AccountTable *accounts,
                     ErrText *err);
int eval_model_open(EvalModel *model, const EvalModelOptions *options, ErrText *err);
void eval_model_close(EvalModel *model);
/* Imports options->path with the recipe into cache_dir (NULL: the user's cache); shows progress on a terminal. */
int eval_import(const EvalModelOptions *options, const QuantRecipe *recipe, const char *cache_dir, ImportReport *report,
                ErrText *err);
/* Returns the package that the cpu device loads for options->path, imported if needed; the caller frees the path. */
int eval_package_path(const EvalModelOptions *options, char **pathp, ErrText *err);

/* The functions run one verb each, print its report and return an exit code. */
int eval_tokens(const EvalOptions *options);
int eval_logits(const EvalOptions *options);
int eval_perplexity(const EvalOptions *options);
int eval_divergence(const EvalOptions *options);
int eval_embed(const EvalOptions *options);
int eval_matrix(const EvalOptions *options);
int eval_mask(const EvalOptions *options);
int eval_mcq(const EvalOptions *options);
int eval_cloze(const EvalOptions *options);
int eval_quant_table(const EvalOptions *options);

/* Reports an error in the form asked for and returns EVAL_OUTSIDE. */
int eval_fail(const EvalOptions *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the report as JSON, consumes it, and returns @status. NULL: the report could not be made; the function says
 * that and returns EVAL_OUTSIDE. */
int eval_print_json(const EvalOptions *options, json_t *report, int status);
/* Adds the members of @more, which is consumed, to a report. Return: NULL, with both consumed, if either is NULL. */
json_t *eval_report_add(json_t *report, json_t *more);
/* Returns a number, or null if it is not finite, for which JSON has no notation. */
json_t *eval_json_real(double value);
/* Returns the members that every report begins with: "verb", model, device, kernel. */
json_t *eval_report_new(const EvalOptions *options, const EvalModel *model, const char *verb);

#endif
