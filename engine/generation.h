// SPDX-License-Identifier: Apache-2.0
/* One generation: prompt tokens in, text deltas out, one bounded step at a time, so that many can take turns. */
#ifndef COORDGEN_ENGINE_GENERATION_H
#define COORDGEN_ENGINE_GENERATION_H

#include "engine/draft/draft_options.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "scheduler/priority.h"

enum {
    GENERATION_E_EMPTY = 1,    /* the prompt has no token */
    GENERATION_E_TOO_LONG = 2, /* the prompt leaves no room in the context; the text gives both numbers */
    GENERATION_E_MEMORY = 3,   /* the kv account's limit is reached: try again later */
    GENERATION_E_OPTIONS = 4,  /* an option out of its range; the text names it */
    GENERATION_E_READ = 5,     /* weights that are read from the package on demand could not be; the text names them */
    GENERATION_E_YIELDED = 6,  /* the step has made way; generation_step_run() goes on with it */
    GENERATION_E_SHARE = 7,    /* it would take more than kv_max_bytes; the text has both numbers */
    GENERATION_E_WAITING = 8,  /* as GENERATION_E_YIELDED: weights that it needs are on their way */
};

typedef enum GenerationEnd {
    GENERATION_RUNNING,
    GENERATION_END_TOKEN,   /* the model ended its turn */
    GENERATION_END_STOP,    /* a stop string; it is not part of the output */
    GENERATION_END_MAX,     /* max_tokens */
    GENERATION_END_CONTEXT, /* the context is full */
    GENERATION_END_CANCELLED,
    GENERATION_END_REPETITION, /* the output repeats itself over and over (engine/repetition_check) */
} GenerationEnd;

#define GENERATION_STOPS_MAX 8
#define GENERATION_STOP_BYTES_MAX 256

/* The logits that a token is sampled from, before the token is given out: f32[n_vocab], valid during the call. */
typedef void GenerationLogitsFn(void *arg, const float *logits);

typedef struct GenerationOptions {
    uint32_t max_tokens;     /* 0: as many as fit */
    uint32_t context_tokens; /* cap on prompt + output; 0: the model's */
    bool ignore_end;         /* go on past end-of-generation tokens (benchmarks, tests) */
    bool is_answer;          /* in a chat: the space that the tokenizer puts before a text is no part of it */
    bool ends_repetition;    /* GENERATION_END_REPETITION where the output loops */
    uint64_t user;           /* uid: what is kept of prompts is kept for this user, and taken from what was kept so */
    bool no_reuse;           /* neither */
    uint64_t kv_max_bytes;   /* that its keys and values may take, trees among them; 0: what the kv account has */
    PrefixPin *pin;          /* of a session, or NULL: holds what is kept; outlives the generation */
    SamplerOptions sampler;
    const char *stops[GENERATION_STOPS_MAX];
    size_t n_stops;
    GenerationSpeculation speculation;
    GenerationLogitsFn *on_logits; /* for tests and evaluations; NULL: nobody looks */
    void *on_logits_arg;
} GenerationOptions;

typedef struct GenerationUsage {
    uint32_t n_prompt_tokens;
    uint32_t n_cached_tokens;    /* prompt tokens whose KV was there already */
    PrefixOutcome outcome;       /* why not more */
    uint32_t n_prefilled_tokens; /* computed so far */
    uint32_t n_output_tokens;
    uint32_t n_incomplete_bytes; /* of a character that the end cut off; not part of the text */
    uint32_t n_steps;            /* that gave tokens, without the one that ends the prompt */
    uint32_t n_drafted_tokens;   /* that these steps computed beside the next one */
    uint32_t n_accepted_tokens;  /* of them, those that became output */
    uint64_t prefill_ns;         /* without load_ns, as decode_ns */
    uint64_t decode_ns;
    uint64_t load_ns;      /* that its steps waited for weights of a load that was under way */
    uint64_t read_bytes;   /* of layers that are not in memory, for its steps, which others may have shared */
    uint64_t read_wait_ns; /* that these waited for weights */
} GenerationUsage;

/* New text (whole UTF-8 sequences, not NUL-terminated, may be empty) and the token it came with (0 or 1). Called from
 * generation_step(), once a token. */
