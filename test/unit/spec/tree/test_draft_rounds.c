// SPDX-License-Identifier: Apache-2.0
/* Trees of all sources, a draft model among them. Trees are whole and within their limits, and have what the model's
 * cache gives and no more. The rows of a pass are about the best choice; how many share a pass follows what rows cost;
 * what passes bring is learned. Also cliffs, ends and errors. */
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
#include "spec/tree/draft_rounds.h"
#include "test/unit/fixtures/sim_model.h"

static const SpecLab free_passes = { .always = true };

enum {
    N_SEEDS = 200,
    N_TEXT = 50,
    SMALL_ROWS = 8
};

/* A source that knows in some places what the target says there, and says something else in others. Cursor: a and b are
 * the last two tokens, c is the depth + 1. */
typedef struct Memory {
    const SimModel *sim;
    uint32_t seed, before, last, n_choices, depth_max;
    bool knows_all; /* proposes what the target says, everywhere, and holds it for likely */
} Memory;

static float memory_prior(uint16_t bucket, uint16_t rank) {
    return (float)(1 + bucket % 8) / (float)(9 * (1 + rank));
}

static DraftCursor memory_root(const void *drafter) {
    const Memory *memory = drafter;

    return (DraftCursor){ memory->before, memory->last, 1 };
}

static DraftCursor memory_follow(const void *drafter, DraftCursor at, uint32_t token) {
    return (DraftCursor){ at.b, token, at.c ? at.c + 1 : 0 };
}

static size_t memory_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const Memory *memory = drafter;
    const uint32_t dice = sim_mix(sim_mix(memory->seed, at.a), at.b), n = dice % (memory->n_choices + 1);
    size_t i;

    if (memory->knows_all && at.c && at.c <= memory->depth_max) {
        const uint32_t token = sim_greedy(memory->sim, at.a, at.b);

        choices[0] = (DraftChoice){ .token = token, .bucket = 7, .next = memory_follow(drafter, at, token) };
        return 1;
    }
    for (i = 0; i < n && i < max && at.c && at.c <= memory->depth_max; i++) {
        const uint32_t token = (sim_greedy(memory->sim, at.a, at.b) + (uint32_t)i * (1 + dice % 5)) % SIM_KINDS;

        choices[i] = (DraftChoice){ .token = token,
                                    .bucket = (uint16_t)(dice / 8 % DRAFT_BUCKETS),
                                    .rank = (uint16_t)i,
                                    .next = memory_follow(drafter, at, token) };
    }
    return i;
}

static const DrafterOps memory_ops = {
    .prior = memory_prior, .root = memory_root, .choices = memory_choices, .follow = memory_follow
};

typedef struct Case {
    SimModel sim;
    AccountTable accounts;
    Memory memory;
    Drafter drafters[_SPECULATION_N];
    SourceStats stats;
    DraftValue value;
    float ms[DRAFT_ROWS_MAX];
    uint32_t last;
    int n_asked, stops_after; /* passes; -1: never */
    DraftRounds rounds;
    DraftRoundsReport report;
    DraftTree tree, without;
} Case;

static bool stops(void *arg) {
    Case *c = arg;

    return c->n_asked++ == c->stops_after;
}

/* A text, the model behind it, and rows whose times lie on a line. */
static void case_init(Case *c, uint32_t seed) {
    uint32_t text[N_TEXT];

    memset(c, 0, sizeof(*c));
    sim_model_init(&c->sim, seed, 200);
    account_table_init(&c->accounts);
    source_stats_begin(&c->stats, 0, NULL);
    draft_value_init(&c->value);
    assert_int_equal(model_drafter_new(&c->accounts, sim_model(&c->sim), &c->rounds.model), 0);
    c->drafters[SPECULATION_MODEL] = (Drafter){ &model_drafter_ops, c->rounds.model };
    source_stats_init(&c->stats, SPECULATION_MODEL, &model_drafter_ops, NULL);
    for (uint32_t i = 0; i < N_TEXT; i++)
        text[i] = sim_mix(seed, i) % SIM_KINDS;
    c->last = text[N_TEXT - 1];
    c->memory = (Memory){ &c->sim, seed, text[N_TEXT - 2], c->last, 2, 9, false };
    assert_int_equal(model_drafter_ops.append(c->rounds.model, text, N_TEXT), 0);
    assert_int_equal(model_drafter_follow(c->rounds.model, SIZE_MAX), 0);
    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        c->ms[i] = 60 + 1.5F * (float)i;
    c->stops_after = -1;
    c->rounds.sources = (DraftSources){ c->drafters, _SPECULATION_N, &c->stats, NULL };
    c->rounds.value = &c->value;
    c->rounds.limits = (DraftLimits){ DRAFT_NODES_MAX, DRAFT_NODES_MAX, 1000 };
    c->rounds.costs = (DraftCosts){ .ms = c->ms, .n_rows = DRAFT_ROWS_MAX };
    c->rounds.budget = (ModelBudget){ .ms = INFINITY, .stops = stops, .stops_arg = c };
}

