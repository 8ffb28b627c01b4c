// SPDX-License-Identifier: Apache-2.0
/* The real default model for unit tests: imported once, opened on the device that a test asks for. */
#ifndef COORDGEN_TEST_UNIT_REAL_MODEL_H
#define COORDGEN_TEST_UNIT_REAL_MODEL_H

#include "engine/engine.h"

typedef struct RealModel {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
} RealModel;

/* COORDGEN_MODEL, or the place that tools/fetch-model puts the default model; static memory. */
const char *real_model_path(void);
/* Fails the test with the reason when the model is not there: `make check` fetches it. */
void real_model_open(RealModel *model, EngineDevice device, Isa isa, unsigned int threads, uint32_t chunk_tokens);
void real_model_close(RealModel *model);

#endif
