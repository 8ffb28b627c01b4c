// SPDX-License-Identifier: Apache-2.0
/* An engine whose computed rows are counted, and whose products can cancel; and what it says without a draft. */
#ifndef COORDGEN_TEST_COUNTED_ENGINE_H
#define COORDGEN_TEST_COUNTED_ENGINE_H

#include "engine/engine.h"

typedef struct CountedEngine {
    size_t n_computed;   /* rows computed */
    size_t cancel_after; /* product that cancels; 0: never */
    _Atomic bool cancelled;
    bool cancelled_in_head; /* the last operator */
} CountedEngine;

extern CountedEngine counted;

/* Counts from zero. One engine at a time. */
void counted_begin(Engine *engine);
void counted_end(Engine *engine);
/* Checks how many rows were computed since the last check. */
void counted_check(size_t n);
/* Computes the tokens behind the text and a way, one by one, on a sequence that is then as before. */
EngineTops counted_plain_tops(Engine *engine, Sequence *sequence, const uint32_t *way, size_t n);

#endif
