// SPDX-License-Identifier: Apache-2.0
/* Logits of rows along one way have the bytes that they have among those of all rows, in as many passes of the head as
 * the longest way has rows; spans of a step share the passes. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/engine_state.h"
#include "engine/step/step_parts.h"
#include "test/unit/fixtures/tree_model.h"

enum {
    SPANS = 6,
};

static const size_t befores[SPANS] = { 0, 17, 63, 64, 129, 255 };

static BackendOps counting_ops;
static const BackendOps *real_ops;
static const BackendLinear *head;
static size_t n_calls, call_rows[ENGINE_TREE_ROWS_MAX];

static int count_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                        size_t rows, const LinearOutput *out, ErrText *err) {
    if (linears[0] == head) {
        assert_true(n_calls < ARRAY_LEN(call_rows));
        call_rows[n_calls++] = rows;
    }
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

static void count_begin(Engine *engine) {
    real_ops = engine->backend->ops;
    counting_ops = *real_ops;
    counting_ops.linear = count_linear;
    engine->backend->ops = &counting_ops;
    head = weights_head(engine->weights);
    n_calls = 0;
}

typedef struct Trees {
    TreeModel model;
    TreeCase trees[SPANS];
    Sequence *sequences[SPANS], *plain[SPANS];
    size_t n_taken[SPANS]; /* rows of the path that got logits */
    bool wants_tops[SPANS];
} Trees;

static void trees_init(Trees *trees, const char *package, unsigned int threads) {
    tree_model_init(&trees->model, package, ENGINE_DEVICE_CPU, ISA_BEST, threads);
    for (size_t i = 0; i < SPANS; i++) {
        tree_case_init(&trees->trees[i], trees->model.engine);
        trees->sequences[i] = tree_model_fork(&trees->model, befores[i]);
        trees->plain[i] = tree_model_fork(&trees->model, befores[i]);
        trees->wants_tops[i] = false;
    }
}

static void trees_deinit(Trees *trees) {
    for (size_t i = 0; i < SPANS; i++) {
        tree_case_deinit(&trees->trees[i]);
        sequence_free(trees->sequences[i]);
        sequence_free(trees->plain[i]);
    }
    tree_model_deinit(&trees->model);
}

static void trees_fill(Trees *trees, uint64_t *random, size_t rows) {
    for (size_t i = 0; i < SPANS; i++) {
        tree_case_fill(&trees->trees[i], random, (TreeShape)(i % _TREE_SHAPE_N), 1 + test_random(random) % rows);
        tree_case_decode(&trees->trees[i], trees->plain[i]);
        trees->n_taken[i] = 0;
    }
}

static void take(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    Trees *trees = span->head.arg;
    size_t i = 0, at;
    const TreeCase *tree;

    while (trees->sequences[i] != span->sequence)
        i++;
    tree = &trees->trees[i];
    at = trees->n_taken[i]++;
    assert_true(at < tree->n_path);
    assert_int_equal(row, tree->path[at]);
    assert_int_equal(span->head.next_row, ENGINE_NO_ROW);
    assert_memory_equal(logits, tree->plain + row * engine_info(tree->engine)->n_vocab,
                        engine_info(tree->engine)->n_vocab * sizeof(*logits));
    assert_int_equal(tops != NULL, trees->wants_tops[i]);
    if (tops)
        assert_int_equal(tops->n, ENGINE_TOPS);
    if (at + 1 < tree->n_path)
        span->head.next_row = tree->path[at + 1];
    span->kept = tree->path;
    span->n_kept = at + 1;
}

static EngineSpan span_of(Trees *trees, size_t i) {
    EngineSpan span = tree_case_span(&trees->trees[i], trees->sequences[i]);

    span.head.take = take;
    span.head.arg = trees;
    span.head.on_demand = true;
    span.head.wants_tops = trees->wants_tops[i];
    return span;
}

static void check_behind(const Trees *trees, size_t i) {
    assert_int_equal(trees->n_taken[i], trees->trees[i].n_path);
    tree_case_go_on(&trees->trees[i], trees->sequences[i], trees->plain[i], 9, TREE_MODEL_BEHIND);
}

