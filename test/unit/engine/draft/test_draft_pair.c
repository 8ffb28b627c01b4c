// SPDX-License-Identifier: Apache-2.0
/* Pairs of models whose tokens differ: padding, a target with tokens of its own, and models that cannot draft. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/draft/draft_timeline.h"
#include "importer/importer.h"
#include "test/unit/engine/draft/counted_engine.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/policies.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "test/unit/text/tokenizer/tokenizer_golden.h"

enum {
    CHUNK = 32,
    CAPACITY = 400,
};

static TinyEngine tiny;

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

/* A draft whose embedding has rows without tokens proposes none of them. */
static void test_draft_pair_padding(void **state) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportFixture *fixture = *state;
    size_t n_left = 0, n_left_out = 0;
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    DraftPair *pair;
    DraftModel model;
    ErrText err = { 0 };

    maker.n_vocab = 80;
    maker.n_padding = 40;
    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    if (engine_new(&engine,
                   &(EngineOptions){ .path = import_fixture_package(fixture, &maker, 8, false),
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .pool = pool,
                                     .accounts = &accounts },
                   &err) ||
        draft_pair_new(&pair, engine, tiny.engine, &err) || draft_timeline_new(&model, pair, 100, &err))
        fail_msg("%s", err.text);
    assert_int_equal(engine_info(engine)->n_vocab, 80);
    for (uint32_t token = 0; token < TINY_VOCAB; token++) {
        DraftModelTops tops;
        Sequence *plain;
        EngineTops all;
        uint32_t n = 0;

        assert_int_equal(sequence_new(&plain, engine, 10, NULL), 0);
        all = counted_plain_tops(engine, plain, &token, 1);
        assert_int_equal(model.ops->follow(model.self, &token, 1), 0);
        assert_int_equal(model.ops->expand(model.self, &(DraftModelRow){ -1, token }, 1, &tops), 0);
        for (uint32_t i = 0; i < all.n; i++)
            if (all.tops[i].token < TINY_VOCAB) {
                assert_int_equal(tops.tops[n].token, all.tops[i].token);
                assert_true(tops.tops[n++].probability == all.tops[i].probability);
            }
        assert_int_equal(tops.n, n);
        n_left += n;
        n_left_out += all.n - n;
        sequence_free(plain);
    }
    assert_true(n_left && n_left_out);
    draft_timeline_free(&model);
    draft_pair_free(pair);
    assert_int_equal(draft_pair_new(&pair, tiny.engine, engine, &err),
                     0); /* the target's padding is not proposed either */
    draft_pair_free(pair);
    engine_free(engine);
    worker_pool_free(pool);
    loaded_accounts_are_empty(&accounts);
}

enum {
    LONGER = 8, /* tokens that the draft has not */
};

/* Returns the token as the draft reads it. */
static uint32_t read_as(uint32_t token) {
    return token < TINY_VOCAB ? token : 0;
}

/* The draft reads another token in place of one that it does not have: nothing is proposed behind that token. Behind
 * the next one the draft proposes its likely tokens for the text that it read. */
static void test_draft_pair_longer_target(void **state) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    TinyEngine longer = { .maker = &maker };
    uint32_t text[] = { 5, TINY_VOCAB + 3, 7, 9, TINY_VOCAB }, read[ARRAY_LEN(text)], way[] = { 0, 0, 11 };
    const DraftModelRow rows[] = { { -1, TINY_VOCAB }, { 0, 11 }, { 0, TINY_VOCAB + 1 }, { 2, 11 } };
    DraftModelTops tops[ARRAY_LEN(rows)];
    EngineTops expected;
    DraftPair *pair;
    DraftModel model;
    Sequence *plain;
    ErrText err = { 0 };

    maker.n_vocab = TINY_VOCAB + LONGER;
    tiny_engine_open(&longer, ENGINE_DEVICE_CPU, CHUNK);
    if (draft_pair_new(&pair, tiny.engine, longer.engine, &err) || draft_timeline_new(&model, pair, CAPACITY, &err))
        fail_msg("%s", err.text);
    assert_int_equal(pair->n_tokens, TINY_VOCAB);
    for (size_t i = 0; i < ARRAY_LEN(text); i++)
        read[i] = read_as(text[i]);
    assert_int_equal(sequence_new(&plain, tiny.engine, CAPACITY, NULL), 0);
    assert_int_equal(engine_forward(tiny.engine, plain, read, ARRAY_LEN(read) - 1, 0, NULL, NULL), 0);
    counted_begin(tiny.engine);
    assert_int_equal(model.ops->follow(model.self, text, ARRAY_LEN(text)), 0);
    counted_check(ARRAY_LEN(text) - 1);
    assert_int_equal(model.ops->expand(model.self, rows, ARRAY_LEN(rows), tops), 0);
    assert_int_equal(tops[0].n, 0);
    assert_int_equal(tops[2].n, 0);
    counted_end(tiny.engine);
    for (size_t row = 1; row < ARRAY_LEN(rows); row += 2) {
        expected = counted_plain_tops(tiny.engine, plain, row == 1 ? way + 1 : way, row == 1 ? 2 : 3);
        assert_true(expected.n && tops[row].n == expected.n);
        assert_int_equal(tops[row].tops[0].token, expected.tops[0].token);
        assert_true(tops[row].tops[0].probability == expected.tops[0].probability);
    }
    /* The text takes a way of the tree through the target's other token: nothing is computed again. */
    counted_begin(tiny.engine);
    {
        uint32_t further[] = { 5, TINY_VOCAB + 3, 7, 9, TINY_VOCAB, TINY_VOCAB + 1, 11, 12 };

        assert_int_equal(model.ops->follow(model.self, further, ARRAY_LEN(further)), 0);
        counted_check(0);
        further[4] = TINY_VOCAB + 2; /* the draft reads it alike, but it is another text */
        assert_int_equal(model.ops->follow(model.self, further, ARRAY_LEN(further)), 0);
        counted_check(3);
    }
    counted_end(tiny.engine);
    sequence_free(plain);
    draft_timeline_free(&model);
    draft_pair_free(pair);
    /* The other way round the draft has more tokens, and proposes none of those (test_draft_pair_padding). */
    assert_int_equal(draft_pair_new(&pair, longer.engine, tiny.engine, &err), 0);
    assert_int_equal(pair->n_tokens, TINY_VOCAB);
    draft_pair_free(pair);
    tiny_engine_close(&longer);
}

