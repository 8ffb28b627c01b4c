// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_answer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "weights/weights_report.h"

int spec_answer_init(SpecAnswer *answer, size_t max_tokens) {
    *answer = (SpecAnswer){
        .tokens = calloc(max_tokens, sizeof(*answer->tokens)),
        .ends_ns = calloc(max_tokens, sizeof(*answer->ends_ns)),
        .hashes = calloc(max_tokens + 1, sizeof(*answer->hashes)),
    };
    return answer->tokens && answer->ends_ns && answer->hashes ? 0 : -ENOMEM;
}

void spec_answer_deinit(SpecAnswer *answer) {
    free(answer->tokens);
    free(answer->ends_ns);
    free(answer->hashes);
    *answer = (SpecAnswer){ 0 };
}

/* Four sums side by side, so that it takes a hundredth of a step. Any other bit anywhere gives another hash, but for
 * one chance in 2^64: each step of a sum is a bijection. */
uint64_t spec_logits_hash(const float *logits, size_t n) {
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t sums[4] = { 1, 2, 3, 4 }, hash = n;
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (size_t lane = 0; lane < 4; lane++) {
            uint64_t word;

            memcpy(&word, logits + i + 2 * lane, sizeof(word));
            sums[lane] = (sums[lane] ^ word) * factor;
            sums[lane] ^= sums[lane] >> 32;
        }
    for (; i < n; i++) {
        uint32_t word;

        memcpy(&word, logits + i, sizeof(word));
        sums[0] = (sums[0] ^ word) * factor;
        sums[0] ^= sums[0] >> 32;
    }
    for (size_t lane = 0; lane < 4; lane++) {
        hash = (hash ^ sums[lane]) * factor;
        hash ^= hash >> 29;
    }
    return hash;
}

typedef struct Run {
    SpecAnswer *answer;
    const Engine *engine;
    size_t n_vocab, max_tokens;
    uint64_t hash_ns; /* is no time of the mode's */
} Run;

static void take_logits(void *arg, const float *logits) {
    Run *run = arg;
    const uint64_t start_ns = clock_now_ns();

    if (run->answer->n_hashes <= run->max_tokens)
        run->answer->hashes[run->answer->n_hashes] = spec_logits_hash(logits, run->n_vocab);
    run->answer->n_hashes++;
    run->hash_ns += clock_now_ns() - start_ns;
}

static void take_tokens(void *arg, const GenerationDelta *delta) {
    SpecAnswer *answer = ((Run *)arg)->answer;

    for (size_t i = 0; i < delta->n_tokens; i++)
        answer->tokens[answer->n++] = delta->tokens[i];
}

/* The prompt is over; what was counted up to here is not decoding's. */
static void begin_decoding(Run *run) {
    run->answer->prefill_ns = run->answer->total_ns;
    run->answer->prompt_model_ns = run->answer->report.model_ns;
    run->answer->flash = weights_flash_counts(engine_weights(run->engine));
}

static void end_decoding(Run *run) {
    const WeightsRingCounts now = weights_flash_counts(engine_weights(run->engine)), before = run->answer->flash;

    run->answer->flash = (WeightsRingCounts){ .read_bytes = now.read_bytes - before.read_bytes,
                                              .reading_ns = now.reading_ns - before.reading_ns };
}

/* To its end. Tokens of one step have one time. */
static int run_steps(Run *run, Generation *generation, uint64_t start_ns, ErrText *err) {
    SpecAnswer *answer = run->answer;
    int r = 0;

    while (!r && generation_end(generation) == GENERATION_RUNNING) {
        const size_t before = answer->n;

        r = generation_step(generation, take_tokens, run, err);
        answer->total_ns = clock_now_ns() - start_ns - run->hash_ns;
        for (size_t i = before; i < answer->n; i++)
            answer->ends_ns[i] = answer->total_ns;
        if (!answer->prefill_ns && answer->n_hashes)
            begin_decoding(run);
    }
    return r;
}

/**
 * spec_answer_run() - answer one request
 * @answer:  has room for options->max_tokens; its content is replaced
 * @options: without reuse of prefixes, so that the prompt is computed
 *
 * Times count from before the generation is made, without the time of the hashes. The peak of the engine's account
 * draftdb begins anew.
 */
int spec_answer_run(SpecAnswer *answer, Engine *engine, const TokenList *prompt, const GenerationOptions *options,
                    ErrText *err) {
    _cleanup_(generation_freep) Generation *generation = NULL;
    AccountTable *accounts = engine_accounts(engine);
    GenerationOptions with_logits = *options;
    Run run = {
        .answer = answer,
        .engine = engine,
        .n_vocab = engine_info(engine)->n_vocab,
        .max_tokens = options->max_tokens,
    };
    uint64_t start_ns, others_bytes; /* bytes in draftdb of earlier answers */
    int r;

    *answer = (SpecAnswer){
        .tokens = answer->tokens, .ends_ns = answer->ends_ns, .hashes = answer->hashes, .n_prompt = prompt->n
    };
    with_logits.report = &answer->report;
    with_logits.on_logits = take_logits;
    with_logits.on_logits_arg = &run;
    account_restart_peak(accounts, ACCOUNT_DRAFTDB);
    others_bytes = atomic_load(&accounts->used_bytes[ACCOUNT_DRAFTDB]);
    start_ns = clock_now_ns();
    r = generation_new(&generation, engine, prompt->ids, prompt->n, &with_logits, err);
    if (!r)
        r = run_steps(&run, generation, start_ns, err);
    if (r)
        return r;
    end_decoding(&run);
    answer->n_decoded = answer->n + (generation_end(generation) == GENERATION_END_TOKEN) - 1;
    answer->draft_bytes = atomic_load(&accounts->peak_bytes[ACCOUNT_DRAFTDB]) - others_bytes;
    return 0;
}

static int compare(const SpecAnswer *answer, const SpecAnswer *plain, bool may_be_shorter, ErrText *err) {
    for (size_t i = 0; i < answer->n && i < plain->n; i++)
        if (answer->tokens[i] != plain->tokens[i])
            return err_set(err, SPEC_ANSWER_E_DIFFERS,
                           "token %zu of the answer is %" PRIu32 "; plain decoding gives %" PRIu32, i,
                           answer->tokens[i], plain->tokens[i]);
    if (answer->n > plain->n || (answer->n < plain->n && !may_be_shorter))
        return err_set(err, SPEC_ANSWER_E_DIFFERS, "the answer has %zu tokens; plain decoding gives %zu", answer->n,
                       plain->n);
    for (size_t i = 0; i < answer->n_hashes && i < plain->n_hashes; i++)
        if (answer->hashes[i] != plain->hashes[i])
            return err_set(err, SPEC_ANSWER_E_DIFFERS,
                           "the tokens are the same, but the logits of token %zu are not those of plain decoding", i);
    if (answer->n_hashes > plain->n_hashes || (answer->n_hashes < plain->n_hashes && !may_be_shorter))
        return err_set(err, SPEC_ANSWER_E_DIFFERS,
                       "tokens were sampled from %zu rows of logits; plain decoding has %zu", answer->n_hashes,
                       plain->n_hashes);
    return 0;
}

int spec_answer_compare(const SpecAnswer *answer, const SpecAnswer *plain, ErrText *err) {
    return compare(answer, plain, false, err);
}

int spec_answer_compare_start(const SpecAnswer *answer, const SpecAnswer *plain, ErrText *err) {
    return compare(answer, plain, true, err);
}
