// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/matrix/matrix_way.h"

#include "engine/draft/self_draft.h"
#include "tools/baselines/draft_policy.h"

#define ALL_SOURCES ((1u << _SPECULATION_N) - 1)
#define MODEL (1u << SPECULATION_MODEL)

static const SpecLab always = { .always = true }, chains = { .always = true, .chains = true };
static const SpecLab by_rule[_POLICY_N] = {
    [POLICY_CHAIN_SD] = { .policy = &draft_policies[POLICY_CHAIN_SD], .always = true },
    [POLICY_EDGELLM] = { .policy = &draft_policies[POLICY_EDGELLM], .always = true },
    [POLICY_SPECINFER] = { .policy = &draft_policies[POLICY_SPECINFER], .always = true },
    [POLICY_OPT_TREE] = { .policy = &draft_policies[POLICY_OPT_TREE], .always = true },
    [POLICY_LEVER] = { .policy = &draft_policies[POLICY_LEVER], .always = true },
};

const MatrixWay matrix_ways[] = {
    [WAY_PLAIN] = { .name = "plain" },
    [WAY_TREE] = { .name = "auto 16", .speculation = { .sources = SPECULATION_AUTO, .rows_max = 16, .lab = &always } },
    [WAY_SMALL_TREE] = { .name = "auto 4",
                         .speculation = { .sources = SPECULATION_AUTO, .rows_max = 4, .lab = &always } },
    [WAY_PRUNED] = { .name = "pruned 32",
                     .speculation = { .sources = SPECULATION_AUTO, .rows_max = 32, .lab = &always },
                     .pruning = EXIT_PRUNING_ALWAYS },
    [WAY_SELF] = { .name = "self 16",
                   .speculation = { .sources = MODEL, .rows_max = 16, .lab = &always },
                   .by_itself = true },
    [WAY_OURS] = { .name = "ours 16",
                   .speculation = { .sources = SPECULATION_AUTO, .rows_max = 16, .lab = &always },
                   .with_model = true },
    [WAY_LEVER] = { .name = "lever",
                    .speculation = { .sources = MODEL, .lab = &by_rule[POLICY_LEVER] },
                    .with_model = true },
    [WAY_CHAIN] = { .name = "chain 16", .speculation = { .sources = ALL_SOURCES, .rows_max = 16, .lab = &chains } },
    { .name = "pruned", .speculation = { .sources = SPECULATION_AUTO }, .pruning = EXIT_PRUNING_CONTROLLED },
    { .name = "auto 64", .speculation = { .sources = SPECULATION_AUTO, .rows_max = 64, .lab = &always } },
    { .name = "all 32", .speculation = { .sources = ALL_SOURCES, .rows_max = 32, .lab = &always } },
    { .name = "lookup 16", .speculation = { .sources = 1u << SPECULATION_LOOKUP, .rows_max = 16, .lab = &always } },
    { .name = "sam 16", .speculation = { .sources = 1u << SPECULATION_SAM, .rows_max = 16, .lab = &always } },
    { .name = "on demand",
      .speculation = { .sources = 1u << SPECULATION_SAM, .rows_max = 16, .lab = &always, .head_on_demand = true } },
    { .name = "table 16", .speculation = { .sources = 1u << SPECULATION_TABLE, .rows_max = 16, .lab = &always } },
    { .name = "calibr. 16",
      .speculation = { .sources = 1u << SPECULATION_CALIBRATION, .rows_max = 16, .lab = &always } },
    { .name = "controlled", .speculation = { .sources = SPECULATION_AUTO } },
    { .name = "model 16",
      .speculation = { .sources = MODEL, .rows_max = 16, .lab = &always, .head_on_demand = true },
      .with_model = true },
    { .name = "chain-sd", .speculation = { .sources = MODEL, .lab = &by_rule[POLICY_CHAIN_SD] }, .with_model = true },
    { .name = "edgellm", .speculation = { .sources = MODEL, .lab = &by_rule[POLICY_EDGELLM] }, .with_model = true },
    { .name = "specinfer", .speculation = { .sources = MODEL, .lab = &by_rule[POLICY_SPECINFER] }, .with_model = true },
    { .name = "opt-tree", .speculation = { .sources = MODEL, .lab = &by_rule[POLICY_OPT_TREE] }, .with_model = true },
};

GenerationSpeculation matrix_way_speculation(const MatrixWay *way, const Engine *engine) {
    GenerationSpeculation speculation = way->speculation;

    if (way->by_itself)
        speculation.self_layers =
            self_draft_layers(engine) ? self_draft_layers(engine) : (engine_info(engine)->n_layers + 1) / 2;
    return speculation;
}
