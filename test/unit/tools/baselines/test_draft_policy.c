// SPDX-License-Identifier: Apache-2.0
/* Every policy against its published rule, which is written here once more without the policy's own means: no passes,
 * no cache, no cost of its own. Also the limits of a step, and what policies learn from verifications. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/speculation_choice.h"
#include "test/unit/fixtures/sim_model.h"
#include "tools/baselines/draft_policy.h"

enum {
    N_SEEDS = 60,
    N_TEXT = 20,
    NODES_MAX = 4000
};

typedef struct Case {
    SimModel sim;
    AccountTable accounts;
    ModelDrafter *model;
    const DraftPolicyOps *ops;
    DraftPolicyState *learned;
    float ms[DRAFT_ROWS_MAX];
    uint32_t before, last;
    DraftRounds step;
    DraftRoundsReport report;
    DraftTree tree;
} Case;

static void case_init(Case *c, uint32_t seed, DraftPolicy policy) {
    uint32_t text[N_TEXT];

    memset(c, 0, sizeof(*c));
    sim_model_init(&c->sim, seed, SIM_ROWS_MAX);
    c->sim.sureness = 1 + (float)(seed % 5) * 3;
    account_table_init(&c->accounts);
    assert_int_equal(model_drafter_new(&c->accounts, sim_model(&c->sim), &c->model), 0);
    for (uint32_t i = 0; i < N_TEXT; i++)
        text[i] = sim_mix(seed, i) % SIM_KINDS;
    c->before = text[N_TEXT - 2];
    c->last = text[N_TEXT - 1];
    assert_int_equal(model_drafter_ops.append(c->model, text, N_TEXT), 0);
    assert_int_equal(model_drafter_follow(c->model, SIZE_MAX), 0);
    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        c->ms[i] = 200 + 2 * (float)i;
    c->ops = &draft_policies[policy];
    c->learned = c->ops->begin();
    assert_non_null(c->learned);
    c->step = (DraftRounds){ .model = c->model,
                             .limits = { DRAFT_NODES_MAX, DRAFT_NODES_MAX, 1000 },
                             .costs = { .ms = c->ms, .n_rows = DRAFT_ROWS_MAX },
                             .budget = { .ms = INFINITY } };
}

static void case_deinit(Case *c) {
    c->ops->end(c->learned);
    model_drafter_free(c->model);
    assert_int_equal(c->accounts.total_bytes, 0);
}

static void grow(Case *c) {
    assert_int_equal(c->ops->grow(c->learned, &c->tree, c->last, &c->step, &c->report), 0);
    assert_int_equal(c->report.n_passes, c->sim.n_passes);
    assert_int_equal(c->report.n_rows, c->sim.n_computed);
}

/* --- trees as the rules say --------------------------------------------------------------------------------------- */

typedef struct Node {
    int parent; /* -1: the root */
    uint32_t before, token, depth;
    float reach;
    bool is_in, is_expanded;
} Node;

static Node nodes[NODES_MAX];
static uint32_t n_nodes;

static uint32_t add(int parent, ContextTop top, uint32_t last, float chance) {
    assert_true(n_nodes < NODES_MAX);
    nodes[n_nodes] = (Node){ .parent = parent,
                             .before = last,
                             .token = top.token,
                             .depth = parent < 0 ? 1 : nodes[parent].depth + 1,
                             .reach = (parent < 0 ? 1 : nodes[parent].reach) * chance,
                             .is_in = true };
    return n_nodes++;
}

static void tops_of(const Case *c, int at, DraftModelTops *tops) {
    sim_tops(&c->sim, at < 0 ? c->before : nodes[at].before, at < 0 ? c->last : nodes[at].token, tops);
}

static uint32_t last_of(const Case *c, int at) {
    return at < 0 ? c->last : nodes[at].token;
}

/* Checks that the tree has the nodes that are in, each by its path, and no other. */
static void check(const Case *c) {
    int places[DRAFT_NODES_MAX];
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_nodes; i++)
        n += nodes[i].is_in;
    assert_int_equal(c->tree.n_nodes, n);
    for (uint32_t i = 0; i < n; i++) {
        const DraftNode *node = &c->tree.nodes[i];
        const int parent = node->parent < 0 ? -1 : places[node->parent];

        places[i] = -1;
        for (uint32_t k = 0; k < n_nodes; k++)
            if (nodes[k].is_in && nodes[k].parent == parent && nodes[k].token == node->token)
                places[i] = (int)k;
        assert_true(places[i] >= 0);
        assert_true(fabsf(node->reach - nodes[places[i]].reach) < 1e-6F);
        assert_true(!i || node->reach <= c->tree.nodes[i - 1].reach);
        assert_int_equal(node->n_credits, 1);
        assert_int_equal(node->credits[0].source, SPECULATION_MODEL);
    }
}

