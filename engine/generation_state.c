// SPDX-License-Identifier: Apache-2.0
#include "engine/generation_state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory/account_refusal.h"
#include "base/strings/byte_text.h"

void generation_keep(Generation *generation, bool grows) {
    const GenerationOptions *options = &generation->options;

    if (!options->no_reuse && generation->tokens.n)
        sequence_keep(generation->sequence, generation->tokens.ids, options->user, grows, options->pin);
}

static void text_deinit(GenerationText *text) {
    str_buf_deinit(&text->pending);
    str_buf_deinit(&text->unsplit);
    str_buf_deinit(&text->reasoning);
    answer_parts_free(text->parts);
    free(text->stops);
}

Generation *generation_free(Generation *generation) {
    if (!generation)
        return NULL;
    if (generation->sequence)
        generation_keep(generation, false);
    drafting_free(generation->drafting);
    answer_constraint_free(generation->constraint);
    self_draft_free(&generation->self_draft);
    sequence_free(generation->sequence);
    embedding_free(generation->embedding);
    token_list_deinit(&generation->tokens);
    text_deinit(&generation->text);
    bill_settle(&generation->bill);
    free(generation->logits);
    generation_sampling_deinit(&generation->sampling);
    free(generation);
    return NULL;
}

static int check_options(const GenerationOptions *options, ErrText *err) {
    int r = sampler_options_check(&options->sampler, err);

    if (r)
        return GENERATION_E_OPTIONS;
    if (options->logprobs.n_top > LOGPROBS_TOP_MAX)
        return err_set(err, GENERATION_E_OPTIONS, "logprobs of %" PRIu32 " tokens; at most %d are given",
                       options->logprobs.n_top, LOGPROBS_TOP_MAX);
    if (options->constraint.it && options->ignore_end)
        return err_set(err, GENERATION_E_OPTIONS, "a constraint ends the answer: leave ignore_end out");
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
    generation->text.stops = at = malloc(total_bytes + 1);
    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < options->n_stops; i++) {
        size_t len_bytes = strlen(options->stops[i]);

        memcpy(at, options->stops[i], len_bytes + 1);
        options->stops[i] = at;
        at += len_bytes + 1;
    }
    return 0;
}

/* Makes the sequence, with what is kept of the prompt. */
static int new_sequence(Generation *generation, const uint32_t *prompt, ErrText *err) {
    const GenerationOptions *options = &generation->options;
    GenerationUsage *usage = &generation->usage;
    int r;

    if (options->beside) {
        usage->outcome = PREFIX_WHOLE;
        usage->n_cached_tokens = (uint32_t)(generation->n_prompt - 1);
        return sequence_new_behind(&generation->sequence, options->beside->sequence, generation->n_prompt - 1,
                                   generation->capacity_tokens, err);
    }
    usage->outcome = PREFIX_DECLINED;
    if (options->no_reuse)
        return sequence_new(&generation->sequence, generation->engine, generation->capacity_tokens, err);
    r = sequence_new_for(&generation->sequence, generation->engine, prompt, generation->n_prompt, options->user,
                         options->pin != NULL, generation->capacity_tokens, &usage->outcome, err);
    if (!r)
        usage->n_cached_tokens = (uint32_t)sequence_n_tokens(generation->sequence);
    return r;
}

/* Counts the memory of trees from the start, because nobody knows when a tree will pay. If it is beyond the user's
 * share, drafts are chains, and the model's own layers do not draft: their passes need that memory even for chains. An
 * answer without a constraint has no source `grammar`. */
static void reserve_trees(Generation *generation) {
    GenerationSpeculation *speculation = &generation->options.speculation;
    const uint64_t tree_bytes = engine_kv_tree_bytes(generation->engine), max_bytes = generation->options.kv_max_bytes;

    if (!generation->options.constraint.it)
        speculation->sources &= ~(1u << SPECULATION_GRAMMAR);
    if (!speculation->sources || generation->embedding || spec_lab_of(speculation->lab)->chains)
        return;
    if (!max_bytes || tree_bytes <= max_bytes - generation_kv_bytes(generation)) {
        generation->tree_bytes = tree_bytes;
        return;
    }
    speculation->self_layers = 0;
}

/* Refuses a constraint whose shortest text from here on has no room. */
static int check_least(const Generation *generation, uint32_t least, ErrText *err) {
    const uint32_t left = (uint32_t)(generation->capacity_tokens - generation->n_prompt);
    const bool is_asked = generation->options.max_tokens == left;

    if (generation->options.constraint.may_be_cut || least <= left)
        return 0;
    return err_set(err, is_asked ? GENERATION_E_SHORT : GENERATION_E_TOO_LONG,
                   "%" PRIu32 " tokens may come, and the shortest text of the constraint takes %" PRIu32 ": %s", left,
                   least, is_asked ? "raise max_tokens" : "shorten the prompt, or raise the context");
}

