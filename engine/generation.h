// SPDX-License-Identifier: Apache-2.0
/* Generations: prompt tokens go in, text deltas come out, in bounded steps, so that many generations take turns. */
#ifndef COORDGEN_ENGINE_GENERATION_H
#define COORDGEN_ENGINE_GENERATION_H

#include "engine/constraint/constraint.h"
#include "engine/draft/draft_options.h"
#include "engine/embedding.h"
#include "engine/engine.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/sampler.h"
#include "scheduler/requests/priority.h"
#include "text/chat/answer_parts.h"

enum {
    GENERATION_E_EMPTY = 1,     /* the prompt has no token */
    GENERATION_E_TOO_LONG = 2,  /* the prompt leaves no room in the context; the text gives both numbers */
    GENERATION_E_MEMORY = 3,    /* the kv account's limit is reached: try again later */
    GENERATION_E_OPTIONS = 4,   /* an option out of its range; the text names it */
    GENERATION_E_READ = 5,      /* a read of weights on demand failed; the text names them */
    GENERATION_E_YIELDED = 6,   /* the step has made way; generation_step_run() resumes it */
    GENERATION_E_SHARE = 7,     /* keys and values would take more than kv_max_bytes; the text has both numbers */
    GENERATION_E_WAITING = 8,   /* the step's weights are still on their way; generation_step_run() resumes it */
    GENERATION_E_COMPLEX = 9,   /* the constraint's grammar is too complex behind this answer */
    GENERATION_E_SHORT = 10,    /* max_tokens leaves no room for a whole text; the text has both numbers */
    GENERATION_E_DEAD_END = 12, /* no token of the model goes on with the constraint's text behind this answer */
    GENERATION_E_PREFIX = 11,   /* the constraint does not allow the begin of the answer; the text says where */
};

typedef enum GenerationEnd {
    GENERATION_RUNNING,
    GENERATION_END_TOKEN,   /* the model ended its turn */
    GENERATION_END_STOP,    /* a stop string; it is not part of the output */
    GENERATION_END_MAX,     /* max_tokens */
    GENERATION_END_CONTEXT, /* the context is full */
    GENERATION_END_CANCELLED,
    GENERATION_END_PROMPT,     /* the prompt is computed, and only its vector is wanted */
    GENERATION_END_REPETITION, /* the output repeats itself over and over (engine/repetition_check) */
    GENERATION_END_CALLS,      /* the model ended its turn, which has calls of tools */
    GENERATION_END_MEMORY,     /* of several answers: this one had no memory for the states of its constraint */
    GENERATION_END_COMPLEX,    /* of several answers: what may follow this one was too complex, or nothing could */
} GenerationEnd;

#define GENERATION_STOPS_MAX 8
#define GENERATION_STOP_BYTES_MAX 256

typedef struct Generation Generation;

/* Sees the logits f32[n_vocab] that a token is sampled from, before the token is given out; valid during the call. */
typedef void GenerationLogitsFn(void *arg, const float *logits);

/* Which log probabilities a generation's deltas have. */
typedef struct GenerationLogprobs {
    bool are_wanted;
    uint32_t n_top; /* most probable tokens beside the given one; at most LOGPROBS_TOP_MAX */
} GenerationLogprobs;

/* What an answer may be. */
typedef struct GenerationConstraint {
    Constraint *it;     /* for the engine's vocabulary; the generation has a reference of its own; NULL: anything */
    uint32_t entry;     /* where the prompt lets the answer begin: a number of the plan's entries; 0: its start */
    bool may_be_cut;    /* max_tokens or the context's end may cut the text; by default it becomes whole in time */
    const char *prefix; /* text at the prompt's end with which the answer has begun: the constraint holds for it, too;
                         * copied; NULL: none */
    size_t prefix_bytes;
} GenerationConstraint;

