// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/fixtures/real_model.h"
#include "test/unit/tools/eval/direct_score.h"
#include "importer/check/scorer.h"

static RealModel model;
static Scorer scorer;

static int setup(void **state) {
    ErrText err = { 0 };

    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 32);
    assert_int_equal(scorer_init(&scorer, model.engine, &err), 0);
    return 0;
}

static int teardown(void **state) {
    scorer_deinit(&scorer);
    real_model_close(&model);
    return 0;
}

static ScorePair pair_of(const char *context, const char *continuation) {
    ScorePair pair;
    ErrText err = { 0 };

    if (score_pair_init(&pair, model.engine, context, strlen(context), continuation, strlen(continuation), &err))
        fail_msg("%s", err.text);
    return pair;
}

static void check_tokens(const ScorePair *pair, size_t n_context, const char *const *pieces, size_t n) {
    assert_int_equal(pair->n, n);
    assert_int_equal(pair->n_context, n_context);
    for (size_t i = 0; i < n; i++) {
        _cleanup_(str_buf_deinit) StrBuf text = { 0 };

        assert_int_equal(tokenizer_piece(engine_tokenizer(model.engine), pair->ids[i], true, &text), 0);
        assert_int_equal(text.len_bytes, strlen(pieces[i]));
        assert_memory_equal(text.data, pieces[i], text.len_bytes);
    }
}

static void test_scorer_border(void **state) {
    static const char *const plain[] = { "The", " river", " is", " wide" };
    ScorePair pair;

    pair = pair_of("The river", " is wide");
    check_tokens(&pair, 2, plain, ARRAY_LEN(plain));
    assert_true(pair.clean);
    score_pair_deinit(&pair);

    /* White space at the end of the context belongs to the continuation. */
    pair = pair_of("The river ", "is wide");
    check_tokens(&pair, 2, plain, ARRAY_LEN(plain));
    assert_true(pair.clean);
    score_pair_deinit(&pair);

    /* Nothing of " ri" is left in the whole: all of " river" is scored. */
    pair = pair_of("The ri", "ver is wide");
    check_tokens(&pair, 1, plain, ARRAY_LEN(plain));
    assert_false(pair.clean);
    score_pair_deinit(&pair);
}

static void test_scorer_empty_context(void **state) {
    const Tokenizer *tokenizer = engine_tokenizer(model.engine);
    ScorePair pair = pair_of("", "The river");
    uint32_t bos = tokenizer_bos(tokenizer);

    assert_int_equal(pair.n, 3);
    assert_int_equal(pair.n_context, 1);
    assert_int_equal(pair.ids[0], bos == TOKEN_NONE ? tokenizer_eos(tokenizer) : bos);
    score_pair_deinit(&pair);
    pair = pair_of(" \n", "The river"); /* white space alone is no context */
    assert_int_equal(pair.n_context, 1);
    score_pair_deinit(&pair);
    pair = pair_of("Th", "e river"); /* half a token is no context either */
    assert_int_equal(pair.n, 3);
    assert_int_equal(pair.n_context, 1);
    assert_false(pair.clean);
    score_pair_deinit(&pair);
}

static void test_scorer_refuses(void **state) {
    size_t n_context = engine_info(model.engine)->n_context;
    _cleanup_(freep) char *text = malloc(3 * n_context);
    ErrText err = { 0 };
    ScorePair pair;

    assert_int_equal(score_pair_init(&pair, model.engine, "The river", 9, "", 0, &err), -EINVAL);
    assert_non_null(strstr(err.text, "empty"));
    assert_int_equal(score_pair_init(&pair, model.engine, "The river ", 10, "", 0, &err), -EINVAL);
    assert_int_equal(score_pair_init(&pair, model.engine, "", 0, "", 0, &err), -EINVAL);
    assert_non_null(text);
    for (size_t i = 0; i < n_context; i++)
        memcpy(text + 3 * i, " no", 3);
    assert_int_equal(score_pair_init(&pair, model.engine, text, 3 * n_context, " yes no", 7, &err), ENGINE_E_CONTEXT);
    assert_non_null(strstr(err.text, "positions"));
    pair = (ScorePair){ 0 };
    assert_int_equal(score_pair_init(&pair, model.engine, text, 3 * n_context, " yes", 4, &err), 0);
    assert_int_equal(pair.n, n_context + 1);
    score_pair_deinit(&pair);
}

