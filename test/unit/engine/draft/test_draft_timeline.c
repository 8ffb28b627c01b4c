// SPDX-License-Identifier: Apache-2.0
/* A draft model beside a generation: its likely tokens are its engine's, row by row, and nothing of the text or of a
 * tree is computed twice. Memory, context and cancelling; a pair whose tokens differ. On small models, and on real
 * ones. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/draft/draft_timeline.h"
#include "engine/step/step_state.h"
#include "importer/importer.h"
#include "test/unit/fixtures/drafted_run.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/policies.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "test/unit/spec/draft_walk.h"
#include "test/unit/text/tokenizer/tokenizer_golden.h"

enum {
    CHUNK = 32,
    TEXT = 300,
    CAPACITY = 400,
};

static TinyEngine tiny;

/* --- rows that are computed --------------------------------------------------------------------------------------- */

static BackendOps counting_ops;
static const BackendOps *real_ops;
static size_t n_computed;   /* rows computed */
static size_t cancel_after; /* product that fails or cancels; 0: never */
static _Atomic bool cancelled;
static bool cancelled_in_head; /* the last operator */

static void count_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                        float factor, float *y) {
    n_computed += rows;
    real_ops->embed(backend, embedding, tokens, rows, factor, y);
}

static int cancel_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                         size_t rows, const LinearOutput *out, ErrText *err) {
    if (cancel_after && !--cancel_after) {
        cancelled = true;
        cancelled_in_head = linears[0] == weights_head(tiny.engine->weights);
    }
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

static void count_begin(Engine *engine) {
    if (engine->backend->ops != &counting_ops) /* an earlier test has failed */
        real_ops = engine->backend->ops;
    counting_ops = *real_ops;
    counting_ops.embed = count_embed;
    counting_ops.linear = cancel_linear;
    engine->backend->ops = &counting_ops;
    n_computed = cancel_after = 0;
    cancelled = false;
}

static void count_end(Engine *engine) {
    engine->backend->ops = real_ops;
}

static void check_computed(size_t n) {
    assert_int_equal(n_computed, n);
    n_computed = 0;
}

/* --- what the engine says by itself ------------------------------------------------------------------------------- */

static void take(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    *(EngineTops *)span->arg = *tops;
}

/* Computes the tokens behind the text and a way, one by one, on a sequence that is then as before. */
static EngineTops plain_tops(Engine *engine, Sequence *sequence, const uint32_t *way, size_t n) {
    const size_t before = sequence_n_tokens(sequence);
    float *logits = malloc(engine_info(engine)->n_vocab * sizeof(*logits));
    EngineTops tops;

    assert_non_null(logits);
    for (size_t i = 0; i < n; i++) {
        EngineSpan span = { .sequence = sequence,
                            .tokens = &way[i],
                            .n = 1,
                            .n_logit_rows = 1,
                            .logits = logits,
                            .take = take,
                            .arg = &tops,
                            .wants_tops = true };

        assert_int_equal(engine_forward_spans(engine, &span, 1, NULL), 0);
    }
    sequence_rewind(sequence, before);
    free(logits);
    return tops;
}

/* A model with a text and a tree of it, and a plain sequence beside them. */
typedef struct Draft {
    Engine *engine;
    DraftPair *pair;
    Sequence *plain;
    DraftWalk walk;
} Draft;

static void draft_init(Draft *draft, Engine *engine, size_t capacity) {
    ErrText err = { 0 };

    *draft = (Draft){ .engine = engine };
    if (draft_pair_new(&draft->pair, engine, engine, &err) ||
        draft_timeline_new(&draft->walk.model, draft->pair, capacity, &err) ||
        sequence_new(&draft->plain, engine, CAPACITY, &err))
        fail_msg("%s", err.text);
}

static void draft_deinit(Draft *draft) {
    draft_timeline_free(&draft->walk.model);
    assert_null(draft->walk.model.ops);
    draft_timeline_free(&draft->walk.model); /* the draft may have none */
    sequence_free(draft->plain);
    draft_pair_free(draft->pair);
}

/* Checks that all rows have the likely tokens of plain decoding of the way to them. */
static void check_tops(Draft *draft) {
    const size_t chunk = engine_chunk_tokens(draft->engine);

    sequence_rewind(draft->plain, 0);
    for (size_t at = 0, n; at + 1 < draft->walk.n_text; at += n) {
        n = MIN(draft->walk.n_text - 1 - at, chunk);
        assert_int_equal(engine_forward(draft->engine, draft->plain, draft->walk.text + at, n, 0, NULL, NULL), 0);
    }
    for (size_t row = 0; row < draft->walk.n_rows; row++) {
        uint32_t way[WALK_ROWS_MAX];
        const size_t n = walk_way(&draft->walk, row, way);
        EngineTops tops;

        tops = plain_tops(draft->engine, draft->plain, way, n);
        assert_int_equal(draft->walk.tops[row].n, tops.n);
        for (uint32_t i = 0; i < tops.n; i++) {
            assert_int_equal(draft->walk.tops[row].tops[i].token, tops.tops[i].token);
            assert_true(draft->walk.tops[row].tops[i].probability == tops.tops[i].probability);
        }
    }
}

static void fill_text(Draft *draft, size_t n, uint64_t seed) {
    for (draft->walk.n_text = 0; draft->walk.n_text < n; draft->walk.n_text++)
        draft->walk.text[draft->walk.n_text] = (uint32_t)(test_random(&seed) % engine_info(draft->engine)->n_vocab);
}

/* Returns a token that no row behind this one has. */
static uint32_t token_behind(const Draft *draft, int row) {
    uint32_t token = 0;

    for (size_t i = 0; i < draft->walk.n_rows; i++)
        if (draft->walk.rows[i].parent == row && draft->walk.rows[i].token == token) {
            token++;
            i = 0; /* row 0 has no parent */
        }
    return token;
}

/* --- one generation ----------------------------------------------------------------------------------------------- */

/* A generation's calls: long texts, in chunks; ways of a tree that the text takes, as far as the tree has them; texts
 * that leave the tree, go back, and on from there. */
static void check_generation(Engine *engine) {
    uint64_t random = 3;
    Draft draft;

    draft_init(&draft, engine, CAPACITY);
    fill_text(&draft, TEXT, 1);
    count_begin(engine);
    assert_int_equal(walk_follow(&draft.walk), 0);
    check_computed(TEXT - 1);
    walk_grow(&draft.walk, 5, 4);
    check_computed(draft.walk.n_rows);
    check_tops(&draft);
    for (size_t round = 0; round < 6; round++) {
        size_t n_way = 0, n_before = draft.walk.n_text;
        int row = 0;

        /* down to a random row, then a token that it has not */
        for (size_t i = 0; i < draft.walk.n_rows; i++)
            if (draft.walk.rows[i].parent == row && test_random(&random) % 3) {
                row = (int)i;
                draft.walk.text[draft.walk.n_text++] = draft.walk.rows[i].token;
                n_way++;
            }
        draft.walk.text[draft.walk.n_text++] = token_behind(&draft, row);
        n_computed = 0;
        assert_int_equal(walk_follow(&draft.walk), 0);
        check_computed(0); /* the root and n_way rows are computed */
        assert_int_equal(draft.walk.n_text, n_before + n_way + 1);
        assert_int_equal(walk_follow(&draft.walk), 0); /* the same text again */
        walk_grow(&draft.walk, 1 + round, 3);
        check_computed(draft.walk.n_rows);
        check_tops(&draft);
    }
    n_computed = 0;
    draft.walk.n_text -= 10; /* rewound, and the tree is gone */
    assert_int_equal(walk_follow(&draft.walk), 0);
    check_computed(0);
    walk_grow(&draft.walk, 3, 2);
    check_computed(draft.walk.n_rows);
    check_tops(&draft);
    draft.walk.text[100] ^= 1; /* another text from there on */
    n_computed = 0;
    assert_int_equal(walk_follow(&draft.walk), 0);
    check_computed(draft.walk.n_text - 1 - 100);
    walk_grow(&draft.walk, 3, 2);
    n_computed = 0;
    draft.walk.text[draft.walk.n_text] = draft.walk.text[draft.walk.n_text + 1] =
        draft.walk.text[draft.walk.n_text + 2] = 1;
    draft.walk.n_text += 3; /* past the tree: at least its root is computed */
    {
        size_t in_tree = 1;
        int at = 0;

        for (size_t i = 1; i < draft.walk.n_rows && in_tree < 3; i++)
            if (draft.walk.rows[i].parent == at && draft.walk.rows[i].token == 1) {
                at = (int)i;
                in_tree++;
            }
        assert_int_equal(walk_follow(&draft.walk), 0);
        check_computed(3 - in_tree);
    }
    walk_grow(&draft.walk, 3, 2);
    check_tops(&draft);
    draft.walk.n_text = 1; /* a tree of the root alone */
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 20, 3);
    check_tops(&draft);
    count_end(engine);
    draft_deinit(&draft);
}

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

