// SPDX-License-Identifier: Apache-2.0
/* Plans of segments, followed token by token: masks, single tokens, ways to an end and forced tokens say the same. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/constraint/constraint_run.h"
#include "engine/constraint/constraint_spec.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"

enum {
    PADDED = FIXTURE_BPE_N + 7, /* rows of the embedding */
    MARK = FIXTURE_IM_START,    /* a control token */
    OTHER_MARK = FIXTURE_BOS,
    END = FIXTURE_IM_END, /* ends answers */
};

static Tokenizer *tokenizer;
static ConstraintVocabulary *vocabulary;

static int setup(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    TokenizerFixture fixture;

    if (fixture_init(&fixture, &spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    fixture_deinit(&fixture);
    assert_true(tokenizer_is_end(tokenizer, END));
    assert_int_equal(constraint_vocabulary_new(&vocabulary, tokenizer, PADDED), 0);
    return 0;
}

static int teardown(void **state) {
    constraint_vocabulary_unref(vocabulary);
    tokenizer_free(tokenizer);
    return 0;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

static uint32_t add_regex(ConstraintPlan *plan, const char *pattern, uint32_t next) {
    const ConstraintSpec spec = { .form = CONSTRAINT_FORM_REGEX, .text = pattern, .n_bytes = strlen(pattern) };
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    ErrText err;

    if (constraint_spec_compile(&spec, &CONSTRAINT_LIMITS, &grammar, &err))
        fail_msg("%s", err.text);
    return constraint_plan_add_grammar(plan, grammar, next);
}

static uint32_t add_free(ConstraintPlan *plan, uint32_t token, uint32_t segment, bool is_end_allowed) {
    ConstraintFree free_text = CONSTRAINT_FREE_TEXT;

    free_text.triggers[0] = (ConstraintTrigger){ token, segment };
    free_text.n_triggers = 1;
    free_text.is_end_allowed = is_end_allowed;
    return constraint_plan_add_free(plan, &free_text);
}

static Constraint *finish(ConstraintPlan *plan) {
    Constraint *constraint = NULL;
    ErrText err = { 0 };

    if (constraint_new(&constraint, plan, vocabulary, &err))
        fail_msg("%s", err.text);
    return constraint;
}

static Constraint *regex_plan(void) {
    ConstraintPlan plan = { 0 };

    add_regex(&plan, "(hello|33|aaaa){2,5}(x[0-9]+)?", CONSTRAINT_END);
    return finish(&plan);
}

/* Thinking of at most 6 tokens, whose end is forced, then an answer. */
static Constraint *thinking_plan(void) {
    const uint32_t end_marks[] = { '.', MARK };
    ConstraintPlan plan = { 0 };
    const uint32_t answer = add_regex(&plan, "ab{1,4}c?", CONSTRAINT_END),
                   over = constraint_plan_add_tokens(&plan, end_marks, 2, answer);
    ConstraintFree thinking = { .triggers = { { MARK, answer } }, .n_triggers = 1, .tokens_max = 6, .over = over };

    plan.start = constraint_plan_add_free(&plan, &thinking);
    return finish(&plan);
}

/* Free text in which calls may come, each ended by a mark; another mark may not come. */
static Constraint *calls_plan(void) {
    const uint32_t mark = OTHER_MARK;
    ConstraintPlan plan = { 0 };
    const uint32_t call = add_regex(&plan, "\\[[0-9]{1,3}\\]", CONSTRAINT_END),
                   end = constraint_plan_add_tokens(&plan, &mark, 1, CONSTRAINT_END);
    ConstraintFree text = CONSTRAINT_FREE_TEXT;

    constraint_plan_set_next(&plan, call, end);
    text.triggers[0] = (ConstraintTrigger){ MARK, call };
    text.triggers[1] = (ConstraintTrigger){ OTHER_MARK, CONSTRAINT_REFUSED };
    text.n_triggers = 2;
    text.is_end_allowed = true;
    plan.start = constraint_plan_add_free(&plan, &text);
    constraint_plan_set_next(&plan, end, plan.start);
    return finish(&plan);
}

/* Grammars that may be empty, in a row, and a free text behind them. */
static Constraint *row_plan(void) {
    ConstraintPlan plan = { 0 };
    const uint32_t first = add_regex(&plan, "a*", CONSTRAINT_END), second = add_regex(&plan, "(bc)*", CONSTRAINT_END),
                   last = add_free(&plan, MARK, CONSTRAINT_END, false);

    constraint_plan_set_next(&plan, first, second);
    constraint_plan_set_next(&plan, second, last);
    return finish(&plan);
}

static Constraint *(*const plans[])(void) = { regex_plan, thinking_plan, calls_plan, row_plan };

/* --- what all say ------------------------------------------------------------------------------------------------- */

static bool has(const uint64_t *mask, uint32_t token) {
    return mask[token / 64] >> (token % 64) & 1;
}

/* Checks masks by every single token. Returns an allowed token, chosen by x, *nextp: where it leads. */
static uint32_t check_state(ConstraintRun *run, ConstraintState state, uint32_t x, ConstraintState *nextp) {
    uint64_t mask[TOKEN_MASK_WORDS(PADDED)], near[TOKEN_MASK_WORDS(PADDED)];
    uint32_t n_end, chosen = 0, n_allowed = 0, n_near = 0;

    constraint_run_refuel(run, 100);
    assert_int_equal(constraint_run_end_tokens(run, state, &n_end), 0);
    assert_int_not_equal(n_end, UINT32_MAX);
    assert_int_equal(constraint_run_is_end_allowed(run, state), !n_end);
    assert_int_equal(constraint_run_mask(run, state, mask), 0);
    for (uint32_t more = 0; more < 3; more++) {
        const uint32_t n_left = n_end + more;

        n_allowed = n_near = 0;
        assert_int_equal(constraint_run_mask_to_end(run, state, n_left, near), 0);
        for (uint32_t token = 0; token < TOKEN_MASK_WORDS(PADDED) * 64; token++) {
            ConstraintState next;
            int r = constraint_run_advance(run, state, token, &next);
            const bool is_end = token == END;

            assert_true(!r || r == CONSTRAINT_E_REFUSED);
            assert_int_equal(has(mask, token), !r);
            assert_true(!is_end || !r == constraint_run_is_end_allowed(run, state));
            assert_int_equal(has(near, token), !r && (is_end || !constraint_run_check_time(run, next, n_left)));
            n_near += has(near, token);
            n_allowed += !r;
        }
        assert_true(n_near > 0);
    }
    assert_true(n_allowed > 0);
    x %= n_allowed;
    while (constraint_run_advance(run, state, chosen, nextp) || x--)
        chosen++;
    return chosen;
}

static void test_masks_are_what_tokens_say(void **state) {
    uint32_t x = 1;

    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        _cleanup_(constraint_unrefp) Constraint *constraint = plans[i]();
        _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;

        assert_int_equal(constraint_run_new(&run, constraint), 0);
        for (int walk = 0; walk < 8; walk++) {
            ConstraintState at = constraint_run_start(run);

            for (int step = 0; step < 12 && !constraint_run_is_complete(run, at); step++) {
                x = x * 1664525u + 1013904223u;
                check_state(run, at, x >> 8, &at);
            }
        }
    }
}

/* Wherever an answer is, the mask to the end leads to one within the tokens that were counted. */
static void test_ends_come_in_time(void **state) {
    uint32_t x = 7;

    for (size_t i = 0; i < ARRAY_LEN(plans); i++)
        for (uint32_t n_free = 0; n_free < 6; n_free++) {
            _cleanup_(constraint_unrefp) Constraint *constraint = plans[i]();
            _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
            ConstraintState at;
            uint32_t n_left = constraint_least_tokens(constraint, 0) + n_free;

            assert_int_equal(constraint_run_new(&run, constraint), 0);
            at = constraint_run_start(run);
            while (n_left && !constraint_run_is_complete(run, at)) {
                uint64_t mask[TOKEN_MASK_WORDS(PADDED)];
                uint32_t token, n_tries = 0;

                constraint_run_refuel(run, 10);
                at = constraint_run_in_time(run, at, n_left);
                assert_int_equal(constraint_run_mask_to_end(run, at, n_left, mask), 0);
                do {
                    x = x * 1664525u + 1013904223u;
                    token = (x >> 8) % PADDED;
                    assert_true(n_tries++ < 100000);
                } while (!has(mask, token));
                assert_int_equal(constraint_run_advance(run, at, token, &at), 0);
                n_left -= token != END;
            }
            assert_true(constraint_run_is_end_allowed(run, at));
        }
}

/* --- single plans ------------------------------------------------------------------------------------------------- */

static ConstraintState follow(ConstraintRun *run, ConstraintState at, const uint32_t *tokens, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_int_equal(constraint_run_advance(run, at, tokens[i], &at), 0);
    return at;
}

#define FOLLOW(run, at, ...)                                                                                           \
    follow((run), (at), (const uint32_t[]){ __VA_ARGS__ }, ARRAY_LEN(((const uint32_t[]){ __VA_ARGS__ })))

static void assert_refused(ConstraintRun *run, ConstraintState at, uint32_t token) {
    ConstraintState next;

    assert_int_equal(constraint_run_advance(run, at, token, &next), CONSTRAINT_E_REFUSED);
}

static void test_thinking_has_a_limit(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint = thinking_plan();
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    ConstraintState at, early;

    assert_int_equal(constraint_run_new(&run, constraint), 0);
    assert_int_equal(constraint_least_tokens(constraint, 0), 3); /* the mark, "ab" */
    at = constraint_run_start(run);
    assert_refused(run, at, END);
    early = FOLLOW(run, at, 'x', MARK);
    assert_refused(run, early, 'x');
    early = FOLLOW(run, early, 'a', 'b');
    assert_true(constraint_run_is_end_allowed(run, early));
    assert_true(constraint_run_is_complete(run, FOLLOW(run, early, END)));
    assert_true(constraint_run_is_complete(run, FOLLOW(run, early, 'c')));
    at = FOLLOW(run, at, 'x', 'y', FIXTURE_TOOL, OTHER_MARK, PADDED - 1, 'z');
    assert_refused(run, at, 'x');
    assert_refused(run, at, MARK);
    at = FOLLOW(run, at, '.', MARK, 'a');
    assert_refused(run, at, 'a');
}

static void test_thinking_ends_for_the_answer(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint = thinking_plan();
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    ConstraintState at, hurried;

    assert_int_equal(constraint_run_new(&run, constraint), 0);
    at = FOLLOW(run, constraint_run_start(run), 'x');
    assert_int_equal(constraint_run_in_time(run, at, 5).segment, at.segment);
    hurried = constraint_run_in_time(run, at, 4); /* ". MARK a b" */
    assert_int_not_equal(hurried.segment, at.segment);
    assert_refused(run, hurried, 'y');
    FOLLOW(run, hurried, '.', MARK, 'a', 'b');
}

static void test_calls_come_again(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint = calls_plan();
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    ConstraintState at;

    assert_int_equal(constraint_run_new(&run, constraint), 0);
    assert_int_equal(constraint_least_tokens(constraint, 0), 0);
    at = constraint_run_start(run);
    for (int i = 0; i < 3; i++) {
        at = FOLLOW(run, at, 'h', 'i');
        assert_refused(run, at, OTHER_MARK);
        at = FOLLOW(run, at, MARK);
        assert_refused(run, at, END);
        assert_refused(run, at, 'x');
        at = FOLLOW(run, at, '[', '1', FIXTURE_BYTES + 7, ']'); /* "33" is one token */
        assert_refused(run, at, 'x');
        at = FOLLOW(run, at, OTHER_MARK);
        assert_true(constraint_run_is_end_allowed(run, at));
    }
}

static size_t forced(ConstraintRun *run, ConstraintState at, const uint32_t *text, size_t n_text, uint32_t *tokens,
                     size_t n_max, StrBuf *bytes) {
    size_t n;

    assert_int_equal(constraint_run_forced(run, at, text, n_text, tokens, n_max, &n), 0);
    str_buf_truncate(bytes, 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(tokenizer_piece(tokenizer, tokens[i], true, bytes), 0);
    follow(run, at, tokens, n);
    return n;
}

static void test_forced_tokens(void **state) {
    _cleanup_(str_buf_deinit) StrBuf bytes = STR_BUF_NULL;
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    const uint32_t marks[] = { MARK, OTHER_MARK };
    ConstraintPlan plan = { 0 };
    const uint32_t rest = add_regex(&plan, "aa(x|y)", CONSTRAINT_END),
                   middle = constraint_plan_add_tokens(&plan, marks, 2, rest);
    uint32_t tokens[16];
    ConstraintState at;

    plan.start = add_regex(&plan, "hello hello(1|2)", middle);
    constraint = finish(&plan);
    assert_int_equal(constraint_run_new(&run, constraint), 0);
    at = constraint_run_start(run);
    assert_int_equal(forced(run, at, NULL, 0, tokens, 16, &bytes), 2); /* "hello", " hello" */
    assert_string_equal(bytes.data, "hello hello");
    assert_int_equal(forced(run, at, NULL, 0, tokens, 1, &bytes), 1);
    assert_string_equal(bytes.data, "hello");
    /* Behind "he" the rest of the word is spelt without changing what stands there. */
    tokens[0] = FIXTURE_BYTES;
    assert_true(
        forced(run, FOLLOW(run, at, FIXTURE_BYTES), (const uint32_t[]){ FIXTURE_BYTES }, 1, tokens, 16, &bytes) > 0);
    assert_string_equal(bytes.data, "llo hello");
    at = FOLLOW(run, at, FIXTURE_BYTES + 3, FIXTURE_BYTES + 4);
    assert_int_equal(forced(run, at, NULL, 0, tokens, 16, &bytes), 0);
    at = FOLLOW(run, at, '1');
    assert_int_equal(forced(run, at, NULL, 0, tokens, 16, &bytes), 3); /* both marks, "aa" */
    assert_int_equal(tokens[0], MARK);
    assert_int_equal(tokens[1], OTHER_MARK);
    assert_int_equal(tokens[2], FIXTURE_BYTES + 5);
}

static void test_plans_are_checked(void **state) {
    const struct {
        uint32_t trigger, segment, tokens_max, over, next, start;
    } bad[] = {
        { END, 0, UINT32_MAX, CONSTRAINT_END, CONSTRAINT_END, 1 },
        { PADDED, 0, UINT32_MAX, CONSTRAINT_END, CONSTRAINT_END, 1 },
        { MARK, 2, UINT32_MAX, CONSTRAINT_END, CONSTRAINT_END, 1 },
        { MARK, 0, 5, CONSTRAINT_END, CONSTRAINT_END, 1 },
        { MARK, 0, 5, 0, CONSTRAINT_END, 1 },
        { MARK, 0, UINT32_MAX, CONSTRAINT_END, 2, 1 },
        { MARK, 0, UINT32_MAX, CONSTRAINT_END, CONSTRAINT_REFUSED, 1 },
        { MARK, 0, UINT32_MAX, CONSTRAINT_END, CONSTRAINT_END, 2 },
        { MARK, 1, UINT32_MAX, CONSTRAINT_END, CONSTRAINT_END, 1 }, /* no way to an end */
    };
    Constraint *constraint = NULL;
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };
        ConstraintFree text = { .triggers = { { bad[i].trigger, bad[i].segment } },
                                .n_triggers = 1,
                                .tokens_max = bad[i].tokens_max,
                                .over = bad[i].over };

        add_regex(&plan, "a", bad[i].next);
        constraint_plan_add_free(&plan, &text);
        plan.start = bad[i].start;
        err.text[0] = '\0';
        if (constraint_new(&constraint, &plan, vocabulary, &err) != CONSTRAINT_E_PLAN || !*err.text)
            fail_msg("plan %zu: %s", i, err.text);
    }
    for (size_t n = 0; n <= CONSTRAINT_TOKENS_MAX + 1; n += CONSTRAINT_TOKENS_MAX + 1) {
        static uint32_t tokens[CONSTRAINT_TOKENS_MAX + 1];
        _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };

        constraint_plan_add_tokens(&plan, tokens, n, CONSTRAINT_END);
        assert_int_equal(constraint_new(&constraint, &plan, vocabulary, &err),
                         n ? CONSTRAINT_E_TOO_COMPLEX : CONSTRAINT_E_PLAN);
    }
}

