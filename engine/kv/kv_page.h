// SPDX-License-Identifier: Apache-2.0
/* A page of a KV cache: the keys and values of one block of positions in all layers of a model. Sequences share it, and
 * the prefix cache keeps it for sequences to come. */
#ifndef COORDGEN_ENGINE_KV_PAGE_H
#define COORDGEN_ENGINE_KV_PAGE_H

#include <stdbool.h>

#include "base/memory/account.h"

typedef struct KvPage { /* the thread that computes */
    AccountedBlock memory;
    uint32_t n_users; /* sequences that hold it: it is on the account kv */
    bool is_kept;     /* by the prefix cache: without users it is on the account cache */
} KvPage;

/* What a page of so many bytes charges. */
size_t kv_page_charge_bytes(size_t len_bytes);
/* A page of one user's. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int kv_page_new(KvPage **pagep, AccountTable *accounts, size_t len_bytes);
/* One more user. ACCOUNT_E_LIMIT: it was only kept, and the account kv has no room. */
int kv_page_use(KvPage *page);
void kv_page_hold(KvPage *page); /* for a moment: one more user, on whatever account it is */
void kv_page_unuse(KvPage *page);
void kv_page_keep(KvPage *page);   /* once */
void kv_page_unkeep(KvPage *page); /* what nobody holds any more is freed */

/* Only its one user reads it, and may write. */
static inline bool kv_page_is_private(const KvPage *page) {
    return page->n_users == 1 && !page->is_kept;
}

#endif