typedef void GenerationDeltaFn(void *arg, const char *text, size_t len_bytes, const uint32_t *tokens, size_t n_tokens);

typedef struct Generation Generation;

/* Copies prompt tokens and options; reserves the KV cache. */
int generation_new(Generation **generationp, Engine *engine, const uint32_t *prompt, size_t n_prompt,
                   const GenerationOptions *options, ErrText *err);
Generation *generation_free(Generation *generation);
DEFINE_CLEANUP(Generation, generation_free)

/* What its keys and values take at most, with those that it shares. */
uint64_t generation_kv_bytes(const Generation *generation);

/* From any thread: the next step (or the one that runs, at its next operator) ends with GENERATION_END_CANCELLED. */
void generation_cancel(Generation *generation);

/* One prefill chunk, or one token, with speculation one or more. Thread: the one that computes. Return: 0;
 * GENERATION_E_READ, with a text, or -errno: fatal for this generation. */
int generation_step(Generation *generation, GenerationDeltaFn *fn, void *arg, ErrText *err);
/* One of the generations that share a step. */
typedef struct GenerationTurn {
    Generation *generation;
    GenerationDeltaFn *fn; /* may be NULL */
    void *arg;
    Priority priority; /* its class */
    Priority rank;     /* the class it counts as after waiting: not below its own */
    bool ran;          /* out: it took part; false: the rows of the step went to others, and nothing changed */
    int r;             /* out: 0 or -errno: fatal for this generation */
} GenerationTurn;

#define GENERATION_TURNS_MAX ENGINE_SPANS_MAX
/* Rows of a step that are drafts, of all generations together. */
#define GENERATION_DRAFT_ROWS 64
/* Rows of prompts that a step takes of lower classes while somebody reads an answer of a higher one. */
#define GENERATION_LOWER_ROWS 16
/* Background prompts have rows in one of so many steps, beside an answer of a higher class. */
#define GENERATION_BACKGROUND_STEPS 8

/* A step of n (1..GENERATION_TURNS_MAX) generations of one engine in one pass over the weights: those that have their
 * prompt behind them get a row each, the others share what is left of a chunk, by rank, the first ones first. Beside
 * generations of a higher class prompts get little. What each of them answers does not depend on the others.
 * Return as generation_step(): fatal for all that ran. */
int generation_step_together(GenerationTurn *turns, size_t n, ErrText *err);

/* The same as a step that can make way. The turns stay until its end. */
typedef struct GenerationStep {
    EngineSpan spans[GENERATION_TURNS_MAX];
    GenerationTurn *turns[GENERATION_TURNS_MAX];
    bool prefill[GENERATION_TURNS_MAX];
    size_t n;                          /* of generations that have rows in it */
    uint32_t decode_rows, prompt_rows; /* of all of them */
    EngineStep *step;                  /* NULL: nothing to compute, or over */
    bool has_yielded;
    uint64_t start_ns;
    uint64_t n_makeshift; /* of the device's graphs, before it */
    bool is_loading;      /* weights are on their way when it begins: it waits for none but these */
    uint64_t left_ns;     /* when it made way until such weights come; 0: it did not, or runs again */
    uint64_t load_ns;     /* that it was away for them */
} GenerationStep;

/* Who gets which rows, of rows_max at most (0: a chunk); turns[].ran says so. 0, -EBUSY, -errno: fatal for all that
 * ran. */
int generation_step_begin(GenerationStep *step, GenerationTurn *turns, size_t n, size_t rows_max, ErrText *err);
/* GENERATION_E_YIELDED, GENERATION_E_WAITING, or its end, as generation_step_together() has it. yield may be NULL. */
int generation_step_run(GenerationStep *step, const EngineYield *yield, ErrText *err);
/* Ends it early: its generations are as they were before. */
void generation_step_drop(GenerationStep *step);

GenerationEnd generation_end(const Generation *generation); /* GENERATION_RUNNING: call generation_step() again */
const GenerationUsage *generation_usage(const Generation *generation);
void generation_report(const Generation *generation, GenerationReport *report);
const char *generation_end_name(GenerationEnd end); /* "stop-string", "max-tokens", ... */

#endif
