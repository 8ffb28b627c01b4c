// SPDX-License-Identifier: Apache-2.0
/* A loaded model: weights on a device, tokenizer, chat template. Sequences are its timelines; one thread computes. */
#ifndef COORDGEN_ENGINE_ENGINE_H
#define COORDGEN_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/memory/account.h"
#include "base/system/cpu.h"
#include "base/system/worker_pool.h"
#include "engine/kv/prefix_cache.h"
#include "engine/sampling_defaults.h"
#include "scheduler/op_placement.h"
#include "scheduler/op_queues.h"
#include "scheduler/trace.h"
#include "spec/sources/context_map.h"
#include "spec/tree/tree_pruning.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/graphs/weights_graphs.h"
#include "weights/image/image_report.h"
#include "weights/residency/weight_stream.h"
#include "weights/residency/weights_check.h"
#include "weights/residency/weights_memory.h"
#include "weights/ring/layer_reader.h"

enum {
    ENGINE_E_MODEL = 1,     /* the file is corrupt or holds something not supported; the text says what */
    ENGINE_E_MEMORY = 2,    /* a memory account's limit is reached */
    ENGINE_E_CONTEXT = 3,   /* more positions than the sequence or the model has */
    ENGINE_E_CANCELLED = 4, /* the sequence's cancel flag was seen; it is as it was before the call */
    ENGINE_E_READ = 5,      /* weights that are read from a file on demand could not be; the same */
    ENGINE_E_YIELDED = 6,   /* the step has made way before an operator; it goes on where it is */
    ENGINE_E_WAITING = 7,   /* the same: weights that it needs are on their way */
};

/* ENGINE_DEVICE_REFERENCE: float32 loops on a GGUF source; ENGINE_DEVICE_CPU: int8 products on a .cgm package;
 * ENGINE_DEVICE_NPU: the same on static graphs, of packages with static activations. */
typedef enum EngineDevice {
#define DEVICE(enumerator, name, reads_packages, has_graphs, make) ENGINE_DEVICE_##enumerator,
#include "engine/engine_device.inc"
#undef DEVICE
} EngineDevice;

const BackendDevice *engine_device(EngineDevice device);
/* Threads for its pool where nobody says how many: one for every processor that this process may use, but for one that
 * a device of static graphs has for its queue. At least 1. */
unsigned int engine_device_threads(EngineDevice device);
/* NULL: there is none of that name. */
const BackendDevice *engine_device_named(const char *name, EngineDevice *devicep);

#define ENGINE_CHUNK_DEFAULT 256 /* without the device's advice, and where memory is short */
#define ENGINE_CHUNK_MAX 4096
#define ENGINE_SPANS_MAX BATCH_SEQUENCES_MAX /* sequences that share a step */
#define ENGINE_TREE_ROWS_MAX (BATCH_SLOTS_MAX + 1)

typedef struct EngineOptions {
    const char *path; /* .cgm for a device that reads packages, else .gguf */
    const int *fd; /* of the file, which somebody else has opened, until engine_new() returns; NULL: path is opened */
    EngineDevice device;
    const BackendDevice *own_device; /* one that is not among those; NULL: `device` */
    Isa isa;                         /* ISA_BEST, or the level to stay within (cpu device) */
    uint32_t chunk_tokens;           /* rows of a prefill step, 1..ENGINE_CHUNK_MAX; 0: as the device does best with */
    bool no_pipeline;                /* every operator of a step is split over all threads (engine/step/row_groups) */
    uint32_t group_rows;             /* of the pipeline, at least so many; 0: as the device does best with */
    bool preemption;                 /* memory for a second step, while one has made way */
    WorkerPool *pool;                /* outlives the engine; used by the thread that computes */
    AccountTable *accounts;          /* outlives the engine */
    _Atomic uint64_t *heartbeat; /* goes up with every operator, and while loading: the watchdog's sign of life; may be
                                  * NULL */
    PrefixCache *prefix_cache;   /* outlives the engine; NULL: nothing is kept for later prompts */
    WeightReading reading;       /* how a package is read: the best way, unless a test or a bench wants one */
    WeightsChecking checking;    /* what of a package is compared with its checksums */
    const char *cache_dir;  /* with WEIGHTS_CHECKING_NEW: where packages that were compared are noted; NULL: nowhere */
    bool arriving;          /* the engine is there before its weights: see engine_arrive() */
    const char *image_path; /* of a package: where the image of its weights is, or is made behind the load; NULL:
                                  * neither (weights/image/weights_image) */
    /* Of a package: how much of the weights is in memory; zero: all. The rest is read from an image, layer by layer, in
     * every step, and image_path must not be NULL. new_image: one that is there is not used but made anew. flash_limit:
     * how fast it is read at most, to behave like a slower disk. */
    WeightsMemory weights_memory;
    bool new_image;
    bool optional_image; /* one that is not needed is only made where the disk has room (weights/image/image_room) */
    ReadLimit flash_limit;
    bool limits_all;              /* all that is read of a package is as slow, together with them */
    GraphsOptions graphs;         /* on a device of static graphs, which wants image_path too */
    OpOrder op_order;             /* where products have a queue: what goes first */
    size_t steal_beyond;          /* likewise, in the order of positions (OpQueuesSetup) */
    OpPlacementKind op_placement; /* likewise, who runs products */
    Trace *trace;                 /* of the load, and then as engine_set_trace(); outlives the engine; NULL: none */
    const char *chat_template;    /* instead of the file's, until the engine is there; NULL: the file's */
    size_t chat_template_bytes;
} EngineOptions;

