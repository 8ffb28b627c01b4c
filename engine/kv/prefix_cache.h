// SPDX-License-Identifier: Apache-2.0
/* Prefix cache: keeps keys and values of texts for later requests that begin alike, in a tree of pages for each model
 * and user. Nothing is shared between users or models. */
#ifndef COORDGEN_ENGINE_PREFIX_CACHE_H
#define COORDGEN_ENGINE_PREFIX_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/queue.h"
#include "engine/kv/kv_page.h"

/* Why a prompt found no longer prefix. */
typedef enum PrefixOutcome {
    PREFIX_UNKNOWN,
    PREFIX_WHOLE,     /* the whole prompt was kept; its last tokens (at most PREFIX_TOKENS_MIN) are computed */
    PREFIX_NEW_TEXT,  /* the kept text ends; the prompt is longer */
    PREFIX_DIFFERENT, /* the kept text goes on differently */
    PREFIX_FIRST_USE, /* nothing of this user and model is kept */
    PREFIX_EVICTED,   /* more was kept, until its memory was needed */
    PREFIX_TOO_SHORT, /* a prompt of one token, or fewer than PREFIX_TOKENS_MIN in common */
    PREFIX_OFF,       /* there is no cache */
    PREFIX_DECLINED,  /* the request refused reuse */
    _PREFIX_OUTCOME_N,
} PrefixOutcome;

/* Fewer tokens of a page than this are computed, because copying the page costs about as much. */
#define PREFIX_TOKENS_MIN 8

typedef struct PrefixCache PrefixCache;
typedef struct PrefixNode PrefixNode;

/* Owner of a text: texts of different owners are not shared. */
typedef struct PrefixOwner {
    const void *model;     /* identified by this address */
    uint64_t user;         /* uid */
    size_t page_positions; /* the same in all calls for a model */
    AccountTable *accounts;
} PrefixOwner;

/* A hold on a kept text: pinned texts are evicted last. Zero: none. */
typedef struct PrefixPin {
    PrefixNode *node; /* NULL: no text, or all of it was evicted */
    LIST_ENTRY(PrefixPin) link;
} PrefixPin;

typedef struct PrefixMatch {
    size_t n_tokens;
    PrefixOutcome outcome;
    size_t n_pages; /* pages of n_tokens */
    KvPage **pages; /* [n_pages] array of the caller's; the last page may hold more positions */
} PrefixMatch;

/* Thread: the one that computes, for all of these but prefix_cache_kept_bytes(). */
int prefix_cache_new(PrefixCache **cachep, uint64_t limit_bytes);
PrefixCache *prefix_cache_free(PrefixCache *cache);
DEFINE_CLEANUP(PrefixCache, prefix_cache_free)

/* Finds the longest kept prefix of tokens[n]; match->pages has room for all pages of n tokens. */
void prefix_cache_match(PrefixCache *cache, const PrefixOwner *owner, const uint32_t *tokens, size_t n, bool of_session,
                        PrefixMatch *match);
/* Keeps the pages of tokens[n], only whole ones if the text still grows. pin (may be NULL) holds the text from then
 * on. */
void prefix_cache_put(PrefixCache *cache, const PrefixOwner *owner, const uint32_t *tokens, size_t n,
                      KvPage *const *pages, bool grows, PrefixPin *pin);
void prefix_cache_drop_model(PrefixCache *cache, const void *model);
void prefix_cache_drop_all(PrefixCache *cache);
/* Evicts at least so many bytes that no sequence uses, the least recently used first. Return: false if there are fewer;
 * nothing changes then. */
bool prefix_cache_give_back(PrefixCache *cache, uint64_t len_bytes);
uint64_t prefix_cache_kept_bytes(const PrefixCache *cache); /* bytes of kept pages; any thread */

/* Makes `pin`, which holds nothing, hold the text of `from`. */
void prefix_pin_copy(PrefixPin *pin, const PrefixPin *from);
/* Ends the hold; a text that only sessions used, and that no other pin holds, is dropped. */
void prefix_pin_release(PrefixCache *cache, PrefixPin *pin);

#endif
