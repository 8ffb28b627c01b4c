// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "engine/generation_state.h"
#include "scheduler/requests/row_share.h"
#include "spec/tree/draft_share.h"
#include "weights/weights_report.h"

static bool in_prefill(const Generation *generation) {
    return sequence_n_tokens(generation->sequence) < generation->n_prompt;
}

static bool was_cancelled(const Generation *generation) {
    return atomic_load_explicit(&generation->cancelled, memory_order_relaxed);
}

/* The token before the one at `index` of the text. */
static uint32_t token_before(const Generation *generation, size_t index) {
    return index ? generation->tokens.ids[index - 1] : CONTEXT_NO_TOKEN;
}

/* Samples the token at index `at` of the text from logits f32[n_vocab]; tokens before it are in generation->tokens.ids.
 * index: which token of the step it is, from 0. */
static uint32_t generation_sample(Generation *generation, const float *logits, size_t at, size_t index) {
    const size_t n_vocab = engine_info(generation->engine)->n_vocab;
    const GenerationOptions *options = &generation->options;
    GenerationSampling *sampling = &generation->sampling;
    const SamplerRow row = { &options->sampler, logits, n_vocab, generation->tokens.ids, at, at, sampling->candidates };
    uint32_t token;

    if (generation->constraint)
        token = answer_constraint_pick(generation->constraint, &row, index,
                                       generation_tokens_left(generation) - (uint32_t)index);
    else
        (void)sampler_pick_allowed(&row, NULL, &token);
    if (sampling->logprobs)
        logprobs_compute(logits, n_vocab, token, options->logprobs.n_top, &sampling->logprobs[index]);
    if (options->on_logits)
        options->on_logits(options->on_logits_arg, logits);
    return token;
}

/* Samples the token behind a row of the tree. Plain decoding would sample the same one, as long as all drafts before it
 * were right: sampling depends on the logits, the position and the tokens before. */
static void verify_row(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    Generation *generation = span->head.arg;
    const size_t n_vocab = engine_info(generation->engine)->n_vocab;
    size_t at;
    uint32_t token;
    bool is_end;

    if (!drafting_row(generation->drafting, (uint32_t)row, tops, &at))
        return;
    at += generation->tokens.n;
    token = generation_sample(generation, logits, at, at - generation->tokens.n);
    is_end = generation_ends_with(generation, token) ||
             (generation->constraint && answer_constraint_is_last(generation->constraint, at - generation->tokens.n));
    if (drafting_pick(generation->drafting, token, is_end, span))
        generation->tokens.ids[at] = token; /* the next token's sampling reads it */
    else if (logits != generation->logits)
        memcpy(generation->logits, logits, n_vocab * sizeof(*logits));
}

/* Learns later drafts from a row of the prompt. The prompt's last row has the logits of the first output token. */
static void learn_prompt_row(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    Generation *generation = span->head.arg;
    const size_t at = (size_t)(span->tokens - generation->tokens.ids) + row;

    drafting_learn_prompt(generation->drafting, token_before(generation, at), span->tokens[row], tops);
    if (at + 1 == generation->n_prompt && logits != generation->logits)
        memcpy(generation->logits, logits, engine_info(generation->engine)->n_vocab * sizeof(*logits));
}

static void learn_from_prompt(Generation *generation, EngineSpan *span) {
    if (!generation->drafting || !drafting_wants_prompt(generation->drafting))
        return;
    span->head.n_rows = span->n;
    span->head.n_tops_only = span->n - (span->tokens + span->n == generation->tokens.ids + generation->n_prompt);
    span->head.n_top_outputs = drafting_top_outputs(generation->drafting, engine_info(generation->engine)->n_vocab);
    span->head.take = learn_prompt_row;
    span->head.wants_tops = true;
    span->head.arg = generation;
}

/* Adds the state of a row of the prompt to its vector. */
static void add_hidden(EngineSpan *span, size_t row, const float *hidden) {
    (void)row;
    embedding_add(span->hidden_arg, hidden);
}

/* Prepares the constraint for a step behind the answer. Kept prompts make way for its states. 0, GENERATION_E_COMPLEX,
 * GENERATION_E_MEMORY, -errno. */
static int begin_constraint(const Generation *generation) {
    AnswerConstraint *constraint = generation->constraint;
    const uint32_t *answer = generation->tokens.ids + generation->n_prompt;
    const size_t n = generation->tokens.n - generation->n_prompt;
    int r;

    if (!constraint)
        return 0;
    r = answer_constraint_begin_step(constraint, answer, n);
    if (r == -ENOBUFS) {
        engine_make_room(generation->engine, ACCOUNT_ACTIVATIONS, answer_constraint_missing_bytes(constraint));
        r = answer_constraint_begin_step(constraint, answer, n);
    }
    return generation_constraint_error(r);
}