static void test_draft_timeline_generation(void **state) {
    check_generation(tiny.engine);
}

/* A pass of more rows than a step has. */
static void test_draft_timeline_small_chunk(void **state) {
    Draft draft;

    assert_int_equal(engine_set_chunk_tokens(tiny.engine, 5, NULL), 0);
    draft_init(&draft, tiny.engine, CAPACITY);
    fill_text(&draft, 50, 1);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 17, 3);
    assert_int_equal(draft.walk.n_rows, 1 + 3 + 9 + 17);
    check_tops(&draft);
    draft_deinit(&draft);
    assert_int_equal(engine_set_chunk_tokens(tiny.engine, CHUNK, NULL), 0);
}

/* While steps that have made way hold all of the engine's memory for steps, the draft cannot compute; afterwards it
 * goes on. */
static void test_draft_timeline_busy(void **state) {
    static const uint32_t token = 1;
    Sequence *other;
    Draft draft;

    draft_init(&draft, tiny.engine, CAPACITY);
    assert_int_equal(sequence_new(&other, tiny.engine, CAPACITY, NULL), 0);
    fill_text(&draft, 50, 1);
    for (size_t n_grown = 0; n_grown < 2; n_grown++) {
        EngineSpan span = { .sequence = other, .tokens = &token, .n = 1 };
        EngineStep *steps[ENGINE_STEPS_MAX];
        size_t n = 0;

        if (n_grown)
            walk_grow(&draft.walk, 2, 2);
        while (!engine_step_begin(&steps[n], tiny.engine, &span, 1, NULL))
            n++;
        assert_true(n >= 1);
        walk_add(&draft.walk, draft.walk.n_rows, n_grown ? 0 : -1, draft.walk.text[49]);
        assert_int_equal(n_grown ? walk_expand(&draft.walk, 1) : walk_follow(&draft.walk), -EBUSY);
        while (n)
            engine_step_drop(steps[--n]);
        assert_int_equal(walk_follow(&draft.walk), 0);
    }
    walk_grow(&draft.walk, 5, 3);
    check_tops(&draft);
    sequence_free(other);
    draft_deinit(&draft);
}

