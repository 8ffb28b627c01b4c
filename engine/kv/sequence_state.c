// SPDX-License-Identifier: Apache-2.0
/* Sequences: timelines of positions in pages, which they may share. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory/account_refusal.h"
#include "engine/kv/sequence_state.h"

static size_t page_positions(const Engine *engine) {
    return engine->backend->ops->kv_block_positions;
}

uint64_t engine_kv_bytes(const Engine *engine, size_t capacity_tokens) {
    const size_t n_pages = (capacity_tokens + page_positions(engine) - 1) / page_positions(engine);

    return (uint64_t)n_pages * kv_page_charge_bytes(engine->kv.page_bytes);
}

uint64_t engine_kv_full_bytes(const Engine *engine, size_t n_tokens) {
    return (uint64_t)(n_tokens / page_positions(engine)) * kv_page_charge_bytes(engine->kv.page_bytes);
}

uint64_t engine_kv_tree_bytes(const Engine *engine) {
    return kv_page_charge_bytes(engine->kv.page_bytes);
}

/**
 * engine_make_room() - evict kept prefixes when a limit on several accounts together is in the way
 *
 * Eviction does not help against an account's own limit, because kept prefixes are on another account. Nothing is
 * evicted if all that could be evicted would not be enough. Best effort: other threads charge meanwhile.
 */
void engine_make_room(Engine *engine, AccountId id, uint64_t len_bytes) {
    const uint64_t own = account_own_room_bytes(engine->accounts, id),
                   shared = account_shared_room_bytes(engine->accounts, id);

    if (engine->kv.prefix_cache && len_bytes <= own && len_bytes > shared)
        (void)prefix_cache_give_back(engine->kv.prefix_cache, len_bytes - shared);
}

static int no_memory(const Engine *engine, int r, size_t n_pages, ErrText *err) {
    return account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_KV,
                           n_pages * kv_page_charge_bytes(engine->kv.page_bytes), "the KV cache of %zu tokens",
                           n_pages * page_positions(engine));
}

static void set_page(Sequence *sequence, size_t index, KvPage *page) {
    sequence->pages[index] = page;
    sequence->blocks[index] = page->memory.data;
}

/* Allocates the pages from `first` on that the sequence does not have yet. */
static int take_pages(Sequence *sequence, size_t first, ErrText *err) {
    Engine *engine = sequence->engine;
    size_t n_missing = 0;

    for (size_t i = first; i < sequence->n_pages; i++)
        n_missing += !sequence->pages[i];
    engine_make_room(engine, ACCOUNT_KV, n_missing * kv_page_charge_bytes(engine->kv.page_bytes));
    for (size_t i = first; i < sequence->n_pages; i++) {
        KvPage *page;
        int r;

        if (sequence->pages[i])
            continue;
        r = kv_page_new(&page, engine->accounts, engine->kv.page_bytes);
        if (r)
            return no_memory(engine, r, sequence->n_pages, err);
        set_page(sequence, i, page);
    }
    return 0;
}

static int prepare(Sequence **sequencep, Engine *engine, size_t capacity_tokens, ErrText *err) {
    const size_t positions = page_positions(engine), n_pages = (capacity_tokens + positions - 1) / positions;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    int r;

    if (!capacity_tokens || capacity_tokens > engine->hparams.n_context)
        return err_set(err, ENGINE_E_CONTEXT, "%zu positions asked for; the model has 1 to %u", capacity_tokens,
                       engine->hparams.n_context);
    r = engine->kv.reserve_positions(engine, capacity_tokens, err);
    if (r)
        return r < 0 ? r : ENGINE_E_MEMORY;
    sequence = calloc(1, sizeof(*sequence));
    if (!sequence)
        return err_no_memory(err);
    sequence->engine = engine;
    LIST_INIT(&sequence->behind);
    engine->kv.n_sequences++;
    sequence->pages = calloc(n_pages, sizeof(*sequence->pages));
    sequence->blocks = calloc(n_pages, sizeof(*sequence->blocks));
    if (!sequence->pages || !sequence->blocks)
        return err_no_memory(err);
    sequence->capacity_tokens = capacity_tokens;
    sequence->n_pages = n_pages;
    *sequencep = steal(&sequence);
    return 0;
}

/* Shares the whole pages of the first n_tokens positions and copies what is left of the last one. */
static int begin_with(Sequence *sequence, KvPage *const *pages, size_t n_tokens, ErrText *err) {
    const size_t positions = page_positions(sequence->engine), n_shared = n_tokens / positions;
    KvPage *rest = n_tokens % positions ? pages[n_shared] : NULL;
    int r;

    for (size_t i = 0; i < n_shared; i++) {
        r = kv_page_use(pages[i]);
        if (r)
            return no_memory(sequence->engine, r, sequence->n_pages, err);
        set_page(sequence, i, pages[i]);
    }
    if (rest)
        kv_page_hold(rest); /* take_pages() may evict kept pages */
    r = take_pages(sequence, n_shared, err);
    if (rest && !r)
        memcpy(sequence->blocks[n_shared], rest->memory.data, sequence->engine->kv.page_bytes);
    if (rest)
        kv_page_unuse(rest);
    sequence->n_tokens = n_tokens;
    return r;
}

