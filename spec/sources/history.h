// SPDX-License-Identifier: Apache-2.0
/* Drafts from what earlier finished generations of the same user and tokenizer said. A History has their texts in
 * memory. Each running generation has a HistoryReader, its place in them: the source "history" of a Speculator
 * (SpeculatorOptions.history).
 *
 * There are two ages of texts. New texts go into the young age. When that has half of bytes_max, the old age is dropped
 * and the young becomes the old. Nothing is built anew, and both are searched. Memory is charged on draftdb: at most
 * SUFFIX_AUTOMATON_TOKEN_BYTES (92) a token, about 80 in source code, 4 where a text begins as an earlier one did.
 *
 * A history and its readers belong to one thread, the one that computes. There are no globals: another thread may build
 * a history with history_new() and history_add(), and hand it over whole before the first reader is made. Texts that
 * finished meanwhile are added behind that. */
#ifndef COORDGEN_SPEC_HISTORY_H
#define COORDGEN_SPEC_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/drafter.h"

enum {
    HISTORY_REMATCH = 128,        /* last tokens of a text that are looked up anew when texts came or went */
    HISTORY_BYTES_MIN = 128 << 10 /* smallest useful bytes_max: with less nothing is kept */
};

typedef struct HistoryStats {
    uint64_t n_texts, n_tokens; /* texts and tokens that are there now; a text counts until all of it has made way */
    uint64_t bytes;             /* memory, at most bytes_max */
} HistoryStats;

typedef struct History History;

/* 0, -ENOMEM. */
int history_new(AccountTable *accounts, uint64_t bytes_max, History **historyp);
/* Frees the texts and their memory at once. Readers may live on: they find nothing from then on. */
void history_free(History *history);
DEFINE_CLEANUP(History, history_free)
/* Adds a finished text, from its first token to its last; older ones make way. 0, -ENOMEM, -errno of a hash's key;
 * DRAFTER_E_MEMORY: only a part of the text was taken in. */
int history_add(History *history, const uint32_t *tokens, size_t n);
HistoryStats history_stats(const History *history);

/* The source; self: a HistoryReader. A cursor, which any history_add() voids: a and b are the states among the young
 * and the old texts; c has the lengths of both matches, the young one's in its upper half. */
extern const DrafterOps history_drafter_ops;

typedef struct HistoryReader HistoryReader;

/* Makes a reader at the beginning of a text. 0, -ENOMEM. */
int history_reader_new(History *history, HistoryReader **readerp);
void history_reader_free(HistoryReader *reader);
DEFINE_CLEANUP(HistoryReader, history_reader_free)

#endif