static void add_memory(Case *c) {
    c->drafters[SPECULATION_SAM] = (Drafter){ &memory_ops, &c->memory };
    source_stats_init(&c->stats, SPECULATION_SAM, &memory_ops, NULL);
}

static int run(Case *c) {
    return draft_rounds(&c->tree, &c->without, c->last, &c->rounds, &c->report);
}

static void case_deinit(Case *c) {
    model_drafter_free(c->rounds.model);
    assert_int_equal(c->accounts.total_bytes, 0);
}

static void check_same(const DraftTree *a, const DraftTree *b) {
    assert_int_equal(a->n_rows, b->n_rows);
    assert_memory_equal(a->tokens, b->tokens, a->n_rows * sizeof(*a->tokens));
    assert_memory_equal(a->parents, b->parents, a->n_rows * sizeof(*a->parents));
}

/* Checks that the model has proposed what it has credit for. */
static void check_credits(const Case *c) {
    for (uint32_t row = 1; row < c->tree.n_rows; row++) {
        const DraftNode *node = &c->tree.nodes[c->tree.node_of[row]];
        const int parent = c->tree.parents[row];
        const uint32_t last = c->tree.tokens[parent],
                       before = parent ? c->tree.tokens[c->tree.parents[parent]] : c->memory.before;
        DraftModelTops tops;

        sim_tops(&c->sim, before, last, &tops);
        for (uint32_t i = 0; i < node->n_credits; i++)
            if (node->credits[i].source == SPECULATION_MODEL) {
                assert_int_equal(tops.tops[node->credits[i].rank].token, node->token);
                assert_int_equal(model_drafter_bucket(tops.tops[node->credits[i].rank].probability),
                                 node->credits[i].bucket);
            }
    }
}

static float unknown_ms(const void *self, uint32_t n_rows) {
    return 0;
}

static float dear_ms(const void *self, uint32_t n_rows) {
    return 1000;
}

/* An unmeasured model is tried beside sources that leave it little to bring, if the longest feared pass is within the
 * budget. A model that is known to be so dear is not tried. */
static void test_draft_rounds_unknown(void **state) {
    uint32_t n_tried = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++)
        for (int is_known = 0; is_known < 2; is_known++)
            for (int is_short = 0; is_short < 2; is_short++) {
                static Case c;

                case_init(&c, seed);
                add_memory(&c);
                c.sim.ops.cost_ms = is_known ? dear_ms : unknown_ms;
                if (is_short)
                    c.rounds.budget.ms = 1; /* a pass might take 18 */
                assert_int_equal(run(&c), 0);
                n_tried += c.report.n_passes > 0;
                assert_true(!c.report.n_passes || (!is_known && !is_short));
                case_deinit(&c);
            }
    assert_true(n_tried > N_SEEDS / 5 * 4);
}

