// SPDX-License-Identifier: Apache-2.0
#include "engine/kv/prefix_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/min_max.h"

/* Number of hashes of evicted texts that are remembered, so that a request can be told why it had to compute. */
#define GHOSTS 4096

typedef struct PrefixRoot PrefixRoot;

/* Texts that are kept for one user, of all models. */
typedef struct PrefixUser {
    uint64_t user;
    size_t n_roots;
    uint64_t kept_bytes;
    TAILQ_HEAD(PrefixAges, PrefixNode) ages; /* the least recently used last */
    LIST_ENTRY(PrefixUser) link;
} PrefixUser;

/* A page of a text. Invariants: no child of a node begins with all tokens of another child; only full pages have
 * children; a node was used later than its children, so that the least recently used node is a leaf. */
struct PrefixNode {
    PrefixNode *parent; /* NULL: the node is the top of a root, which has no page */
    PrefixRoot *root;
    PrefixNode **children; /* [n_children], in the order of their tokens */
    size_t n_children, children_room;
    KvPage *page;
    uint64_t hash; /* of the text up to the end of the page */
    LIST_HEAD(, PrefixPin) pins;
    bool of_sessions; /* nothing but sessions has used it */
    Bill bill;
    TAILQ_ENTRY(PrefixNode) age;
    size_t n_tokens;
    uint32_t tokens[];
};

struct PrefixRoot {
    PrefixOwner owner;
    PrefixUser *user;
    LIST_ENTRY(PrefixRoot) link;
    PrefixNode top; /* last, for its flexible array, which is empty */
};

struct PrefixCache {
    uint64_t limit_bytes;
    _Atomic uint64_t kept_bytes;
    LIST_HEAD(, PrefixRoot) roots;
    LIST_HEAD(, PrefixUser) users;
    uint64_t ghosts[GHOSTS]; /* hashes of evicted texts, at index hash % GHOSTS; 0: none */
};