/* States of two runs at the same place allow the same, whatever each has met before. */
static void test_runs_agree(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint = regex_plan();
    _cleanup_(constraint_run_freep) ConstraintRun *one = NULL, *two = NULL;
    uint64_t a[TOKEN_MASK_WORDS(PADDED)], b[TOKEN_MASK_WORDS(PADDED)];

    assert_int_equal(constraint_run_new(&one, constraint), 0);
    assert_int_equal(constraint_run_new(&two, constraint), 0); /* the first run has the spare matcher */
    FOLLOW(one, constraint_run_start(one), FIXTURE_BYTES + 7, 'a', 'a', 'a', 'a', 'x', '1');
    assert_int_equal(constraint_run_mask(one, FOLLOW(one, constraint_run_start(one), 'h', 'e'), a), 0);
    assert_int_equal(constraint_run_mask(two, FOLLOW(two, constraint_run_start(two), FIXTURE_BYTES), b), 0);
    assert_memory_equal(a, b, sizeof(a));
    one = constraint_run_free(one);
    assert_int_equal(constraint_run_new(&one, constraint), 0);
    assert_int_equal(constraint_run_mask(one, FOLLOW(one, constraint_run_start(one), FIXTURE_BYTES), a), 0);
    assert_memory_equal(a, b, sizeof(a));
}

