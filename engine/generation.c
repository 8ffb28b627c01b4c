// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "engine/generation.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine_private.h"
#include "spec/drafter_lookup.h"

/* Drafts of one generation in a step: what a source gives without an end. */
#define GENERATION_DRAFTS_MAX LOOKUP_TOKENS

struct Generation {
    Engine *engine;
    Sequence *sequence;
    GenerationOptions options;
    char *stop_texts;      /* the options' stop strings, copied */
    size_t stop_bytes_max; /* of the longest */
    TokenList tokens;      /* prompt, then output */
    size_t n_prompt;
    size_t capacity_tokens; /* prompt and output together */
    float *logits;          /* f32[n_vocab] */
    SamplerCandidate *candidates;
    DrafterLookup *lookup;                      /* NULL: no drafts */
    size_t n_appended;                          /* tokens that it has */
    uint32_t picked[GENERATION_DRAFTS_MAX + 1]; /* what the rows of a step gave, up to the first wrong draft */
    Detokenizer detokenizer;
    StrBuf pending; /* output text that may still turn out to begin a stop string */
    GenerationUsage usage;
    GenerationEnd end;
    Bill bill;
    _Atomic bool cancelled;
};

/* What was computed, for later prompts. */
static void keep(Generation *generation, bool grows) {
    const GenerationOptions *options = &generation->options;

    if (!options->no_reuse && generation->tokens.n)
        sequence_keep(generation->sequence, generation->tokens.ids, options->user, grows, options->pin);
}

Generation *generation_free(Generation *generation) {
    if (!generation)
        return NULL;
    if (generation->sequence)
        keep(generation, false);
    sequence_free(generation->sequence);
    token_list_deinit(&generation->tokens);
    str_buf_deinit(&generation->pending);
    bill_settle(&generation->bill);
    free(generation->stop_texts);
    free(generation->logits);
    free(generation->candidates);
    drafter_lookup_free(generation->lookup);
    free(generation);
    return NULL;
}

static int check_options(const GenerationOptions *options, ErrText *err) {
    int r = sampler_options_check(&options->sampler, err);

    if (r)
        return GENERATION_E_OPTIONS;
    if (options->n_stops > GENERATION_STOPS_MAX)
        return err_set(err, GENERATION_E_OPTIONS, "%zu stop strings; at most %d are allowed", options->n_stops,
                       GENERATION_STOPS_MAX);
    for (size_t i = 0; i < options->n_stops; i++) {
        size_t len_bytes = strlen(options->stops[i]);

        if (!len_bytes || len_bytes > GENERATION_STOP_BYTES_MAX)
            return err_set(err, GENERATION_E_OPTIONS, "stop string %zu has %zu bytes; 1 to %d are allowed", i,
                           len_bytes, GENERATION_STOP_BYTES_MAX);
    }
    return 0;
}

static int copy_stops(Generation *generation) {
    GenerationOptions *options = &generation->options;
    size_t total_bytes = 0;
    char *at;

    for (size_t i = 0; i < options->n_stops; i++)
        total_bytes += strlen(options->stops[i]) + 1;
    generation->stop_texts = at = malloc(total_bytes + 1);
    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < options->n_stops; i++) {
        size_t len_bytes = strlen(options->stops[i]);

        memcpy(at, options->stops[i], len_bytes + 1);
        options->stops[i] = at;
        at += len_bytes + 1;
        if (len_bytes > generation->stop_bytes_max)
            generation->stop_bytes_max = len_bytes;
    }
    return 0;
}

/* With what is kept of the prompt. */
static int new_sequence(Generation *generation, const uint32_t *prompt, ErrText *err) {
    const GenerationOptions *options = &generation->options;
    GenerationUsage *usage = &generation->usage;
    int r;

    usage->outcome = PREFIX_DECLINED;
    if (options->no_reuse)
        return sequence_new(&generation->sequence, generation->engine, generation->capacity_tokens, err);
    r = sequence_new_for(&generation->sequence, generation->engine, prompt, generation->n_prompt, options->user,
                         options->pin != NULL, generation->capacity_tokens, &usage->outcome, err);
    if (!r)
        usage->n_cached_tokens = (uint32_t)sequence_n_tokens(generation->sequence);
    return r;
}