/* As many rows as allowed, then one more; invalid rows. */
static void test_draft_timeline_rows(void **state) {
    for (size_t what = 0; what < 3; what++) {
        Draft draft;

        draft_init(&draft, tiny.engine, CAPACITY);
        fill_text(&draft, 20, 1);
        assert_int_equal(walk_follow(&draft.walk), 0);
        walk_add(&draft.walk, 0, -1, draft.walk.text[19]);
        for (size_t i = 1; i < WALK_ROWS_MAX; i++)
            walk_add(&draft.walk, i, (int)(i - 1) / 2, (uint32_t)(i % 2));
        assert_int_equal(walk_expand(&draft.walk, CHUNK), 0);
        assert_int_equal(draft.walk.model.ops->rows_max, WALK_ROWS_MAX);
        if (!what) {
            assert_int_equal(walk_expand(&draft.walk, WALK_ROWS_MAX - CHUNK), 0);
            check_tops(&draft);
            assert_int_equal(walk_expand(&draft.walk, 1), -EINVAL);
        } else {
            if (what == 1)
                draft.walk.rows[CHUNK].parent = CHUNK;
            assert_int_equal(walk_expand(&draft.walk, what == 2 ? 0 : 1), -EINVAL);
        }
        assert_int_equal(walk_follow(&draft.walk), -EINVAL); /* the model is off from now on */
        assert_int_equal(walk_expand(&draft.walk, 1), -EINVAL);
        draft_deinit(&draft);
    }
}

