// SPDX-License-Identifier: Apache-2.0
/* Answers of random grammars have the tokens and logits of plain decoding under every way of drafting, alone and
 * together, preempted, sampled and cut short; and grammars bring drafts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/constraint/constraint_spec.h"
#include "engine/draft/drafting_state.h"
#include "engine/generation_state.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/tiny_engine.h"

static const SpecLab always = { .always = true }, chains = { .always = true, .chains = true };

enum {
    CHUNK = 64,
    N_PROMPT = 30,
    OUTPUT = 60,
    SAMPLINGS = 3,
    SEEDS = 24,
    TOGETHER = 9,
};

#define GRAMMAR (1u << SPECULATION_GRAMMAR)

/* The first way is plain decoding. */
static const GenerationSpeculation ways[] = {
    { .sources = 0 },
    { .sources = SPECULATION_AUTO, .lab = &always },
    { .sources = GRAMMAR, .lab = &always },
    { .sources = SPECULATION_AUTO & ~GRAMMAR, .lab = &always },
    { .sources = SPECULATION_AUTO, .lab = &chains },
    { .sources = GRAMMAR | 1u << SPECULATION_SAM, .lab = &always, .head_on_demand = true },
    { .sources = SPECULATION_AUTO, .lab = &always, .rows_max = 5 },
    { .sources = SPECULATION_AUTO },
};

enum {
    WAYS = sizeof(ways) / sizeof(*ways),
    WAY_GRAMMAR = 2,
    WAY_OTHERS = 3, /* the others' drafts, cut by the grammar */
};

static TinyEngine tiny;

static int setup(void **state) {
    tiny.preempts = true;
    assert_int_equal(prefix_cache_new(&tiny.prefix_cache, UINT64_MAX), 0);
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    prefix_cache_free(tiny.prefix_cache);
    return 0;
}

/* --- grammars ----------------------------------------------------------------------------------------------------- */

/* Appends a literal, which is forced where it stands alone. "cd" is a token, too; "b", which ends answers, is no
 * text. */
static void add_literal(uint64_t *random, StrBuf *text) {
    static const char *const pieces[] = { "a", "c", "cd", "cd", "d", "e", "f", "g", "h" };

    for (uint64_t n = 1 + test_random(random) % 9; n; n--)
        str_buf_add(text, pieces[test_random(random) % ARRAY_LEN(pieces)]);
}

static void add_part(uint64_t *random, unsigned int depth, StrBuf *text) {
    const uint64_t kind = depth ? test_random(random) % 5 : 0, n = 2 + test_random(random) % 2;

    if (kind < 2) {
        add_literal(random, text);
        return;
    }
    if (kind == 2) {
        str_buf_add(text, "[ac-z]");
        return;
    }
    str_buf_add(text, "(");
    for (uint64_t i = 0; i < n; i++) {
        str_buf_add(text, i && kind == 3 ? "|" : "");
        add_part(random, depth - 1, text);
    }
    str_buf_add(text, kind == 3 ? ")" : test_random(random) % 2 ? "){1,3}" : ")*");
}

/* Makes the constraint of a random pattern. */
static Constraint *new_constraint(uint64_t seed) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    ConstraintSpec spec = { .form = CONSTRAINT_FORM_REGEX };
    uint64_t random = seed + 1;
    Constraint *constraint = NULL;
    ErrText err = { 0 };

    for (int i = 0; i < 3; i++)
        add_part(&random, 3, &text);
    assert_false(str_buf_failed(&text));
    spec.text = text.data;
    spec.n_bytes = text.len_bytes;
    if (constraint_spec_compile(&spec, &GRAMMAR_LIMITS_DEFAULT, &grammar, &err) ||
        constraint_spec_build(&spec, grammar, tiny.engine, &constraint, &err))
        fail_msg("%s: %s", text.data, err.text);
    return constraint;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

typedef struct Given {
    uint64_t logits; /* hash */
    size_t n_tokens;
    uint32_t ids[OUTPUT + 1];
    GenerationEnd end;
    GenerationUsage usage;
    DraftReport report;
} Given;

static void take_logits(void *arg, const float *logits) {
    Given *given = arg;

    given->logits = hash_of(given->logits, logits, TINY_VOCAB * sizeof(*logits));
}

static void take(void *arg, const GenerationDelta *delta) {
    Given *given = arg;

    for (size_t i = 0; i < delta->n_tokens; i++) {
        assert_true(given->n_tokens < OUTPUT);
        given->ids[given->n_tokens++] = delta->tokens[i];
    }
}

/* Returns NULL if so few tokens cannot hold a text of the constraint, which the generation must have refused. */
static Generation *begin(Constraint *constraint, uint64_t seed, size_t sampling, size_t way, Given *given) {
    const bool may_be_cut = seed % 4 == 3;
    GenerationOptions options = {
        .max_tokens = seed % 3 == 2 ? 16 : OUTPUT,
        .no_reuse = seed % 2,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .constraint = { .it = constraint, .may_be_cut = may_be_cut },
        .speculation = ways[way],
        .on_logits = take_logits,
        .on_logits_arg = given,
    };
    uint32_t prompt[N_PROMPT];
    Generation *generation = NULL;
    ErrText err = { 0 };
    int r;

    if (sampling == 1)
        options.sampler.repetition_penalty = 1.3f;
    if (sampling == 2) {
        options.sampler.temperature = 1;
        options.sampler.seed = seed;
        options.sampler.top_k = seed % 2 ? 0 : 10;
    }
    *given = (Given){ .logits = HASH_START };
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (uint32_t)((i % 7) * (i % 7) * 5 + seed) % TINY_VOCAB;
    r = generation_new(&generation, tiny.engine, prompt, N_PROMPT, &options, &err);
    if (r == GENERATION_E_SHORT && !may_be_cut)
        assert_true(constraint_least_tokens(constraint, 0) > options.max_tokens);
    else if (r)
        fail_msg("%s", err.text);
    return generation;
}