/**
 * generation_new() - prepare a generation and reserve its KV cache
 * @prompt:  ids below n_vocab; copied
 * @options: copied, stop strings too
 *
 * Thread: the one that computes. Return: 0, GENERATION_E_*, -EINVAL (token id) or -ENOMEM, with a text.
 */
int generation_new(Generation **generationp, Engine *engine, const uint32_t *prompt, size_t n_prompt,
                   const GenerationOptions *options, ErrText *err) {
    _cleanup_(generation_freep) Generation *generation = NULL;
    size_t n_vocab = engine_info(engine)->n_vocab, context_tokens = engine_info(engine)->n_context, state_bytes;
    int r;

    r = check_options(options, err);
    if (r)
        return r;
    if (!n_prompt)
        return err_set(err, GENERATION_E_EMPTY, "the prompt is empty");
    if (options->context_tokens && options->context_tokens < context_tokens)
        context_tokens = options->context_tokens;
    if (n_prompt >= context_tokens)
        return err_set(err, GENERATION_E_TOO_LONG,
                       "the prompt has %zu tokens, which leaves no room for an answer in a context of %zu: shorten it",
                       n_prompt, context_tokens);
    for (size_t i = 0; i < n_prompt; i++)
        if (prompt[i] >= n_vocab)
            return err_set(err, -EINVAL, "prompt token %zu is %" PRIu32 "; the model has %zu tokens", i, prompt[i],
                           n_vocab);
    generation = calloc(1, sizeof(*generation));
    if (!generation)
        return err_set(err, -ENOMEM, "out of memory");
    generation->engine = engine;
    generation->options = *options;
    generation->n_prompt = n_prompt;
    generation->usage.n_prompt_tokens = (uint32_t)n_prompt;
    generation->capacity_tokens = context_tokens;
    if (options->max_tokens && options->max_tokens < context_tokens - n_prompt)
        generation->capacity_tokens = n_prompt + options->max_tokens;
    if (options->kv_max_bytes && generation_kv_bytes(generation) > options->kv_max_bytes)
        return err_set(err, GENERATION_E_SHARE,
                       "the KV cache of %zu tokens takes %" PRIu64 " bytes, and %" PRIu64
                       " are left of what one user may hold (kv-user-share)",
                       generation->capacity_tokens, generation_kv_bytes(generation), options->kv_max_bytes);
    state_bytes = n_vocab * (sizeof(float) + sizeof(SamplerCandidate)) + generation->capacity_tokens * sizeof(uint32_t);
    engine_make_room(engine, ACCOUNT_ACTIVATIONS, state_bytes);
    if (account_charge(engine_accounts(engine), ACCOUNT_ACTIVATIONS, &generation->bill, state_bytes))
        return err_set(err, GENERATION_E_MEMORY, "no memory for the state of another request");
    r = new_sequence(generation, prompt, err);
    if (r)
        return r == ENGINE_E_MEMORY ? GENERATION_E_MEMORY : r == ENGINE_E_CONTEXT ? GENERATION_E_TOO_LONG : r;
    sequence_set_cancel(generation->sequence, &generation->cancelled);
    generation->logits = malloc(n_vocab * sizeof(float));
    generation->candidates = malloc(n_vocab * sizeof(SamplerCandidate));
    generation->tokens.ids = malloc(generation->capacity_tokens * sizeof(uint32_t));
    if (!generation->logits || !generation->candidates || !generation->tokens.ids || copy_stops(generation))
        return err_set(err, -ENOMEM, "out of memory");
    if (options->speculation == GENERATION_SPECULATION_LOOKUP) {
        r = drafter_lookup_new(engine_accounts(engine), &generation->lookup);
        if (r)
            return err_set(err, r, "no drafts: %s", strerror(-r));
    }
    generation->tokens.room = generation->capacity_tokens;
    generation->tokens.n = n_prompt;
    memcpy(generation->tokens.ids, prompt, n_prompt * sizeof(*prompt));
    detokenizer_init(&generation->detokenizer, engine_tokenizer(engine), false, false);
    *generationp = steal(&generation);
    return 0;
}

uint64_t generation_kv_bytes(const Generation *generation) {
    return engine_kv_bytes(generation->engine, generation->capacity_tokens);
}

void generation_cancel(Generation *generation) {
    atomic_store_explicit(&generation->cancelled, true, memory_order_relaxed);
}

