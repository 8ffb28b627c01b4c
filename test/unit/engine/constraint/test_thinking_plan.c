// SPDX-License-Identifier: Apache-2.0
/* Plans with thinking: where an answer begins, the budget and its end mark, what follows, an end in time. Marks are
 * tokens, or text. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/constraint/constraint_run.h"
#include "engine/constraint/thinking_plan.h"
#include "test/unit/text/chat/parts_check.h"
#include "text/grammar/grammar_builder.h"

enum {
    BUDGET = 5,
    WALK_TOKENS = 40
};

typedef struct World {
    PartsVocab vocab;
    ThinkingMarks marks;
    ConstraintVocabulary *vocabulary;
    Grammar *grammar; /* of the answer */
} World;

/* Makes a world whose marks are tokens, or text; its answers are one to three letters a or b. */
static void world_init(World *world, bool are_tokens) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    GrammarPart part;
    ErrText err;

    /* Without tokens of the marks an answer still needs a token that ends it: <|im_end|> is the last of the marks. */
    parts_vocab_init(&world->vocab, are_tokens ? PARTS_VOCAB - PARTS_OPEN : 0, NULL);
    world->marks = (ThinkingMarks){ "<think>", "</think>", are_tokens ? PARTS_OPEN : TOKEN_NONE,
                                    are_tokens ? PARTS_CLOSE : TOKEN_NONE };
    assert_int_equal(constraint_vocabulary_new(&world->vocabulary, world->vocab.tokenizer,
                                               tokenizer_n_tokens(world->vocab.tokenizer)),
                     0);
    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    assert_int_equal(grammar_part_regex(builder, "[ab]{1,3}", 9, 0, &part, &err), 0);
    assert_int_equal(grammar_builder_finish(builder, part, &world->grammar, &err), 0);
}

static void world_deinit(World *world) {
    grammar_unref(world->grammar);
    constraint_vocabulary_unref(world->vocabulary);
    parts_vocab_deinit(&world->vocab);
}

/* Makes the run of a plan; without the grammar, thinking alone is limited. */
static ConstraintRun *run_of(const World *world, uint32_t tokens_max, bool has_grammar) {
    _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    ConstraintRun *run = NULL;
    uint32_t first;
    ErrText err;

    first = has_grammar ? constraint_plan_add_grammar(&plan, world->grammar, CONSTRAINT_END)
                        : thinking_plan_add_any(&plan, &world->marks);
    assert_int_equal(thinking_plan_add(&plan, &world->marks, world->vocab.tokenizer, tokens_max, first, &err), 0);
    if (constraint_new(&constraint, &plan, world->vocabulary, &err))
        fail_msg("%s", err.text);
    assert_int_equal(constraint_run_new(&run, constraint), 0);
    return run;
}

static bool advances(ConstraintRun *run, ConstraintState *statep, uint32_t token) {
    constraint_run_refuel(run, 1);
    return !constraint_run_advance(run, *statep, token, statep);
}

/* Takes a script, whose bytes are tokens, or stand for marks. Return: how many were allowed. */
static size_t take(ConstraintRun *run, ConstraintState *statep, const char *script) {
    for (size_t i = 0; script[i]; i++) {
        const bool is_mark = script[i] <= PARTS_LAST_BYTE;

        if (!advances(run, statep, is_mark ? PARTS_OPEN + (uint32_t)script[i] - 1 : (uint32_t)(uint8_t)script[i]))
            return i;
    }
    return strlen(script);
}

static void expect_whole(ConstraintRun *run, uint32_t entry, const char *script) {
    ConstraintState state = constraint_run_start_at(run, entry);

    assert_int_equal(take(run, &state, script), strlen(script));
    assert_true(constraint_run_is_end_allowed(run, state));
}

/* Checks that a script is allowed up to this byte and no further. */
static void expect_refused(ConstraintRun *run, uint32_t entry, const char *script, size_t n_allowed) {
    ConstraintState state = constraint_run_start_at(run, entry);

    assert_int_equal(take(run, &state, script), n_allowed);
}

static void test_thinking_plan_of_tokens(void **state) {
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    World world;

    world_init(&world, true);
    run = run_of(&world, BUDGET, true);
    expect_whole(run, THINKING_BEFORE, "ab");
    expect_whole(run, THINKING_BEFORE, OPEN "hm" CLOSE "\n\nab");
    expect_whole(run, THINKING_BEFORE, OPEN CLOSE "a");
    expect_whole(run, THINKING_INSIDE, "hm" CLOSE "\nab");
    expect_whole(run, THINKING_BEHIND, "ab");
    expect_whole(run, THINKING_INSIDE, "hmmmm\n" CLOSE "\n\nab"); /* the budget, then the mark as templates write it */
    expect_refused(run, THINKING_INSIDE, "hmmmmm", BUDGET);
    expect_refused(run, THINKING_INSIDE, "hmmmm" CLOSE, BUDGET);
    expect_refused(run, THINKING_BEHIND, OPEN, 0);
    expect_refused(run, THINKING_BEFORE, "a" OPEN, 1);
    expect_refused(run, THINKING_INSIDE, "hm" CLOSE "\n\n\n", 5);
    expect_refused(run, THINKING_INSIDE, "hm" CLOSE "c", 3);
    constraint_run_free(run);
    run = run_of(&world, 0, true);
    expect_whole(run, THINKING_BEFORE, "ab");
    expect_refused(run, THINKING_BEFORE, OPEN, 0);
    constraint_run_free(run);
    run = run_of(&world, BUDGET, false);
    expect_whole(run, THINKING_BEFORE, "any text" CONTROL);
    expect_whole(run, THINKING_BEFORE, OPEN "hmmmm\n" CLOSE "\n\nany text");
    expect_refused(run, THINKING_BEFORE, OPEN "hm" CLOSE "text" OPEN, 8);
    constraint_run_free(steal(&run));
    world_deinit(&world);
}

