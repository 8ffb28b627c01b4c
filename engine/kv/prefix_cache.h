// SPDX-License-Identifier: Apache-2.0
/* Beginnings of texts whose keys and values are kept, for requests to come that begin alike: a tree of pages for each
 * model and user. Nothing is shared between users or models. */
#ifndef COORDGEN_ENGINE_PREFIX_CACHE_H
#define COORDGEN_ENGINE_PREFIX_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/queue.h"
#include "engine/kv/kv_page.h"

/* Why not more of a prompt was there already. */
typedef enum PrefixOutcome {
    PREFIX_UNKNOWN,
    PREFIX_WHOLE,     /* all was, but the last token, whose logits are wanted, and less than PREFIX_TOKENS_MIN */
    PREFIX_NEW_TEXT,  /* all that was kept fits; the prompt is longer */
    PREFIX_DIFFERENT, /* what was kept goes on differently from there */
    PREFIX_FIRST_USE, /* nothing of this user and model is kept */
    PREFIX_EVICTED,   /* more was kept, until its memory was needed */
    PREFIX_TOO_SHORT, /* a prompt of one token, or fewer than PREFIX_TOKENS_MIN in common */
    PREFIX_OFF,       /* there is no cache */
    PREFIX_DECLINED,  /* the request wanted none */
    _PREFIX_OUTCOME_N,
} PrefixOutcome;

/* Fewer tokens of a page than these are computed: a copy of the page costs about as much. */
#define PREFIX_TOKENS_MIN 8

typedef struct PrefixCache PrefixCache;
typedef struct PrefixNode PrefixNode;

/* Whose text. */
typedef struct PrefixOwner {
    const void *model;     /* its address is its name */
    uint64_t user;         /* uid */
    size_t page_positions; /* the same in all calls for a model */
    AccountTable *accounts;
} PrefixOwner;

/* A hold on a kept text: what is pinned goes last when memory is needed. Zero: none. */
typedef struct PrefixPin {
    PrefixNode *node; /* NULL: none, or all of it was evicted */
    LIST_ENTRY(PrefixPin) link;
} PrefixPin;

typedef struct PrefixMatch {
    size_t n_tokens;
    PrefixOutcome outcome;
    size_t n_pages; /* of n_tokens */
    KvPage **pages; /* [n_pages] of the caller's; the last one may hold more than is wanted */
} PrefixMatch;

/* Thread: the one that computes, for all of these but prefix_cache_kept_bytes(). */
int prefix_cache_new(PrefixCache **cachep, uint64_t limit_bytes);
PrefixCache *prefix_cache_free(PrefixCache *cache);
DEFINE_CLEANUP(PrefixCache, prefix_cache_free)

/* The longest beginning of tokens[n] that is kept; match->pages has room for all pages of n tokens. */
void prefix_cache_match(PrefixCache *cache, const PrefixOwner *owner, const uint32_t *tokens, size_t n, bool of_session,
                        PrefixMatch *match);
/* Keeps the pages of tokens[n]; of a text that still grows only whole ones. pin (may be NULL) then holds the text. */
void prefix_cache_put(PrefixCache *cache, const PrefixOwner *owner, const uint32_t *tokens, size_t n,
                      KvPage *const *pages, bool grows, PrefixPin *pin);
void prefix_cache_drop_model(PrefixCache *cache, const void *model);
void prefix_cache_drop_all(PrefixCache *cache);
/* Lets go of at least so many bytes that no sequence uses, the least recently used first. Whether there were as many;
 * if not, nothing changes. */
bool prefix_cache_give_back(PrefixCache *cache, uint64_t len_bytes);
uint64_t prefix_cache_kept_bytes(const PrefixCache *cache); /* of pages; any thread */

/* Another hold on the same text, for a pin that has none. */
void prefix_pin_copy(PrefixPin *pin, const PrefixPin *from);
/* Lets go; what only sessions used, and no other one holds, is dropped. */
void prefix_pin_release(PrefixCache *cache, PrefixPin *pin);

#endif