/* --- output text -------------------------------------------------------------------------------------------------- */

/* Where the first stop string begins in the pending text, or -1. */
static ssize_t find_stop(const Generation *generation) {
    const char *text = generation->pending.data, *first = NULL;

    for (size_t i = 0; text && i < generation->options.n_stops; i++) {
        const char *stop = generation->options.stops[i];
        const char *found = memmem(text, generation->pending.len_bytes, stop, strlen(stop));

        if (found && (!first || found < first))
            first = found;
    }
    return first ? first - text : -1;
}

/* Bytes at the end of the pending text that could be the beginning of a stop string. */
static size_t held_back(const Generation *generation) {
    size_t len_bytes = generation->pending.len_bytes, longest = 0;

    for (size_t i = 0; i < generation->options.n_stops; i++) {
        const char *stop = generation->options.stops[i];
        size_t n = strlen(stop) - 1;

        for (n = n < len_bytes ? n : len_bytes; n > longest; n--)
            if (!memcmp(generation->pending.data + len_bytes - n, stop, n))
                longest = n;
    }
    return longest;
}

/* Gives out the first n bytes of the pending text, with the token of this step. */
static void give_out(Generation *generation, size_t n, const uint32_t *token, GenerationDeltaFn *fn, void *arg) {
    StrBuf *pending = &generation->pending;

    if (fn && (n || token))
        fn(arg, n ? pending->data : "", n, token, token ? 1 : 0);
    if (n) {
        memmove(pending->data, pending->data + n, pending->len_bytes - n);
        str_buf_truncate(pending, pending->len_bytes - n);
    }
}

/* A character that the end cuts off is left out and counted: the next token could have completed it. Where the model
 * has ended its turn nothing could, and it is U+FFFD as anywhere else in the text. What follows a stop string is no
 * output. */
static int generation_finish(Generation *generation, GenerationEnd end, const uint32_t *token, GenerationDeltaFn *fn,
                             void *arg) {
    int r = 0;

    if (end == GENERATION_END_TOKEN)
        r = detokenizer_finish(&generation->detokenizer, &generation->pending);
    if (end != GENERATION_END_STOP) {
        generation->usage.n_incomplete_bytes = (uint32_t)detokenizer_held(&generation->detokenizer);
        give_out(generation, generation->pending.len_bytes, token, fn, arg);
    }
    generation->end = end;
    return r;
}

