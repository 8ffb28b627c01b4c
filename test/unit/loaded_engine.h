// SPDX-License-Identifier: Apache-2.0
/* An engine on the package of a small model of 20 layers, so that its weights come in many parts, and one sequence. */
#ifndef COORDGEN_TEST_UNIT_LOADED_ENGINE_H
#define COORDGEN_TEST_UNIT_LOADED_ENGINE_H

#include <limits.h>

#include "engine/engine.h"
#include "test/unit/import_fixture.h"

enum {
    LOADED_N_VOCAB = 40,
    LOADED_N_TOKENS = 20,
    LOADED_CHUNK = 8,
};

typedef enum LoadedFlags {
    LOADED_ARRIVING = 1,       /* the engine is there before its weights */
    LOADED_OPTIONAL_IMAGE = 2, /* nobody has asked for the image */
} LoadedFlags;

typedef struct Loaded {
    const char *image_path; /* the caller's, before it is loaded; may be NULL */
    Isa isa;                /* likewise, as the next four */
    WeightsMemory weights_memory;
    ReadLimit flash_limit;
    WeightsChecking checking;
    const char *cache_dir; /* of notes; may be NULL */
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Sequence *sequence;
} Loaded;

/* Imports one; its path. */
void loaded_make_package(ImportFixture *fixture, double bits, bool static_activations, bool tied, char path[PATH_MAX]);
EngineOptions loaded_options(const Loaded *loaded, const char *package, LoadedFlags flags);
/* Sets all but what is the caller's. */
void loaded_init(Loaded *loaded, const char *package, LoadedFlags flags);
/* The same where it may fail, after which there is nothing to deinit: as engine_new(). */
int loaded_try(Loaded *loaded, const char *package, LoadedFlags flags, ErrText *err);
/* Nothing may be left on any account. */
void loaded_deinit(Loaded *loaded);
void loaded_accounts_are_empty(AccountTable *accounts);
/* Logits of all positions, in steps of a chunk. */
int loaded_forward(Loaded *loaded, float logits[LOADED_N_TOKENS * LOADED_N_VOCAB], ErrText *err);

#endif