/* Answers of such a target are those without drafts, token for token and logit for logit. */
static void test_draft_pair_longer_answers(void **state) {
    enum {
        N_PROMPT = 60,
        OUTPUT = 60,
    };
    const GenerationSpeculation none = { 0 };
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    TinyEngine longer = { .maker = &maker };
    size_t n_own = 0, n_drafted = 0;
    DraftPair *pair;
    ErrText err = { 0 };

    maker.n_vocab = TINY_VOCAB + LONGER;
    tiny_engine_open(&longer, ENGINE_DEVICE_CPU, CHUNK);
    if (draft_pair_new(&pair, tiny.engine, longer.engine, &err))
        fail_msg("%s", err.text);
    for (int sampled = 0; sampled < 2; sampled++) {
        GenerationOptions options;
        Given plain, given;

        options = given_options(&plain, longer.engine, OUTPUT, sampled, &none);
        given_run(&plain, given_begin(longer.engine, N_PROMPT, &options));
        for (size_t i = 0; i < plain.n; i++)
            n_own += plain.ids[i] >= TINY_VOCAB;
        for (int policy = OURS; policy < _POLICY_N; policy++) {
            const SpecLab lab = { .policy = policy_ops(policy), .always = true };
            GenerationSpeculation speculation = { .sources = policy_sources(policy), .lab = &lab };

            assert_int_equal(draft_timeline_new(&speculation.model, pair, N_PROMPT + OUTPUT, &err), 0);
            options = given_options(&given, longer.engine, OUTPUT, sampled, &speculation);
            given_run(&given, given_begin(longer.engine, N_PROMPT, &options));
            given_check_same(&given, &plain);
            n_drafted += given.report.drafted[SPECULATION_MODEL];
            draft_timeline_free(&speculation.model);
        }
    }
    assert_true(n_own && n_drafted);
    draft_pair_free(pair);
    tiny_engine_close(&longer);
}

/* A model with other tokens cannot draft. */
static void test_draft_pair_other_tokens(void **state) {
    static ImportReport report;
    ImportOptions options = import_options_default();
    RealModel model;
    Engine *other = NULL;
    DraftPair *pair = NULL;
    char path[1024];
    ErrText err = { 0 };

    golden_model_path("gemma3-270m", path, sizeof(path));
    if (access(path, R_OK)) {
        print_message("gemma3-270m is absent (%s): tools/fetch-model gemma3-270m\n", path);
        skip();
    }
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 64);
    if (import_run(path, NULL, &options, &report, &err) ||
        engine_new(&other,
                   &(EngineOptions){ .path = report.path,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.chunk_tokens = 16,
                                     .pool = model.pool,
                                     .accounts = &model.accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(draft_pair_new(&pair, model.engine, other, &err), DRAFT_PAIR_E_VOCAB);
    assert_null(pair);
    assert_non_null(strstr(err.text, "' cannot draft for '"));
    assert_non_null(strstr(err.text,
                           "': token 0 is '<|endoftext|>' (control, ends an answer) in the draft, and '<pad>' "
                           "(control) in the target"));
    engine_free(other);
    real_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_draft_pair_padding),
        cmocka_unit_test(test_draft_pair_longer_target),
        cmocka_unit_test(test_draft_pair_longer_answers),
        cmocka_unit_test(test_draft_pair_other_tokens),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