/**
 * sequence_new_after() - a timeline that begins with positions that were computed before
 * @pages:           pages of the first n_tokens positions; the last one may hold more
 * @capacity_tokens: at least n_tokens
 *
 * Whole pages are shared, the rest of the last one is copied: nobody sees what this sequence appends. All pages are
 * reserved now, so that a generation that has begun never ends for want of memory.
 *
 * Return: 0, ENGINE_E_CONTEXT (0 or more than the model has), ENGINE_E_MEMORY, -ENOMEM.
 */
int sequence_new_after(Sequence **sequencep, Engine *engine, KvPage *const *pages, size_t n_tokens,
                       size_t capacity_tokens, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    int r;

    assert(n_tokens <= capacity_tokens);
    r = prepare(&sequence, engine, capacity_tokens, err);
    if (!r)
        r = begin_with(sequence, pages, n_tokens, err);
    if (r)
        return r;
    *sequencep = steal(&sequence);
    return 0;
}

int sequence_new(Sequence **sequencep, Engine *engine, size_t capacity_tokens, ErrText *err) {
    return sequence_new_after(sequencep, engine, NULL, 0, capacity_tokens, err);
}

/* --- answers of one prompt ---------------------------------------------------------------------------------------- */

/**
 * sequence_new_behind() - a timeline that will begin as another one, which is still being computed
 * @first:           makes this sequence wait; if @first is freed before sequence_feed(), it waits until it is freed
 * @n_shared:        positions that both will have
 * @capacity_tokens: more than n_shared
 *
 * The pages behind the shared ones are reserved now, so that the sequence never ends for want of memory. The shared
 * pages are @first's alone until they are full: a page with two users would be copied before each write.
 *
 * Return: as sequence_new_after().
 */
int sequence_new_behind(Sequence **sequencep, Sequence *first, size_t n_shared, size_t capacity_tokens, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    int r;

    assert(n_shared < capacity_tokens);
    r = prepare(&sequence, first->engine, capacity_tokens, err);
    if (!r)
        r = take_pages(sequence, n_shared / page_positions(first->engine), err);
    if (r)
        return r;
    sequence->n_awaited = n_shared;
    sequence->is_waiting = true;
    sequence->first = first;
    LIST_INSERT_HEAD(&first->behind, sequence, link);
    *sequencep = steal(&sequence);
    return 0;
}

bool sequence_is_waiting(const Sequence *sequence) {
    return sequence->is_waiting;
}

/* Takes the sequence from the list of the one that it waits for. */
static void leave_first(Sequence *sequence) {
    LIST_REMOVE(sequence, link);
    sequence->first = NULL;
}

void sequence_feed(Sequence *first) {
    const size_t positions = page_positions(first->engine);
    Sequence *sequence;

    while ((sequence = LIST_FIRST(&first->behind))) {
        const size_t n_shared = sequence->n_awaited / positions;

        assert(sequence->n_awaited <= first->n_tokens);
        for (size_t i = 0; i < n_shared; i++) {
            kv_page_hold(first->pages[i]); /* on the account kv already, for @first uses it */
            set_page(sequence, i, first->pages[i]);
        }
        if (sequence->n_awaited % positions)
            memcpy(sequence->blocks[n_shared], first->blocks[n_shared], first->engine->kv.page_bytes);
        sequence->n_tokens = sequence->n_awaited;
        sequence->is_waiting = false;
        leave_first(sequence);
    }
}

/* --- kept prefixes ------------------------------------------------------------------------------------------------ */

static PrefixOwner owner_of(const Engine *engine, uint64_t user) {
    return (PrefixOwner){
        .model = engine, .user = user, .page_positions = page_positions(engine), .accounts = engine->accounts
    };
}

/**
 * sequence_new_for() - a timeline for a prompt, with the longest beginning of it that is kept for the user
 * @user:       uid; texts of other users are not looked at
 * @of_session: the prompt belongs to a session
 * @outcomep:   out: why no longer prefix was found
 *
 * Return: as sequence_new_after(); sequence_n_tokens() says how much of the prompt is there, never all of it.
 */
int sequence_new_for(Sequence **sequencep, Engine *engine, const uint32_t *prompt, size_t n_prompt, uint64_t user,
                     bool of_session, size_t capacity_tokens, PrefixOutcome *outcomep, ErrText *err) {
    const PrefixOwner owner = owner_of(engine, user);
    _cleanup_(freep) KvPage **pages = calloc(n_prompt / owner.page_positions + 1, sizeof(*pages));
    PrefixMatch match = { .pages = pages, .outcome = PREFIX_OFF };

    if (!pages)
        return err_no_memory(err);
    if (engine->kv.prefix_cache)
        prefix_cache_match(engine->kv.prefix_cache, &owner, prompt, n_prompt, of_session, &match);
    *outcomep = match.outcome;
    return sequence_new_after(sequencep, engine, pages, match.n_tokens, capacity_tokens, err);
}

