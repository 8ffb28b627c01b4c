// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "engine/generation_private.h"

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
        r = generation_take_token(generation, generation->picked[n++], turn->fn, turn->arg);
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
            generation_keep(generation,
                            true); /* others with the same beginning need not wait for the end of this one */
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
    return generation_take_token(generation, token, turn->fn, turn->arg);
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
