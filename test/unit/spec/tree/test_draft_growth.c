// SPDX-License-Identifier: Apache-2.0
/* Growth of a draft tree: every node is recomputed from everything possible, and the tokens per time are compared with
 * those of all trees. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/tree/draft_growth.h"

enum {
    N_SEEDS = 300,
    DEPTH = 4,
    ALL_MAX = 40000,
    ROOT_TOKEN = 77
};

/* A source whose choices follow from its seed and the path, with few distinct tokens, so that sources meet. Cursor: a
 * is a hash of the path, b the depth. */
typedef struct Dice {
    uint32_t seed, n_choices;
} Dice;

static uint32_t mix(uint32_t a, uint32_t b) {
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;

    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

static float dice_prior(uint16_t bucket, uint16_t rank) {
    return (float)(1 + bucket) / (float)(18 * (1 + rank));
}

static DraftCursor dice_root(const void *drafter) {
    const Dice *dice = drafter;

    return (DraftCursor){ .a = dice->seed };
}

static DraftCursor dice_follow(const void *drafter, DraftCursor at, uint32_t token) {
    return (DraftCursor){ .a = mix(at.a, token), .b = at.b + 1 };
}

static size_t dice_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const Dice *dice = drafter;
    uint32_t n = dice->n_choices < max ? dice->n_choices : (uint32_t)max, first = mix(at.a, 1);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t token = (first + i) % 5;

        choices[i] = (DraftChoice){ .token = token,
                                    .bucket = (uint16_t)(mix(at.a, 2 + i) % DRAFT_BUCKETS),
                                    .rank = (uint16_t)i,
                                    .next = dice_follow(drafter, at, token) };
    }
    return n;
}

static const DrafterOps dice_ops = {
    .prior = dice_prior, .root = dice_root, .choices = dice_choices, .follow = dice_follow
};

typedef struct Case {
    Dice dice[3];
    Drafter drafters[3];
    SourceStats stats;
    DraftSources sources;
} Case;

static void case_init(Case *c, uint32_t seed, uint32_t n_sources, uint32_t n_choices) {
    memset(c, 0, sizeof(*c));
    source_stats_begin(&c->stats, 0, NULL);
    for (uint32_t s = 0; s < n_sources; s++) {
        c->dice[s] = (Dice){ mix(seed, s), 1 + mix(seed, 100 + s) % n_choices };
        c->drafters[s] = (Drafter){ &dice_ops, &c->dice[s] };
        source_stats_init(&c->stats, s, &dice_ops, NULL);
    }
    c->sources = (DraftSources){ c->drafters, n_sources, &c->stats, NULL };
}

/* All nodes down to a depth, each with its path as a number. */
typedef struct All {
    float reach[ALL_MAX];
    uint32_t path[ALL_MAX];
    uint32_t n;
} All;

static All all;

