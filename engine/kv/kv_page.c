// SPDX-License-Identifier: Apache-2.0
#include "engine/kv/kv_page.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/memory/page_size.h"

/* Smallest page that asks for huge pages. The kernel joins adjacent maps of one kind, so that the pages of a sequence
 * share huge pages even if each of them is smaller. */
#define HUGE_FROM_BYTES ((size_t)256 << 10)

size_t kv_page_charge_bytes(size_t len_bytes) {
    return page_round_up(len_bytes); /* as accounted_block_init() maps it */
}

/**
 * kv_page_new() - memory for a block of positions, on the account kv
 *
 * The memory goes back to the system when the last user lets go.
 */
int kv_page_new(KvPage **pagep, AccountTable *accounts, size_t len_bytes) {
    KvPage *page = calloc(1, sizeof(*page));
    int r;

    if (!page)
        return err_raise(-ENOMEM);
    r = accounted_block_init(&page->memory, accounts, ACCOUNT_KV, len_bytes);
    if (r) {
        free(page);
        return r;
    }
    if (len_bytes >= HUGE_FROM_BYTES)
        (void)madvise(page->memory.data, page->memory.len_bytes, MADV_HUGEPAGE);
    page->n_users = 1;
    *pagep = page;
    return 0;
}

static void free_unheld(KvPage *page) {
    if (page->n_users || page->is_kept)
        return;
    accounted_block_deinit(&page->memory);
    free(page);
}

int kv_page_use(KvPage *page) {
    int r = page->n_users ? 0 : bill_move(&page->memory.bill, ACCOUNT_KV);

    if (!r)
        page->n_users++;
    return r;
}

void kv_page_hold(KvPage *page) {
    page->n_users++;
}

void kv_page_unuse(KvPage *page) {
    /* If the account cache has no room, the page stays on the account kv. */
    if (!--page->n_users && page->is_kept)
        (void)bill_move(&page->memory.bill, ACCOUNT_CACHE);
    free_unheld(page);
}

void kv_page_keep(KvPage *page) {
    assert(!page->is_kept);
    page->is_kept = true;
}

void kv_page_unkeep(KvPage *page) {
    page->is_kept = false;
    free_unheld(page);
}