static void test_thinking_plan_of_text(void **state) {
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    World world;

    world_init(&world, false);
    run = run_of(&world, 12, true);
    expect_whole(run, THINKING_BEFORE, "ab");
    expect_refused(run, THINKING_BEFORE, "<", 0);
    expect_whole(run, THINKING_INSIDE, "hm</think>\n\nab");
    expect_whole(run, THINKING_INSIDE, "hmm\n</think>ab"); /* the mark ends with the budget's last token */
    expect_whole(run, THINKING_INSIDE, "hmmmmm\n</thi\n</think>\n\nab");
    expect_refused(run, THINKING_INSIDE, "hmmmmm\n</thin", 12);
    expect_refused(run, THINKING_INSIDE, "hm</think></think>", 10);
    constraint_run_free(steal(&run));
    world_deinit(&world);
}

static uint32_t random_below(uint32_t *salt, uint32_t n) {
    *salt = *salt * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*salt * n >> 32);
}

/* Walks at random. In each state the mask has the bits of the tokens that advance, and no others. */
static void walk(ConstraintRun *run, uint32_t entry, uint32_t n_vocab, uint32_t *salt) {
    ConstraintState state = constraint_run_start_at(run, entry);
    uint64_t mask[TOKEN_MASK_WORDS(PARTS_VOCAB)];

    for (size_t i = 0; i < WALK_TOKENS && !constraint_run_is_complete(run, state); i++) {
        uint32_t allowed[PARTS_VOCAB], n = 0;

        constraint_run_refuel(run, 1);
        assert_int_equal(constraint_run_mask(run, state, mask), 0);
        for (uint32_t token = 0; token < n_vocab; token++) {
            ConstraintState next = state;
            const bool is_set = mask[token / 64] >> (token % 64) & 1;

            if (is_set != advances(run, &next, token))
                fail_msg("token %u behind %zu tokens", token, i);
            if (is_set)
                allowed[n++] = token;
        }
        assert_true(n > 0);
        assert_true(advances(run, &state, allowed[random_below(salt, n)]));
    }
}

/* Walks at random to an end within so many tokens. */
static void walk_in_time(ConstraintRun *run, uint32_t entry, uint32_t n_vocab, uint32_t n_left, uint32_t *salt) {
    ConstraintState state = constraint_run_start_at(run, entry);
    uint64_t mask[TOKEN_MASK_WORDS(PARTS_VOCAB)];

    for (; n_left && !constraint_run_is_complete(run, state); n_left--) {
        uint32_t allowed[PARTS_VOCAB], n = 0;

        state = constraint_run_in_time(run, state, n_left);
        constraint_run_refuel(run, 2);
        assert_int_equal(constraint_run_mask_to_end(run, state, n_left, mask), 0);
        for (uint32_t token = 0; token < n_vocab; token++)
            if (mask[token / 64] >> (token % 64) & 1 && token != PARTS_END)
                allowed[n++] = token;
        if (!n)
            break; /* the end alone is allowed */
        assert_true(advances(run, &state, allowed[random_below(salt, n)]));
    }
    assert_true(constraint_run_is_end_allowed(run, state));
}

static void test_thinking_plan_walks(void **state) {
    uint32_t salt = 5;

    for (int are_tokens = 0; are_tokens < 2; are_tokens++) {
        World world;

        world_init(&world, are_tokens);
        for (int has_grammar = 0; has_grammar < 2; has_grammar++) {
            _cleanup_(constraint_run_freep) ConstraintRun *run = run_of(&world, BUDGET, has_grammar);
            const Constraint *constraint = constraint_run_constraint(run);
            const uint32_t n_vocab = tokenizer_n_tokens(world.vocab.tokenizer);

            for (uint32_t entry = 0; entry < _THINKING_PLACE_N; entry++)
                for (uint32_t i = 0; i < 12; i++) {
                    walk(run, entry, n_vocab, &salt);
                    walk_in_time(run, entry, n_vocab, constraint_least_tokens(constraint, entry) + i, &salt);
                }
        }
        world_deinit(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thinking_plan_of_tokens),
        cmocka_unit_test(test_thinking_plan_of_text),
        cmocka_unit_test(test_thinking_plan_walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