/* Fills the generation's span in a step with room for `rows` more. Return: false if it has nothing to compute. */
static bool begin_turn(GenerationTurn *turn, size_t rows, EngineSpan *span) {
    Generation *generation = turn->generation;
    size_t done = sequence_n_tokens(generation->sequence), n = generation->tokens.n - done;

    if (generation->end != GENERATION_RUNNING) {
        turn->ran = true;
        return false;
    }
    if (!generation_is_ready(generation) && !was_cancelled(generation))
        return false;
    if (was_cancelled(generation)) {
        turn->ran = true;
        turn->r = generation_finish(generation, GENERATION_END_CANCELLED, NULL, turn->fn, turn->arg);
        return false;
    }
    n = MIN(n, rows);
    if (!n)
        return false;
    turn->ran = true;
    turn->r = begin_constraint(generation);
    if (turn->r)
        return false;
    *span = (EngineSpan){
        .sequence = generation->sequence,
        .tokens = generation->tokens.ids + done,
        .n = n,
        .n_behind = generation->tokens.n - done - n,
        .decodes = !in_prefill(generation),
        .head = { .n_rows = done + n == generation->tokens.n ? 1 : 0, .logits = generation->logits },
    };
    if (generation->embedding) {
        span->head = (EngineHead){ 0 };
        span->take_hidden = add_hidden;
        span->hidden_arg = generation->embedding;
    } else if (in_prefill(generation)) {
        learn_from_prompt(generation, span);
    }
    return true;
}

/* Takes the picked tokens, up to an end; positions of the sequence behind the end are forgotten. */
static int take_picked(const GenerationTurn *turn, const EngineSpan *span) {
    Generation *generation = turn->generation;
    Drafting *drafting = generation->drafting;
    const size_t before = sequence_n_tokens(generation->sequence) - span->n_kept, n_text = generation->tokens.n;
    const uint32_t *picked = drafting_picked(drafting);
    uint32_t n = 0;
    int r = 0;

    generation->usage.n_drafted_tokens += (uint32_t)(span->n - 1) - drafting_n_gone(drafting);
    while (n < span->n_kept && !r && generation->end == GENERATION_RUNNING) {
        generation->sampling.given = n;
        r = generation_take_token(generation, picked[n++], turn->fn, turn->arg);
    }
    generation->usage.n_accepted_tokens += n - 1;
    if (n < span->n_kept)
        sequence_rewind(generation->sequence, before + n);
    drafting_learn(drafting, token_before(generation, n_text - 1), n, span->head.ns);
    return r;
}

/* Takes what the step gave this generation. */
static int end_turn(const GenerationTurn *turn, const EngineSpan *span) {
    Generation *generation = turn->generation;
    const bool prefill = !span->decodes;
    uint32_t token;

    if (span->is_cancelled)
        return generation_finish(generation, GENERATION_END_CANCELLED, NULL, turn->fn, turn->arg);
    if (prefill) {
        generation->usage.n_prefilled_tokens += (uint32_t)span->n;
        if (generation->drafting)
            drafting_read_prompt(generation->drafting, generation->tokens.ids, sequence_n_tokens(generation->sequence),
                                 span->head.take ? span->head.ns : 0);
        if (!in_prefill(generation)) {
            generation_keep(generation, true); /* for others that begin alike and run before this one ends */
            sequence_feed(generation->sequence);
        }
    }
    if (prefill && in_prefill(generation))
        return 0;
    if (generation->embedding) {
        generation->vector = embedding_finish(generation->embedding);
        return generation_finish(generation, GENERATION_END_PROMPT, NULL, turn->fn, turn->arg);
    }
    generation->usage.n_steps += !prefill;
    if (!prefill && span->head.take)
        return take_picked(turn, span);
    generation->report->n_steps += !prefill;
    generation->report->n_rows += !prefill;
    token = generation_sample(generation, generation->logits, generation->tokens.n, 0);
    generation->sampling.given = 0;
    return generation_take_token(generation, token, turn->fn, turn->arg);
}

