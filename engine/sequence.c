/* Sequences: timelines of positions in pages, which they may share. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine/engine_private.h"

static size_t page_positions(const Engine *engine) {
    return engine->backend->ops->kv_block_positions;
}

static int no_memory(const Engine *engine, int r, size_t n_pages, ErrText *err) {
    return err_set(err, r < 0 ? r : ENGINE_E_MEMORY, "no memory for the KV cache of %zu tokens (%zu bytes)",
                   n_pages * page_positions(engine), n_pages * engine->kv_page_bytes);
}

static void set_page(Sequence *sequence, size_t index, KvPage *page) {
    sequence->pages[index] = page;
    sequence->blocks[index] = page->memory.data;
}

/* The pages that are not there yet. */
static int take_pages(Sequence *sequence, ErrText *err) {
    const Engine *engine = sequence->engine;

    for (size_t i = 0; i < sequence->n_pages; i++) {
        KvPage *page;
        int r;

        if (sequence->pages[i])
            continue;
        r = kv_page_new(&page, engine->accounts, engine->kv_page_bytes);
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
    r = engine->backend->ops->reserve_positions(engine->backend, capacity_tokens, err);
    if (r)
        return r < 0 ? r : ENGINE_E_MEMORY;
    sequence = calloc(1, sizeof(*sequence));
    if (!sequence)
        return err_set(err, -ENOMEM, "out of memory");
    sequence->engine = engine;
    engine->n_sequences++;
    sequence->pages = calloc(n_pages, sizeof(*sequence->pages));
    sequence->blocks = calloc(n_pages, sizeof(*sequence->blocks));
    if (!sequence->pages || !sequence->blocks)
        return err_set(err, -ENOMEM, "out of memory");
    sequence->capacity_tokens = capacity_tokens;
    sequence->n_pages = n_pages;
    *sequencep = steal(&sequence);
    return 0;
}

/**
 * sequence_new() - an empty timeline with room for capacity_tokens positions
 *
 * All pages are taken now: what has begun never ends for want of memory.
 *
 * Return: 0, ENGINE_E_CONTEXT (0 or more than the model has), ENGINE_E_MEMORY, -ENOMEM.
 */
int sequence_new(Sequence **sequencep, Engine *engine, size_t capacity_tokens, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    int r = prepare(&sequence, engine, capacity_tokens, err);

    if (!r)
        r = take_pages(sequence, err);
    if (r)
        return r;
    *sequencep = steal(&sequence);
    return 0;
}

/**
 * sequence_fork() - a timeline that begins as another one did
 * @n_tokens:        positions that it begins with, at most those that the source has and below capacity_tokens
 * @capacity_tokens: as for sequence_new()
 *
 * Whole pages are shared, what is left of the last one is copied: neither sequence sees what the other one appends.
 * Return: as sequence_new().
 */
int sequence_fork(Sequence **sequencep, const Sequence *source, size_t n_tokens, size_t capacity_tokens, ErrText *err) {
    const size_t positions = page_positions(source->engine), n_shared = n_tokens / positions;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    int r;

    assert(n_tokens <= source->n_tokens && n_tokens <= capacity_tokens);
    r = prepare(&sequence, source->engine, capacity_tokens, err);
    if (r)
        return r;
    for (size_t i = 0; i < n_shared; i++) {
        kv_page_use(source->pages[i]);
        set_page(sequence, i, source->pages[i]);
    }
    r = take_pages(sequence, err);
    if (r)
        return r;
    if (n_tokens % positions)
        memcpy(sequence->blocks[n_shared], source->blocks[n_shared], source->engine->kv_page_bytes);
    sequence->n_tokens = n_tokens;
    *sequencep = steal(&sequence);
    return 0;
}

Sequence *sequence_free(Sequence *sequence) {
    if (!sequence)
        return NULL;
    assert(!sequence->in_step);
    for (size_t i = 0; i < sequence->n_pages; i++)
        if (sequence->pages[i])
            kv_page_unuse(sequence->pages[i]);
    sequence->engine->n_sequences--;
    free(sequence->pages);
    free(sequence->blocks);
    free(sequence);
    return NULL;
}

int sequence_make_writable(Sequence *sequence, size_t n, ErrText *err) {
    const Engine *engine = sequence->engine;
    const size_t positions = page_positions(engine), last = (sequence->n_tokens + n - 1) / positions;

    for (size_t i = sequence->n_tokens / positions; i <= last; i++) {
        KvPage *page;
        int r;

        if (sequence->pages[i]->n_users == 1)
            continue;
        r = kv_page_new(&page, engine->accounts, engine->kv_page_bytes);
        if (r)
            return no_memory(engine, r, 1, err);
        memcpy(page->memory.data, sequence->blocks[i], engine->kv_page_bytes);
        kv_page_unuse(sequence->pages[i]);
        set_page(sequence, i, page);
    }
    return 0;
}

size_t sequence_n_tokens(const Sequence *sequence) {
    return sequence->n_tokens;
}

/**
 * sequence_rewind() - forget the positions from n_tokens on
 * @n_tokens: not more than the sequence has
 *
 * What is appended next gets the bits that it would get after the first n_tokens alone: a position's keys and values
 * depend on nothing behind it, and what is stored there is written over.
 */
void sequence_rewind(Sequence *sequence, size_t n_tokens) {
    assert(n_tokens <= sequence->n_tokens && !sequence->in_step);
    sequence->n_tokens = n_tokens;
}

void sequence_set_cancel(Sequence *sequence, const _Atomic bool *cancelled) {
    sequence->cancelled = cancelled;
}
