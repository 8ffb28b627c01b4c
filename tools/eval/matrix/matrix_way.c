// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/matrix/matrix_way.h"

#include "engine/draft/self_draft.h"

#define ALL_SOURCES ((1u << _SPECULATION_N) - 1)
#define MODEL (1u << SPECULATION_MODEL)

const MatrixWay matrix_ways[] = {
    [WAY_PLAIN] = { .name = "plain" },
    [WAY_TREE] = { .name = "auto 16",
                   .speculation = { .sources = SPECULATION_AUTO, .rows_max = 16, .lab.always = true } },
    [WAY_SMALL_TREE] = { .name = "auto 4",
                         .speculation = { .sources = SPECULATION_AUTO, .rows_max = 4, .lab.always = true } },
    [WAY_PRUNED] = { .name = "pruned 32",
                     .speculation = { .sources = SPECULATION_AUTO,
                                      .rows_max = 32,
                                      .lab.always = true,
                                      .pruning = GENERATION_PRUNING_ALWAYS } },
    [WAY_SELF] = { .name = "self 16",
                   .speculation = { .sources = MODEL, .rows_max = 16, .lab.always = true },
                   .by_itself = true },
    [WAY_OURS] = { .name = "ours 16",
                   .speculation = { .sources = SPECULATION_AUTO, .rows_max = 16, .lab.always = true },
                   .with_model = true },
    [WAY_LEVER] = { .name = "lever",
                    .speculation = { .sources = MODEL, .policy = POLICY_LEVER, .lab.always = true },
                    .with_model = true },
    [WAY_CHAIN] = { .name = "chain 16",
                    .speculation = { .sources = ALL_SOURCES, .rows_max = 16, .lab.always = true, .lab.chains = true } },
    { .name = "pruned", .speculation = { .sources = SPECULATION_AUTO, .pruning = GENERATION_PRUNING_CONTROLLED } },
    { .name = "auto 64", .speculation = { .sources = SPECULATION_AUTO, .rows_max = 64, .lab.always = true } },
    { .name = "all 32", .speculation = { .sources = ALL_SOURCES, .rows_max = 32, .lab.always = true } },
    { .name = "lookup 16", .speculation = { .sources = 1u << SPECULATION_LOOKUP, .rows_max = 16, .lab.always = true } },
    { .name = "sam 16", .speculation = { .sources = 1u << SPECULATION_SAM, .rows_max = 16, .lab.always = true } },
    { .name = "on demand",
      .speculation = { .sources = 1u << SPECULATION_SAM, .rows_max = 16, .lab.always = true, .head_on_demand = true } },
    { .name = "table 16", .speculation = { .sources = 1u << SPECULATION_TABLE, .rows_max = 16, .lab.always = true } },
    { .name = "calibr. 16",
      .speculation = { .sources = 1u << SPECULATION_CALIBRATION, .rows_max = 16, .lab.always = true } },
    { .name = "controlled", .speculation = { .sources = SPECULATION_AUTO } },
    { .name = "model 16",
      .speculation = { .sources = MODEL, .rows_max = 16, .lab.always = true, .head_on_demand = true },
      .with_model = true },
    { .name = "chain-sd",
      .speculation = { .sources = MODEL, .policy = POLICY_CHAIN_SD, .lab.always = true },
      .with_model = true },
    { .name = "edgellm",
      .speculation = { .sources = MODEL, .policy = POLICY_EDGELLM, .lab.always = true },
      .with_model = true },
    { .name = "specinfer",
      .speculation = { .sources = MODEL, .policy = POLICY_SPECINFER, .lab.always = true },
      .with_model = true },
    { .name = "opt-tree",
      .speculation = { .sources = MODEL, .policy = POLICY_OPT_TREE, .lab.always = true },
      .with_model = true },
};

GenerationSpeculation matrix_way_speculation(const MatrixWay *way, const Engine *engine) {
    GenerationSpeculation speculation = way->speculation;

    if (way->by_itself)
        speculation.self_layers =
            self_draft_layers(engine) ? self_draft_layers(engine) : (engine_info(engine)->n_layers + 1) / 2;
    return speculation;
}