/**
 * sequence_keep() - keep what the sequence has for later requests of the user
 * @tokens: tokens of its positions
 * @grows:  more will be appended: only whole pages are kept, and an open tree stays open. Otherwise nothing may be
 *          appended any more
 * @pin:    of a session, or NULL
 */
void sequence_keep(Sequence *sequence, const uint32_t *tokens, uint64_t user, bool grows, PrefixPin *pin) {
    const PrefixOwner owner = owner_of(sequence->engine, user);

    if (!grows) /* others may read the page now that the tree's rows would go into */
        sequence->tree.n = 0;
    if (sequence->engine->kv.prefix_cache)
        prefix_cache_put(sequence->engine->kv.prefix_cache, &owner, tokens, sequence->n_tokens, sequence->pages, grows,
                         pin);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

Sequence *sequence_free(Sequence *sequence) {
    if (!sequence)
        return NULL;
    assert(!sequence->in_step);
    while (!LIST_EMPTY(&sequence->behind))
        leave_first(LIST_FIRST(&sequence->behind));
    if (sequence->first)
        leave_first(sequence);
    for (size_t i = 0; sequence->pages && i < sequence->n_pages; i++)
        if (sequence->pages[i])
            kv_page_unuse(sequence->pages[i]);
    if (sequence->side)
        kv_page_unuse(sequence->side);
    sequence->engine->kv.n_sequences--;
    free(sequence->pages);
    free(sequence->blocks);
    free(sequence);
    return NULL;
}

int sequence_make_writable(Sequence *sequence, size_t n, ErrText *err) {
    Engine *engine = sequence->engine;
    const size_t positions = page_positions(engine), last = (sequence->n_tokens + n - 1) / positions;

    for (size_t i = sequence->n_tokens / positions; i <= last; i++) {
        KvPage *page;
        int r;

        if (kv_page_is_private(sequence->pages[i]))
            continue;
        r = kv_page_new(&page, engine->accounts, engine->kv.page_bytes);
        if (r)
            return no_memory(engine, r, 1, err);
        memcpy(page->memory.data, sequence->blocks[i], engine->kv.page_bytes);
        kv_page_unuse(sequence->pages[i]);
        set_page(sequence, i, page);
    }
    return 0;
}

int sequence_make_side(Sequence *sequence, ErrText *err) {
    Engine *engine = sequence->engine;
    int r;

    if (sequence->side)
        return 0;
    engine_make_room(engine, ACCOUNT_KV, engine_kv_tree_bytes(engine));
    r = kv_page_new(&sequence->side, engine->accounts, engine->kv.page_bytes);
    return r ? no_memory(engine, r, 1, err) : 0;
}

KvMove sequence_move(const Sequence *sequence, size_t from, size_t to) {
    const size_t positions = page_positions(sequence->engine);

    return (KvMove){ .from = sequence->side->memory.data,
                     .from_position = from,
                     .to = sequence->blocks[to / positions],
                     .to_position = to % positions };
}

/* A page has a plane of keys and one of values for each layer. */
KvLayer engine_kv_layer(const Engine *engine, uint32_t layer) {
    return (KvLayer){ .k_offset_bytes = 2 * (size_t)layer * engine->kv.plane_bytes,
                      .v_offset_bytes = (2 * (size_t)layer + 1) * engine->kv.plane_bytes,
                      .n_kv_heads = engine->hparams.n_kv_heads,
                      .head_size = engine->hparams.head_size };
}

void engine_move_rows(const Engine *engine, const KvMove *moves, size_t n) {
    for (uint32_t i = 0; i < engine->hparams.n_layers; i++) {
        const KvLayer layer = engine_kv_layer(engine, i);

        engine->backend->ops->kv_move(engine->backend, &layer, moves, n);
    }
}

size_t sequence_n_tokens(const Sequence *sequence) {
    return sequence->n_tokens;
}

/**
 * sequence_rewind() - forget the positions from n_tokens on
 * @n_tokens: not more than the sequence has
 *
 * Appended tokens get the bits that they would get after the first n_tokens alone: a position's keys and values depend
 * on nothing behind it, and stale ones are overwritten.
 */
void sequence_rewind(Sequence *sequence, size_t n_tokens) {
    assert(n_tokens <= sequence->n_tokens && !sequence->in_step);
    sequence->n_tokens = n_tokens;
    sequence->tree.n = 0;
}

void sequence_set_cancel(Sequence *sequence, const _Atomic bool *cancelled) {
    sequence->cancelled = cancelled;
}