typedef struct EngineInfo {
    const char *name;         /* general.name, or the file's */
    const char *architecture; /* "llama" */
    const char *device;       /* "cpu" */
    const char *kernel;       /* "int8_product__avx512vnni" */
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_context; /* positions the model was made for */
    uint64_t n_parameters;
    uint64_t weights_bytes; /* resident */
    uint64_t kv_bytes_per_token;
    uint64_t layer_products; /* multiplications of weights by one row, all layers */
    uint64_t head_products;  /* of the output projection */
    uint64_t
        step_read_bytes; /* weights that a step reads at least, whatever its rows: with logits, without the embedding */
    bool is_mapped;      /* the weights are those of an image */
    uint32_t n_streamed_layers; /* that are not in memory */
    uint64_t sweep_bytes;       /* what a step reads of them, whatever its rows */
    uint64_t ring_bytes;        /* memory that they come through; of weights_bytes */
    uint64_t compared_bytes;    /* of the package, with its checksums, by now */
    const char *kv_type;        /* "f16" */
    char source_sha256[65];     /* "" when not known */
    char package_sha256[65];    /* of the checksums that a package has; "" without */
} EngineInfo;

typedef struct Engine Engine;
typedef struct Sequence Sequence;

int engine_new(Engine **enginep, const EngineOptions *options, ErrText *err);
Engine *engine_free(Engine *engine); /* all sequences must be freed before */
DEFINE_CLEANUP(Engine, engine_free)

/* Whether weights are still on their way (only with EngineOptions.arriving). */
bool engine_is_arriving(const Engine *engine);
uint32_t engine_arrived_permille(const Engine *engine); /* of the weights */
/* Takes in a few MiB more of them. Steps take in what they need by themselves; somebody must call this when there are
 * none, for reads stop when the memory for them is full. Thread: the one that computes. 0; ENGINE_E_MODEL,
 * ENGINE_E_MEMORY, -errno: what a load answers, with its text, and again in every later call. Steps answer
 * ENGINE_E_READ with the same text then, and the engine is good for nothing but engine_free(). */
int engine_arrive(Engine *engine, ErrText *err);

/* Whether the file that its weights are mapped from, if they are (an image, the reference device's source), is whole as
 * far as it was read: 0; ENGINE_E_READ with a text that names it when it was cut short meanwhile. Every step answers
 * that from then on, also the one that has met it, and the engine is good for nothing but engine_free(). Any thread. */
int engine_check_whole(const Engine *engine, ErrText *err);

/* What has become of the image of its weights, when all have arrived. Any thread. */
ImageReport engine_image_report(const Engine *engine);
/* Waits for the image of the weights that is being written, if one is; without it, engine_free() gives that up. 0, or
 * -errno, with a text. */
int engine_wait_image(Engine *engine, ErrText *err);