static void test_draft_rounds_whole(void **state) {
    uint32_t n_passes = 0, n_limited = 0, n_short = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;
        DraftTree again;
        DraftCosts costs;
        DraftLimits limits;

        case_init(&c, seed);
        c.sim.ops.rows_max = 1 + seed % 30;
        c.rounds.limits = (DraftLimits){ sim_mix(seed, 1) % 70, sim_mix(seed, 2) % 20, sim_mix(seed, 3) % 20 };
        c.rounds.budget.ms = (float)(sim_mix(seed, 4) % 300);
        c.rounds.budget.step_ms = seed % 4 == 1 ? 1 + (float)(sim_mix(seed, 5) % 40) : 0;
        c.rounds.chain = seed % 5 == 4;
        c.rounds.lab = seed % 7 == 6 ? &free_passes : NULL;
        if (seed % 3)
            add_memory(&c);
        assert_int_equal(run(&c), 0);
        assert_true(c.tree.n_nodes <= c.rounds.limits.nodes_max);
        for (uint32_t i = 0; i < c.tree.n_nodes; i++) {
            const DraftNode *node = &c.tree.nodes[i];

            assert_true(node->parent < (int)i && node->depth <= c.rounds.limits.depth_max);
            assert_true(node->depth < c.rounds.limits.tokens_left);
            assert_true(!c.rounds.chain || node->parent == (int)i - 1);
        }
        check_credits(&c);
        assert_int_equal(c.report.n_passes, c.sim.n_passes);
        assert_int_equal(c.report.n_rows, c.sim.n_computed);
        assert_true(c.report.n_rows <= c.sim.ops.rows_max);
        assert_true(c.rounds.lab || c.report.spent_ms <= c.rounds.budget.ms);
        limits = c.rounds.limits;
        limits.nodes_max = MIN(limits.nodes_max, DRAFT_NODES_MAX);
        if (c.rounds.budget.step_ms > 0) { /* the tree and the model share it */
            const float left = c.rounds.budget.step_ms - (c.rounds.lab ? 0 : c.report.spent_ms);

            assert_true(!c.tree.n_nodes || c.ms[c.tree.n_nodes] - c.ms[0] <= left);
            n_short += c.tree.n_nodes && c.ms[c.tree.n_nodes + 1] - c.ms[0] > left;
            while (limits.nodes_max && c.ms[limits.nodes_max] - c.ms[0] > left)
                limits.nodes_max--;
        }
        /* This is the best tree of what the model has computed, with the model's time counted in full. */
        costs = c.rounds.costs;
        costs.more_ms = c.rounds.lab ? 0 : c.report.spent_ms;
        draft_growth(&again, c.last, c.rounds.sources, limits, costs, c.rounds.chain);
        check_same(&c.tree, &again);
        c.drafters[SPECULATION_MODEL].ops = NULL;
        limits.nodes_max = c.rounds.limits.nodes_max;
        for (uint32_t i = 0; c.rounds.budget.step_ms > 0 && i < DRAFT_ROWS_MAX; i++)
            if (c.ms[i] - c.ms[0] <= c.rounds.budget.step_ms)
                limits.nodes_max = MIN(i, c.rounds.limits.nodes_max);
        draft_growth(&again, c.last, c.rounds.sources, limits, c.rounds.costs, c.rounds.chain);
        check_same(&c.without, &again);
        assert_int_equal(c.report.n_kept_without, again.n_nodes);
        n_passes += c.report.n_passes;
        n_limited += c.report.n_rows == c.sim.ops.rows_max;
        case_deinit(&c);
    }
    assert_true(n_passes > N_SEEDS && n_limited > 10 && n_short > 3);
}

/* --- the rows of a pass, against all there are -------------------------------------------------------------------- */

typedef struct Small {
    uint32_t n;
    int parents[SMALL_ROWS];
    uint32_t tokens[SMALL_ROWS];
    float reach[SMALL_ROWS], values[SMALL_ROWS];
} Small;

static int falling(const void *a, const void *b) {
    const float *x = a, *y = b;

    return (*x < *y) - (*x > *y);
}

/* Returns the tokens above the rate of the best tree with what the set of rows will bring: behind one of them, for all
 * hang together. */