int prefix_cache_new(PrefixCache **cachep, uint64_t limit_bytes) {
    PrefixCache *cache = calloc(1, sizeof(*cache));

    if (!cache)
        return err_raise(-ENOMEM);
    cache->limit_bytes = limit_bytes;
    LIST_INIT(&cache->roots);
    LIST_INIT(&cache->users);
    *cachep = cache;
    return 0;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_step(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t owner_hash(const PrefixOwner *owner) {
    return hash_step(hash_step(1, (uintptr_t)owner->model), owner->user);
}

/* Returns how many tokens both texts begin with. */
static size_t n_common(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b) {
    const size_t n = MIN(n_a, n_b);
    size_t i = 0;

    while (i < n && a[i] == b[i])
        i++;
    return i;
}

static bool is_before(const PrefixNode *node, const uint32_t *tokens, size_t n) {
    const size_t same = n_common(node->tokens, node->n_tokens, tokens, n);

    return same == n ? false : same == node->n_tokens || node->tokens[same] < tokens[same];
}

/* Returns the index of the first child that is not before the text. */
static size_t find_place(const PrefixNode *node, const uint32_t *tokens, size_t n) {
    size_t low = 0, high = node->n_children;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (is_before(node->children[middle], tokens, n))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the child that shares the longest beginning with the text, which stands beside the text's place in the order of
 * texts. Return: NULL if the node has no child. */
static PrefixNode *find_nearest(const PrefixNode *node, const uint32_t *tokens, size_t n, size_t *n_commonp) {
    const size_t place = find_place(node, tokens, n);
    PrefixNode *best = NULL;

    *n_commonp = 0;
    for (size_t i = place ? place - 1 : 0; i <= place && i < node->n_children; i++) {
        PrefixNode *child = node->children[i];
        const size_t same = n_common(child->tokens, child->n_tokens, tokens, n);

        if (!best || same > *n_commonp) {
            best = child;
            *n_commonp = same;
        }
    }
    return best;
}

static PrefixRoot *find_root(const PrefixCache *cache, const PrefixOwner *owner) {
    PrefixRoot *root;

    LIST_FOREACH (root, &cache->roots, link)
        if (root->owner.model == owner->model && root->owner.user == owner->user)
            return root;
    return NULL;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static bool is_top(const PrefixNode *node) {
    return !node->parent;
}

/* Marks the node and all before it as used just now. */
static void touch(PrefixNode *node, bool of_session) {
    struct PrefixAges *ages = &node->root->user->ages;

    for (; !is_top(node); node = node->parent) {
        TAILQ_REMOVE(ages, node, age);
        TAILQ_INSERT_HEAD(ages, node, age);
        node->of_sessions = node->of_sessions && of_session;
    }
}

static void move_pins(PrefixNode *from, PrefixNode *to) {
    PrefixPin *pin;

    while ((pin = LIST_FIRST(&from->pins))) {
        LIST_REMOVE(pin, link);
        pin->node = to;
        if (to)
            LIST_INSERT_HEAD(&to->pins, pin, link);
    }
}

/* Frees a leaf; pins go to its parent. */
static void drop_leaf(PrefixCache *cache, PrefixNode *node) {
    PrefixNode *parent = node->parent;
    size_t place = find_place(parent, node->tokens, node->n_tokens);

    assert(!node->n_children && parent->children[place] == node);
    move_pins(node, is_top(parent) ? NULL : parent);
    memmove(parent->children + place, parent->children + place + 1,
            (--parent->n_children - place) * sizeof(*parent->children));
    TAILQ_REMOVE(&node->root->user->ages, node, age);
    node->root->user->kept_bytes -= node->page->memory.len_bytes;
    atomic_fetch_sub(&cache->kept_bytes, node->page->memory.len_bytes);
    kv_page_unkeep(node->page);
    bill_settle(&node->bill);
    free(node->children);
    free(node);
}

static void free_root_if_empty(PrefixRoot *root) {
    if (root->top.n_children)
        return;
    LIST_REMOVE(root, link);
    if (!--root->user->n_roots) {
        LIST_REMOVE(root->user, link);
        free(root->user);
    }
    free(root->top.children);
    free(root);
}

static void drop_tree(PrefixCache *cache, PrefixRoot *root) {
    while (root->top.n_children) {
        PrefixNode *node = root->top.children[root->top.n_children - 1];

        while (node->n_children)
            node = node->children[node->n_children - 1];
        drop_leaf(cache, node);
    }
    free_root_if_empty(root);
}

static int make_room_for_child(PrefixNode *node) {
    const size_t room = node->children_room ? 2 * node->children_room : 4;
    PrefixNode **children;

    if (node->n_children < node->children_room)
        return 0;
    children = reallocarray(node->children, room, sizeof(*children));
    if (!children)
        return err_raise(-ENOMEM);
    node->children = children;
    node->children_room = room;
    return 0;
}

static int add_child(PrefixCache *cache, PrefixNode *parent, const uint32_t *tokens, size_t n, KvPage *page,
                     bool of_session, PrefixNode **nodep) {
    const PrefixOwner *owner = &parent->root->owner;
    PrefixNode *node = calloc(1, sizeof(*node) + n * sizeof(*tokens));
    const size_t place = find_place(parent, tokens, n);

    if (!node || make_room_for_child(parent) ||
        account_charge(owner->accounts, ACCOUNT_CACHE, &node->bill, sizeof(*node) + n * sizeof(*tokens))) {
        free(node);
        return err_raise(-ENOMEM);
    }
    node->parent = parent;
    node->root = parent->root;
    node->page = page;
    node->of_sessions = of_session;
    node->n_tokens = n;
    memcpy(node->tokens, tokens, n * sizeof(*tokens));
    node->hash = parent->hash;
    for (size_t i = 0; i < n; i++)
        node->hash = hash_step(node->hash, tokens[i]);
    LIST_INIT(&node->pins);
    memmove(parent->children + place + 1, parent->children + place,
            (parent->n_children++ - place) * sizeof(*parent->children));
    parent->children[place] = node;
    TAILQ_INSERT_HEAD(&node->root->user->ages, node, age);
    node->root->user->kept_bytes += page->memory.len_bytes;
    kv_page_keep(page);
    atomic_fetch_add(&cache->kept_bytes, page->memory.len_bytes);
    *nodep = node;
    return 0;
}

void prefix_cache_drop_all(PrefixCache *cache) {
    PrefixRoot *root;

    while ((root = LIST_FIRST(&cache->roots)))
        drop_tree(cache, root);
}

PrefixCache *prefix_cache_free(PrefixCache *cache) {
    if (cache)
        prefix_cache_drop_all(cache);
    free(cache);
    return NULL;
}

/* --- eviction ----------------------------------------------------------------------------------------------------- */

/* Finds the user's least recently used leaf that is not pinned; if all are pinned, the least recently used one. Return:
 * NULL if there is none but `except`. */
static PrefixNode *oldest_leaf_of(PrefixUser *user, const PrefixNode *except) {
    PrefixNode *node, *pinned = NULL;

    TAILQ_FOREACH_REVERSE (node, &user->ages, PrefixAges, age) {
        if (node == except || node->n_children)
            continue;
        if (LIST_EMPTY(&node->pins))
            return node;
        pinned = pinned ? pinned : node;
    }
    return pinned;
}

/**
 * oldest_leaf() - the leaf that is evicted first when memory is needed
 * @for_user: user who needs another `len_bytes` for a kept page, which count as this user's; NULL: no user does
 *
 * The leaf is one of the user who has the most. No user is pushed below an equal share by what others keep, and none
 * keeps more than that share by sessions.
 *
 * Return: NULL if that user has no leaf but `except`; the new page is not kept then.
 */
static PrefixNode *oldest_leaf(PrefixCache *cache, const PrefixNode *except, const PrefixUser *for_user,
                               uint64_t len_bytes) {
    PrefixUser *user, *most = NULL;
    uint64_t most_bytes = 0;

    LIST_FOREACH (user, &cache->users, link) {
        const uint64_t bytes = user->kept_bytes + (user == for_user ? len_bytes : 0);

        if (bytes <= most_bytes)
            continue;
        most = user;
        most_bytes = bytes;
    }
    return most ? oldest_leaf_of(most, except) : NULL;
}

/* Evicts a leaf, and its root if that becomes empty; in_use: a root that stays then, or NULL. */
static void evict(PrefixCache *cache, PrefixNode *node, const PrefixRoot *in_use) {
    PrefixRoot *root = node->root;

    cache->ghosts[node->hash % GHOSTS] = node->hash;
    drop_leaf(cache, node);
    if (root != in_use)
        free_root_if_empty(root);
}

bool prefix_cache_give_back(PrefixCache *cache, uint64_t len_bytes) {
    uint64_t unused_bytes = 0, before_bytes;
    PrefixUser *user;
    PrefixNode *node;

    LIST_FOREACH (user, &cache->users, link)
        TAILQ_FOREACH (node, &user->ages, age)
            unused_bytes += node->page->n_users ? 0 : node->page->memory.len_bytes;
    if (unused_bytes < len_bytes)
        return false;
    for (before_bytes = unused_bytes; before_bytes - unused_bytes < len_bytes;) {
        node = oldest_leaf(cache, NULL, NULL, 0);
        unused_bytes -= node->page->n_users ? 0 : node->page->memory.len_bytes;
        evict(cache, node, NULL);
    }
    return true;
}

/* Makes room for a page without evicting the node that it will hang from. */
static bool make_room(PrefixCache *cache, uint64_t len_bytes, const PrefixNode *parent) {
    while (atomic_load(&cache->kept_bytes) + len_bytes > cache->limit_bytes) {
        PrefixNode *node = oldest_leaf(cache, parent, parent->root->user, len_bytes);

        if (!node)
            return false;
        evict(cache, node, parent->root);
    }
    return true;
}

/* Returns whether a text was evicted that goes on from the hash with more than `beyond` of tokens[n]. */
static bool was_evicted(const PrefixCache *cache, uint64_t hash, const uint32_t *tokens, size_t n, size_t beyond) {
    for (size_t i = 0; i < n; i++) {
        hash = hash_step(hash, tokens[i]);
        if (i >= beyond && cache->ghosts[hash % GHOSTS] == hash)
            return true;
    }
    return false;
}

void prefix_cache_drop_model(PrefixCache *cache, const void *model) {
    PrefixRoot *root, *next;

    for (root = LIST_FIRST(&cache->roots); root; root = next) {
        next = LIST_NEXT(root, link);
        if (root->owner.model == model)
            drop_tree(cache, root);
    }
}

/* --- pins --------------------------------------------------------------------------------------------------------- */

/* Moves the pin to a node; the text that it held stays as it is. */
static void pin_to(PrefixPin *pin, PrefixNode *node) {
    if (pin->node)
        LIST_REMOVE(pin, link);
    pin->node = node;
    if (node)
        LIST_INSERT_HEAD(&node->pins, pin, link);
}

/**
 * prefix_pin_copy() - another hold on the same text
 *
 * A pin that holds something keeps that: its owner has come further than what it was to begin with.
 */
void prefix_pin_copy(PrefixPin *pin, const PrefixPin *from) {
    if (!pin->node)
        pin_to(pin, from->node);
}

void prefix_pin_release(PrefixCache *cache, PrefixPin *pin) {
    PrefixNode *node = pin->node, *parent;
    PrefixRoot *root;

    if (!node)
        return;
    pin_to(pin, NULL);
    root = node->root;
    for (; !is_top(node) && !node->n_children && LIST_EMPTY(&node->pins) && node->of_sessions; node = parent) {
        parent = node->parent;
        drop_leaf(cache, node);
    }
    free_root_if_empty(root);
}

static void move_pin(PrefixCache *cache, PrefixPin *pin, PrefixNode *node) {
    PrefixPin before = { 0 };

    prefix_pin_copy(&before, pin);
    pin_to(pin, node);
    prefix_pin_release(cache, &before);
}

/* --- match and put ------------------------------------------------------------------------------------------------ */

/* Returns why the match ends at `node`, with `same` tokens of its child `nearest` (NULL: no child) in common with
 * tokens[n], which are left of the prompt. */
static PrefixOutcome why_not_more(const PrefixCache *cache, const PrefixNode *node, const PrefixNode *nearest,
                                  size_t same, const uint32_t *tokens, size_t n) {
    const size_t page = node->root->owner.page_positions;

    if (same == n)
        return PREFIX_WHOLE;
    if (was_evicted(cache, node->hash, tokens, MIN(n, page), same))
        return PREFIX_EVICTED;
    if (is_top(node) && same && same < PREFIX_TOKENS_MIN)
        return PREFIX_TOO_SHORT;
    return !nearest || same == nearest->n_tokens ? PREFIX_NEW_TEXT : PREFIX_DIFFERENT;
}

static void take_pages(const PrefixNode *node, KvPage **pages, size_t n) {
    for (; !is_top(node); node = node->parent)
        pages[--n] = node->page;
}

/**
 * prefix_cache_match() - find the longest kept prefix of a prompt
 * @tokens:     the prompt; its last token is never part of the match
 * @of_session: the request belongs to a session
 * @match:      pages points to room for n / page_positions + 1 pages; they stay the cache's until kv_page_use()
 *
 * The search descends the tree by whole pages, then takes the beginning of one page more. Time: the prompt's length
 * times the logarithm of the number of texts that part at one place.
 */
void prefix_cache_match(PrefixCache *cache, const PrefixOwner *owner, const uint32_t *tokens, size_t n, bool of_session,
                        PrefixMatch *match) {
    const size_t page = owner->page_positions, usable = n ? n - 1 : 0;
    PrefixRoot *root = find_root(cache, owner);
    PrefixNode *node = root ? &root->top : NULL, *nearest = NULL;
    size_t at = 0, same = 0;

    match->n_tokens = match->n_pages = 0;
    match->outcome = PREFIX_TOO_SHORT;
    if (!usable)
        return;
    match->outcome = PREFIX_FIRST_USE;
    if (!root && was_evicted(cache, owner_hash(owner), tokens, MIN(usable, page), 0))
        match->outcome = PREFIX_EVICTED;
    if (!root)
        return;
    for (;; node = nearest, at += page) {
        const size_t left = usable - at;

        nearest = find_nearest(node, tokens + at, MIN(left, page), &same);
        if (same < page)
            break;
    }
    match->outcome = why_not_more(cache, node, nearest, same, tokens + at, usable - at);
    match->n_tokens = at;
    match->n_pages = at / page;
    take_pages(node, match->pages, match->n_pages);
    if (same >= PREFIX_TOKENS_MIN) {
        match->pages[match->n_pages++] = nearest->page;
        match->n_tokens += same;
        node = nearest;
    }
    touch(node, of_session);
}

static PrefixUser *find_or_make_user(PrefixCache *cache, uint64_t id) {
    PrefixUser *user;

    LIST_FOREACH (user, &cache->users, link)
        if (user->user == id)
            return user;
    user = calloc(1, sizeof(*user));
    if (!user)
        return NULL;
    user->user = id;
    TAILQ_INIT(&user->ages);
    LIST_INSERT_HEAD(&cache->users, user, link);
    return user;
}

static PrefixRoot *find_or_make_root(PrefixCache *cache, const PrefixOwner *owner) {
    PrefixRoot *root = find_root(cache, owner);
    PrefixUser *user;

    if (root)
        return root;
    root = calloc(1, sizeof(*root));
    user = root ? find_or_make_user(cache, owner->user) : NULL;
    if (!user) {
        free(root);
        return NULL;
    }
    root->user = user;
    user->n_roots++;
    root->owner = *owner;
    root->top.root = root;
    root->top.hash = owner_hash(owner);
    LIST_INSERT_HEAD(&cache->roots, root, link);
    return root;
}

/* Returns the child that has the page's text: an existing one, or a new one, which may replace a shorter one. NULL:
 * there is no memory. */
static PrefixNode *put_page(PrefixCache *cache, PrefixNode *parent, const uint32_t *tokens, size_t n, KvPage *page,
                            bool of_session) {
    size_t same;
    PrefixNode *nearest = find_nearest(parent, tokens, n, &same), *node;

    if (nearest && same == n)
        return nearest;
    if (page->is_kept || !make_room(cache, page->memory.len_bytes, parent))
        return NULL;
    nearest = find_nearest(parent, tokens, n, &same);
    if (nearest && same == nearest->n_tokens) { /* a leaf: only full pages have children */
        of_session = of_session && nearest->of_sessions;
        if (add_child(cache, parent, tokens, n, page, of_session, &node))
            return NULL;
        move_pins(nearest, node);
        drop_leaf(cache, nearest);
        return node;
    }
    return add_child(cache, parent, tokens, n, page, of_session, &node) ? NULL : node;
}

/**
 * prefix_cache_put() - keep what a sequence has computed
 * @pages: pages of tokens[n]; nobody writes into whole ones any more, and into the last one only when the text grows
 * @grows: keep whole pages only
 * @pin:   of a session, or NULL; releases what it held before, as prefix_pin_release()
 *
 * Best effort: pages that find no room are not kept. A page whose text is kept already is not needed.
 */
void prefix_cache_put(PrefixCache *cache, const PrefixOwner *owner, const uint32_t *tokens, size_t n,
                      KvPage *const *pages, bool grows, PrefixPin *pin) {
    const size_t page = owner->page_positions;
    PrefixRoot *root = n ? find_or_make_root(cache, owner) : NULL;
    PrefixNode *node;

    if (!root)
        return;
    node = &root->top;
    for (size_t at = 0, step; at < n; at += step) {
        PrefixNode *child;

        step = MIN(n - at, page);
        if (step < page && grows)
            break;
        child = put_page(cache, node, tokens + at, step, pages[at / page], pin != NULL);
        if (!child)
            break;
        node = child;
    }
    touch(node, pin != NULL);
    if (pin && !is_top(node))
        move_pin(cache, pin, node);
    free_root_if_empty(root);
}

uint64_t prefix_cache_kept_bytes(const PrefixCache *cache) {
    return atomic_load(&cache->kept_bytes);
}
