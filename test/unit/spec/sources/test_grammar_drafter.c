// SPDX-License-Identifier: Apache-2.0
/* Places of a grammar behind a text, the runs of forced tokens, and trees that lose what the grammar refuses. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/tree/draft_growth.h"
#include "test/unit/fixtures/sim_grammar.h"
#include "test/unit/fixtures/sim_model.h"

enum {
    KINDS = 12
};

static AccountTable accounts;

static GrammarDrafter *new_drafter(SimGrammar *grammar) {
    GrammarDrafter *drafter;

    account_table_init(&accounts);
    assert_int_equal(grammar_drafter_new(&accounts, sim_grammar(grammar), &drafter), 0);
    return drafter;
}

/* A place exists for what is allowed, and only for that; ways that meet again are one place. */
static void test_grammar_drafter_places(void **state) {
    SimGrammar grammar = { .seed = 3, .n_kinds = KINDS, .percent = 40, .forced = 20, .state = 7 };
    _cleanup_(grammar_drafter_freep) GrammarDrafter *drafter = new_drafter(&grammar);

    assert_int_equal(grammar_drafter_root(drafter), GRAMMAR_NOWHERE); /* no step has begun */
    assert_false(grammar_drafter_allows(drafter, GRAMMAR_NOWHERE, 0));
    assert_int_equal(grammar_drafter_step(drafter, GRAMMAR_NOWHERE, 0), GRAMMAR_NOWHERE);
    for (uint32_t text = 0; text < 200; text++) {
        uint32_t place, at = grammar.state = text % 64, next;

        grammar_drafter_begin(drafter);
        place = grammar_drafter_root(drafter);
        for (uint32_t depth = 0; depth < 20; depth++) {
            uint32_t places[KINDS], n = 0;

            for (uint32_t token = 0; token < KINDS; token++) {
                const bool is_allowed = sim_grammar_step(&grammar, at, token, &next);

                assert_int_equal(grammar_drafter_allows(drafter, place, token), is_allowed);
                places[n] = grammar_drafter_step(drafter, place, token);
                assert_int_equal(places[n] != GRAMMAR_NOWHERE, is_allowed);
                assert_int_equal(grammar_drafter_step(drafter, place, token), places[n]);
                for (uint32_t i = 0; is_allowed && i < n; i++)
                    assert_int_not_equal(places[i], places[n]);
                n += is_allowed;
            }
            for (uint32_t token = sim_mix(text, depth) % KINDS;; token = (token + 1) % KINDS)
                if (sim_grammar_step(&grammar, at, token, &next)) {
                    place = grammar_drafter_step(drafter, place, token);
                    at = next;
                    break;
                }
        }
    }
}

/* Where no more places are left every token is refused, and the next step begins anew. */
static void test_grammar_drafter_full(void **state) {
    SimGrammar grammar = { .seed = 1, .n_kinds = KINDS, .percent = 100 };
    _cleanup_(grammar_drafter_freep) GrammarDrafter *drafter = new_drafter(&grammar);

    for (int round = 0; round < 2; round++) {
        uint32_t place, n = 0;

        grammar_drafter_begin(drafter);
        place = grammar_drafter_root(drafter);
        while (place != GRAMMAR_NOWHERE) {
            const uint32_t next = grammar_drafter_step(drafter, place, n % KINDS);

            n++;
            if (next == GRAMMAR_NOWHERE)
                assert_true(grammar_drafter_allows(drafter, place, n % KINDS)); /* as ever: there is no room for it */
            place = next;
        }
        assert_int_equal(n, GRAMMAR_PLACES_MAX - 1); /* without the root and the place that is none */
    }
}

/* A run is proposed token by token, by whatever source its tokens come, and asked for once. */
static void test_grammar_drafter_runs(void **state) {
    uint32_t n_runs = 0, n_long = 0;

    for (uint32_t seed = 0; seed < 100; seed++) {
        SimGrammar grammar = {
            .seed = seed, .n_kinds = KINDS, .percent = 30, .forced = seed % 8 ? 70 : 100, .state = seed % 64
        };
        _cleanup_(grammar_drafter_freep) GrammarDrafter *drafter = new_drafter(&grammar);
        DraftCursor cursor;
        DraftChoice choice = { 0 };
        uint32_t at = grammar.state, n = 0;

        grammar_drafter_begin(drafter);
        cursor = grammar_drafter_ops.root(drafter);
        assert_int_equal(grammar_drafter_ops.choices(drafter, cursor, &choice, 0), 0);
        while (n < 2 * GRAMMAR_FORCED_MAX) {
            const uint32_t only = sim_grammar_only(&grammar, at);

            for (int again = 0; again < 2; again++)
                assert_int_equal(grammar_drafter_ops.choices(drafter, cursor, &choice, 1), only != UINT32_MAX);
            if (only == UINT32_MAX)
                break;
            assert_true(choice.token == only && choice.rank == 0 && !choice.of_prompt);
            assert_int_equal(choice.bucket & 1, n % GRAMMAR_FORCED_MAX == 0); /* the first of a run */
            assert_true(sim_grammar_step(&grammar, at, only, &at));
            assert_int_equal(choice.bucket >> 1, ++n % GRAMMAR_FORCED_MAX == 0 ||
                                                     sim_grammar_only(&grammar, at) == UINT32_MAX); /* the last one */
            assert_int_equal(grammar_drafter_ops.follow(drafter, cursor, only).a, choice.next.a);
            cursor = choice.next;
        }
        /* once for each run, and behind the last one */
        assert_int_equal(grammar.n_forced,
                         (n + GRAMMAR_FORCED_MAX - 1) / GRAMMAR_FORCED_MAX + (n < 2 * GRAMMAR_FORCED_MAX));
        n_runs += n > 0;
        n_long += n > GRAMMAR_FORCED_MAX;
        assert_int_equal(grammar_drafter_ops.follow(drafter, cursor, KINDS + 5).a, GRAMMAR_NOWHERE);
    }
    assert_true(n_runs > 20 && n_long > 2);
}

