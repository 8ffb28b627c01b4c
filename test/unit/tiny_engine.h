// SPDX-License-Identifier: Apache-2.0
/* An engine on a small model of random weights, on either device. */
#ifndef COORDGEN_TEST_UNIT_TINY_ENGINE_H
#define COORDGEN_TEST_UNIT_TINY_ENGINE_H

#include "engine/engine.h"
#include "test/unit/import_fixture.h"

enum {
    TINY_VOCAB = 40,
    TINY_CONTEXT = 512,
};

typedef struct TinyEngine {
    PrefixCache *prefix_cache;       /* the caller's, before it is opened; may be NULL */
    bool adds_bos;                   /* likewise */
    const char *arch;                /* likewise: as tree_model_maker() has it; NULL: the default model */
    const ModelMaker *maker;         /* likewise: another model than these */
    Isa isa;                         /* likewise; 0: scalar */
    bool puts_spaces;                /* likewise: its tokenizer puts a space before a text */
    bool preempts;                   /* likewise: memory for a second step */
    const BackendDevice *own_device; /* likewise: one that reads sources and that the engine does not know */
    ImportFixture *files;
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
} TinyEngine;

void tiny_engine_open(TinyEngine *tiny, EngineDevice device, uint32_t chunk_tokens);
/* Nothing may be left on any account. */
void tiny_engine_close(TinyEngine *tiny);

#endif