const EngineInfo *engine_info(const Engine *engine);
AccountTable *engine_accounts(const Engine *engine);
const Tokenizer *engine_tokenizer(const Engine *engine);
const ChatTemplate *engine_chat_template(const Engine *engine);
const SamplingDefaults *engine_sampling_defaults(const Engine *engine);
/* Room for turning a text into tokens, on the account of activations; kept prompts make way for it. 0, or
 * ENGINE_E_MEMORY with nothing charged. */
int engine_charge_text(Engine *engine, Bill *bill, size_t len_bytes, ErrText *err);
/* chat_template_encode() of the engine's template, with what it takes meanwhile on the account of activations; kept
 * prompts make way for it. */
int engine_encode_chat(Engine *engine, const ChatInput *input, TokenList *list, ErrText *err);
uint32_t engine_chunk_tokens(const Engine *engine);
/* The same where other sequences' tokens wait for the step: of a chunk that was chosen for speed, no more than the
 * default. */
uint32_t engine_shared_chunk_tokens(const Engine *engine);
/* Bytes of keys and values that a row reads which sees n_positions, its own included; less than n_positions times
 * kv_bytes_per_token in layers with a window. */
uint64_t engine_kv_read_bytes(const Engine *engine, uint64_t n_positions);
/* Rows that the device computes beside so many of a step, up to whole tiles. */
uint32_t engine_idle_rows(const Engine *engine, uint32_t rows);
/* What shadow outliers have cost so far; thread: the one that computes. */
ShadowCounts engine_shadow_counts(const Engine *engine);
/* Every operator of the steps to come goes into the trace, which outlives them, and the weights that still arrive, with
 * their reads; NULL: into none. Thread: the one that computes, which alone adds to it. */
void engine_set_trace(Engine *engine, Trace *trace);
/* What was read of layers that are not in memory, and while reads were under way; all zero where all are. */
typedef struct EngineFlashCounts {
    uint64_t read_bytes, reading_ns;
} EngineFlashCounts;
EngineFlashCounts engine_flash_counts(const Engine *engine);
const char *engine_flash_way(const Engine *engine); /* "io_uring, direct"; "" where all weights are in memory */
/* What the two queues of a device have done in steps of several groups: both together as long as such steps ran. */
typedef struct EngineQueueCounts {
    uint64_t wall_ns;
    uint64_t npu_ns, cpu_ns; /* at work; cpu_ns of the thread that computes */
    uint64_t n_products;     /* of the NPU */
    uint64_t n_placed;       /* products of the processors, that the profile has there or that are measured */
    uint64_t n_stolen;       /* and those that they took from the NPU's queue */
    uint64_t n_others;
} EngineQueueCounts;
EngineQueueCounts engine_queue_counts(const Engine *engine);
/* From the next step on; as the options have it. */
void engine_set_op_order(Engine *engine, OpOrder order, size_t steal_beyond, OpPlacementKind placement);
/* How long products take on either side, and which has them, as a line. Thread: the one that computes. */
void engine_op_explain(const Engine *engine, char *text, size_t room_bytes);

/* How graphs have come and gone, on a device of static graphs; false: on another. And why they are loaded when they
 * are, as a line. Thread: the one that computes. */
bool engine_graph_counts(const Engine *engine, WeightsGraphsCounts *counts);
/* Why they are loaded in the form that they are; "": nobody had to choose. */
const char *engine_graph_form_why(const Engine *engine);
/* Waits until every block has a graph; all else must have arrived. 0, ENGINE_E_READ, -errno. */
int engine_load_graphs(Engine *engine, ErrText *err);
void engine_graph_explain(const Engine *engine, char *text, size_t room_bytes);
/* How fast they are read from now on, at most. */
void engine_set_flash_limit(Engine *engine, ReadLimit limit);
/* Takes effect at the next step (tests: the bits do not depend on it); -EBUSY while one has made way. */
int engine_set_chunk_tokens(Engine *engine, uint32_t chunk_tokens, ErrText *err);

