// SPDX-License-Identifier: Apache-2.0
/* What the parts of the engine share: engine.c makes it, forward.c runs it. */
#ifndef COORDGEN_ENGINE_ENGINE_PRIVATE_H
#define COORDGEN_ENGINE_ENGINE_PRIVATE_H

#include "backends/backend.h"
#include "engine/step/early_exit.h"
#include "engine/engine.h"
#include "engine/kv/kv_page.h"
#include "engine/kv/prefix_cache.h"
#include "engine/step/layer_ops.h"
#include "engine/step/queue_profile.h"
#include "engine/step/row_groups.h"
#include "model/hparams/hparams.h"
#include "model/package/package.h"
#include "spec/speculation_memory.h"
#include "weights/weights.h"

#define ENGINE_STEPS_MAX 2 /* one that has made way, and the one it made way for */

/* A step and the memory of its rows. */
struct EngineStep {
    Engine *engine;
    AccountedBlock memory; /* the slots, rotary rows and rows of the batch below */
    float *slots[_SLOT_N]; /* f32[chunk][dim of the slot] */
    RopeRows rope, rope_local;
    bool is_taken;     /* from begin to its end */
    EngineSpan *spans; /* [n_spans], the caller's; the sequences of the batch are theirs, in their order */
    size_t n_spans;
    Batch batch;         /* at most chunk_tokens rows, and behind them those of earlier steps */
    uint32_t *span_rows; /* [rows of the batch]: which of its span's a row is */
    uint32_t *outputs;   /* [rows of the batch]: those whose logits are wanted, for the head */
    BatchSequence sequences[ENGINE_SPANS_MAX];
    uint32_t layer; /* where it goes on: this node of this layer; n_layers: the head */
    size_t node;
    bool has_rows;    /* the embeddings are there */
    bool has_exited;  /* early_exit_run() has run */
    bool in_layers;   /* within a run of layers, to run_end */
    uint32_t run_end; /* of layers whose weights were there together */
    RowGroups groups;
};

struct Engine {
    Hparams hparams;
    EngineInfo info;
    char *name;
    Backend *backend;
    LayerGraph layer; /* as the device runs it */
    Weights *weights;
    Tokenizer *tokenizer;
    Bill tokenizer_bill; /* of its tables */
    ChatTemplate chat;
    SamplingDefaults sampling;
    AccountTable *accounts;
    GgufFile *file;                       /* reference device: its weights are read from the map */
    Package *package;                     /* cpu device: until all weights are there */
    WeightsCheck *check;                  /* of it, likewise; may be NULL */
    size_t n_sequences;                   /* alive */
    size_t kv_plane_bytes, kv_page_bytes; /* keys or values of a layer in a page; all of a page */

    uint32_t chunk_tokens;
    bool chunk_is_chosen; /* by the device */
    EngineStep steps[ENGINE_STEPS_MAX];
    size_t n_steps;      /* that there is memory for */
    bool no_pipeline;    /* as EngineOptions has it */
    uint32_t group_rows; /* likewise */
    RowGroupDevices group_devices;
    OpOrder op_order; /* as EngineOptions has it */
    size_t steal_beyond;
    QueueProfile queue_profile; /* likewise, and what is measured */
    EngineQueueCounts queue_counts;
    size_t n_positions;       /* the longest that a sequence was made for: its devices attend to so many */
    AccountedBlock head_rows; /* scratch of steps whose head runs at several rows, from the first one on */
    EarlyExit early_exit;
    SpeculationMemory speculation; /* what generations leave to later ones */
    _Atomic uint64_t *heartbeat;   /* may be NULL */
    Trace *trace;                  /* may be NULL */
    PrefixCache *prefix_cache;     /* may be NULL */
};

/* A tree that steps grow behind a sequence's positions: row 0 is at the next one, row i + 1 in slot i of the side
 * block. */
typedef struct OpenTree {
    size_t n; /* 0: none is open */
    int16_t parents[ENGINE_TREE_ROWS_MAX];
} OpenTree;

struct Sequence {
    Engine *engine;
    size_t n_tokens, capacity_tokens;
    size_t n_pages;                /* of capacity_tokens */
    KvPage **pages;                /* [n_pages] */
    void **blocks;                 /* [n_pages] their memory, as BatchSequence has it */
    KvPage *side;                  /* of a tree's rows with slots; NULL: there was none yet */
    OpenTree tree;                 /* behind its positions */
    const _Atomic bool *cancelled; /* may be NULL */
    bool in_step;                  /* one that has begun */
};

/* Since when, for a trace; and the operator's event. */
uint64_t engine_trace_begin(const Engine *engine);
void engine_trace_node(const Engine *engine, size_t node, uint64_t start_ns, uint32_t layer, size_t row, size_t rows,
                       unsigned int worker);
void engine_trace_part(const Engine *engine, const char *name, const char *category, uint64_t start_ns, int32_t layer,
                       size_t rows);