static void test_draft_policy_chain_sd(void **state) {
    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;
        int at = -1;

        case_init(&c, seed, POLICY_CHAIN_SD);
        grow(&c);
        n_nodes = 0;
        for (int i = 0; i < 8; i++) {
            DraftModelTops tops;

            tops_of(&c, at, &tops);
            at = (int)add(at, tops.tops[0], last_of(&c, at), tops.tops[0].probability);
        }
        check(&c);
        assert_int_equal(c.report.n_passes, 8);
        assert_int_equal(c.report.n_rows, 8);
        case_deinit(&c);
    }
}

static void specinfer(const Case *c, int at, uint32_t level) {
    static const uint32_t children[] = { 1, 1, 3, 1, 1, 1, 1, 1 };
    DraftModelTops tops;

    if (level == 8)
        return;
    tops_of(c, at, &tops);
    for (uint32_t i = 0; i < children[level]; i++)
        specinfer(c, (int)add(at, tops.tops[i], last_of(c, at), tops.tops[i].probability), level + 1);
}

static void test_draft_policy_specinfer(void **state) {
    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;

        case_init(&c, seed, POLICY_SPECINFER);
        grow(&c);
        n_nodes = 0;
        specinfer(&c, -1, 0);
        assert_int_equal(n_nodes, 20);
        check(&c);
        assert_int_equal(c.report.n_passes, 8); /* a level each */
        assert_int_equal(c.report.n_rows, 1 + 1 + 1 + 3 * 5);
        case_deinit(&c);
    }
}

static int by_reach(const void *a, const void *b) {
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

    return nodes[i].reach > nodes[k].reach ? -1 : nodes[i].reach < nodes[k].reach ? 1 : (i > k) - (i < k);
}

/* Puts the best of the nodes of `in` in, and the others out; returns the sum of their reach. */
static float keep_best(uint32_t from, uint32_t budget, bool only_in) {
    static uint32_t order[NODES_MAX];
    uint32_t n = 0;
    float sum = 0;

    for (uint32_t i = from; i < n_nodes; i++)
        if (!only_in || nodes[i].is_in)
            order[n++] = i;
    qsort(order, n, sizeof(*order), by_reach);
    for (uint32_t i = 0; i < n; i++) {
        nodes[order[i]].is_in = i < budget;
        sum += i < budget ? nodes[order[i]].reach : 0;
    }
    return sum;
}

static void opt_tree(const Case *c, uint32_t budget) {
    float before = 0;
    uint32_t from = 0, layer_of[2] = { 0, 0 };

    for (uint32_t depth = 0; depth < 10; depth++) {
        static bool kept[NODES_MAX];
        float now;

        from = n_nodes;
        for (int at = depth ? (int)layer_of[0] : -1; at < (depth ? (int)layer_of[1] : 0); at++) {
            DraftModelTops tops;

            if (depth && !nodes[at].is_in)
                continue;
            tops_of(c, at, &tops);
            for (uint32_t i = 0; i < tops.n && i < budget; i++)
                add(at, tops.tops[i], last_of(c, at), tops.tops[i].probability);
        }
        layer_of[0] = from;
        layer_of[1] = n_nodes;
        keep_best(from, budget, false);
        for (uint32_t i = 0; i < n_nodes; i++)
            kept[i] = nodes[i].is_in;
        now = keep_best(0, budget, true);
        if (!(now - before > 0.5F))
            break;
        before = now;
        for (uint32_t i = 0; i < n_nodes; i++)
            nodes[i].is_in = kept[i];
    }
    keep_best(0, budget, true);
}

static void test_draft_policy_opt_tree(void **state) {
    uint32_t depths[11] = { 0 };

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;

        case_init(&c, seed, POLICY_OPT_TREE);
        c.step.limits.nodes_max = seed % 2 ? 63 : 12;
        grow(&c);
        n_nodes = 0;
        opt_tree(&c, seed % 2 ? 50 : 12);
        check(&c);
        assert_true(c.report.n_passes >= 1 && c.report.n_passes <= 10);
        depths[c.report.n_passes]++;
        case_deinit(&c);
    }
    assert_true(depths[10] && depths[1] + depths[2] + depths[3]);
}