static double surplus_of(const Case *c, const Small *small, uint32_t set, double rate) {
    float all[2 * SMALL_ROWS];
    uint32_t n = 0, n_rows = (uint32_t)__builtin_popcount(set);
    const float ms = n_rows ? c->sim.pass_ms + c->sim.row_ms * (float)(n_rows - 1) : 0;
    double gain = 1, best = 1 - rate * (double)(c->ms[0] + ms);

    for (uint32_t row = 1; row < small->n; row++)
        all[n++] = small->reach[row];
    all[n] = 0;
    for (uint32_t row = 0; row < small->n; row++)
        if (set >> row & 1)
            all[n] += small->values[row];
    n++;
    qsort(all, n, sizeof(*all), falling);
    for (uint32_t i = 0; i < n && i < c->rounds.limits.nodes_max; i++) {
        double over;

        gain += (double)all[i];
        over = gain - rate * (double)(c->ms[i + 1] + ms);
        best = MAX(over, best);
    }
    return best;
}

static bool is_closed(const Small *small, uint32_t set) {
    for (uint32_t row = 1; row < small->n; row++)
        if ((set >> row & 1) && !(set >> small->parents[row] & 1))
            return false;
    return true;
}

/* Returns what single passes behind a node of that chance bring above their cost. */
static float ahead(float reach, float mean, float pass_tokens) {
    float sum = 0;

    for (reach *= mean; reach > pass_tokens; reach *= mean)
        sum += reach - pass_tokens;
    return sum;
}

/* The tree without the model, and what computing its rows is expected to bring before anything was learned: every row's
 * chance to be the one behind which the model goes on. */
static bool small_of(const Case *c, Small *small, double rate) {
    const DraftTree *tree = &c->without;
    float children[SMALL_ROWS] = { 0 };

    small->n = tree->n_rows;
    for (uint32_t row = 0; row < small->n && row < SMALL_ROWS; row++) {
        small->parents[row] = tree->parents[row];
        small->tokens[row] = tree->tokens[row];
        small->reach[row] = row ? tree->nodes[tree->node_of[row]].reach : 1;
        if (row)
            children[tree->parents[row]] += small->reach[row];
    }
    for (uint32_t row = 0; row < small->n && row < SMALL_ROWS; row++) {
        const float chance = row ? small->reach[row] / small->reach[small->parents[row]] : 0,
                    share = !row            ? 0.75F
                            : chance < 0.5F ? 0.5F
                            : chance < 0.9F ? 0.65F
                                            : 0.85F,
                    value = (small->reach[row] - children[row]) *
                            (share + ahead(share, (0.75F + 0.5F + 0.65F + 0.85F) / 4, (float)rate * c->sim.pass_ms));

        small->values[row] = value > 0.002F ? value : 0;
    }
    return small->n <= SMALL_ROWS;
}

static uint32_t computed_set(const Case *c, const Small *small) {
    int rows[SMALL_ROWS];
    uint32_t set = 0;

    for (uint32_t row = 0; row < small->n; row++) {
        rows[row] = row ? model_drafter_child(c->rounds.model, rows[small->parents[row]], small->tokens[row])
                    : (int)model_drafter_n_rows(c->rounds.model) - 1 < 0 ? MODEL_NOWHERE
                                                                         : 0;
        set |= rows[row] == MODEL_NOWHERE ? 0 : 1u << row;
    }
    return set;
}

/* A pass is as good as the best of all closed sets of rows, nearly always exactly; where no set is worth a pass there
 * is none. */
static void test_draft_rounds_optimum(void **state) {
    uint32_t n_best = 0, n_cases = 0, n_none = 0, n_many = 0;

    for (uint32_t seed = 0; seed < 3 * N_SEEDS; seed++) {
        static Case c;
        Small small;
        double rate, best, got;
        uint32_t set;

        case_init(&c, seed);
        add_memory(&c);
        c.memory.n_choices = 2;
        c.memory.depth_max = 3;
        c.rounds.limits.nodes_max = SMALL_ROWS - 1;
        c.sim.pass_ms = 1 + (float)(sim_mix(seed, 5) % 50);
        c.sim.row_ms = (float)(sim_mix(seed, 6) % 20) * c.sim.pass_ms / 40;
        c.stops_after = 1;
        assert_int_equal(run(&c), 0);
        rate = draft_tree_gain(&c.without, c.without.n_nodes) / (double)c.ms[c.without.n_nodes];
        if (small_of(&c, &small, rate)) {
            best = 0;
            for (uint32_t other = 1; other < 1u << small.n; other++)
                if (is_closed(&small, other) && surplus_of(&c, &small, other, rate) > best)
                    best = surplus_of(&c, &small, other, rate);
            set = computed_set(&c, &small);
            got = c.report.n_passes ? surplus_of(&c, &small, set, rate) : 0;
            assert_true(got >= 0.97 * best - 1e-6);
            assert_true(best > 1e-6 || !c.report.n_passes);
            assert_int_equal(c.report.n_rows, __builtin_popcount(set));
            n_cases++;
            n_best += got >= best - 1e-6;
            n_none += !c.report.n_passes;
            n_many += c.report.n_rows > 2;
        }
        case_deinit(&c);
    }
    assert_true(n_cases > N_SEEDS && n_none > 10 && n_many > 20);
    assert_true(n_best > n_cases * 95 / 100);
}

