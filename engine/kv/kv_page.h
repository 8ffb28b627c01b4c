// SPDX-License-Identifier: Apache-2.0
/* A page of a KV cache: the keys and values of one block of positions in all layers of a model. Sequences share it, and
 * the prefix cache keeps it for sequences to come. */
#ifndef COORDGEN_ENGINE_KV_PAGE_H
#define COORDGEN_ENGINE_KV_PAGE_H

#include <stdbool.h>

#include "base/memory/account.h"

typedef struct KvPage { /* the thread that computes */
    AccountedBlock memory;
    uint32_t n_users; /* sequences that hold the page, which is on the account kv then */
    bool is_kept;     /* the prefix cache keeps the page, which is on the account cache without users */
} KvPage;

/* Returns the bytes that a page of so many bytes charges. */
size_t kv_page_charge_bytes(size_t len_bytes);
/* Makes a page with one user. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int kv_page_new(KvPage **pagep, AccountTable *accounts, size_t len_bytes);
/* Adds a user. ACCOUNT_E_LIMIT: the page was only kept, and the account kv has no room for it. */
int kv_page_use(KvPage *page);
/* Adds a user for a moment, without moving the page to another account. */
void kv_page_hold(KvPage *page);
/* Removes a user; a page that nobody uses or keeps is freed. */
void kv_page_unuse(KvPage *page);
/* Marks the page as kept, which it must not be yet. */
void kv_page_keep(KvPage *page);
/* Ends keeping; a page that nobody uses is freed. */
void kv_page_unkeep(KvPage *page);

/* Returns whether only one user reads the page, who may write then. */
static inline bool kv_page_is_private(const KvPage *page) {
    return page->n_users == 1 && !page->is_kept;
}

#endif
