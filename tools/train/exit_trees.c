// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_trees.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/draft_timeline.h"

const char *const exit_trees_ways[_EXIT_TREES_WAYS] = {
    [EXIT_TREES_MIXTURE] = "draft and map",
    [EXIT_TREES_WITHOUT_SHADOWS] = "no shadows",
    [EXIT_TREES_UNGUARDED] = "no safeguards",
    [EXIT_TREES_DRAFT_ALONE] = "draft alone",
};

static const double tuned_share = 0.955; /* half a per cent above the wanted share, as a margin for other texts */

typedef struct Said {
    uint32_t *tokens;
    size_t n;
} Said;

static void take(void *arg, const GenerationDelta *delta) {
    Said *said = arg;

    for (size_t i = 0; i < delta->n_tokens; i++)
        said->tokens[said->n++] = delta->tokens[i];
}

/* Answers a prompt. pruning: what the speculation's lab prunes by; NULL: nothing. */
static int answer(const ExitTreesWork *work, const uint32_t *prompt, const GenerationSpeculation *speculation,
                  const ExitPruning *pruning, Said *said, ExitTreesRun *run, ErrText *err) {
    const ExitReport before = pruning ? pruning->report : (ExitReport){ 0 };
    GenerationOptions options = {
        .max_tokens = (uint32_t)work->n_output,
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = *speculation,
    };
    _cleanup_(draft_timeline_free) DraftModel model = { 0 };
    _cleanup_(generation_freep) Generation *generation = NULL;
    const DraftReport *report;
    int r = draft_timeline_new(&model, work->pair, work->n_prompt + work->n_output, err);

    said->n = 0;
    options.speculation.model = model;
    if (!r)
        r = generation_new(&generation, work->exit->engine, prompt, work->n_prompt, &options, err);
    while (!r && generation_end(generation) == GENERATION_RUNNING)
        r = generation_step(generation, take, said, err);
    if (r)
        return r;
    report = generation_report(generation);
    run->n_tokens += said->n;
    run->n_steps += report->n_steps;
    run->n_rows += report->n_rows;
    run->n_gone += pruning ? pruning->report.n_rows - before.n_rows : 0;
    run->verify_ns += report->step_ns - report->model_ns - report->draft_ns;
    run->exit_ns += pruning ? pruning->report.ns - before.ns : 0;
    return 0;
}

static int watch(const ExitTreesWork *work, const GenerationSpeculation *plain, Said *said, ExitWatch *watch,
                 ErrText *err) {
    GenerationSpeculation watched = *plain;
    ExitPruning pruning = {
        .exit = work->exit, .mode = EXIT_PRUNING_WATCHED, .on_watched = exit_watch_take, .on_watched_arg = watch
    };
    SpecLab lab = *plain->lab;
    ExitTreesRun run = { 0 };
    int r = 0;

    exit_pruning_hook(&pruning, &lab);
    watched.lab = &lab;
    for (size_t i = 0; !r && i < work->n_prompts; i++) {
        watch->tunes = i % 2 == 0;
        r = answer(work, work->prompts[i], &watched, NULL, said, &run, err);
    }
    return r ? r : watch->failed ? err_no_memory(err) : 0;
}

static void judge(const ExitTreesWork *work, const ExitWatch *watch, ExitTrees *trees) {
    const PruningMix mix = work->exit->mix, draft = { 1, 0, 0 };
    const ExitWay ways[_EXIT_TREES_WAYS] = {
        [EXIT_TREES_MIXTURE] = { .mix = mix },
        [EXIT_TREES_WITHOUT_SHADOWS] = { .mix = work->mix_alone, .alone = true },
        [EXIT_TREES_UNGUARDED] = { .mix = mix, .unguarded = true },
        [EXIT_TREES_DRAFT_ALONE] = { .mix = draft },
    };

    for (size_t i = 0; i < _EXIT_TREES_WAYS; i++)
        trees->kept[i] = exit_watch_kept(watch, false, &ways[i], exit_watch_threshold(watch, &ways[i], tuned_share));
}

/* Answers the prompts for figures without pruning and with it, alternating which comes first. */
static int compare(const ExitTreesWork *work, const GenerationSpeculation *plain, uint32_t *tokens, ExitTrees *trees,
                   ErrText *err) {
    GenerationSpeculation pruned = *plain;
    ExitPruning pruning = { .exit = work->exit,
                            .mode = EXIT_PRUNING_ALWAYS,
                            .threshold = trees->kept[EXIT_TREES_MIXTURE].threshold };
    SpecLab lab = *plain->lab;
    int r = 0;

    exit_pruning_hook(&pruning, &lab);
    pruned.lab = &lab;
    for (size_t i = 1; !r && i < work->n_prompts; i += 2) {
        Said said = { tokens, 0 }, again = { tokens + work->n_output, 0 };
        const bool turned = i / 2 % 2;

        for (int turn = 0; !r && turn < 2; turn++)
            r = (turn == 0) == turned ? answer(work, work->prompts[i], &pruned, &pruning, &again, &trees->with, err)
                                      : answer(work, work->prompts[i], plain, NULL, &said, &trees->without, err);
        if (!r && (said.n != again.n || memcmp(said.tokens, again.tokens, said.n * sizeof(*tokens))))
            r = err_set(err, -EPROTO, "pruned rows have changed an answer");
    }
    return r;
}

int exit_trees_run(const ExitTreesWork *work, const DraftPolicyOps *policy, ExitTrees *trees, ErrText *err) {
    _cleanup_(freep) uint32_t *tokens = malloc(2 * work->n_output * sizeof(*tokens));
    _cleanup_(exit_watch_deinit) ExitWatch watched = { 0 };
    const SpecLab lab = { .policy = policy, .always = true };
    const GenerationSpeculation plain = { .sources = policy ? 1u << SPECULATION_MODEL : SPECULATION_AUTO, .lab = &lab };
    Said said = { tokens, 0 };
    int r;

    if (!tokens)
        return err_no_memory(err);
    *trees = (ExitTrees){ 0 };
    r = watch(work, &plain, &said, &watched, err);
    if (r)
        return r;
    judge(work, &watched, trees);
    return compare(work, &plain, tokens, trees, err);
}