/* --- how many rows share a pass ----------------------------------------------------------------------------------- */

/* If a row costs as much as a pass, each row is alone. If rows cost nothing, the tree's width goes together, more so
 * where tokens are unsure. */
static void test_draft_rounds_batches(void **state) {
    uint32_t n_passes[2][2] = { { 0 } }, n_rows[2][2] = { { 0 } }, most[2][2] = { { 0 } };

    for (uint32_t unsure = 0; unsure < 2; unsure++)
        for (uint32_t dear = 0; dear < 2; dear++)
            for (uint32_t seed = 0; seed < 40; seed++) {
                static Case c;

                case_init(&c, seed);
                c.sim.sureness = unsure ? 2 : 30;
                c.sim.noise = 0;
                c.sim.pass_ms = 5;
                c.sim.row_ms = dear ? 5 : 0;
                for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
                    c.ms[i] = 300 + (float)i;
                assert_int_equal(run(&c), 0);
                n_passes[unsure][dear] += c.report.n_passes;
                n_rows[unsure][dear] += c.report.n_rows;
                for (uint32_t n = 1; n <= SIM_ROWS_MAX; n++)
                    if (c.sim.passes_by_rows[n] && n > most[unsure][dear])
                        most[unsure][dear] = n;
                case_deinit(&c);
            }
    assert_int_equal(most[0][1], 1);
    assert_int_equal(most[1][1], 1);
    assert_true(most[1][0] >= 8 && n_rows[1][0] > 2 * n_passes[1][0]);
    assert_true((double)n_rows[0][0] / n_passes[0][0] < 0.7 * (double)n_rows[1][0] / n_passes[1][0]);
    assert_true(n_rows[1][0] > n_rows[1][1]);
}

/* Passes ahead of a sure model bring more than those of an unsure one; that is learned, and then less is tried. */
static void test_draft_rounds_learns(void **state) {
    float means[2];

    for (uint32_t unsure = 0; unsure < 2; unsure++) {
        static Case c;
        DraftValue value;

        draft_value_init(&value);
        for (uint32_t seed = 0; seed < 60; seed++) {
            case_init(&c, seed);
            c.sim.sureness = unsure ? 1 : 30;
            c.sim.noise = 0;
            c.rounds.value = &value;
            for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
                c.ms[i] = 200 + 30 * (float)i;
            assert_int_equal(run(&c), 0);
            case_deinit(&c);
        }
        means[unsure] = value.brought[0] / value.open[0];
        assert_true(value.rate > 0);
    }
    assert_true(means[0] > 0.9F && means[1] < 0.7F && means[1] > 0.2F);
}

/* With tiles of rows a single further node does not pay for a tile, but a chain that fills it does. */
static void test_draft_rounds_cliff(void **state) {
    static Case c;

    for (uint32_t pays = 0; pays < 2; pays++) {
        case_init(&c, 3);
        c.sim.sureness = 60;
        c.sim.noise = 0;
        c.sim.pass_ms = 1;
        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
            c.ms[i] = i ? pays ? 25 : 90 : 10;
        assert_int_equal(run(&c), 0);
        assert_true(pays ? c.tree.n_nodes >= 3 : !c.report.n_passes);
        case_deinit(&c);
    }
}