static void test_grammar_drafter_memory(void **state) {
    SimGrammar grammar = { .n_kinds = KINDS };
    GrammarDrafter *drafter = NULL;

    account_table_init(&accounts);
    accounts.limit_bytes[ACCOUNT_DRAFTDB] = 1024;
    assert_int_equal(grammar_drafter_new(&accounts, sim_grammar(&grammar), &drafter), DRAFTER_E_MEMORY);
    assert_null(drafter);
    assert_int_equal(accounts.total_bytes, 0);
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

/* A source whose choices follow from the path, and which may keep to the grammar by itself. Cursor: a is a hash of the
 * path, b the grammar's state. */
typedef struct Dice {
    uint32_t seed;
    const SimGrammar *grammar; /* NULL: the source knows none */
} Dice;

static float dice_prior(uint16_t bucket, uint16_t rank) {
    return (float)(1 + bucket) / (float)(18 * (1 + rank));
}

static DraftCursor dice_root(const void *drafter) {
    const Dice *dice = drafter;

    return (DraftCursor){ .a = dice->seed, .b = dice->grammar ? dice->grammar->state : 0 };
}

static DraftCursor dice_follow(const void *drafter, DraftCursor at, uint32_t token) {
    const Dice *dice = drafter;
    DraftCursor next = { .a = sim_mix(at.a, token) };

    if (dice->grammar)
        (void)sim_grammar_step(dice->grammar, at.b, token, &next.b);
    return next;
}

/* Two lists, whose ranks count each for itself. */
static size_t dice_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const Dice *dice = drafter;
    const uint32_t first = sim_mix(at.a, 1), bucket = sim_mix(at.a, 2) % DRAFT_BUCKETS;
    uint32_t rank = 0, next;
    size_t n = 0;

    for (uint32_t i = 0; i < 8 && n < max; i++) {
        const uint32_t token = (first + i) % KINDS;

        rank = i == 5 ? 0 : rank;
        if (dice->grammar && !sim_grammar_step(dice->grammar, at.b, token, &next))
            continue;
        choices[n++] = (DraftChoice){ .token = token,
                                      .bucket = (uint16_t)bucket,
                                      .rank = (uint16_t)rank++,
                                      .next = dice_follow(drafter, at, token) };
    }
    return n;
}

static const DrafterOps dice_ops = {
    .prior = dice_prior, .root = dice_root, .choices = dice_choices, .follow = dice_follow
};

/* A tree from which the grammar cuts is the tree of sources that propose nothing else: what is cut leaves its place,
 * its share of the chance and its rank to others. */
static void test_grammar_drafter_cuts(void **state) {
    float ms[DRAFT_ROWS_MAX];
    uint32_t n_nodes = 0, n_less = 0;

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + 0.2F * (float)i;
    for (uint32_t seed = 0; seed < 300; seed++) {
        SimGrammar grammar = { .seed = seed, .n_kinds = KINDS, .percent = 50, .forced = 10, .state = seed % 64 };
        _cleanup_(grammar_drafter_freep) GrammarDrafter *drafter = new_drafter(&grammar);
        const DraftLimits limits = { 1 + seed % DRAFT_NODES_MAX, 12, 100 };
        const DraftCosts costs = { .ms = ms, .n_rows = DRAFT_ROWS_MAX };
        DraftTree trees[3];
        SourceStats stats;

        source_stats_begin(&stats, 0, NULL);
        for (uint32_t s = 0; s < 2; s++)
            source_stats_init(&stats, s, &dice_ops, NULL);
        grammar_drafter_begin(drafter);
        for (int way = 0; way < 3; way++) { /* cut by the grammar, by the sources, by nobody */
            Dice dice[2] = { { seed, way == 1 ? &grammar : NULL }, { seed + 1000, way == 1 ? &grammar : NULL } };
            Drafter drafters[2] = { { &dice_ops, &dice[0] }, { &dice_ops, &dice[1] } };

            draft_growth(&trees[way], 5, (DraftSources){ drafters, 2, &stats, way == 0 ? drafter : NULL }, limits,
                         costs, seed % 5 == 4);
        }
        assert_int_equal(trees[0].n_nodes, trees[1].n_nodes);
        for (uint32_t i = 0; i < trees[0].n_nodes; i++) {
            const DraftNode *node = &trees[0].nodes[i], *other = &trees[1].nodes[i];

            assert_true(node->token == other->token && node->parent == other->parent && node->reach == other->reach);
            assert_true(node->others == other->others && node->n_credits == other->n_credits);
            for (uint32_t k = 0; k < node->n_credits; k++) {
                assert_int_equal(node->credits[k].source, other->credits[k].source);
                assert_int_equal(node->credits[k].bucket, other->credits[k].bucket);
                assert_int_equal(node->credits[k].rank, other->credits[k].rank);
            }
        }
        n_nodes += trees[0].n_nodes;
        n_less += trees[2].n_nodes != trees[0].n_nodes || memcmp(trees[2].tokens, trees[0].tokens, sizeof(ms[0]) * 3);
    }
    assert_true(n_nodes > 300 && n_less > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar_drafter_places), cmocka_unit_test(test_grammar_drafter_full),
        cmocka_unit_test(test_grammar_drafter_runs),   cmocka_unit_test(test_grammar_drafter_memory),
        cmocka_unit_test(test_grammar_drafter_cuts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