/* Extends the branch of the largest reach, side branches from 0.1 on, until the trunk is below alpha. */
static void edgellm(const Case *c, float alpha) {
    int trunk = -1;
    bool root_is_expanded = false;

    while (n_nodes < DRAFT_NODES_MAX && (trunk < 0 ? 1 : nodes[trunk].reach) >= alpha) {
        DraftModelTops tops;
        int at = -1;

        for (uint32_t i = 0; root_is_expanded && i < n_nodes; i++)
            if (!nodes[i].is_expanded && (at < 0 || nodes[i].reach > nodes[at].reach))
                at = (int)i;
        tops_of(c, at, &tops);
        for (uint32_t i = 0; i < tops.n && n_nodes < DRAFT_NODES_MAX; i++) {
            const float reach = (at < 0 ? 1 : nodes[at].reach) * tops.tops[i].probability;
            int child;

            if (i && reach < 0.1F)
                continue;
            child = (int)add(at, tops.tops[i], last_of(c, at), tops.tops[i].probability);
            trunk = !i && at == trunk ? child : trunk;
        }
        root_is_expanded = true;
        if (at >= 0)
            nodes[at].is_expanded = true;
    }
}

static void test_draft_policy_edgellm(void **state) {
    uint32_t n_wide = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;

        case_init(&c, seed, POLICY_EDGELLM);
        c.learned->alpha = seed % 3 ? 0.01F : 0.3F;
        grow(&c);
        n_nodes = 0;
        edgellm(&c, c.learned->alpha);
        check(&c);
        assert_int_equal(c.report.n_passes, c.report.n_rows); /* one branch at a time */
        n_wide += c.tree.n_nodes > c.report.n_passes;
        case_deinit(&c);
    }
    assert_true(n_wide > 10);
}

/* Follows Eq. 5 and 6, with the frontier's best nodes as one item of any number. */
static uint32_t lever(const Case *c, float reliability) {
    uint32_t n_in = 0, n_passes = 1;
    double gain = 1, draft_ms = (double)c->sim.pass_ms;

    for (int at = -1;;) {
        static uint32_t frontier[NODES_MAX];
        uint32_t n = 0, best = 0;
        double sum = 0, best_ratio = 0;
        const double own = gain / ((double)c->ms[n_in] + draft_ms);

        for (; at < (int)n_nodes; at++) { /* the last nodes that came in are expanded */
            DraftModelTops tops;

            if (at >= 0 && (!nodes[at].is_in || nodes[at].is_expanded))
                continue;
            tops_of(c, at, &tops);
            if (at >= 0)
                nodes[at].is_expanded = true;
            for (uint32_t i = 0; i < tops.n; i++) {
                const float chance = fminf(0.999F, reliability * tops.tops[i].probability);

                nodes[add(at, tops.tops[i], last_of(c, at), chance)].is_in = false;
            }
        }
        for (uint32_t i = 0; i < n_nodes; i++)
            if (!nodes[i].is_in)
                frontier[n++] = i;
        qsort(frontier, n, sizeof(*frontier), by_reach);
        for (uint32_t i = 1; i <= n && n_in + i <= DRAFT_NODES_MAX; i++) {
            const double ms =
                (double)(c->ms[n_in + i] - c->ms[n_in] + c->sim.pass_ms) + (double)(c->sim.row_ms * (float)(i - 1));

            sum += (double)nodes[frontier[i - 1]].reach;
            if (sum / ms > own && sum / ms > best_ratio * (1 + 1e-7)) {
                best = i;
                best_ratio = sum / ms;
            }
        }
        if (!best)
            return n_passes;
        for (uint32_t i = 0; i < best; i++) {
            nodes[frontier[i]].is_in = true;
            gain += (double)nodes[frontier[i]].reach;
        }
        n_in += best;
        n_passes++;
        draft_ms += (double)(c->sim.pass_ms + c->sim.row_ms * (float)(best - 1));
        at = 0;
    }
}

static void test_draft_policy_lever(void **state) {
    uint32_t n_grouped = 0, n_alone = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;
        uint32_t n_passes;

        case_init(&c, seed, POLICY_LEVER);
        c.learned->reliability = 0.5F + (float)(seed % 7) / 10;
        c.sim.pass_ms = seed % 2 ? 3 : 12;
        for (uint32_t i = 0; seed % 4 > 1 && i < DRAFT_ROWS_MAX; i++)
            c.ms[i] = 200 + 30 * (float)(i / 8);
        grow(&c);
        n_nodes = 0;
        n_passes = lever(&c, c.learned->reliability);
        check(&c);
        assert_int_equal(c.report.n_passes, n_passes);
        n_grouped += c.report.n_rows > c.report.n_passes + 3;
        n_alone += c.report.n_rows == c.report.n_passes;
        case_deinit(&c);
    }
    assert_true(n_grouped > 5 && n_alone > 3);
}

