// SPDX-License-Identifier: Apache-2.0
/* The fields of an engine, and access to its weights by stages. Private to engine/. */
#ifndef COORDGEN_ENGINE_STATE_H
#define COORDGEN_ENGINE_STATE_H

#include <stdatomic.h>

#include "engine/core/engine_core.h"
#include "model/hparams/hparams.h"
#include "model/package/package.h"
#include "spec/speculation_memory.h"
#include "weights/residency/weights_check.h"

/* What turns an engine's texts into tokens. */
typedef struct EngineText {
    Tokenizer *tokenizer;
    ChatTemplate chat;
    Bill bill; /* memory of the tables of both */
    /* For constraints (constraint/engine_vocabulary.h): NULL until a request needs it; any thread. */
    struct ConstraintVocabulary *_Atomic vocabulary;
} EngineText;

/* Files that an engine's weights come from. */
typedef struct EngineFiles {
    GgufFile *gguf;      /* reference device: weights are read from its map */
    Package *package;    /* cpu device: open until all weights have arrived */
    WeightsCheck *check; /* checksums of the package, until then; may be NULL */
} EngineFiles;

/* What the sequences of an engine have in common. */
typedef struct EngineKv {
    size_t n_sequences;               /* that are not freed */
    size_t plane_bytes, page_bytes;   /* keys or values of one layer in a page; a whole page */
    struct PrefixCache *prefix_cache; /* kv/prefix_cache.h; may be NULL */
    /* Makes all devices of the steps attend to so many positions: row_groups_reserve_positions(). */
    int (*reserve_positions)(Engine *engine, size_t n_positions, ErrText *err);
} EngineKv;

struct Engine {
    Hparams hparams;
    EngineInfo info;
    char *name;
    Backend *backend;
    Weights *weights;
    EngineText text;
    struct SamplingDefaults *sampling; /* engine/sampling/sampling_defaults.h */
    AccountTable *accounts;
    EngineFiles files;
    EngineKv kv;
    struct EngineSteps *steps;     /* step/step_state.h */
    SpeculationMemory speculation; /* what generations leave to later ones */
    _Atomic uint64_t *heartbeat;   /* may be NULL */
    Trace *trace;                  /* may be NULL */
};

/* Counts one operator as a sign of life for the watchdog. Any thread. */
static inline void engine_beat(const Engine *engine) {
    if (engine->heartbeat)
        atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
}

/* Translates an answer of weights/ into one of the engine. */
int engine_weights_error(int r);
/* Takes in all weights that have not arrived. Return: as engine_arrive(). */
int engine_take_in_all(Engine *engine, ErrText *err);
/* Acquires the weights of a stage, as weights_acquire(). Return: 0, ENGINE_E_WAITING, else as engine_arrive(). */
int engine_acquire(Engine *engine, uint32_t stage, uint64_t wait_ns, ErrText *err);
/* Copies the byte counts of the weights into engine->info. */
void engine_count_weights(Engine *engine);
/* Ends a load: counts and logs the weights, closes the package. All weights have arrived. */
void engine_has_arrived(Engine *engine);

#endif