/* --- answers that have begun -------------------------------------------------------------------------------------- */

/* Returns the bytes of a text that a plan allows; the state behind all of them, if it allows them, is *statep. */
static size_t begin_behind(ConstraintRun *run, const char *text, ConstraintState *statep) {
    size_t n_taken = 0;
    int r;

    constraint_run_refuel(run, 10);
    r = constraint_run_start_behind(run, 0, text, strlen(text), statep, &n_taken);
    assert_true(r == 0 || r == CONSTRAINT_E_REFUSED);
    assert_int_equal(!r, n_taken == strlen(text));
    return n_taken;
}

/* A text that the prompt has already leads where its bytes lead as tokens, and goes on as far as the plan allows. */
static void test_answers_that_have_begun(void **state) {
    static const struct {
        Constraint *(*plan)(void);
        const char *text;
        size_t n_taken;
    } cases[] = {
        { regex_plan, "hello33he", 9 },
        { regex_plan, "hellox", 5 },
        { regex_plan, "aaaa33x123", 10 },
        { thinking_plan, "Any text.", 9 },
        { calls_plan, "[1] is text", 11 },
        { row_plan, "aabcbcxyz", 9 },
        { row_plan, "xyz", 3 },
        { row_plan, "ab", 2 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(constraint_unrefp) Constraint *constraint = cases[i].plan();
        _cleanup_(constraint_run_freep) ConstraintRun *begun = NULL, *run = NULL;
        uint64_t a[TOKEN_MASK_WORDS(PADDED)], b[TOKEN_MASK_WORDS(PADDED)];
        ConstraintState at, behind;

        assert_int_equal(constraint_run_new(&begun, constraint), 0);
        assert_int_equal(constraint_run_new(&run, constraint), 0);
        assert_int_equal(begin_behind(begun, cases[i].text, &behind), cases[i].n_taken);
        if (cases[i].text[cases[i].n_taken] || cases[i].plan == thinking_plan) /* whose tokens are counted */
            continue;
        at = constraint_run_start(run);
        for (const char *byte = cases[i].text; *byte; byte++)
            at = FOLLOW(run, at, (uint8_t)*byte);
        assert_int_equal(constraint_run_mask(run, at, a), 0);
        assert_int_equal(constraint_run_mask(begun, behind, b), 0);
        assert_memory_equal(a, b, sizeof(a));
    }
}

/* Only control tokens may come, or nothing: no text begins such an answer, or goes on with it. */
static void test_answers_that_cannot_have_begun(void **state) {
    const uint32_t marks[] = { MARK };
    ConstraintState at;

    for (int is_end = 0; is_end < 2; is_end++) {
        _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
        _cleanup_(constraint_run_freep) ConstraintRun *run = NULL, *whole = NULL;
        ConstraintPlan plan = { 0 };
        const uint32_t last = is_end ? CONSTRAINT_END : constraint_plan_add_tokens(&plan, marks, 1, CONSTRAINT_END);

        plan.start = add_regex(&plan, "ab", last);
        constraint = finish(&plan);
        assert_int_equal(constraint_run_new(&run, constraint), 0);
        assert_int_equal(begin_behind(run, "abc", &at), 2);
        assert_int_equal(constraint_run_new(&whole, constraint), 0);
        assert_int_equal(begin_behind(whole, "ab", &at), 2);
        assert_int_equal(constraint_run_is_complete(whole, at), is_end);
    }
}

/* A run that has met too many states forgets them and goes on; begun: text that the prompt has of the answer. */
static void check_forgotten(const char *begun, const uint32_t *answer, size_t n) {
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    uint64_t before[TOKEN_MASK_WORDS(PADDED)], after[TOKEN_MASK_WORDS(PADDED)];
    ConstraintPlan plan = { 0 };
    ConstraintState at, other;
    size_t first_bytes, most_bytes;
    uint32_t x = 1;

    add_regex(&plan, "x(a|b)*a(a|b){60}", CONSTRAINT_END);
    constraint = finish(&plan);
    assert_int_equal(constraint_run_new(&run, constraint), 0);
    constraint_run_refuel(run, 1000);
    first_bytes = constraint_run_memory_bytes(run);
    at = constraint_run_start(run);
    if (begun)
        assert_int_equal(begin_behind(run, begun, &at), strlen(begun));
    at = other = follow(run, at, answer, n);
    assert_int_equal(constraint_run_mask(run, at, before), 0);
    for (int i = 0; i < 200000 && constraint_run_memory_bytes(run) < first_bytes + (14 << 20); i++) {
        constraint_run_refuel(run, 10);
        x = x * 1664525u + 1013904223u;
        other = FOLLOW(run, other, 'a' + (x >> 20) % 2);
    }
    most_bytes = constraint_run_memory_bytes(run);
    assert_true(most_bytes > first_bytes + (12 << 20));
    assert_int_equal(constraint_run_renew(run, answer, n, &at), 0);
    assert_true(constraint_run_memory_bytes(run) < most_bytes / 4);
    assert_int_equal(at.count, n);
    assert_int_equal(constraint_run_mask(run, at, after), 0);
    assert_memory_equal(before, after, sizeof(before));
}

static void test_states_are_forgotten(void **state) {
    check_forgotten(NULL, (const uint32_t[]){ 'x', 'a', 'b', 'a' }, 4);
    check_forgotten("xabb", (const uint32_t[]){ 'a', 'b' }, 2);
    check_forgotten("xabb", NULL, 0);
}

/* Without fuel nothing is said; with fuel the same call goes on. */
static void test_fuel(void **state) {
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    _cleanup_(constraint_run_freep) ConstraintRun *run = NULL;
    ConstraintPlan plan = { 0 };
    ConstraintState at, next;
    int r = 0;

    add_regex(&plan, "((a|b)*a(a|b){200}){3}", CONSTRAINT_END);
    constraint = finish(&plan);
    assert_int_equal(constraint_run_new(&run, constraint), 0);
    at = constraint_run_start(run);
    constraint_run_refuel(run, 1);
    for (int i = 0; !r && i < 5000; i++) {
        r = constraint_run_advance(run, at, 'a', &next);
        at = r ? at : next;
    }
    assert_int_equal(r, CONSTRAINT_E_TOO_COMPLEX);
    constraint_run_refuel(run, 1);
    assert_int_equal(constraint_run_advance(run, at, 'a', &next), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_are_what_tokens_say), cmocka_unit_test(test_ends_come_in_time),
        cmocka_unit_test(test_thinking_has_a_limit),      cmocka_unit_test(test_thinking_ends_for_the_answer),
        cmocka_unit_test(test_calls_come_again),          cmocka_unit_test(test_forced_tokens),
        cmocka_unit_test(test_plans_are_checked),         cmocka_unit_test(test_runs_agree),
        cmocka_unit_test(test_answers_that_have_begun),   cmocka_unit_test(test_answers_that_cannot_have_begun),
        cmocka_unit_test(test_states_are_forgotten),      cmocka_unit_test(test_fuel),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