typedef struct GenerationOptions {
    uint32_t max_tokens;     /* 0: as many as fit */
    uint32_t context_tokens; /* cap on prompt + output; 0: the model's */
    bool ignore_end;         /* go on past end-of-generation tokens (benchmarks, tests) */
    bool is_infill;          /* fills a gap: marks of code infill end the output, too */
    bool is_answer;          /* in a chat: drops the space that the tokenizer puts before a text */
    bool ends_repetition;    /* ends with GENERATION_END_REPETITION if the output loops */
    uint64_t user;           /* uid: kept prefixes are read and written for this user alone */
    bool no_reuse;           /* neither reads nor writes kept prefixes */
    uint64_t kv_max_bytes;   /* limit of keys and values, trees included; 0: that of the kv account */
    Generation *beside;      /* with the same engine and prompt, not begun yet: this generation waits until that one has
                              * computed the prompt, and computes its last token alone. Only generation_new() uses it;
                              * NULL: none */
    PrefixPin *pin;          /* of a session: holds the kept prefix; outlives the generation; may be NULL */
    EmbeddingOptions embedding; /* with a pooling: the prompt's vector is wanted, and no answer */
    SamplerOptions sampler;     /* biases and breakers are copied */
    GenerationConstraint constraint;
    GenerationLogprobs logprobs;
    const char *stops[GENERATION_STOPS_MAX]; /* texts end the output in its text part alone */
    size_t n_stops;
    AnswerFormat answer; /* what the output is split into; all zero: everything is text */
    GenerationSpeculation speculation;
    DraftReport *report;           /* filled while the generation runs, from zero; outlives it; NULL: it has its own */
    GenerationLogitsFn *on_logits; /* for tests and evaluations; may be NULL */
    void *on_logits_arg;
} GenerationOptions;

typedef struct GenerationUsage {
    uint32_t n_prompt_tokens;
    uint32_t n_cached_tokens;    /* prompt tokens whose keys and values were kept from before */
    PrefixOutcome outcome;       /* why not more of them were */
    uint32_t n_prefilled_tokens; /* prompt tokens computed so far */
    uint32_t n_output_tokens;
    uint32_t n_reasoning_tokens; /* output tokens of thinking, its marks included */
    uint32_t n_calls;            /* calls of tools that have begun */
    uint32_t n_incomplete_bytes; /* bytes of a character that the end cut off; not part of the text */
    uint32_t n_steps;            /* steps that gave tokens, without the one that ends the prompt */
    uint32_t n_drafted_tokens;   /* draft tokens that these steps verified */
    uint32_t n_accepted_tokens;  /* draft tokens that became output */
    bool ended_in_time;          /* a token would have been another one if the constraint had had more room */
    uint64_t prefill_ns;         /* duration of prefill steps, without load_ns */
    uint64_t decode_ns;          /* duration of decoding steps, without load_ns */
    uint64_t load_ns;            /* time that steps waited for weights of a load under way */
    uint64_t read_bytes;         /* bytes of layers that are not in memory, read by its steps, which others may share */
    uint64_t read_wait_ns;       /* time that its steps waited for weights */
} GenerationUsage;

/* What a token has brought. All pointers are valid during the callback. */
typedef struct GenerationDelta {
    AnswerPart part;
    const char *text; /* whole UTF-8 sequences, not NUL-terminated, may be empty; empty of calls */
    size_t len_bytes;
    const CallPiece *call;  /* ANSWER_CALL; else NULL */
    const uint32_t *tokens; /* [n_tokens]: the token, 0 or 1 */
    size_t n_tokens;
    const TokenLogprobs *logprobs; /* [n_tokens]; NULL: not wanted */
} GenerationDelta;

/* Takes a delta. Called from generation_step(): once a token, and once more for each further part that the token has
 * begun or completed. The last of these calls has the token. */
typedef void GenerationDeltaFn(void *arg, const GenerationDelta *delta);

/* Makes a generation: copies prompt tokens and options, and reserves the KV cache. */
int generation_new(Generation **generationp, Engine *engine, const uint32_t *prompt, size_t n_prompt,
                   const GenerationOptions *options, ErrText *err);
Generation *generation_free(Generation *generation);
DEFINE_CLEANUP(Generation, generation_free)

