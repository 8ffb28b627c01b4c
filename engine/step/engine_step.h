// SPDX-License-Identifier: Apache-2.0
/* Steps: tokens of one or more sequences go through the model together, in one pass over the weights. */
#ifndef COORDGEN_ENGINE_STEP_H
#define COORDGEN_ENGINE_STEP_H

#include "backends/batch.h"
#include "engine/core/engine_core.h"
#include "engine/kv/sequence.h"
#include "scheduler/operators/op_placement.h"
#include "scheduler/operators/op_queues.h"
#include "spec/sources/context_map.h"

#define ENGINE_CHUNK_DEFAULT 256 /* without the device's advice, and where memory is short */
#define ENGINE_CHUNK_MAX 4096
#define ENGINE_SPANS_MAX BATCH_SEQUENCES_MAX /* sequences that share a step */
#define ENGINE_TOPS DRAFT_CHOICES_MAX
#define ENGINE_NO_ROW SIZE_MAX

typedef struct EngineSpan EngineSpan;

/* A look at the rows of a span between two layers of its step, which may end some of them. Only a TreeHook of the
 * laboratory (spec/tree/spec_lab.h) asks for one. */
typedef struct EngineLook {
    uint32_t layer; /* number of layers that run before the look, below n_layers; 0: no look */
    /* Takes the hidden states f32[n][n_embd] of the span's n rows. Return: n of rows[n] that the span goes on with, as
     * engine_step_keep() wants them; 0: all go on; -errno with a text ends the step. Thread: the one that computes. */
    int (*call)(void *arg, const float *hidden, uint16_t *rows, ErrText *err);
    void *arg; /* of call */
} EngineLook;

/* The most probable tokens of a row, most probable first; of equal ones the lower id. */
typedef struct EngineTops {
    uint32_t n;
    ContextTop tops[ENGINE_TOPS];
} EngineTops;

/* Takes the logits of one row of a span, f32[n_vocab] (NULL: see n_tops_only), and the row's most probable tokens, NULL
 * unless the span wants them; both are valid during the call. Rows come in rising order. The function may lower
 * span->n_kept and set span->kept. Thread: the one that computes. */
typedef void EngineLogitsFn(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops);

/* Takes the hidden state f32[n_embd] of one row of a span, behind the last layer and the output norm; valid during the
 * call. Rows come in rising order, before any logits. Thread: the one that computes. */
typedef void EngineHiddenFn(EngineSpan *span, size_t row, const float *hidden);

/* What a span wants of the output head. */
typedef struct EngineHead {
    size_t n_rows;        /* the span's last rows, whose logits are wanted; 0: none */
    float *logits;        /* out: f32[n_rows][n_vocab]; scratch f32[n_vocab] if `take` is set */
    EngineLogitsFn *take; /* takes logits row by row; NULL: they are left in `logits` */
    void *arg;            /* of take */
    bool wants_tops;      /* take() gets the most probable tokens, too */
    /* With wants_tops: the number of leading logit rows of which take() wants the most probable tokens alone. Their
     * logits may be NULL; the last bits of their shares may depend on the number of threads. */
    size_t n_tops_only;
    /* The most probable tokens are looked for below this id, and their shares are of these tokens; 0: of all. */
    size_t n_top_outputs;
    /* With take: the head runs at row 0, then at the later row that take() puts into next_row, and so on until take()
     * sets none. Rows of several spans share the head's passes. n_rows is ignored. */
    bool on_demand;
    size_t next_row; /* ENGINE_NO_ROW before every take() */
    uint64_t ns;     /* out: duration of the output head with take(), this span's share */
} EngineHead;

/* Tokens of one sequence in a step: consecutive ones, or a tree of them. Each way down from the tree's first row has
 * the logits that it would have alone. */