/* Moves the answer's constraint behind the text with which the answer has begun. */
static int begin_behind_prefix(Generation *generation, ErrText *err) {
    GenerationConstraint *constraint = &generation->options.constraint;
    uint32_t least = 0;
    size_t n_taken = 0;
    int r = answer_constraint_begin_behind(generation->constraint, constraint->entry, constraint->prefix,
                                           constraint->prefix_bytes, &n_taken);

    constraint->prefix = NULL; /* the constraint has a copy */
    if (!r)
        r = answer_constraint_least_tokens(generation->constraint, &least);
    if (!r && least == UINT32_MAX)
        return err_set(err, GENERATION_E_PREFIX,
                       "the model's tokens cannot write an end of the constraint's text behind this beginning of the "
                       "answer: let it end with a whole word or value");
    if (!r)
        return check_least(generation, least, err);
    if (r == CONSTRAINT_E_REFUSED)
        return err_set(err, GENERATION_E_PREFIX,
                       "the constraint allows %zu of the %zu bytes of this beginning of the answer, and not the byte "
                       "behind: begin with a text of the constraint, or leave one of the two out",
                       n_taken, constraint->prefix_bytes);
    return r == CONSTRAINT_E_TOO_COMPLEX
               ? err_set(err, GENERATION_E_COMPLEX,
                         "what may follow this beginning of the answer is too complex to be found in time")
           : r == -ENOBUFS ? err_set(err, GENERATION_E_MEMORY, "no memory for the states of the constraint")
                           : err_set(err, r, "no constraint: %s", strerror(-r));
}

/* Makes the answer's constraint. A text that cannot be whole in time is refused before anything is computed. */
static int begin_constraint(Generation *generation, ErrText *err) {
    const GenerationConstraint *constraint = &generation->options.constraint;
    int r;

    if (!constraint->it)
        return 0;
    r = constraint->prefix_bytes
            ? 0
            : check_least(generation, constraint_least_tokens(constraint->it, constraint->entry), err);
    if (r)
        return r;
    r = answer_constraint_new(&generation->constraint, constraint->it, constraint->entry, !constraint->may_be_cut,
                              engine_accounts(generation->engine));
    if (r)
        return r > 0 ? err_set(err, GENERATION_E_MEMORY, "no memory for the states of the constraint")
                     : err_set(err, r, "no constraint: %s", strerror(-r));
    return constraint->prefix_bytes ? begin_behind_prefix(generation, err) : 0;
}

/* Reserves the memory of the state beside the sequence. For a vector there are no logits. 0, GENERATION_E_MEMORY,
 * -ENOMEM. */
static int new_state(Generation *generation, ErrText *err) {
    Engine *engine = generation->engine;
    const EmbeddingOptions *embedding = &generation->options.embedding;
    const size_t n_embd = engine_info(engine)->n_embd, n_vocab = embedding->pooling ? 0 : engine_info(engine)->n_vocab;
    const size_t state_bytes =
        n_vocab * sizeof(float) + generation->capacity_tokens * sizeof(uint32_t) +
        (embedding->pooling ? embedding_bytes(n_embd)
                            : generation_sampling_bytes(&generation->options, n_vocab, generation->capacity_tokens));
    int r;

    engine_make_room(engine, ACCOUNT_ACTIVATIONS, state_bytes);
    r = account_charge(engine_accounts(engine), ACCOUNT_ACTIVATIONS, &generation->bill, state_bytes);
    if (r)
        return account_refused(err, GENERATION_E_MEMORY, r, engine_accounts(engine), ACCOUNT_ACTIVATIONS, state_bytes,
                               "the state of another request");
    generation->tokens.ids = malloc(generation->capacity_tokens * sizeof(uint32_t));
    if (embedding->pooling)
        generation->embedding = embedding_new(embedding, n_embd);
    else
        generation->logits = malloc(n_vocab * sizeof(float));
    if (!generation->tokens.ids || !(generation->logits || generation->embedding) || copy_stops(generation))
        return err_no_memory(err);
    r = embedding->pooling ? 0
                           : generation_sampling_init(&generation->sampling, &generation->options, engine,
                                                      generation->n_prompt, generation->capacity_tokens, err);
    return r == -ENOMEM ? err_no_memory(err) : r;
}