/* Takes one sampled token: text, stop strings, limits. */
static int take_token(Generation *generation, uint32_t token, GenerationDeltaFn *fn, void *arg) {
    const Tokenizer *tokenizer = engine_tokenizer(generation->engine);
    ssize_t stop;
    int r;

    if (!generation->options.ignore_end && tokenizer_is_end(tokenizer, token))
        return generation_finish(generation, GENERATION_END_TOKEN, NULL, fn, arg);
    generation->tokens.ids[generation->tokens.n++] = token;
    generation->usage.n_output_tokens++;
    if (token < tokenizer_n_tokens(tokenizer)) { /* an embedding may be padded past the tokenizer's table */
        r = detokenizer_push(&generation->detokenizer, token, &generation->pending);
        if (r)
            return r;
    }
    stop = find_stop(generation);
    if (stop >= 0) {
        give_out(generation, (size_t)stop, &token, fn, arg);
        return generation_finish(generation, GENERATION_END_STOP, NULL, fn, arg);
    }
    if (generation->usage.n_output_tokens == generation->options.max_tokens)
        return generation_finish(generation, GENERATION_END_MAX, &token, fn, arg);
    if (generation->tokens.n == generation->capacity_tokens)
        return generation_finish(generation, GENERATION_END_CONTEXT, &token, fn, arg);
    give_out(generation, generation->pending.len_bytes - held_back(generation), &token, fn, arg);
    return 0;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static bool in_prefill(const Generation *generation) {
    return sequence_n_tokens(generation->sequence) < generation->n_prompt;
}

/* Writes drafts behind the tokens, at most `most`; how many. Where there is no memory for their source the generation
 * goes on without. */
static size_t draft(Generation *generation, size_t most) {
    const Drafter drafter = { &drafter_lookup_ops, generation->lookup };
    uint32_t *ids = generation->tokens.ids + generation->tokens.n;
    DraftCursor at;
    DraftChoice choice;
    size_t n = 0;

    if (drafter.ops->append(drafter.self, generation->tokens.ids + generation->n_appended,
                            generation->tokens.n - generation->n_appended)) {
        drafter_lookup_free(steal(&generation->lookup));
        return 0;
    }
    generation->n_appended = generation->tokens.n;
    at = drafter.ops->root(drafter.self);
    for (; n < most && drafter.ops->choices(drafter.self, at, &choice, 1); at = choice.next)
        ids[n++] = choice.token;
    return n;
}

/* How many drafts a step may have beside the next token: each may become output, and the step gives one token more. */
static size_t drafts_wanted(const Generation *generation, size_t rows) {
    const GenerationOptions *options = &generation->options;
    size_t room = generation->capacity_tokens - generation->tokens.n - 1, most = GENERATION_DRAFTS_MAX;

    if (options->max_tokens && options->max_tokens - generation->usage.n_output_tokens - 1 < room)
        room = options->max_tokens - generation->usage.n_output_tokens - 1;
    most = room < most ? room : most;
    return rows - 1 < most ? rows - 1 : most;
}

/* A row's token is what plain decoding samples there, as long as all drafts before it were right: sampling depends on the
 * logits, the position and the tokens before, and drafts lie where these tokens will be. */
static void verify_row(EngineSpan *span, size_t row, const float *logits) {
    Generation *generation = span->arg;
    const size_t at = generation->tokens.n + row, n_vocab = engine_info(generation->engine)->n_vocab;
    uint32_t token;

    if (row >= span->n_kept) /* behind a wrong draft */
        return;
    token = sampler_pick(&generation->options.sampler, logits, n_vocab, generation->tokens.ids, at, at,
                         generation->candidates);
    if (generation->options.on_logits)
        generation->options.on_logits(generation->options.on_logits_arg, logits);
    generation->picked[row] = token;
    if (row + 1 < span->n && token == generation->tokens.ids[at] &&
        (generation->options.ignore_end || !tokenizer_is_end(engine_tokenizer(generation->engine), token)))
        return;
    span->n_kept = row + 1;
    if (logits != generation->logits)
        memcpy(generation->logits, logits, n_vocab * sizeof(*logits));
}

/* The generation's part of a step with room for `rows` more, up to `most_rows` of them with drafts: false when it has
 * nothing to compute. */
static bool begin_turn(GenerationTurn *turn, size_t rows, size_t most_rows, EngineSpan *span) {
    Generation *generation = turn->generation;
    size_t done = sequence_n_tokens(generation->sequence), n = generation->tokens.n - done;

    if (generation->end != GENERATION_RUNNING) {
        turn->ran = true;
        return false;
    }
    if (atomic_load_explicit(&generation->cancelled, memory_order_relaxed)) {
        turn->ran = true;
        turn->r = generation_finish(generation, GENERATION_END_CANCELLED, NULL, turn->fn, turn->arg);
        return false;
    }
    n = n < rows ? n : rows;
    if (!n)
        return false;
    turn->ran = true;
    *span = (EngineSpan){
        .sequence = generation->sequence,
        .tokens = generation->tokens.ids + done,
        .n = n,
        .n_logit_rows = done + n == generation->tokens.n ? 1 : 0,
        .logits = generation->logits,
    };
    if (!in_prefill(generation) && generation->lookup)
        n += draft(generation, drafts_wanted(generation, rows < most_rows ? rows : most_rows));
    if (n > span->n) {
        span->n = span->n_logit_rows = n;
        span->take = verify_row;
        span->arg = generation;
    }
    return true;
}

/* Takes what the rows gave, up to an end; then the sequence has no position whose token is not the generation's. */
static int take_picked(const GenerationTurn *turn, const EngineSpan *span) {
    Generation *generation = turn->generation;
    const size_t before = sequence_n_tokens(generation->sequence) - span->n_kept;
    size_t n = 0;
    int r = 0;

    generation->usage.n_drafted_tokens += (uint32_t)(span->n - 1);
    while (n < span->n_kept && !r && generation->end == GENERATION_RUNNING)
        r = take_token(generation, generation->picked[n++], turn->fn, turn->arg);
    generation->usage.n_accepted_tokens += (uint32_t)(n - 1);
    if (n < span->n_kept)
        sequence_rewind(generation->sequence, before + n);
    return r;
}

/* What the step gave this generation. */
static int end_turn(const GenerationTurn *turn, const EngineSpan *span, bool prefill) {
    Generation *generation = turn->generation;
    uint32_t token;

    if (span->is_cancelled)
        return generation_finish(generation, GENERATION_END_CANCELLED, NULL, turn->fn, turn->arg);
    if (prefill) {
        generation->usage.n_prefilled_tokens += (uint32_t)span->n;
        if (sequence_n_tokens(generation->sequence) == generation->n_prompt)
            keep(generation, true); /* others with the same beginning need not wait for the end of this one */
    }
    if (!span->n_logit_rows)
        return 0;
    generation->usage.n_steps += !prefill;
    if (span->take)
        return take_picked(turn, span);
    token = sampler_pick(&generation->options.sampler, generation->logits, engine_info(generation->engine)->n_vocab,
                         generation->tokens.ids, generation->tokens.n, generation->tokens.n, generation->candidates);
    if (generation->options.on_logits)
        generation->options.on_logits(generation->options.on_logits_arg, generation->logits);
    return take_token(generation, token, turn->fn, turn->arg);
}

/* Which rows are still to be given away, and whom they are kept for. */
typedef struct RowsLeft {
    size_t all;
    size_t lower;       /* of them, for prompts of lower classes */
    bool someone_waits; /* an interactive generation for its first token */
} RowsLeft;

static bool is_live(const Generation *generation) {
    return generation->end == GENERATION_RUNNING && !atomic_load_explicit(&generation->cancelled, memory_order_relaxed);
}

static RowsLeft rows_left(const GenerationTurn *turns, size_t n, size_t rows) {
    RowsLeft left;

    for (size_t i = 0; i < n; i++)
        if (is_live(turns[i].generation) && !in_prefill(turns[i].generation))
            rows = engine_shared_chunk_tokens(turns[i].generation->engine);
    left = (RowsLeft){ .all = rows, .lower = rows };
    for (size_t i = 0; i < n; i++) {
        if (turns[i].priority != PRIORITY_INTERACTIVE || !is_live(turns[i].generation))
            continue;
        left.lower = rows < GENERATION_LOWER_ROWS ? rows : GENERATION_LOWER_ROWS;
        left.someone_waits = left.someone_waits || in_prefill(turns[i].generation);
    }
    return left;
}

/* Rows that this prompt may have. */
static size_t prompt_rows(const GenerationTurn *turn, const RowsLeft *left) {
    if (turn->priority == PRIORITY_INTERACTIVE)
        return left->all;
    if (left->someone_waits && turn->rank < PRIORITY_INTERACTIVE)
        return 0;
    return left->lower < left->all ? left->lower : left->all;
}

/* Rows that a generation may have with its drafts: all have some, each has the one that it needs, and half of what is
 * left of the chunk stays for prompts. */
static size_t draft_rows(const GenerationTurn *turns, size_t n, size_t rows) {
    size_t n_decoding = 0, drafts;

    for (size_t i = 0; i < n; i++)
        n_decoding += is_live(turns[i].generation) && !in_prefill(turns[i].generation);
    if (!n_decoding || rows <= n_decoding)
        return 1;
    drafts = (rows - n_decoding + 1) / 2;
    return 1 + (drafts < GENERATION_DRAFT_ROWS ? drafts : GENERATION_DRAFT_ROWS) / n_decoding;
}

static void add_turns(GenerationStep *step, GenerationTurn *turns, size_t n, bool prefill, RowsLeft *left) {
    const size_t most_rows = draft_rows(turns, n, left->all);

    for (int rank = PRIORITY_INTERACTIVE; rank >= PRIORITY_BACKGROUND; rank--)
        for (size_t i = 0; i < n; i++) {
            GenerationTurn *turn = &turns[i];
            EngineSpan *span = &step->spans[step->n];

            if (turn->rank != (Priority)rank || in_prefill(turn->generation) != prefill || turn->ran ||
                !begin_turn(turn, prefill ? prompt_rows(turn, left) : left->all, most_rows, span))
                continue;
            left->all -= span->n;
            if (prefill && turn->priority != PRIORITY_INTERACTIVE)
                left->lower -= span->n < left->lower ? span->n : left->lower;
            step->prefill[step->n] = prefill;
            step->turns[step->n++] = turn;
        }
}

/**
 * generation_step_begin() - who gets which rows of a step
 * @turns: of one engine, each generation once, none in another step; they stay until the step's end
 *
 * Whoever has its prompt behind it gets a row. Prompts share what is left of a chunk (of a short one, when somebody's
 * token waits for it: engine_shared_chunk_tokens()), by rank, in a rank the first ones
 * first. While an interactive generation waits for its first token, prompts of lower classes get nothing, unless
 * waiting has raised them to its rank; then, and while it answers, they get GENERATION_LOWER_ROWS at most, so that its
 * tokens do not wait for a whole chunk.
 *
 * Thread: the one that computes. Return: 0; -EBUSY when another step has made way and there is no memory for one more.
 */
int generation_step_begin(GenerationStep *step, GenerationTurn *turns, size_t n, ErrText *err) {
    Engine *engine = turns[0].generation->engine;
    RowsLeft left = rows_left(turns, n, engine_chunk_tokens(engine));
    int r;

    step->n = 0;
    step->step = NULL;
    step->start_ns = clock_now_ns();
    for (size_t i = 0; i < n; i++) {
        turns[i].ran = false;
        turns[i].r = 0;
    }
    add_turns(step, turns, n, false, &left);
    add_turns(step, turns, n, true, &left);
    r = step->n ? engine_step_begin(&step->step, engine, step->spans, step->n, err) : 0;
    return r > 0 ? err_fold(r) : r;
}

void generation_step_drop(GenerationStep *step) {
    step->step = engine_step_drop(step->step);
}

/**
 * generation_step_run() - compute a step, or go on with it
 * @yield: when it makes way before an operator; NULL: never
 *
 * Each generation is told the time of the whole step as its own, with the time in which it made way: that is how long
 * it waited. Thread: the one that computes.
 * Return: GENERATION_E_YIELDED; else it is over: 0; GENERATION_E_READ with a text, or -errno: fatal for all that ran.
 */
int generation_step_run(GenerationStep *step, const EngineYield *yield, ErrText *err) {
    int r = step->step ? engine_step_run(step->step, yield, err) : 0;

    if (r == ENGINE_E_YIELDED)
        return GENERATION_E_YIELDED;
    step->step = NULL;
    if (r == ENGINE_E_READ)
        return GENERATION_E_READ;
    if (r && r != ENGINE_E_CANCELLED)
        return err_fold(r);
    for (size_t i = 0; i < step->n; i++) {
        GenerationUsage *usage = &step->turns[i]->generation->usage;

        step->turns[i]->r = end_turn(step->turns[i], &step->spans[i], step->prefill[i]);
        *(step->prefill[i] ? &usage->prefill_ns : &usage->decode_ns) += clock_now_ns() - step->start_ns;
    }
    return 0;
}

/* See generation_step_begin() and generation_step_run(). */
int generation_step_together(GenerationTurn *turns, size_t n, ErrText *err) {
    GenerationStep step;
    int r = generation_step_begin(&step, turns, n, err);

    return r ? r : generation_step_run(&step, NULL, err);
}

/**
 * generation_step() - one prefill chunk, or one token
 * @fn: called with new text and the step's token; may be NULL
 *
 * Thread: the one that computes. Return: 0 (look at generation_end()), GENERATION_E_READ with a text, or -errno.
 */
int generation_step(Generation *generation, GenerationDeltaFn *fn, void *arg, ErrText *err) {
    GenerationTurn turn = { .generation = generation, .fn = fn, .arg = arg };
    int r = generation_step_together(&turn, 1, err);

    return r ? r : turn.r;
}

GenerationEnd generation_end(const Generation *generation) {
    return generation->end;
}

const GenerationUsage *generation_usage(const Generation *generation) {
    return &generation->usage;
}

const float *generation_logits(const Generation *generation) {
    return generation->logits;
}

const char *generation_end_name(GenerationEnd end) {
    static const char *const names[] = {
        [GENERATION_RUNNING] = "running",          [GENERATION_END_TOKEN] = "end-token",
        [GENERATION_END_STOP] = "stop-string",     [GENERATION_END_MAX] = "max-tokens",
        [GENERATION_END_CONTEXT] = "context-full", [GENERATION_END_CANCELLED] = "cancelled",
    };

    return names[end];
}