struct EngineSpan {
    Sequence *sequence;     /* in one span of a step only */
    const uint32_t *tokens; /* [n], below n_vocab; they continue the sequence */
    /* Parents of a tree, [n], n at most ENGINE_TREE_ROWS_MAX: the earlier row of the span that each row follows; -1 for
     * row 0. The sequence must have room for the deepest row. NULL: each row follows the one before. */
    const int16_t *parents;
    /* The step appends nothing: its rows are the next ones of the sequence's open tree, which begins with them if none
     * is open. Rows stay beside the sequence until sequence_close_tree(). `parents` counts rows of the whole tree,
     * earlier steps' first. The tree has ENGINE_TREE_ROWS_MAX rows at most. While a tree is open all steps of the
     * sequence must set this. A step that is cancelled, dropped or fails leaves the tree as it was before. */
    bool grows_tree;
    size_t n;        /* 1 or more; all spans together have at most the chunk */
    bool decodes;    /* hint: an output token with its drafts, not a part of a prompt */
    size_t n_behind; /* hint: tokens of the prompt that are known to follow in later steps */
    EngineHead head;
    EngineHiddenFn *take_hidden; /* takes the hidden states of the span's rows; NULL: nobody wants them */
    void *hidden_arg;            /* of take_hidden */
    bool is_cancelled; /* out: the sequence's cancel flag was set; the sequence is as it was before the step */
    uint64_t wait_ns;  /* out: time that the step waited for weights */
    EngineLook look;   /* a look at the rows of a tree that does not stay open */
    /* Number of rows that the step appends, and which: a way down from row 0; kept NULL: the first ones. By default all
     * rows, or of a tree its leading chain, unless take() says otherwise. */
    size_t n_kept;
    const uint16_t *kept; /* [n_kept], until the step's end */
};

/* When a step makes way for another one: checked before every operator. */
typedef struct EngineYield {
    const _Atomic bool *wanted; /* somebody asks for the processors; NULL: nobody can */
    uint64_t until_ns;          /* of clock_now_ns(); 0: no end */
    bool no_waiting;            /* the step returns ENGINE_E_WAITING instead of waiting for weights */
} EngineYield;

/* A step that can stop before an operator and resume there, while another one runs. */
typedef struct EngineStep EngineStep;

/* Prepares a step of n_spans (1..ENGINE_SPANS_MAX) sequences. The spans and what they point to stay until its end. 0;
 * -EBUSY: as many steps as there is memory for have begun; else as engine_forward_spans(). */
int engine_step_begin(EngineStep **stepp, Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err);
/* Runs at least one operator, then on to the end or until it must make way: ENGINE_E_YIELDED, ENGINE_E_WAITING. Any
 * other answer ends the step, as engine_forward_spans() has it. yield may be NULL. */
int engine_step_run(EngineStep *step, const EngineYield *yield, ErrText *err);
/* Ends a step early: its sequences are as they were before. */
EngineStep *engine_step_drop(EngineStep *step);

/* Appends the tokens of n_spans (1..ENGINE_SPANS_MAX) sequences and computes them in one pass over the weights. Thread:
 * the one that computes. 0; ENGINE_E_CANCELLED: all were cancelled; ENGINE_E_CONTEXT, ENGINE_E_READ (with a text),
 * -EINVAL (bad token id, count or parents); with a tree, or after a rewind into positions that a fork shares,
 * ENGINE_E_MEMORY: none was appended. */
int engine_forward_spans(Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err);
/* Appends tokens to one sequence, as engine_forward_spans(). */
int engine_forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_logit_rows,
                   float *logits, ErrText *err);

/* --- how many rows a step has ------------------------------------------------------------------------------------- */

/* Returns the rows that a step has at most. */
uint32_t engine_chunk_tokens(const Engine *engine);
/* Returns the chunk of steps that other sequences' tokens wait for: at most the default, if the engine chose it. */
uint32_t engine_shared_chunk_tokens(const Engine *engine);
/* Sets the chunk from the next step on; -EBUSY while a step has made way. The bits of results do not depend on it. */
int engine_set_chunk_tokens(Engine *engine, uint32_t chunk_tokens, ErrText *err);
/* Returns whether another step can begin while one has made way. */
bool engine_has_preemption(const Engine *engine);

/* --- devices whose products have a queue -------------------------------------------------------------------------- */

/* Work of a device's two queues in steps of several groups; wall_ns: time in which such steps ran. */
typedef struct EngineQueueCounts {
    uint64_t wall_ns;
    uint64_t npu_ns, cpu_ns; /* at work; cpu_ns of the thread that computes */
    uint64_t n_products;     /* of the NPU */
    uint64_t n_placed;       /* products of the processors, placed there or run there to be measured */
    uint64_t n_stolen;       /* products that the processors took from the NPU's queue */
    uint64_t n_others;       /* other operators */
    uint64_t n_joint;        /* of those: attention whose products the NPU made */
} EngineQueueCounts;

EngineQueueCounts engine_queue_counts(const Engine *engine);
/* Sets the order of operators from the next step on; the arguments as LoadOptions has them. */
void engine_set_op_order(Engine *engine, OpOrder order, size_t steal_beyond, OpPlacementKind placement);
/* Writes the durations of products on either side, and where they are placed, as a line. Thread: the one that
 * computes. */
void engine_op_explain(const Engine *engine, char *text, size_t room_bytes);

#endif