/* Returns bytes that its keys and values take at most: kept ones included, without those that the options' `beside`
 * shares with it. */
uint64_t generation_kv_bytes(const Generation *generation);
/* Returns bytes of keys and values that the options' `beside` shares with it; 0: there was none. */
uint64_t generation_shared_kv_bytes(const Generation *generation);
/* Returns false while it waits for the options' `beside`: it gets no rows in a step. If that generation is freed before
 * it has computed the prompt, this one waits until it is freed, too. */
bool generation_is_ready(const Generation *generation);

/* Ends the generation with GENERATION_END_CANCELLED at its next step, or at the next operator of the step that runs.
 * Any thread. */
void generation_cancel(Generation *generation);

/* Computes one prefill chunk, or one token; with speculation one or more. Thread: the one that computes. Return: 0;
 * GENERATION_E_READ, with a text, or -errno: fatal for this generation. */
int generation_step(Generation *generation, GenerationDeltaFn *fn, void *arg, ErrText *err);
/* A generation that shares a step with others. */
typedef struct GenerationTurn {
    Generation *generation;
    GenerationDeltaFn *fn; /* may be NULL */
    void *arg;
    Standing standing;
    bool ran; /* out: took part; false: the rows of the step went to others, and nothing changed */
    int r;    /* out: 0; GENERATION_E_COMPLEX, _DEAD_END, _MEMORY, -errno: fatal for this generation */
} GenerationTurn;

#define GENERATION_TURNS_MAX ENGINE_SPANS_MAX
/* Most rows of a step that are drafts, of all generations together. */
#define GENERATION_DRAFT_ROWS 64

/* Computes a step of n (1..GENERATION_TURNS_MAX) generations of one engine in one pass over the weights. Each
 * generation that decodes gets a row; prompts share the rest of a chunk, by rank, and within a rank in the order of
 * turns. Beside generations of a higher class prompts get few rows. No output depends on the other generations. Return:
 * as generation_step(); errors are fatal for all that ran. */
int generation_step_together(GenerationTurn *turns, size_t n, ErrText *err);

/* A step of several generations that can make way. The turns stay until its end. */
typedef struct GenerationStep {
    EngineSpan spans[GENERATION_TURNS_MAX];
    GenerationTurn *turns[GENERATION_TURNS_MAX];
    size_t n;                          /* generations that have rows in the step */
    uint32_t decode_rows, prompt_rows; /* of all generations */
    EngineStep *step;                  /* NULL: nothing to compute, or the step has ended */
    bool has_yielded;
    uint64_t start_ns;
    uint64_t n_makeshift; /* runs on makeshift graphs of the device before the step */
    bool is_loading;      /* a load was under way when the step began: it waits for no other weights */
    uint64_t left_ns;     /* when the step made way to wait for a load; 0: it runs */
    uint64_t load_ns;     /* time that the step was away for a load */
} GenerationStep;

/* Divides at most rows_max rows (0: a chunk) among the turns; turns[].ran says who got rows. 0, -EBUSY, -errno: fatal
 * for all that ran. */
int generation_step_begin(GenerationStep *step, GenerationTurn *turns, size_t n, size_t rows_max, ErrText *err);
/* Runs or resumes a step. Return: GENERATION_E_YIELDED, GENERATION_E_WAITING, else the step has ended, as
 * generation_step_together(). yield may be NULL. */
int generation_step_run(GenerationStep *step, const EngineYield *yield, ErrText *err);
/* Ends a step early: its generations are as they were before. */
void generation_step_drop(GenerationStep *step);

/* Returns the prompt's vector f32[n_embd], which the generation owns; NULL: not wanted, or not computed yet. */
const float *generation_vector(const Generation *generation);
GenerationEnd generation_end(const Generation *generation); /* GENERATION_RUNNING: call generation_step() again */
const GenerationUsage *generation_usage(const Generation *generation);
const DraftReport *generation_report(const Generation *generation); /* so far */
const char *generation_end_name(GenerationEnd end);                 /* "stop-string", "max-tokens", ... */

#endif