/* Whether a step stops before its next operator; any thread. */
bool engine_step_stops(const EngineStep *step, const EngineYield *yield);
/* The same, noting which sequences are cancelled: 0, ENGINE_E_YIELDED, ENGINE_E_CANCELLED. Thread: the one that
 * computes. */
int engine_step_look_up(EngineStep *step, const EngineYield *yield);
/* The weights of a stage (weights/weights.h) for a step in this layer, and when it has computed with them. */
int engine_step_hold(EngineStep *step, uint32_t stage, int32_t layer, const EngineYield *yield, ErrText *err);
void engine_step_let_go(EngineStep *step, uint32_t stage); /* layers below step->layer are computed */

/* --- a step in parts: engine_step_run() is all of them, one after the other --------------------------------------- */

int engine_step_layers(EngineStep *step, uint32_t end, const EngineYield *yield, ErrText *err);
/* From here on the step has only these rows of span `index`. */
int engine_step_keep(EngineStep *step, size_t index, const uint16_t *rows, size_t n);
int engine_step_logits(EngineStep *step, const uint32_t *rows, size_t n, float *logits, ErrText *err);
/* Logits of all rows that want them, to their spans. As engine_step_run(). */
int engine_step_heads(EngineStep *step, ErrText *err);
/* What spans say that they keep becomes positions of their sequences. */
void engine_step_commit(EngineStep *step);

/* What spans ask for can be had: 0, -EINVAL, ENGINE_E_CONTEXT. */
int step_rows_check(const Engine *engine, const EngineSpan *spans, size_t n_spans);
/* Memory that their rows are written to becomes their sequences' own: 0, ENGINE_E_MEMORY, -ENOMEM. */
int step_rows_reserve(const EngineSpan *spans, size_t n_spans, ErrText *err);
/* The batch of a step's spans, one after the other; their sequences are in the step. */
void step_rows_fill(EngineStep *step);
/* Where the row of a span is among rows [at, end) of the batch, which rise; or end. */
size_t step_rows_find(const EngineStep *step, size_t at, size_t end, uint32_t row);

/* Keys and values of rows that had a slot go to their positions, in all layers. */
void engine_move_rows(const Engine *engine, const KvMove *moves, size_t n);
/* The whole tree that has n rows more: parents[returned]; 0: those are too many. */
size_t open_tree_with(const OpenTree *tree, const int16_t *more, size_t n, int16_t parents[ENGINE_TREE_ROWS_MAX]);
/* It has them now. */
void open_tree_grow(OpenTree *tree, const int16_t *more, size_t n);

/* Carves slots and rotary rows for chunk_tokens rows out of a new block for each step. */
int engine_reserve_rows(Engine *engine, uint32_t chunk_tokens, ErrText *err);
/* Likewise, for the chunk of the options, or as many tokens as the device does best with. */
int engine_reserve_chunk(Engine *engine, const EngineOptions *options, ErrText *err);
/* All weights that have not come yet. 0, else as engine_arrive(). */
int engine_take_in_all(Engine *engine, ErrText *err);
/* The weights of a stage, as weights_acquire(): 0, ENGINE_E_WAITING, else as engine_arrive(). */
int engine_acquire(Engine *engine, uint32_t stage, uint64_t wait_ns, ErrText *err);
/* Evicts kept prefixes when that lets so many bytes be charged to the account. */
void engine_make_room(Engine *engine, AccountId id, uint64_t len_bytes);
/* The most probable tokens of a row's logits. */
void engine_tops(const float *logits, size_t n_vocab, EngineTops *tops);
/* Rows that engine_step_tops() takes at once, at most. */
#define TOPS_ROWS_MAX 256
/* The same for rows[n] of the step, behind the last layer, whose logits go nowhere or to a place of their own: how many
 * rows at a time, with room for them in `head_rows`; 0: not on this device or for this head, or no memory. */
size_t engine_tops_rows(Engine *engine, size_t n);
int engine_step_tops(EngineStep *step, const uint32_t *rows, size_t n, size_t n_outputs, EngineTops *tops,
                     float *const *places, ErrText *err);
/* Rows, normalised, one behind the other in SLOT_NORM. */
void engine_step_gather(EngineStep *step, const uint32_t *rows, size_t n);
/* `head_rows` has so many bytes. */
bool engine_has_head_rows(Engine *engine, size_t len_bytes);
/* Begins with n_tokens positions that the pages hold, and shares their memory. */
int sequence_new_after(Sequence **sequencep, Engine *engine, KvPage *const *pages, size_t n_tokens,
                       size_t capacity_tokens, ErrText *err);
/* The pages of the next n positions become the sequence's own. 0, ENGINE_E_MEMORY, -ENOMEM. */
int sequence_make_writable(Sequence *sequence, size_t n, ErrText *err);
/* It has a block beside its pages, until it is freed. Likewise. */
int sequence_make_side(Sequence *sequence, ErrText *err);

#endif