/* Tokens that may come next, in the order in which they are proposed, each with its chance as reach. */
static uint32_t proposals(const Case *c, const DraftCursor *cursors, DraftNode *nodes) {
    uint32_t n = 0, proposing = 0;

    for (uint32_t s = 0; s < c->sources.n; s++) {
        DraftChoice choices[DRAFT_CHOICES_MAX];
        size_t n_choices = dice_choices(&c->dice[s], cursors[s], choices, DRAFT_CHOICES_MAX);

        proposing |= n_choices ? 1u << s : 0;
        for (size_t i = 0; i < n_choices; i++) {
            uint32_t at = 0;

            while (at < n && nodes[at].token != choices[i].token)
                at++;
            if (at == n)
                nodes[n++] = (DraftNode){ .token = choices[i].token };
            nodes[at].credits[nodes[at].n_credits++] =
                (DraftCredit){ (uint8_t)s, (uint8_t)choices[i].bucket, (uint8_t)choices[i].rank, false };
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        nodes[i].others = (uint8_t)proposing;
        for (uint32_t k = 0; k < nodes[i].n_credits; k++)
            nodes[i].others &= (uint8_t) ~(1u << nodes[i].credits[k].source);
        nodes[i].reach = source_stats_joint_chance(&c->stats, &nodes[i]);
    }
    return n;
}

static void enumerate(const Case *c, const DraftCursor *cursors, uint32_t path, float reach, uint32_t depth) {
    DraftNode nodes[5];
    float sum = 0, most = 0;
    uint32_t n, best = 0;

    if (!depth)
        return;
    n = proposals(c, cursors, nodes);
    for (uint32_t i = 0; i < n; i++) {
        sum += nodes[i].reach;
        if (nodes[i].reach > most) {
            most = nodes[i].reach;
            best = i;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        DraftCursor nexts[3];
        float below = reach * nodes[i].reach * (i == best || sum <= 1 ? 1 : (1 - most) / (sum - most));

        assert_true(all.n < ALL_MAX);
        all.reach[all.n] = below;
        all.path[all.n++] = path * 6 + nodes[i].token + 1;
        for (uint32_t s = 0; s < c->sources.n; s++)
            nexts[s] = dice_follow(&c->dice[s], cursors[s], nodes[i].token);
        enumerate(c, nexts, path * 6 + nodes[i].token + 1, below, depth - 1);
    }
}

static void enumerate_all(const Case *c, uint32_t depth) {
    DraftCursor roots[3];

    all.n = 0;
    for (uint32_t s = 0; s < c->sources.n; s++)
        roots[s] = dice_root(&c->dice[s]);
    enumerate(c, roots, 0, 1, depth);
}

static uint32_t path_of(const DraftTree *tree, int node) {
    return node == DRAFT_ROOT ? 0 : path_of(tree, tree->nodes[node].parent) * 6 + tree->nodes[node].token + 1;
}

static int falling(const void *a, const void *b) {
    const float *x = a, *y = b;

    return (*x < *y) - (*x > *y);
}

/* The nodes are those with the highest reach of all, within rounding of sums in another order; each comes once, with
 * its credits. */
static void check_tree(const Case *c, const DraftTree *tree, uint32_t depth) {
    static float sorted[ALL_MAX];

    enumerate_all(c, depth);
    memcpy(sorted, all.reach, all.n * sizeof(*sorted));
    qsort(sorted, all.n, sizeof(*sorted), falling);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const DraftNode *node = &tree->nodes[i];
        uint32_t path = path_of(tree, (int)i), at = 0, mask = 0;

        while (at < all.n && all.path[at] != path)
            at++;
        assert_true(at < all.n && node->depth <= depth && node->parent < (int)i);
        assert_true(node->reach > all.reach[at] * 0.9999F && node->reach < all.reach[at] * 1.0001F);
        assert_true(node->reach > sorted[i] * 0.9999F && node->reach < sorted[i] * 1.0001F);
        assert_true(!i || node->reach <= tree->nodes[i - 1].reach);
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(path_of(tree, (int)j), path);
        assert_true(node->n_credits >= 1 && node->n_credits <= c->sources.n);
        for (uint32_t k = 0; k < node->n_credits; k++) {
            assert_false(mask >> node->credits[k].source & 1);
            mask |= 1u << node->credits[k].source;
        }
    }
}

/* If rows cost nothing, the tree is as large as it may be. */
static void test_draft_growth_best_first(void **state) {
    float ms[DRAFT_ROWS_MAX];

    for (int i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 1;
    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        Case c;
        DraftTree tree, again;
        DraftLimits limits = { 1 + seed % 70, DEPTH, 1000 };
        uint32_t room = MIN(limits.nodes_max, DRAFT_NODES_MAX);

        case_init(&c, seed, 1 + seed % 3, 4);
        memset(&tree, 0xAA, sizeof(tree));
        memset(&again, 0x55, sizeof(again));
        draft_growth(&tree, ROOT_TOKEN, c.sources, limits, (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, false);
        draft_growth(&again, ROOT_TOKEN, c.sources, limits, (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, false);
        check_tree(&c, &tree, DEPTH);
        assert_int_equal(tree.n_nodes, MIN(all.n, room));
        assert_int_equal(tree.n_rows, tree.n_nodes + 1);
        assert_int_equal(tree.tokens[0], ROOT_TOKEN);
        assert_int_equal(again.n_rows, tree.n_rows);
        assert_memory_equal(again.tokens, tree.tokens, tree.n_rows * sizeof(*tree.tokens));
        assert_memory_equal(again.parents, tree.parents, tree.n_rows * sizeof(*tree.parents));
    }
}

/* A node's credits name exactly the sources that proposed it. */
static void test_draft_growth_merge(void **state) {
    float ms[DRAFT_ROWS_MAX];

    for (int i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 1;
    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        Case c;
        DraftTree tree;

        case_init(&c, seed, 3, 3);
        draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 63, 1, 1000 },
                     (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, false);
        for (uint32_t i = 0; i < tree.n_nodes; i++) {
            uint32_t n = 0;

            for (uint32_t s = 0; s < 3; s++) {
                DraftChoice choices[DRAFT_CHOICES_MAX];
                size_t n_choices = dice_choices(&c.dice[s], dice_root(&c.dice[s]), choices, DRAFT_CHOICES_MAX);

                for (size_t k = 0; k < n_choices; k++)
                    n += choices[k].token == tree.nodes[i].token;
            }
            assert_int_equal(tree.nodes[i].n_credits, n);
        }
    }
}

/* Finds the best ratio of all trees that are closed under parents, by trying every set of nodes. */
static double best_ratio(const float *ms, uint32_t cap) {
    double best = 1 / (double)ms[0];

    for (uint32_t set = 1; set < 1u << all.n; set++) {
        double gain = 1;
        uint32_t n = (uint32_t)__builtin_popcount(set);
        int closed = n <= cap;

        for (uint32_t i = 0; i < all.n && closed; i++) {
            uint32_t parent = 0;

            if (!(set >> i & 1))
                continue;
            gain += (double)all.reach[i];
            while (parent < all.n && all.path[parent] != all.path[i] / 6)
                parent++;
            closed = all.path[i] < 6 || set >> parent & 1;
        }
        if (closed && gain / (double)ms[n] > best)
            best = gain / (double)ms[n];
    }
    return best;
}

static void test_draft_growth_optimum(void **state) {
    uint32_t n_plain = 0, n_drafts = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        Case c;
        DraftTree tree;
        float ms[DRAFT_ROWS_MAX], at = 10;
        double ratio, best;

        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++) {
            static const float steps[] = { 0, 0, 0.5F, 1, 6, -1 };

            ms[i] = at;
            at += steps[mix(seed, 1000 + i) % 6];
        }
        case_init(&c, seed, 2, 2);
        enumerate_all(&c, 2);
        if (all.n > 14)
            continue;
        draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 9, 2, 1000 },
                     (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, false);
        best = best_ratio(ms, 9);
        ratio = draft_tree_gain(&tree, tree.n_nodes) / (double)ms[tree.n_nodes];
        assert_true(ratio > best * 0.9999 && ratio < best * 1.0001);
        n_plain += !tree.n_nodes;
        n_drafts += tree.n_nodes > 0;
    }
    assert_true(n_plain > 5 && n_drafts > 100);
}

