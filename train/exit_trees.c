// SPDX-License-Identifier: Apache-2.0
#include "train/exit_trees.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft_timeline.h"

typedef struct Said {
    uint32_t *tokens;
    size_t n;
} Said;

static void take(void *arg, const char *text, size_t len_bytes, const uint32_t *tokens, size_t n_tokens) {
    Said *said = arg;

    for (size_t i = 0; i < n_tokens; i++)
        said->tokens[said->n++] = tokens[i];
}

static int answer(const ExitTreesWork *work, const uint32_t *prompt, const GenerationSpeculation *speculation,
                  Said *said, ExitTreesRun *run, ErrText *err) {
    GenerationOptions options = {
        .max_tokens = (uint32_t)work->n_output,
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = *speculation,
    };
    _cleanup_(draft_timeline_free) DraftModel model = { 0 };
    _cleanup_(generation_freep) Generation *generation = NULL;
    GenerationReport report;
    int r = draft_timeline_new(&model, work->pair, work->n_prompt + work->n_output, err);

    said->n = 0;
    options.speculation.model = model;
    if (!r)
        r = generation_new(&generation, work->target, prompt, work->n_prompt, &options, err);
    while (!r && generation_end(generation) == GENERATION_RUNNING)
        r = generation_step(generation, take, said, err);
    if (r)
        return r;
    generation_report(generation, &report);
    run->n_tokens += said->n;
    run->n_steps += report.n_steps;
    run->n_rows += report.n_rows;
    run->n_gone += report.n_exit_rows;
    run->verify_ns += report.step_ns - report.model_ns - report.draft_ns;
    run->exit_ns += report.exit_ns;
    return 0;
}

int exit_trees_run(const ExitTreesWork *work, SpeculationPolicy policy, ExitTreesRun *without, ExitTreesRun *with,
                   ErrText *err) {
    _cleanup_(freep) uint32_t *tokens = malloc(2 * work->n_output * sizeof(*tokens));
    GenerationSpeculation plain = { .policy = policy, .always = true };
    SpeculationChoice choice;
    int r = speculation_parse(speculation_policy_name(policy), &choice, err);

    if (r)
        return r;
    if (!tokens)
        return err_set(err, -ENOMEM, "out of memory");
    plain.sources = choice.sources;
    *without = *with = (ExitTreesRun){ 0 };
    for (size_t i = 0; !r && i < work->n_prompts; i++) {
        const uint32_t *prompt = work->prompts + i * work->prompt_stride;
        GenerationSpeculation pruned = plain;
        Said said = { tokens, 0 }, again = { tokens + work->n_output, 0 };

        pruned.pruning = GENERATION_PRUNING_ALWAYS;
        pruned.pruning_threshold = work->threshold;
        r = answer(work, prompt, &plain, &said, without, err);
        if (!r)
            r = answer(work, prompt, &pruned, &again, with, err);
        if (!r && (said.n != again.n || memcmp(said.tokens, again.tokens, said.n * sizeof(*tokens))))
            r = err_set(err, -EPROTO, "pruned rows have changed an answer");
    }
    return r;
}