/* --- limits and errors -------------------------------------------------------------------------------------------- */

static const SpecLab free_passes = { .always = true };

static bool always_stops(void *arg) {
    return true;
}

static void test_draft_policy_limits(void **state) {
    for (DraftPolicy policy = 0; policy < _POLICY_N; policy++)
        for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
            static Case c;

            case_init(&c, seed, policy);
            c.step.limits = (DraftLimits){ sim_mix(seed, 1) % 70, sim_mix(seed, 2) % 12, sim_mix(seed, 3) % 12 };
            c.step.costs.n_rows = sim_mix(seed, 4) % (DRAFT_ROWS_MAX + 1);
            c.step.budget.ms = (float)(sim_mix(seed, 5) % 200);
            c.step.lab = seed % 5 == 0 ? &free_passes : NULL;
            c.step.budget.stops = seed % 6 == 5 ? always_stops : NULL;
            c.sim.ops.rows_max = 1 + sim_mix(seed, 6) % 60;
            grow(&c);
            assert_true(c.tree.n_nodes <= c.step.limits.nodes_max);
            assert_true(c.tree.n_rows <= (c.step.costs.n_rows ? c.step.costs.n_rows : 1));
            for (uint32_t i = 0; i < c.tree.n_nodes; i++) {
                assert_true(c.tree.nodes[i].parent < (int)i && c.tree.nodes[i].depth <= c.step.limits.depth_max);
                assert_true(c.tree.nodes[i].depth < c.step.limits.tokens_left);
            }
            assert_true(c.step.lab || c.report.spent_ms <= c.step.budget.ms);
            assert_true(!c.step.budget.stops || !c.report.n_passes);
            case_deinit(&c);
            case_init(&c, seed, policy);
            c.sim.fails_at = 2;
            assert_int_equal(c.ops->grow(c.learned, &c.tree, c.last, &c.step, &c.report), -EIO);
            assert_int_equal(c.tree.n_rows, 1);
            case_deinit(&c);
        }
}

/* --- what is learned ---------------------------------------------------------------------------------------------- */

static void test_draft_policy_learns(void **state) {
    static Case c;
    uint32_t accepted[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    DraftModelTops tops;
    float sum = 0, reliability;

    case_init(&c, 4, POLICY_CHAIN_SD);
    grow(&c);
    assert_true(c.learned->alpha == 0.01F && c.learned->reliability == 1);
    c.ops->learn(c.learned, c.model, &c.tree, accepted, 8, 0); /* all are right: longer ones */
    assert_true(c.learned->alpha == 0.005F);
    c.ops->learn(c.learned, c.model, &c.tree, accepted, 2, 0); /* six of eight are not */
    assert_true(fabsf(c.learned->alpha - 0.005F * powf(2, 0.75F)) < 1e-6F);
    for (int i = 0; i < 100; i++)
        c.ops->learn(c.learned, c.model, &c.tree, accepted, 8, 0);
    assert_true(c.learned->alpha == EDGELLM_ALPHA_MIN);
    for (int i = 0; i < 100; i++)
        c.ops->learn(c.learned, c.model, &c.tree, accepted, 0, 0);
    assert_true(c.learned->alpha == EDGELLM_ALPHA_MAX);

    sim_tops(&c.sim, c.before, c.last, &tops);
    for (uint32_t i = 0; i < tops.n; i++)
        sum += tops.tops[i].probability;
    c.learned->reliability = 0.8F;
    c.ops->learn(c.learned, c.model, &c.tree, accepted, 0, tops.tops[5].token);
    reliability = 0.9F * 0.8F + 0.1F / sum;
    assert_true(fabsf(c.learned->reliability - reliability) < 1e-5F);
    for (uint32_t token = 0, i = 0; token < SIM_KINDS; token++) {
        for (i = 0; i < tops.n && tops.tops[i].token != token; i++)
            ;
        if (i < tops.n)
            continue;
        c.ops->learn(c.learned, c.model, &c.tree, accepted, 0, token); /* no candidate was it */
        reliability *= 0.9F;
        reliability = MAX(0.2F, reliability);
        assert_true(fabsf(c.learned->reliability - reliability) < 1e-5F);
    }
    assert_true(c.learned->reliability < 0.25F);
    case_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_policy_chain_sd), cmocka_unit_test(test_draft_policy_specinfer),
        cmocka_unit_test(test_draft_policy_opt_tree), cmocka_unit_test(test_draft_policy_edgellm),
        cmocka_unit_test(test_draft_policy_lever),    cmocka_unit_test(test_draft_policy_limits),
        cmocka_unit_test(test_draft_policy_learns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