static void list_claims(const GenerationTurn *turns, size_t n, RowClaim *claims) {
    for (size_t i = 0; i < n; i++) {
        const Generation *generation = turns[i].generation;

        claims[i] = (RowClaim){
            .standing = turns[i].standing,
            .is_live =
                generation->end == GENERATION_RUNNING && generation_is_ready(generation) && !was_cancelled(generation),
            .is_prompt = in_prefill(generation),
            .n_rows = in_prefill(generation) ? generation->n_prompt - sequence_n_tokens(generation->sequence) : 0,
            .n_undivided = generation->n_undivided,
        };
    }
}

/* Counts, for each generation, the steps since one had rows of background prompts. */
static void count_undivided(const GenerationStep *step) {
    bool has_background = false;

    for (size_t i = 0; i < step->n; i++)
        has_background =
            has_background || (!step->spans[i].decodes && step->turns[i]->standing.priority == PRIORITY_BACKGROUND);
    for (size_t i = 0; i < step->n; i++) {
        Generation *generation = step->turns[i]->generation;

        if (step->spans[i].decodes)
            generation->n_undivided = has_background ? 0 : generation->n_undivided + 1;
    }
}

static void add_turns(GenerationStep *step, GenerationTurn *turns, size_t n, bool prefill, RowShare *share) {
    for (int rank = PRIORITY_INTERACTIVE; rank >= PRIORITY_BACKGROUND; rank--)
        for (size_t i = 0; i < n; i++) {
            GenerationTurn *turn = &turns[i];
            EngineSpan *span = &step->spans[step->n];

            if (turn->standing.rank != (Priority)rank || in_prefill(turn->generation) != prefill || turn->ran ||
                !begin_turn(turn, prefill ? row_share_of_prompt(share, turn->standing) : share->all, span))
                continue;
            row_share_take(share, prefill, turn->standing.priority, span->n);
            *(prefill ? &step->prompt_rows : &step->decode_rows) += (uint32_t)span->n;
            step->turns[step->n++] = turn;
        }
}

/* --- drafts ------------------------------------------------------------------------------------------------------- */

/* A token of a higher class counts for more. */
static float weight_of(Priority rank) {
    return (float)(1u << (rank - PRIORITY_BACKGROUND));
}

/* Cuts the trees of several generations together: the likeliest rows of all are verified. */
static void share_drafts(GenerationStep *step, uint32_t nodes_max, StepCompany company) {
    DraftTree *trees[GENERATION_TURNS_MAX];
    float weights[GENERATION_TURNS_MAX];
    DraftCosts costs = { 0 };
    size_t n = 0;

    for (size_t i = 0; i < step->n; i++) {
        Drafting *drafting = step->turns[i]->generation->drafting;

        if (!drafting)
            continue;
        if (!costs.n_rows)
            costs = drafting_costs(drafting, company);
        weights[n] = weight_of(step->turns[i]->standing.rank);
        trees[n++] = drafting_tree(drafting);
    }
    if (n > 1 && costs.n_rows) /* else no tree has a draft */
        draft_share_cut(trees, weights, n, nodes_max, costs);
}

/* Puts the rows of the trees into the spans, and counts them in decode_rows. */
static void place_drafts(GenerationStep *step) {
    for (size_t i = 0; i < step->n; i++) {
        Drafting *drafting = step->turns[i]->generation->drafting;
        EngineSpan *span = &step->spans[i];

        if (!drafting || !step->spans[i].decodes)
            continue;
        step->decode_rows -= (uint32_t)span->n;
        drafting_fill_span(drafting, span);
        step->decode_rows += (uint32_t)span->n;
        span->head.take = verify_row;
        span->head.arg = step->turns[i]->generation;
    }
}

/* Stops a draft model whose generation was cancelled. */
static bool is_cancelled(void *arg) {
    return was_cancelled(arg);
}

/* Adds drafts for all generations that decode; half of what is left of the chunk stays for prompts. */
static void add_drafts(GenerationStep *step, const RowClaim *claims, size_t n, RowShare *share) {
    const size_t half = (share->all + 1) / 2;
    const uint32_t nodes_max = (uint32_t)(MIN(half, GENERATION_DRAFT_ROWS));
    const StepCompany company = { step->decode_rows - 1, (uint32_t)row_share_wanted(share, claims, n) };

    for (size_t i = 0; i < step->n; i++) {
        Generation *generation = step->turns[i]->generation;

        if (generation->drafting)
            drafting_grow(
                generation->drafting, generation->tokens.ids, generation->tokens.n,
                (DraftingLimits){ 1 + nodes_max, generation_tokens_left(generation), is_cancelled, generation },
                company);
    }
    share->all += step->decode_rows;
    share_drafts(step, nodes_max, company);
    place_drafts(step);
    share->all -= step->decode_rows;
}