/* Makes what drafts, if the options want drafts. */
static int begin_drafts(Generation *generation, ErrText *err) {
    GenerationSpeculation *speculation = &generation->options.speculation;
    int r;

    if (!speculation->sources || generation->embedding)
        return 0;
    if ((speculation->sources >> SPECULATION_MODEL & 1) && !speculation->model.ops && speculation->self_layers) {
        r = self_draft_new(&generation->self_draft, generation->sequence, speculation->self_layers, generation->logits,
                           err);
        if (r)
            return r;
        speculation->model = generation->self_draft;
    }
    r = drafting_new(&generation->drafting, generation->engine,
                     &(DraftingOptions){
                         .speculation = *speculation,
                         .constraint = { .answer = generation->constraint },
                         .chains = !generation->tree_bytes,
                         .user = generation->options.user,
                         .n_prompt = generation->n_prompt,
                         .prompt_rows = (uint32_t)generation->n_prompt - generation->usage.n_cached_tokens,
                         .output_max = (uint32_t)(generation->capacity_tokens - generation->n_prompt),
                         .report = generation->report,
                     });
    return r ? err_set(err, r, "no drafts: %s", strerror(-r)) : 0;
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
    size_t n_vocab = engine_info(engine)->n_vocab, context_tokens = engine_info(engine)->n_context;
    ByteText wanted, left;
    int r;

    r = check_options(options, err);
    if (r)
        return r;
    if (!n_prompt)
        return err_set(err, GENERATION_E_EMPTY, "the prompt is empty");
    if (options->context_tokens && options->context_tokens < context_tokens)
        context_tokens = options->context_tokens;
    if (n_prompt >= context_tokens + (options->embedding.pooling != EMBEDDING_NONE))
        return err_set(err, GENERATION_E_TOO_LONG,
                       "the prompt has %zu tokens, which leaves no room for an answer in a context of %zu: shorten it",
                       n_prompt, context_tokens);
    for (size_t i = 0; i < n_prompt; i++)
        if (prompt[i] >= n_vocab)
            return err_set(err, -EINVAL, "prompt token %zu is %" PRIu32 "; the model has %zu tokens", i, prompt[i],
                           n_vocab);
    generation = calloc(1, sizeof(*generation));
    if (!generation)
        return err_no_memory(err);
    generation->engine = engine;
    generation->options = *options;
    generation->report = options->report ? options->report : &generation->own_report;
    *generation->report = (DraftReport){ 0 };
    generation->n_prompt = n_prompt;
    generation->usage.n_prompt_tokens = (uint32_t)n_prompt;
    generation->capacity_tokens = context_tokens;
    if (options->max_tokens && options->max_tokens < context_tokens - n_prompt)
        generation->capacity_tokens = n_prompt + options->max_tokens;
    if (options->embedding.pooling)
        generation->capacity_tokens = n_prompt;
    if (options->kv_max_bytes && generation_kv_bytes(generation) > options->kv_max_bytes)
        return err_set(err, GENERATION_E_SHARE,
                       "the KV cache of %zu tokens takes %s, and %s are left of what one user may hold (kv-user-share)",
                       generation->capacity_tokens, byte_text(&wanted, generation_kv_bytes(generation)),
                       byte_text(&left, options->kv_max_bytes));
    reserve_trees(generation);
    r = new_state(generation, err);
    if (r)
        return r;
    r = new_sequence(generation, prompt, err);
    if (r)
        return r == ENGINE_E_MEMORY ? GENERATION_E_MEMORY : r == ENGINE_E_CONTEXT ? GENERATION_E_TOO_LONG : r;
    sequence_set_cancel(generation->sequence, &generation->cancelled);
    r = begin_constraint(generation, err);
    if (!r)
        r = begin_drafts(generation, err);
    if (r)
        return r;
    generation->tokens.room = generation->capacity_tokens;
    generation->tokens.n = n_prompt;
    memcpy(generation->tokens.ids, prompt, n_prompt * sizeof(*prompt));
    detokenizer_init(
        &generation->text.detokenizer, engine_tokenizer(engine),
        options->is_answer &&
            !(options->constraint.it && constraint_begins_with_text(options->constraint.it, options->constraint.entry)),
        false);
    if (answer_format_splits(&options->answer) &&
        answer_parts_new(&generation->text.parts, engine_tokenizer(engine), &options->answer))
        return err_no_memory(err);
    *generationp = steal(&generation);
    return 0;
}

uint64_t generation_kv_bytes(const Generation *generation) {
    return engine_kv_bytes(generation->engine, generation->capacity_tokens) + generation->tree_bytes -
           generation_shared_kv_bytes(generation);
}

uint64_t generation_shared_kv_bytes(const Generation *generation) {
    return generation->options.beside ? engine_kv_full_bytes(generation->engine, generation->n_prompt - 1) : 0;
}

bool generation_is_ready(const Generation *generation) {
    return !sequence_is_waiting(generation->sequence);
}

void generation_cancel(Generation *generation) {
    atomic_store_explicit(&generation->cancelled, true, memory_order_relaxed);
}
GenerationEnd generation_end(const Generation *generation) {
    return generation->end;
}

const float *generation_vector(const Generation *generation) {
    return generation->vector;
}

const GenerationUsage *generation_usage(const Generation *generation) {
    return &generation->usage;
}

const DraftReport *generation_report(const Generation *generation) {
    return generation->report;
}

const char *generation_end_name(GenerationEnd end) {
    static const char *const names[] = {
        [GENERATION_RUNNING] = "running",           [GENERATION_END_TOKEN] = "end-token",
        [GENERATION_END_STOP] = "stop-string",      [GENERATION_END_MAX] = "max-tokens",
        [GENERATION_END_CONTEXT] = "context-full",  [GENERATION_END_CANCELLED] = "cancelled",
        [GENERATION_END_REPETITION] = "repetition", [GENERATION_END_CALLS] = "tool-calls",
        [GENERATION_END_PROMPT] = "prompt",         [GENERATION_END_MEMORY] = "no-memory",
        [GENERATION_END_COMPLEX] = "too-complex",
    };

    return names[end];
}