static void test_draft_growth_limits(void **state) {
    float ms[4] = { 1, 1, 1, 1 };
    Case c;
    DraftTree tree;

    case_init(&c, 3, 2, 4);
    draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 63, 9, 1000 }, (DraftCosts){ .ms = ms, .n_rows = 4 },
                 false);
    assert_int_equal(tree.n_nodes, 3);
    draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 63, 9, 1000 }, (DraftCosts){ .ms = ms, .n_rows = 0 },
                 false);
    assert_int_equal(tree.n_rows, 1);
    for (uint32_t left = 0; left < 3; left++) {
        draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 63, 9, left }, (DraftCosts){ .ms = ms, .n_rows = 4 },
                     false);
        assert_true(left < 2 ? tree.n_nodes == 0 : tree.n_nodes > 0);
        for (uint32_t i = 0; i < tree.n_nodes; i++)
            assert_true(tree.nodes[i].depth + 1u <= left);
    }
    draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 0, 9, 9 }, (DraftCosts){ .ms = ms, .n_rows = 4 }, false);
    assert_int_equal(tree.n_rows, 1);
    c.drafters[0].ops = c.drafters[1].ops = NULL;
    draft_growth(&tree, ROOT_TOKEN, c.sources, (DraftLimits){ 63, 9, 9 }, (DraftCosts){ .ms = ms, .n_rows = 4 }, false);
    assert_int_equal(tree.n_rows, 1);
}

static float sure_prior(uint16_t bucket, uint16_t rank) {
    return rank ? 0.3F : 0.97F;
}

static size_t sure_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    for (uint32_t i = 0; i < max; i++)
        choices[i] = (DraftChoice){ .token = i, .rank = (uint16_t)i };
    return max;
}

static DraftCursor sure_follow(const void *drafter, DraftCursor at, uint32_t token) {
    return at;
}

/* Seven choices of which nothing is known beside one that is nearly always right. That one stays so, and the tree is a
 * long chain where rows have a price. */
static void test_draft_growth_sure(void **state) {
    static const DrafterOps ops = {
        .prior = sure_prior, .root = dice_root, .choices = sure_choices, .follow = sure_follow
    };
    Dice dice = { 0 };
    const Drafter drafter = { &ops, &dice };
    static SourceStats stats;
    float ms[DRAFT_ROWS_MAX], left = 1;
    DraftTree tree;

    source_stats_begin(&stats, 0, NULL);
    source_stats_init(&stats, 0, &ops, NULL);
    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + 0.6F * (float)i;
    draft_growth(&tree, ROOT_TOKEN, (DraftSources){ &drafter, 1, &stats, NULL }, (DraftLimits){ 63, 63, 1000 },
                 (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, false);
    assert_true(tree.n_nodes >= 12);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(tree.nodes[i].depth, i + 1);
        assert_true(tree.nodes[i].reach > 0.9F * left);
        left = tree.nodes[i].reach;
    }
}

/* A chain has all nodes one behind the other, each the best of its siblings. */
static void test_draft_growth_chain(void **state) {
    float ms[DRAFT_ROWS_MAX];

    for (int i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 1;
    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        const DraftLimits limits = { 1 + seed % DEPTH, DEPTH, 1000 };
        Case c;
        DraftTree tree;

        case_init(&c, seed, 1 + seed % 3, 4);
        enumerate_all(&c, DEPTH);
        draft_growth(&tree, ROOT_TOKEN, c.sources, limits, (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, true);
        assert_int_equal(tree.n_nodes, limits.nodes_max);
        for (uint32_t i = 0; i < tree.n_nodes; i++) {
            const uint32_t before = path_of(&tree, (int)i - 1);

            assert_int_equal(tree.nodes[i].parent, (int)i - 1);
            for (uint32_t j = 0; j < all.n; j++)
                assert_true(all.path[j] / 6 != before || all.reach[j] <= tree.nodes[i].reach * 1.0001F);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_growth_best_first), cmocka_unit_test(test_draft_growth_merge),
        cmocka_unit_test(test_draft_growth_optimum),    cmocka_unit_test(test_draft_growth_limits),
        cmocka_unit_test(test_draft_growth_sure),       cmocka_unit_test(test_draft_growth_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