/* Replaces trees by chains: there is no memory for rows beside a cache. */
static void cut_to_chains(GenerationStep *step) {
    for (size_t i = 0; i < step->n; i++) {
        Drafting *drafting = step->turns[i]->generation->drafting;

        if (!drafting || !step->spans[i].decodes)
            continue;
        drafting_use_chains(drafting);
    }
    place_drafts(step);
}

/* Tells each generation's drafts the step's other rows, which are settled now. */
static void tell_company(GenerationStep *step) {
    for (size_t i = 0; i < step->n; i++) {
        Drafting *drafting = step->turns[i]->generation->drafting;

        if (!drafting || !step->spans[i].decodes)
            continue;
        drafting_begin_step(drafting, &step->spans[i],
                            (StepCompany){ step->decode_rows - (uint32_t)step->spans[i].n, step->prompt_rows });
    }
}

static uint64_t n_makeshift(const Engine *engine) {
    WeightsGraphsCounts counts;

    return weights_graph_counts(engine_weights(engine), &counts) ? counts.n_makeshift : 0;
}

/**
 * generation_step_begin() - who gets which rows of a step
 * @turns: of one engine, each generation once, none in another step; they stay until the step's end
 *
 * Whoever has its prompt behind it gets a row. Prompts share what is left of a chunk (of a short one, when somebody's
 * token waits for it: engine_shared_chunk_tokens()), by rank, in a rank the first ones first. A lower class gets what
 * row_share_of_prompt() says.
 *
 * Thread: the one that computes. Return: 0; -EBUSY when another step has made way and there is no memory for one more.
 */
int generation_step_begin(GenerationStep *step, GenerationTurn *turns, size_t n, size_t rows_max, ErrText *err) {
    Engine *engine = turns[0].generation->engine;
    const size_t chunk = engine_chunk_tokens(engine);
    RowClaim claims[GENERATION_TURNS_MAX];
    RowShare share;
    int r;

    step->n = 0;
    step->decode_rows = step->prompt_rows = 0;
    step->step = NULL;
    step->has_yielded = false;
    step->n_makeshift = n_makeshift(engine);
    step->is_loading = engine_is_arriving(engine);
    step->left_ns = step->load_ns = 0;
    step->start_ns = clock_now_ns();
    for (size_t i = 0; i < n; i++) {
        turns[i].ran = false;
        turns[i].r = 0;
    }
    list_claims(turns, n, claims);
    share =
        row_share_begin(claims, n, rows_max && rows_max < chunk ? rows_max : chunk, engine_shared_chunk_tokens(engine));
    add_turns(step, turns, n, false, &share);
    if (step->n)
        add_drafts(step, claims, n, &share);
    add_turns(step, turns, n, true, &share);
    if (!step->n)
        return 0;
    count_undivided(step);
    r = engine_step_begin(&step->step, engine, step->spans, step->n, err);
    if (r == ENGINE_E_MEMORY) {
        cut_to_chains(step);
        r = engine_step_begin(&step->step, engine, step->spans, step->n, err);
    }
    tell_company(step);
    return r > 0 ? err_fold(r) : r;
}

void generation_step_drop(GenerationStep *step) {
    step->step = engine_step_drop(step->step);
}

/* Returns what the draft models of all generations took of the step, in ns. */
static uint64_t models_ns(const GenerationStep *step) {
    uint64_t ns = 0;

    for (size_t i = 0; i < step->n; i++) {
        const Drafting *drafting = step->turns[i]->generation->drafting;

        ns += drafting ? drafting_model_ns(drafting) : 0;
    }
    return ns;
}

/* Returns whether rows of any generation ended early: the step's duration says nothing of a number of rows then. */
static bool has_ended_rows(const GenerationStep *step) {
    for (size_t i = 0; i < step->n; i++)
        if (step->spans[i].decodes && step->turns[i]->generation->drafting &&
            drafting_n_gone(step->turns[i]->generation->drafting))
            return true;
    return false;
}

/* Returns the rows that the device computes in vain for each row of the step. */
static double idle_rows_a_row(const GenerationStep *step) {
    Backend *backend = engine_backend(step->turns[0]->generation->engine);
    const BackendOps *ops = backend->ops;
    const uint32_t rows = step->decode_rows + step->prompt_rows;

    return rows && ops->idle_rows ? (double)ops->idle_rows(backend, rows) / (double)rows : 0;
}

/* Returns whether the step ran on graphs of other sizes because its own were not loaded yet: it took longer than usual
 * then. */
