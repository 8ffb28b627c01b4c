/* A page of a KV cache: keys and values of a device's block of positions in all layers of a model. Sequences share it. */
#ifndef COORDGEN_ENGINE_KV_PAGE_H
#define COORDGEN_ENGINE_KV_PAGE_H

#include "base/account.h"

typedef struct KvPage { /* the thread that computes */
    AccountedBlock memory;
    uint32_t n_users; /* sequences that hold it */
} KvPage;

/* A page of one user's. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int kv_page_new(KvPage **pagep, AccountTable *accounts, size_t len_bytes);
void kv_page_use(KvPage *page);
void kv_page_unuse(KvPage *page); /* the last one frees it */

#endif