static void test_head_on_demand_alone(void **state) {
    static const char *const archs[] = { "llama", "gemma3", "gemma2" };
    uint64_t random = 3;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        static Trees trees;

        trees_init(&trees, tree_model_package(*state, archs[a], 8, false), 1 + (unsigned int)a);
        for (size_t round = 0; round < 4; round++) {
            trees_fill(&trees, &random, ENGINE_TREE_ROWS_MAX);
            for (size_t i = 0; i < SPANS; i++) {
                EngineSpan span = span_of(&trees, i);

                count_begin(trees.model.engine);
                assert_int_equal(engine_forward_spans(trees.model.engine, &span, 1, NULL), 0);
                trees.model.engine->backend->ops = real_ops;
                assert_int_equal(n_calls, trees.trees[i].n_path);
                for (size_t call = 0; call < n_calls; call++)
                    assert_int_equal(call_rows[call], 1);
                check_behind(&trees, i);
            }
        }
        trees_deinit(&trees);
    }
}

/* Rows at one depth share a pass, with and without memory for a block of them; the first pass has all rows of spans
 * that want all. */
static void test_head_on_demand_together(void **state) {
    uint64_t random = 4;

    for (int has_room = 0; has_room < 2; has_room++) {
        static Trees trees;
        size_t n_later = 0;

        trees_init(&trees, tree_model_package(*state, "llama", 8, false), 2);
        if (!has_room)
            trees.model.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] =
                trees.model.accounts.used_bytes[ACCOUNT_ACTIVATIONS];
        for (size_t round = 0; round < 12; round++) {
            EngineSpan spans[SPANS];
            size_t eager = round % 3 ? SPANS : 2, rows[ENGINE_TREE_ROWS_MAX] = { 0 }, n_depths = 0;

            trees_fill(&trees, &random, TREE_MODEL_CHUNK / SPANS);
            for (size_t i = 0; i < SPANS; i++) {
                const TreeCase *tree = &trees.trees[i];

                trees.wants_tops[i] = i % 2;
                spans[i] = i == eager ? tree_case_span(&trees.trees[i], trees.sequences[i]) : span_of(&trees, i);
                rows[0] += i == eager ? tree->n : 1;
                for (size_t depth = 1; i != eager && depth < tree->n_path; depth++)
                    rows[depth]++;
            }
            while (rows[n_depths])
                n_later += n_depths++ > 0;
            count_begin(trees.model.engine);
            assert_int_equal(engine_forward_spans(trees.model.engine, spans, SPANS, NULL), 0);
            trees.model.engine->backend->ops = real_ops;
            if (has_room) {
                assert_int_equal(n_calls, n_depths);
                assert_memory_equal(call_rows, rows, n_calls * sizeof(*rows));
            }
            for (size_t i = 0; i < SPANS; i++)
                if (i == eager) {
                    tree_case_compare(&trees.trees[i], "beside on-demand ones");
                    tree_case_go_on(&trees.trees[i], trees.sequences[i], trees.plain[i], 9, TREE_MODEL_BEHIND);
                } else
                    check_behind(&trees, i);
        }
        assert_true(n_later > 12);
        trees_deinit(&trees);
    }
}

/* If rows were dropped between layers, the way ends with the last row that is left. */
static void test_head_on_demand_rows_gone(void **state) {
    static const uint16_t left[] = { 0, 1, 2 };
    uint64_t random = 5;
    static Trees trees;
    TreeCase *tree = &trees.trees[1];
    EngineStep *step;
    EngineSpan span;

    trees_init(&trees, tree_model_package(*state, "llama", 8, false), 1);
    trees_fill(&trees, &random, 4);
    tree_case_fill(tree, &random, TREE_CHAIN, 12);
    tree_case_choose(tree, 11);
    tree_case_decode(tree, trees.plain[1]);
    span = span_of(&trees, 1);
    assert_int_equal(engine_step_begin(&step, trees.model.engine, &span, 1, NULL), 0);
    assert_int_equal(engine_step_layers(step, 1, NULL, NULL), 0);
    assert_int_equal(engine_step_keep(step, 0, left, 3), 0);
    assert_int_equal(engine_step_run(step, NULL, NULL), 0);
    assert_int_equal(trees.n_taken[1], 3);
    tree->n_path = 3;
    tree_case_go_on(tree, trees.sequences[1], trees.plain[1], 9, TREE_MODEL_BEHIND);
    span = span_of(&trees, 1);
    span.head.take = NULL;
    assert_int_equal(engine_forward_spans(trees.model.engine, &span, 1, NULL), -EINVAL); /* nobody could tell which */
    trees_deinit(&trees);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_head_on_demand_alone),
        WITH_FOLDER(test_head_on_demand_together),
        WITH_FOLDER(test_head_on_demand_rows_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