/* What a timeline of so many positions takes of the kv account, and what more from its first tree with branches on. */
uint64_t engine_kv_bytes(const Engine *engine, size_t capacity_tokens);
uint64_t engine_kv_tree_bytes(const Engine *engine);
/* A timeline with room for capacity_tokens positions (at most n_context), reserved from the kv account. */
int sequence_new(Sequence **sequencep, Engine *engine, size_t capacity_tokens, ErrText *err);
/* Begins with what is kept of the prompt for this user; why not with more. */
int sequence_new_for(Sequence **sequencep, Engine *engine, const uint32_t *prompt, size_t n_prompt, uint64_t user,
                     bool of_session, size_t capacity_tokens, PrefixOutcome *outcomep, ErrText *err);
/* Keeps its positions, whose tokens these are, for later prompts of the user. Unless it grows, a tree that is open is
 * over. */
void sequence_keep(Sequence *sequence, const uint32_t *tokens, uint64_t user, bool grows, PrefixPin *pin);
Sequence *sequence_free(Sequence *sequence);
DEFINE_CLEANUP(Sequence, sequence_free)
size_t sequence_n_tokens(const Sequence *sequence);
/* Back to its first n_tokens positions (not more than it has); a tree that is open is over, and none of it stays. */
void sequence_rewind(Sequence *sequence, size_t n_tokens);
/* Looked at before every operator of engine_forward(); NULL: none. Outlives the sequence. */
void sequence_set_cancel(Sequence *sequence, const _Atomic bool *cancelled);
/* Rows of the tree that is open (EngineSpan.grows_tree); 0: none is. */
size_t sequence_tree_rows(const Sequence *sequence);
/* The tree that is open is over: rows[n], a way down from row 0, become the next positions; n is 0: none of it stays.
 * 0; -EINVAL: there is no such way, and nothing has changed. Thread: the one that computes. */
int sequence_close_tree(Sequence *sequence, const uint16_t *rows, size_t n);

typedef struct EngineSpan EngineSpan;

/* A predictor of what comes behind the rows of trees, at a middle layer of their steps: the logit lens, behind the
 * first `layer` layers (0: none), or what lies trained beside a package. Thread: the one that computes, between steps.
 * 0, -EINVAL, -EBUSY, ENGINE_E_MEMORY; ENGINE_E_MODEL (no such file, or refused: nothing has changed), with a text. */
int engine_set_lens(Engine *engine, uint32_t layer, ErrText *err);
int engine_load_exit(Engine *engine, const char *path, ErrText *err);
uint32_t engine_exit_layer(const Engine *engine); /* 0: there is none */
PruningMix engine_exit_mix(const Engine *engine); /* of what it says with what the draft does */

/* Candidates behind rows of a span, of which the predictor tells shares before the step goes on. */
typedef struct EngineExit {
    const uint32_t *rows;   /* [n], never falling; candidates of a row share what there is */
    const uint32_t *tokens; /* [n] */
    float *log_shares;      /* out: f32[n] */
    size_t n;
    uint64_t ns; /* out: that this took; 0: the step has not asked */
    /* Then: rows[returned] that the span goes on with, as engine_step_keep() wants them; 0: all. Thread: the one that
     * computes. */
    size_t (*choose)(EngineSpan *span, uint16_t *rows);
} EngineExit;

#define ENGINE_TOPS DRAFT_CHOICES_MAX
#define ENGINE_NO_ROW SIZE_MAX

/* The most probable tokens of a row, most probable first; of equal ones the lower id. */
typedef struct EngineTops {
    uint32_t n;
    ContextTop tops[ENGINE_TOPS];
} EngineTops;

/* The logits of one row of a span, f32[n_vocab] (NULL: see n_tops_only), and what is most probable of them, NULL unless
 * the span wants that; valid during the call. Rows come in rising order. It may lower span->n_kept and set span->kept.
 * Thread: the one that computes. */
typedef void EngineLogitsFn(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops);

/* Tokens of one sequence in a step that it may share with others: consecutive ones, or a tree of them, whose every way
 * down from the first row has the logits that it would have alone. */