/* Sharing the context, chunks of 32 and rows of logits at a time change no bit. */
static void test_scorer_equals_direct(void **state) {
    static const char context[] =
        "The village lies where the river leaves the hills. Every spring the water rises over the meadows, and the "
        "people carry their chairs to the upper floor, wait for some days and talk about the floods of earlier years. "
        "When the river goes back to its bed, it leaves";
    static const char *const continuations[] = { " mud on the fields and fish in the ditches.", " nothing", " a",
                                                 " mud on the fields and fish in the gardens, where the children "
                                                 "catch them with baskets and sell them at the market for a few coins "
                                                 "that they spend on the first ice cream of the year, as they have "
                                                 "always done, since there was ice, and cream, and coins, and years "
                                                 "to be counted by the height of the water on the church wall." };
    ScorePair pairs[ARRAY_LEN(continuations) + 1];
    Score scores[ARRAY_LEN(pairs)], alone;
    ErrText err = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(continuations); i++)
        pairs[i] = pair_of(context, continuations[i]);
    pairs[ARRAY_LEN(continuations)] = pair_of("The village lies on a hill", " and is old"); /* little in common */
    assert_true(pairs[3].n - pairs[3].n_context > 64);
    assert_int_equal(scorer_pairs(&scorer, pairs, ARRAY_LEN(pairs), scores, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        bool greedy;

        assert_true(scores[i].log_likelihood ==
                    direct_score(&model, pairs[i].ids, pairs[i].n, pairs[i].n_context, &greedy));
        assert_int_equal(scores[i].greedy, greedy);
        assert_int_equal(scores[i].n_tokens, pairs[i].n - pairs[i].n_context);
        assert_int_equal(scorer_pairs(&scorer, &pairs[i], 1, &alone, &err), 0);
        assert_true(alone.log_likelihood == scores[i].log_likelihood);
        score_pair_deinit(&pairs[i]);
    }
}

/* A rewound sequence computes the same bits as a new one. */
static void test_scorer_rewind(void **state) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL, *fresh = NULL;
    ScorePair pair = pair_of("One two three four five", " six seven eight nine");
    size_t n_vocab = engine_info(model.engine)->n_vocab;
    _cleanup_(freep) float *a = malloc(n_vocab * sizeof(float)), *b = malloc(n_vocab * sizeof(float));
    ErrText err = { 0 };

    assert_true(a && b);
    assert_int_equal(sequence_new(&sequence, model.engine, pair.n, &err), 0);
    assert_int_equal(sequence_new(&fresh, model.engine, pair.n, &err), 0);
    assert_int_equal(engine_forward(model.engine, sequence, pair.ids, pair.n, 0, NULL, NULL), 0);
    sequence_rewind(sequence, 3);
    assert_int_equal(sequence_n_tokens(sequence), 3);
    assert_int_equal(engine_forward(model.engine, sequence, pair.ids + 4, 2, 1, a, NULL), 0);
    assert_int_equal(engine_forward(model.engine, fresh, pair.ids, 3, 0, NULL, NULL), 0);
    assert_int_equal(engine_forward(model.engine, fresh, pair.ids + 4, 2, 1, b, NULL), 0);
    assert_memory_equal(a, b, n_vocab * sizeof(float));
    score_pair_deinit(&pair);
}

static void test_scorer_standard_error(void **state) {
    assert_true(fabs(standard_error_of_share(3, 4) - 0.25) < 1e-15); /* sqrt(0.75 * 0.25 / 3) */
    assert_true(standard_error_of_share(0, 10) == 0);
    assert_true(isnan(standard_error_of_share(1, 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scorer_border),  cmocka_unit_test(test_scorer_empty_context),
        cmocka_unit_test(test_scorer_refuses), cmocka_unit_test(test_scorer_equals_direct),
        cmocka_unit_test(test_scorer_rewind),  cmocka_unit_test(test_scorer_standard_error),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