/* A draft whose embedding has rows without tokens proposes none of them. */
static void test_draft_timeline_padding(void **state) {
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
        all = plain_tops(engine, plain, &token, 1);
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

/* --- a target with tokens of its own ------------------------------------------------------------------------------ */

enum {
    LONGER = 8, /* tokens that the draft has not */
};

/* Returns the token as the draft reads it. */
static uint32_t read_as(uint32_t token) {
    return token < TINY_VOCAB ? token : 0;
}

/* The draft reads another token in place of one that it does not have: nothing is proposed behind that token. Behind
 * the next one the draft proposes its likely tokens for the text that it read. */
static void test_draft_timeline_longer_target(void **state) {
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
    count_begin(tiny.engine);
    assert_int_equal(model.ops->follow(model.self, text, ARRAY_LEN(text)), 0);
    check_computed(ARRAY_LEN(text) - 1);
    assert_int_equal(model.ops->expand(model.self, rows, ARRAY_LEN(rows), tops), 0);
    assert_int_equal(tops[0].n, 0);
    assert_int_equal(tops[2].n, 0);
    count_end(tiny.engine);
    for (size_t row = 1; row < ARRAY_LEN(rows); row += 2) {
        expected = plain_tops(tiny.engine, plain, row == 1 ? way + 1 : way, row == 1 ? 2 : 3);
        assert_true(expected.n && tops[row].n == expected.n);
        assert_int_equal(tops[row].tops[0].token, expected.tops[0].token);
        assert_true(tops[row].tops[0].probability == expected.tops[0].probability);
    }
    /* The text takes a way of the tree through the target's other token: nothing is computed again. */
    count_begin(tiny.engine);
    {
        uint32_t further[] = { 5, TINY_VOCAB + 3, 7, 9, TINY_VOCAB, TINY_VOCAB + 1, 11, 12 };

        assert_int_equal(model.ops->follow(model.self, further, ARRAY_LEN(further)), 0);
        check_computed(0);
        further[4] = TINY_VOCAB + 2; /* the draft reads it alike, but it is another text */
        assert_int_equal(model.ops->follow(model.self, further, ARRAY_LEN(further)), 0);
        check_computed(3);
    }
    count_end(tiny.engine);
    sequence_free(plain);
    draft_timeline_free(&model);
    draft_pair_free(pair);
    /* The other way round the draft has more tokens, and proposes none of those (test_draft_timeline_padding). */
    assert_int_equal(draft_pair_new(&pair, longer.engine, tiny.engine, &err), 0);
    assert_int_equal(pair->n_tokens, TINY_VOCAB);
    draft_pair_free(pair);
    tiny_engine_close(&longer);
}

/* Answers of such a target are those without drafts, token for token and logit for logit. */
static void test_draft_timeline_longer_answers(void **state) {
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

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void test_draft_timeline_memory(void **state) {
    AccountTable *accounts = engine_accounts(tiny.engine);
    DraftPair *pair;
    DraftModel model = { 0 };
    ErrText err = { 0 };
    Draft draft;

    for (int id = 0; id < _ACCOUNT_N; id++) { /* all of its memory is on its account */
        const bool is_needed = id == ACCOUNT_KV || id == ACCOUNT_ACTIVATIONS;

        assert_int_equal(draft_pair_new(&pair, tiny.engine, tiny.engine, &err), 0);
        accounts->limit_bytes[id] = accounts->used_bytes[id];
        assert_int_equal(draft_timeline_new(&model, pair, CAPACITY, &err), is_needed ? DRAFT_PAIR_E_MEMORY : 0);
        draft_timeline_free(&model);
        draft_pair_free(pair);
        accounts->limit_bytes[id] = accounts->used_bytes[id];
        assert_int_equal(draft_pair_new(&pair, tiny.engine, tiny.engine, &err),
                         id == ACCOUNT_ACTIVATIONS ? DRAFT_PAIR_E_MEMORY : 0);
        if (id != ACCOUNT_ACTIVATIONS)
            draft_pair_free(pair);
        accounts->limit_bytes[id] = UINT64_MAX;
    }
    assert_int_equal(draft_pair_new(&pair, tiny.engine, tiny.engine, &err), 0);
    assert_int_equal(draft_timeline_new(&model, pair, 0, &err), -EINVAL);
    assert_null(model.ops);
    draft_pair_free(pair);
    /* Memory of a tree beside the text: without it the model is off, and gives its memory back. */
    draft_init(&draft, tiny.engine, CAPACITY);
    fill_text(&draft, 20, 1);
    assert_int_equal(walk_follow(&draft.walk), 0);
    accounts->limit_bytes[ACCOUNT_KV] = accounts->used_bytes[ACCOUNT_KV];
    walk_add(&draft.walk, 0, -1, draft.walk.text[19]);
    assert_int_equal(walk_expand(&draft.walk, 1), DRAFTER_E_MEMORY);
    accounts->limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    assert_int_equal(walk_follow(&draft.walk), DRAFTER_E_MEMORY);
    assert_int_equal(walk_expand(&draft.walk, 1), DRAFTER_E_MEMORY);
    assert_int_equal(accounts->used_bytes[ACCOUNT_KV],
                     engine_kv_bytes(tiny.engine, CAPACITY)); /* pages of the plain sequence */
    draft_deinit(&draft);
}

static void test_draft_timeline_context(void **state) {
    Draft draft;

    draft_init(&draft, tiny.engine, 100);
    fill_text(&draft, 99, 1);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 1);
    check_tops(&draft);
    walk_add(&draft.walk, draft.walk.n_rows, (int)draft.walk.n_rows - 1, 1); /* behind the capacity */
    assert_int_equal(walk_expand(&draft.walk, 1), DRAFTER_E_MEMORY);
    assert_int_equal(walk_follow(&draft.walk), DRAFTER_E_MEMORY);
    draft_deinit(&draft);
    draft_init(&draft, tiny.engine, 100);
    fill_text(&draft, 100, 1);
    assert_int_equal(walk_follow(&draft.walk), 0);
    walk_grow(&draft.walk, 2, 0);
    check_tops(&draft);
    draft.walk.text[draft.walk.n_text++] = 1;
    assert_int_equal(walk_follow(&draft.walk), DRAFTER_E_MEMORY);
    draft_deinit(&draft);
    draft_init(&draft, tiny.engine, 2 * TINY_CONTEXT); /* as many positions as the model has */
    fill_text(&draft, 300, 1);
    assert_int_equal(walk_follow(&draft.walk), 0);
    draft_deinit(&draft);
}

/* A cancel before every product of a follow and of a pass: computed rows stay, and the call can be repeated. */
static void test_draft_timeline_cancel(void **state) {
    const size_t step = patience_is_short() ? 4 : 1;
    size_t n_cancelled = 0;
    Draft draft;

    for (size_t after = 1; after < 60; after += step) {
        int r;

        draft_init(&draft, tiny.engine, CAPACITY);
        draft_timeline_set_cancel(&draft.walk.model, &cancelled);
        fill_text(&draft, 3 * CHUNK + 5, after);
        count_begin(tiny.engine);
        cancel_after = after;
        r = walk_follow(&draft.walk);
        assert_int_equal(r, cancelled ? -ECANCELED : 0);
        n_cancelled += r != 0;
        cancelled = false;
        cancel_after = 0;
        assert_int_equal(walk_follow(&draft.walk), 0);
        walk_grow(&draft.walk, 3, 2);
        cancel_after = after;
        walk_add(&draft.walk, draft.walk.n_rows, 2, 5);
        r = walk_expand(&draft.walk, 1);
        assert_true(r ? r == -ECANCELED && cancelled : !cancelled || cancelled_in_head);
        cancelled = false;
        if (r) {
            n_cancelled++;
            assert_int_equal(walk_expand(&draft.walk, 1), 0);
        }
        cancel_after = 0;
        count_end(tiny.engine);
        check_tops(&draft);
        draft_deinit(&draft);
    }
    assert_true(n_cancelled > 30 / step);
}

/* Passes are timed by their rows, and the pair's next generation has the times; follow() is not timed. */
static void test_draft_timeline_cost(void **state) {
    Draft draft;
    DraftModel next;

    draft_init(&draft, tiny.engine, CAPACITY);
    fill_text(&draft, 100, 1);
    assert_int_equal(walk_follow(&draft.walk), 0);
    assert_true(draft.walk.model.ops->cost_ms(draft.walk.model.self, 1) == 0);
    walk_grow(&draft.walk, 5, 4);
    for (uint32_t rows = 1; rows < WALK_ROWS_MAX; rows++) {
        const float ms = draft.walk.model.ops->cost_ms(draft.walk.model.self, rows);

        assert_true(ms > 0 && ms <= draft.walk.model.ops->cost_ms(draft.walk.model.self, rows + 1) * 1.00001F);
    }
    assert_int_equal(draft.pair->times.n_seen[0], 1);
    assert_int_equal(draft.pair->times.n_steps, 5);
    assert_in_range(draft.pair->times.n_seen[4], 2, 3); /* a first pass that waited for weights does not count */
    assert_int_equal(draft_timeline_new(&next, draft.pair, 10, NULL), 0);
    assert_true(next.ops->cost_ms(next.self, 7) == draft.walk.model.ops->cost_ms(draft.walk.model.self, 7));
    draft_timeline_free(&next);
    draft_deinit(&draft);
}

/* --- real models -------------------------------------------------------------------------------------------------- */

static void test_draft_timeline_real_model(void **state) {
    RealModel model;

    if (patience_is_short())
        skip();
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 64);
    check_generation(model.engine);
    real_model_close(&model);
}

/* A model with other tokens cannot draft. */
static void test_draft_timeline_other_tokens(void **state) {
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
        cmocka_unit_test(test_draft_timeline_generation),
        cmocka_unit_test(test_draft_timeline_small_chunk),
        cmocka_unit_test(test_draft_timeline_busy),
        cmocka_unit_test(test_draft_timeline_rows),
        WITH_FOLDER(test_draft_timeline_padding),
        cmocka_unit_test(test_draft_timeline_longer_target),
        cmocka_unit_test(test_draft_timeline_longer_answers),
        cmocka_unit_test(test_draft_timeline_memory),
        cmocka_unit_test(test_draft_timeline_context),
        cmocka_unit_test(test_draft_timeline_cancel),
        cmocka_unit_test(test_draft_timeline_cost),
        cmocka_unit_test(test_draft_timeline_real_model),
        cmocka_unit_test(test_draft_timeline_other_tokens),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