static bool is_makeshift(const GenerationStep *step) {
    return n_makeshift(step->turns[0]->generation->engine) != step->n_makeshift;
}

/* Returns what the step's rows took, in ns. Waiting for layers that every step reads anew is a part of that. Waiting
 * for weights that come once, or for graphs to be switched, is not: the next step does not wait. */
static uint64_t rows_ns_of(const GenerationStep *step, uint64_t ns) {
    const bool waits_again = engine_info(step->turns[0]->generation->engine)->weights.n_streamed_layers;
    const uint64_t other_ns = models_ns(step) + (waits_again ? 0 : step->spans[0].wait_ns);

    return ns > other_ns ? ns - other_ns : 1;
}

/* Returns how long the step waited for weights of a load under way, in the step and while it made way. */
static uint64_t load_ns_of(const GenerationStep *step, uint64_t ns) {
    const uint64_t load_ns = step->is_loading ? step->load_ns + step->spans[0].wait_ns : 0;

    return MIN(load_ns, ns);
}

/* Counts the step's duration for its generations, one at least. A generation with drafts learns what rows take. */
static void count_time(const GenerationStep *step) {
    const uint64_t ns = clock_now_ns() - step->start_ns, rows_ns = rows_ns_of(step, ns);
    const uint64_t waited_ns = step->spans[0].wait_ns + models_ns(step); /* all spans of a step wait together */
    const bool says_nothing = step->has_yielded || has_ended_rows(step) || is_makeshift(step);
    const double idle = idle_rows_a_row(step);
    const uint64_t load_ns = load_ns_of(step, ns);

    for (size_t i = 0; i < step->n; i++) {
        Generation *generation = step->turns[i]->generation;

        *(step->spans[i].decodes ? &generation->usage.decode_ns : &generation->usage.prefill_ns) += ns - load_ns;
        if (step->spans[i].decodes) {
            generation->idle_rows += (double)step->spans[i].n * idle;
            generation->report->n_rows_idle = (uint64_t)(generation->idle_rows + 0.5);
            generation->report->step_ns = generation->usage.decode_ns;
        }
        generation->usage.load_ns += load_ns;
        generation->usage.read_bytes += engine_info(generation->engine)->weights.sweep_bytes;
        generation->usage.read_wait_ns += step->spans[i].wait_ns;
        if (!step->spans[i].decodes && generation->drafting && !step->decode_rows && !step->has_yielded &&
            ns > waited_ns)
            drafting_prompt_took(generation->drafting, step->prompt_rows, ns - waited_ns);
        if (step->spans[i].decodes && generation->drafting && !step->spans[i].is_cancelled)
            drafting_took(generation->drafting, says_nothing ? 0 : rows_ns);
        if (generation->drafting)
            drafting_end_step(generation->drafting);
    }
}

/**
 * generation_step_run() - compute a step, or resume it
 * @yield: when the step makes way before an operator; NULL: never
 *
 * Each generation counts the duration of the whole step as its own, with the time in which the step made way: that is
 * how long it waited. Time spent waiting for a load is counted apart. Thread: the one that computes.
 * Return: GENERATION_E_YIELDED, GENERATION_E_WAITING; else the step has ended: 0; GENERATION_E_READ with a text, or
 * -errno: fatal for all that ran.
 */
int generation_step_run(GenerationStep *step, const EngineYield *yield, ErrText *err) {
    int r;

    if (step->left_ns)
        step->load_ns += clock_now_ns() - step->left_ns;
    step->left_ns = 0;
    r = step->step ? engine_step_run(step->step, yield, err) : 0;
    if (r == ENGINE_E_YIELDED || r == ENGINE_E_WAITING) {
        step->has_yielded = true;
        if (r == ENGINE_E_WAITING && step->is_loading)
            step->left_ns = clock_now_ns();
        return r == ENGINE_E_YIELDED ? GENERATION_E_YIELDED : GENERATION_E_WAITING;
    }
    step->step = NULL;
    if (r == ENGINE_E_READ)
        return GENERATION_E_READ;
    if (r && r != ENGINE_E_CANCELLED)
        return err_fold(r);
    for (size_t i = 0; i < step->n; i++)
        step->turns[i]->r = end_turn(step->turns[i], &step->spans[i]);
    if (step->n)
        count_time(step);
    return 0;
}

/* See generation_step_begin() and generation_step_run(). */
int generation_step_together(GenerationTurn *turns, size_t n, ErrText *err) {
    GenerationStep step;
    int r = generation_step_begin(&step, turns, n, 0, err);

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
