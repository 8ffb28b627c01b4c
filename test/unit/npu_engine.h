// SPDX-License-Identifier: Apache-2.0
/* An engine with accounts and threads of its own, for tests of the npu device beside the cpu device. */
#ifndef COORDGEN_TEST_UNIT_NPU_ENGINE_H
#define COORDGEN_TEST_UNIT_NPU_ENGINE_H

#include "engine/engine.h"

typedef struct NpuEngine {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
} NpuEngine;

/* The options' pool and accounts are set here. As engine_new(); npu_engine_unload() either way. */
int npu_engine_try(NpuEngine *loaded, const EngineOptions *options, unsigned int threads, ErrText *err);
void npu_engine_load(NpuEngine *loaded, const EngineOptions *options, unsigned int threads);
/* Nothing may be left on any account. */
void npu_engine_unload(NpuEngine *loaded);

#endif
