// SPDX-License-Identifier: Apache-2.0
/* The most probable tokens of rows whose logits nobody wants are those of the logits, for every kernel, format and
 * number of threads, beside a row and a sequence that want logits. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/fork.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/tree_model.h"

enum {
    N_VOCAB = 2 * LINEAR_PIECE + 276, /* the last piece ends within a block of outputs */
    N_FIRST = LINEAR_PIECE + 203,     /* cut inside a piece */
    N_ROWS = 100,
    N_OTHER = 5,
};

typedef struct Taken {
    EngineTops tops[N_ROWS];
    bool has_logits[N_ROWS];
    float logits[N_ROWS][N_VOCAB]; /* threads where there are several */
    float last[N_VOCAB];
    size_t n;
} Taken;

static void take(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    Taken *taken = span->head.arg;

    assert_int_equal(row, taken->n);
    taken->tops[row] = *tops;
    taken->has_logits[row] = logits;
    if (logits)
        memcpy(taken->logits[row], logits, sizeof(taken->logits[row]));
    if (row == N_ROWS - 1)
        memcpy(taken->last, logits, sizeof(taken->last));
    taken->n++;
}

/* Computes N_ROWS rows of one sequence with n_tops_only, in a step with another sequence that wants its last row's
 * logits. */
static void run_among(TreeModel *model, size_t n_tops_only, size_t n_top_outputs, Taken *taken, float other[N_VOCAB]) {
    Sequence *sequences[2] = { tree_model_fork(model, 3), tree_model_fork(model, 70) };
    static float logits[N_VOCAB];
    uint32_t tokens[N_ROWS];
    EngineSpan spans[2] = {
        { .sequence = sequences[1], .tokens = tokens, .n = N_OTHER, .head = { .n_rows = 1, .logits = other } },
        { .sequence = sequences[0],
          .tokens = tokens,
          .n = N_ROWS,
          .head = { .n_rows = N_ROWS,
                    .logits = logits,
                    .take = take,
                    .arg = taken,
                    .wants_tops = true,
                    .n_tops_only = n_tops_only,
                    .n_top_outputs = n_top_outputs } },
    };

    for (uint32_t i = 0; i < N_ROWS; i++)
        tokens[i] = 3 + i * 31 % 30;
    taken->n = 0;
    assert_int_equal(engine_forward_spans(model->engine, spans, 2, NULL), 0);
    assert_int_equal(taken->n, N_ROWS);
    for (size_t i = 0; i < 2; i++)
        sequence_free(sequences[i]);
}

static void run(TreeModel *model, size_t n_tops_only, Taken *taken, float other[N_VOCAB]) {
    run_among(model, n_tops_only, 0, taken, other);
}

/* `with` had the logits of all rows, `without` of the last one. */
static void compare(const Taken *with, const Taken *without, bool expects_pieces, const char *what) {
    for (size_t row = 0; row < N_ROWS; row++) {
        const EngineTops *a = &with->tops[row], *b = &without->tops[row];

        assert_true(with->has_logits[row]);
        assert_int_equal(without->has_logits[row], row == N_ROWS - 1 || !expects_pieces);
        assert_int_equal(a->n, ENGINE_TOPS);
        assert_int_equal(b->n, ENGINE_TOPS);
        for (size_t i = 0; i < ENGINE_TOPS; i++) {
            if (a->tops[i].token != b->tops[i].token)
                fail_msg("%s: row %zu, place %zu: token %u, expected %u", what, row, i, b->tops[i].token,
                         a->tops[i].token);
            assert_true(fabsf(a->tops[i].probability - b->tops[i].probability) <= 1e-5F * a->tops[i].probability);
        }
    }
    assert_memory_equal(with->last, without->last, sizeof(with->last));
}

/* Tokens among the first N_FIRST alone, of rows that want their logits, too: the logits are of all tokens. */
static void check_first_outputs(TreeModel *model, size_t n_tops_only, const Taken *with, const float *other_with) {
    static Taken first;
    static float other[N_VOCAB];
    EngineTops expected;

    run_among(model, n_tops_only, N_FIRST, &first, other);
    assert_memory_equal(other, other_with, sizeof(other));
    assert_memory_equal(first.last, with->last, sizeof(first.last));
    for (size_t row = 0; row < N_ROWS; row++) {
        engine_tops(with->logits[row], N_FIRST, &expected);
        assert_int_equal(first.has_logits[row], row >= n_tops_only);
        assert_int_equal(first.tops[row].n, ENGINE_TOPS);
        for (size_t i = 0; i < ENGINE_TOPS; i++) {
            const ContextTop *a = &expected.tops[i], *b = &first.tops[row].tops[i];

            assert_int_equal(b->token, a->token);
            assert_true(fabsf(a->probability - b->probability) <= 1e-5F * a->probability);
        }
    }
}

