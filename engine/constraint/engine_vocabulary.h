// SPDX-License-Identifier: Apache-2.0
/* The vocabulary of a loaded model for constraints, made when a request first needs it. */
#ifndef COORDGEN_ENGINE_ENGINE_VOCABULARY_H
#define COORDGEN_ENGINE_ENGINE_VOCABULARY_H

#include "engine/constraint/constraint_vocabulary.h"
#include "engine/core/engine_core.h"

/* Returns the engine's vocabulary, *vocabularyp, and makes it if need be, which takes some 0.1 to 0.7 s: call it beside
 * the threads that serve and compute. Its memory is charged to the account of weights. It is valid as long as the
 * engine, or a reference. Any thread. 0, ENGINE_E_MEMORY, -errno, with a text. */
int engine_vocabulary(Engine *engine, ConstraintVocabulary **vocabularyp, ErrText *err);
/* Returns the vocabulary if it was made already, else NULL. Any thread. */
ConstraintVocabulary *engine_vocabulary_made(const Engine *engine);

#endif