struct EngineSpan {
    Sequence *sequence;     /* in one span of a step only */
    const uint32_t *tokens; /* [n], below n_vocab; they continue the sequence */
    /* [n] of a tree, n at most ENGINE_TREE_ROWS_MAX: the row of the span that each follows, an earlier one; -1 for row
     * 0. The sequence must have room for the deepest row. NULL: each follows the one before. */
    const int16_t *parents;
    /* The step appends nothing: its rows are the next ones of the sequence's open tree (where none is open one begins),
     * and stay beside the sequence until sequence_close_tree(). `parents` has rows of the whole tree, those of earlier
     * steps first; all together are ENGINE_TREE_ROWS_MAX at most. Until then steps of the sequence must have this, too.
     * A step that is cancelled, dropped or fails leaves the tree as it was before. */
    bool grows_tree;
    size_t n;             /* 1 or more; those of all spans together at most the chunk */
    bool decodes;         /* a token of output with its drafts, no part of a prompt: a hint */
    size_t n_behind;      /* tokens of its prompt that follow in later steps, as far as that is known: a hint */
    size_t n_logit_rows;  /* 0..n: the last ones, whose logits are wanted */
    float *logits;        /* out: f32[n_logit_rows][n_vocab]; with `take` f32[n_vocab], anything */
    bool is_cancelled;    /* out: its sequence's flag was seen, and the sequence is as it was before the step */
    EngineLogitsFn *take; /* NULL: logits are left in `logits`; else it gets them row by row */
    void *arg;            /* of take */
    bool wants_tops;      /* take() gets the most probable tokens, too */
    /* With wants_tops: of the rows whose logits are wanted the first ones, of which take() wants the most probable
     * tokens alone. It may get them with logits NULL; the last bits of their shares may depend on the
     * threads. */
    size_t n_tops_only;
    /* The most probable tokens are looked for among those below this, their shares being of them alone; 0: of all. */
    size_t n_top_outputs;
    /* With take: logits of row 0, then of the row that take() puts into next_row, a later one than it got, and so on,
     * until it puts none there. Rows of several spans share the head's passes. n_logit_rows does not matter. */
    bool on_demand;
    size_t next_row;  /* ENGINE_NO_ROW before every take() */
    uint64_t head_ns; /* out: of the output head with all its take(), the share of these rows */
    uint64_t wait_ns; /* out: that the step waited for weights */
    EngineExit
        *exit; /* of a tree that does not stay open; NULL: all rows go through all layers. Until the step's end */
    /* How many rows the step appends, and which, a way down from row 0; kept NULL: the first ones. All rows, or of a
     * tree the leading ones that each follow the one before, unless take() says otherwise. */
    size_t n_kept;
    const uint16_t *kept; /* [n_kept], until the step's end */
};

/* When a step makes way for another: looked at before every operator. */
typedef struct EngineYield {
    const _Atomic bool *wanted; /* NULL: nobody asks */
    uint64_t until_ns;          /* of clock_now_ns(); 0: no end */
    bool no_waiting;            /* nor does it wait for weights: ENGINE_E_WAITING */
} EngineYield;

/* A step that can stop before an operator and go on there, while another one runs. */
typedef struct EngineStep EngineStep;

/* Whether another step can begin while one has made way. */
bool engine_has_preemption(const Engine *engine);
/* Prepares a step of n_spans (1..ENGINE_SPANS_MAX) sequences; spans and what they point to stay until its end. 0,
 * -EBUSY (as many steps as there is memory for have begun), else as engine_forward_spans(). */
int engine_step_begin(EngineStep **stepp, Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err);
/* Runs one operator at least, then on to the end or until it must make way: ENGINE_E_YIELDED, ENGINE_E_WAITING. Any
 * other answer is the step's end, as engine_forward_spans() has it. yield may be NULL. */
int engine_step_run(EngineStep *step, const EngineYield *yield, ErrText *err);
/* Ends it early: its sequences are as they were before. */
EngineStep *engine_step_drop(EngineStep *step);

/* Appends the tokens of n_spans (1..ENGINE_SPANS_MAX) sequences and computes them in one pass over the weights. Thread:
 * the one that computes. 0; ENGINE_E_CANCELLED: all of them; ENGINE_E_CONTEXT, ENGINE_E_READ (with a text), -EINVAL
 * (bad token id, bad count, bad parents); with a tree, or after a rewind into positions that a fork shares,
 * ENGINE_E_MEMORY: none was appended. */
int engine_forward_spans(Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err);
/* The same for one sequence. */
int engine_forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_logit_rows,
                   float *logits, ErrText *err);

#endif