static void end(Generation *generation, Given *given) {
    given->end = generation_end(generation);
    given->usage = *generation_usage(generation);
    given->report = *generation_report(generation);
    generation_free(generation);
}

static bool run(Constraint *constraint, uint64_t seed, size_t sampling, size_t way, Given *given) {
    Generation *generation = begin(constraint, seed, sampling, way, given);

    if (!generation)
        return false;
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, given, NULL), 0);
    end(generation, given);
    return true;
}

static void check_same(const Given *given, const Given *plain) {
    assert_int_equal(given->n_tokens, plain->n_tokens);
    assert_memory_equal(given->ids, plain->ids, plain->n_tokens * sizeof(*plain->ids));
    assert_int_equal(given->logits, plain->logits);
    assert_int_equal(given->end, plain->end);
    assert_int_equal(given->usage.ended_in_time, plain->usage.ended_in_time);
    assert_int_equal(given->usage.n_steps + given->usage.n_accepted_tokens, plain->usage.n_steps);
}

static void test_drafts_constrained_alone(void **state) {
    uint64_t n_drafted[WAYS] = { 0 }, n_accepted[WAYS] = { 0 }, by_grammar = 0;
    uint32_t n_ended[2] = { 0 }, n_hurried = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        _cleanup_(constraint_unrefp) Constraint *constraint = new_constraint(seed);

        for (size_t sampling = 0; sampling < SAMPLINGS; sampling++) {
            Given plain, given;

            if (!run(constraint, seed, sampling, 0, &plain))
                continue;
            n_ended[plain.end == GENERATION_END_TOKEN]++;
            n_hurried += plain.usage.ended_in_time;
            for (size_t way = 1; way < WAYS; way++) {
                assert_true(run(constraint, seed, sampling, way, &given));
                check_same(&given, &plain);
                n_drafted[way] += given.usage.n_drafted_tokens;
                n_accepted[way] += given.usage.n_accepted_tokens;
                by_grammar += given.report.accepted[SPECULATION_GRAMMAR];
                assert_true(way != WAY_OTHERS || !given.report.drafted[SPECULATION_GRAMMAR]);
            }
        }
    }
    for (size_t way = 1; way < WAYS - 1; way++)
        assert_true(n_accepted[way] && n_drafted[way] > n_accepted[way]);
    assert_true(n_accepted[WAY_GRAMMAR] * 2 > n_drafted[WAY_GRAMMAR]);
    assert_true(by_grammar && n_ended[0] && n_ended[1] && n_hurried);
}

/* Several answers share steps that make way before every operator. */
static void test_drafts_constrained_together(void **state) {
    static const _Atomic bool wanted = true;
    static const EngineYield at_once = { .wanted = &wanted };
    size_t n_yields = 0;

    for (uint64_t round = 0; round < 3; round++) {
        Constraint *constraints[TOGETHER];
        Generation *generations[TOGETHER];
        Given given[TOGETHER], plain[TOGETHER];
        bool is_running = true;

        for (size_t i = 0; i < TOGETHER; i++) {
            const uint64_t seed = SEEDS + 2 * round + i / 2; /* some have the same constraint */

            constraints[i] = i % 2 ? constraint_ref(constraints[i - 1]) : new_constraint(seed);
            generations[i] = NULL;
            if (run(constraints[i], seed, i % SAMPLINGS, 0, &plain[i]))
                generations[i] = begin(constraints[i], seed, i % SAMPLINGS, 1 + (i + round) % (WAYS - 1), &given[i]);
        }
        while (is_running) {
            GenerationTurn turns[TOGETHER];
            GenerationStep step;
            size_t n = 0;
            int r;

            is_running = false;
            for (size_t i = 0; i < TOGETHER; i++)
                if (generations[i])
                    turns[n++] = (GenerationTurn){ .generation = generations[i], .fn = take, .arg = &given[i] };
            r = generation_step_begin(&step, turns, n, 0, NULL);
            while (!r && (r = generation_step_run(&step, &at_once, NULL)) == GENERATION_E_YIELDED) {
                n_yields++;
                r = 0;
            }
            assert_int_equal(r, 0);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(turns[i].r, 0);
                is_running = is_running || generation_end(turns[i].generation) == GENERATION_RUNNING;
            }
        }
        for (size_t i = 0; i < TOGETHER; i++) {
            if (generations[i]) {
                end(generations[i], &given[i]);
                check_same(&given[i], &plain[i]);
            }
            constraint_unref(constraints[i]);
        }
    }
    assert_true(n_yields > 100);
}

/* Without a constraint the source is no reason to draft at all. */
static void test_drafts_constrained_source_alone(void **state) {
    GenerationOptions options = { .max_tokens = 4,
                                  .sampler = SAMPLER_OPTIONS_GREEDY,
                                  .speculation = ways[WAY_GRAMMAR] };
    Generation *generation;

    assert_int_equal(generation_new(&generation, tiny.engine, (const uint32_t[]){ 3, 4 }, 2, &options, NULL), 0);
    assert_null(generation->drafting);
    assert_int_equal(generation->tree_bytes, 0);
    assert_int_equal(generation_report(generation)->sources, 0);
    generation_free(generation);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_constrained_alone),
        cmocka_unit_test(test_drafts_constrained_together),
        cmocka_unit_test(test_drafts_constrained_source_alone),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