/* A long draft of another source, whose tokens leave the model little to bring. A single pass through all of it tells
 * where it is wrong, or that it is right, and the model goes on behind it; not where passes are dear. */
static void test_draft_rounds_through(void **state) {
    for (uint32_t dear = 0; dear < 2; dear++) {
        static Case c;
        uint32_t n_through = 0;

        case_init(&c, 5);
        add_memory(&c);
        c.memory.knows_all = true;
        c.memory.depth_max = 12;
        c.sim.sureness = 60;
        c.sim.noise = 0;
        c.sim.pass_ms = dear ? 300 : 20;
        c.sim.row_ms = dear ? 20 : 2;
        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
            c.ms[i] = 600 + 4 * (float)i;
        assert_int_equal(run(&c), 0);
        assert_int_equal(c.without.n_nodes, 12);
        for (uint32_t n = 10; n <= SIM_ROWS_MAX; n++)
            n_through += c.sim.passes_by_rows[n];
        assert_true(dear ? !c.report.n_passes : n_through == 1 && c.tree.n_nodes > 15);
        case_deinit(&c);
    }
}

/* A step has few rows, and more of them in a pass cost nothing. Wide drafts of other sources do not take them all,
 * because the model goes on behind the best of them. */
static void test_draft_rounds_leaves_rows(void **state) {
    enum {
        ROWS = 16
    };
    uint32_t n_passes = 0, n_cases = 0, depths = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static Case c;
        uint32_t depth = 0;

        case_init(&c, seed);
        add_memory(&c);
        c.memory.n_choices = 3;
        c.sim.ops.rows_max = ROWS;
        c.sim.sureness = 60;
        c.sim.noise = 0;
        c.sim.pass_ms = 20;
        c.sim.row_ms = 0;
        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
            c.ms[i] = 1200 + (float)i;
        assert_int_equal(run(&c), 0);
        if (c.without.n_nodes >= ROWS) {
            for (uint32_t i = 0; i < c.tree.n_nodes; i++)
                depth = MAX(c.tree.nodes[i].depth, depth);
            n_passes += c.report.n_passes;
            depths += depth;
            n_cases++;
        }
        case_deinit(&c);
    }
    assert_true(n_cases > N_SEEDS / 4);
    assert_true(n_passes > 8 * n_cases);
    assert_true(depths > 13 * n_cases);
}

static void test_draft_rounds_ends(void **state) {
    static Case c;
    DraftTree before;

    for (int after = 0; after < 4; after++) {
        case_init(&c, 11);
        c.stops_after = after;
        assert_int_equal(run(&c), 0);
        assert_int_equal(c.report.n_passes, after);
        case_deinit(&c);
    }
    for (uint32_t fails_at = 1; fails_at < 4; fails_at++) {
        case_init(&c, 12);
        add_memory(&c);
        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
            c.ms[i] += 500;
        c.sim.fails_at = fails_at;
        assert_int_equal(run(&c), -EIO);
        assert_int_equal(c.report.n_passes, fails_at - 1);
        before = c.without;
        check_same(&c.tree, &before);
        case_deinit(&c);
    }
    case_init(&c, 13); /* a step that has no known time */
    c.rounds.costs.n_rows = 0;
    assert_int_equal(run(&c), 0);
    assert_true(!c.report.n_passes && c.tree.n_rows == 1);
    case_deinit(&c);
    case_init(&c, 13); /* time of the step that has passed counts, too */
    c.report.spent_ms = 100;
    c.rounds.budget.ms = 105;
    assert_int_equal(run(&c), 0);
    assert_int_equal(c.report.n_passes, 0);
    case_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_rounds_leaves_rows), cmocka_unit_test(test_draft_rounds_through),
        cmocka_unit_test(test_draft_rounds_whole),       cmocka_unit_test(test_draft_rounds_unknown),
        cmocka_unit_test(test_draft_rounds_optimum),     cmocka_unit_test(test_draft_rounds_batches),
        cmocka_unit_test(test_draft_rounds_learns),      cmocka_unit_test(test_draft_rounds_cliff),
        cmocka_unit_test(test_draft_rounds_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