static void check_engine(const char *package, Isa isa, unsigned int threads, bool expects_pieces) {
    static Taken with, without;
    static float other_with[N_VOCAB], other_without[N_VOCAB];
    TreeModel model;
    char what[100];

    tree_model_init(&model, package, ENGINE_DEVICE_CPU, isa, threads);
    snprintf(what, sizeof(what), "%s, %u threads", isa_name(isa), threads);
    run(&model, 0, &with, other_with);
    run(&model, N_ROWS - 1, &without, other_without);
    compare(&with, &without, expects_pieces, what);
    assert_memory_equal(other_with, other_without, sizeof(other_with));
    check_first_outputs(&model, N_ROWS - 1, &with, other_with);
    check_first_outputs(&model, 0, &with, other_with);
    tree_model_deinit(&model);
}

static void check_package(ImportFixture *fixture, const char *arch, uint32_t head_bits, bool static_activations) {
    ModelMaker maker = tree_model_maker(arch);
    const char *package;

    maker.n_vocab = N_VOCAB;
    fixture->options.recipe.embedding_bits = head_bits;
    package = import_fixture_package(fixture, &maker, 8, static_activations);
    for (int isa = ISA_SCALAR; isa < _ISA_N; isa++)
        if (patience_takes_isa((Isa)isa))
            check_engine(package, (Isa)isa, 1 + (unsigned int)isa % 3, true);
}

static void test_step_tops_int8(void **state) {
    check_package(*state, "llama", 8, false);
}

static void test_step_tops_packed(void **state) {
    check_package(*state, "llama", 6, false);
    check_package(*state, "llama", 4, false);
}

static void test_step_tops_static(void **state) {
    check_package(*state, "llama", 8, true);
}

/* A model with capped logits. */
static void test_step_tops_capped(void **state) {
    check_package(*state, "gemma2", 8, false);
}

/* A head with a bias behind a norm with a bias. */
static void test_step_tops_biased(void **state) {
    check_package(*state, "phi2", 8, false);
}

/* A device without pieces: the tokens are found in logits. */
static void test_step_tops_whole(void **state) {
    static Taken with, without;
    static float other[N_VOCAB];
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    TreeModel model;
    BackendOps ops;

    maker.n_vocab = N_VOCAB;
    tree_model_init(&model, import_fixture_package(*state, &maker, 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    run(&model, 0, &with, other);
    ops = *model.engine->backend->ops;
    ops.linear_pieces = NULL;
    model.engine->backend->ops = &ops;
    run(&model, N_ROWS - 1, &without, other);
    compare(&with, &without, false, "without pieces");
    tree_model_deinit(&model);
}

/* Memory for a few rows at a time; their number is no multiple of that. */
static void test_step_tops_little_memory(void **state) {
    static Taken with, without;
    static float other[N_VOCAB];
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    const size_t row_bytes = LINEAR_PIECE * sizeof(float);
    const char *package;
    TreeModel model;

    maker.n_vocab = N_VOCAB;
    package = import_fixture_package(*state, &maker, 8, false);
    tree_model_init(&model, package, ENGINE_DEVICE_CPU, ISA_BEST, 2);
    run(&model, 0, &with, other);
    tree_model_deinit(&model);
    tree_model_init(&model, package, ENGINE_DEVICE_CPU, ISA_BEST, 2);
    model.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] =
        model.accounts.used_bytes[ACCOUNT_ACTIVATIONS] + 2 * 20 * row_bytes;
    run(&model, N_ROWS - 1, &without, other);
    compare(&with, &without, true, "little memory");
    assert_true(model.engine->steps->head_rows.len_bytes < 2 * 20 * row_bytes);
    tree_model_deinit(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_step_tops_int8),          WITH_FOLDER(test_step_tops_packed),
        WITH_FOLDER(test_step_tops_static),        WITH_FOLDER(test_step_tops_whole),
        WITH_FOLDER(test_step_tops_little_memory), WITH_FOLDER(test_step_tops_capped),
        WITH_FOLDER(test_step_tops_biased),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
