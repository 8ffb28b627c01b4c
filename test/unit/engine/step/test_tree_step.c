// SPDX-License-Identifier: Apache-2.0
/* Token trees in steps of their own: whatever their shape and position, every row has the logits of plain decoding of
 * the way to it, to the byte. The kept path leaves the sequence as plain decoding does. On small models, with every
 * instruction set of the machine. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/core/engine_state.h"
#include "test/unit/fixtures/fork.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/tree_model.h"

enum {
    ROWS_MAX = ENGINE_TREE_ROWS_MAX,
};

/* Positions around the borders of tiles, blocks and pages. */
static const size_t befores[] = { 0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257 };

/* Trees of all shapes and sizes at every `each`th position, with one sequence for all trees of a position. */
static void check_model(TreeModel *model, const char *what, size_t each, uint64_t *random) {
    TreeCase tree;

    tree_case_init(&tree, model->engine);
    for (size_t b = test_random(random) % each; b < ARRAY_LEN(befores); b += each) {
        Sequence *sequence = tree_model_fork(model, befores[b]), *plain = tree_model_fork(model, befores[b]);

        for (TreeShape shape = 0; shape < _TREE_SHAPE_N; shape++) {
            char which[200];

            tree_case_fill(&tree, random, shape,
                           shape == TREE_TWO_WAYS ? ROWS_MAX : 2 + test_random(random) % (ROWS_MAX - 1));
            if (shape == TREE_TWO_WAYS) /* the deepest tree, through a page and into the next */
                tree_case_choose(&tree, ROWS_MAX - 1);
            snprintf(which, sizeof(which), "%s, %zu positions before, shape %d", what, befores[b], (int)shape);
            tree_case_check_alone(&tree, sequence, plain, which);
        }
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
}

static void test_tree_step_bits(void **state) {
    static const struct {
        const char *arch;
        double bits;
        bool static_activations;
    } models[] = { { "llama", 8, false },  { "gemma3", 8, false }, { "qwen2", 4.5, false },
                   { "gemma2", 8, false }, { "phi2", 8, true },    { "llama", 8, true } };
    uint64_t random = 20261125;

    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        const char *package = tree_model_package(*state, models[i].arch, models[i].bits, models[i].static_activations);
        TreeModel model;

        for (int isa = ISA_SCALAR; isa < _ISA_N; isa++)
            for (unsigned int threads = 1; threads <= 2 && patience_takes_isa((Isa)isa); threads++) {
                char what[100];

                snprintf(what, sizeof(what), "%s, %s, %u threads", models[i].arch, isa_name((Isa)isa), threads);
                tree_model_init(&model, package, ENGINE_DEVICE_CPU, (Isa)isa, threads);
                check_model(&model, what, 3, &random);
                tree_model_deinit(&model);
            }
        tree_model_init(&model, package, ENGINE_DEVICE_CPU, ISA_BEST, 2);
        check_model(&model, models[i].arch, 1, &random);
        tree_model_deinit(&model);
    }
}

static void test_tree_step_reference(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 20261126;

    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        const ModelMaker maker = tree_model_maker(archs[i]);
        TreeModel model;

        import_fixture_source(*state, &maker);
        tree_model_init(&model, ((ImportFixture *)*state)->source, ENGINE_DEVICE_REFERENCE, ISA_BEST, 2);
        check_model(&model, archs[i], 1, &random);
        tree_model_deinit(&model);
    }
}

/* Without take() the logits of the last rows are left in the span, and the leading chain is kept. */
static void test_tree_step_without_take(void **state) {
    uint64_t random = 3;
    TreeModel model;
    TreeCase tree;

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    for (TreeShape shape = 0; shape < _TREE_SHAPE_N; shape++) {
        Sequence *sequence = tree_model_fork(&model, 61), *plain = tree_model_fork(&model, 61);
        const size_t n_logits = 7, n_vocab = engine_info(model.engine)->n_vocab;
        size_t n_leading = 1;
        EngineSpan span;

        tree_case_fill(&tree, &random, shape, 20);
        while (n_leading < tree.n && tree.parents[n_leading] == (int)n_leading - 1)
            n_leading++;
        tree_case_choose(&tree, n_leading - 1);
        tree_case_decode(&tree, plain);
        span = (EngineSpan){ .sequence = sequence,
                             .tokens = tree.tokens,
                             .parents = tree.parents,
                             .n = tree.n,
                             .head = { .n_rows = n_logits, .logits = tree.logits } };
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        assert_int_equal(span.n_kept, n_leading);
        assert_memory_equal(tree.logits, tree.plain + (tree.n - n_logits) * n_vocab,
                            n_logits * n_vocab * sizeof(float));
        tree_case_go_on(&tree, sequence, plain, 7, TREE_MODEL_BEHIND);
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

static void test_tree_step_refuses(void **state) {
    static const int16_t bad[][4] = { { 0, 0, 0, 0 },  { -1, 1, 0, 0 }, { -1, -1, 0, 0 },
                                      { -1, 0, 3, 0 }, { -1, 0, 0, 4 }, { -2, 0, 0, 0 } };
    static const uint32_t tokens[ROWS_MAX + 1];
    static int16_t parents[ROWS_MAX + 1];
    TreeModel model;
    Sequence *sequence;
    EngineSpan span = { .tokens = tokens };

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
    assert_int_equal(fork_sequence(&sequence, model.base, 100, 103, NULL), 0);
    span.sequence = sequence;
    span.n = 4;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        span.parents = bad[i];
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), -EINVAL);
    }
    parents[0] = -1;
    span.parents = parents;
    span.n = ROWS_MAX + 1;
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), -EINVAL);
    span.n = ROWS_MAX; /* a star: wider than the room of the sequence */
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
    assert_int_equal(sequence_n_tokens(sequence), 102); /* two rows are a chain */
    sequence_rewind(sequence, 100);
    parents[9] = 8;
    parents[20] = 9; /* the last position */
    parents[8] = 7;  /* one too many */
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), ENGINE_E_CONTEXT);
    parents[8] = 0;
    parents[9] = 8;
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), ENGINE_E_CONTEXT);
    parents[20] = 8;
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
    sequence_free(sequence);
    tree_model_deinit(&model);
}

/* A tree needs memory beside the sequence's pages; a chain does not. */
static void test_tree_step_memory(void **state) {
    uint64_t random = 4;
    TreeModel model;
    TreeCase tree;
    Sequence *sequence, *plain;
    EngineSpan span;
    ErrText err = { 0 };

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    sequence = tree_model_fork(&model, 70);
    plain = tree_model_fork(&model, 70);
    model.accounts.limit_bytes[ACCOUNT_KV] = model.accounts.used_bytes[ACCOUNT_KV];
    tree_case_fill(&tree, &random, TREE_RANDOM, 30);
    span = tree_case_span(&tree, sequence);
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, &err), ENGINE_E_MEMORY);
    assert_non_null(strstr(err.text, "no memory for the KV cache"));
    assert_int_equal(sequence_n_tokens(sequence), 70);
    tree_case_fill(&tree, &random, TREE_CHAIN, 30);
    tree_case_check_alone(&tree, sequence, plain, "a chain, where memory is short");
    model.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    tree_case_fill(&tree, &random, TREE_RANDOM, 30);
    tree_case_check_alone(&tree, sequence, plain, "with memory again");
    sequence_free(sequence);
    sequence_free(plain);
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

/* A step runs while the weights are on their way. */
static void test_tree_step_arriving(void **state) {
    char path[PATH_MAX];
    uint64_t random = 8;

    loaded_make_package(*state, 4.5, false, false, path);
    for (TreeShape shape = 0; shape < _TREE_SHAPE_N; shape++) {
        Loaded whole = { 0 }, arriving = { 0 };
        TreeCase tree, same;
        EngineSpan span;

        loaded_init(&whole, path, 0);
        loaded_init(&arriving, path, LOADED_ARRIVING);
        tree_case_init(&tree, whole.engine);
        tree_case_fill(&tree, &random, shape, LOADED_CHUNK);
        tree_case_decode(&tree, whole.sequence);
        assert_true(engine_is_arriving(arriving.engine));
        same = tree;
        same.engine = arriving.engine;
        span = tree_case_span(&same, arriving.sequence);
        assert_int_equal(engine_forward_spans(arriving.engine, &span, 1, NULL), 0);
        tree_case_compare(&same, "arriving");
        tree_case_deinit(&tree);
        loaded_deinit(&whole);
        loaded_deinit(&arriving);
    }
}

/* Positions that others read do not change: a sequence is rewound into pages that it shares, and keeps a path there. */
static void test_tree_step_shared_pages(void **state) {
    static const size_t to[] = { 0, 1, 62, 63, 64, 65, 100, 127, 128, 200 };
    uint64_t random = 10;
    TreeModel model;
    TreeCase tree;

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    for (size_t i = 0; i < 2 * ARRAY_LEN(to); i++) {
        Sequence *sequence = tree_model_fork(&model, TREE_MODEL_BASE), *plain = tree_model_fork(&model, to[i / 2]);
        const size_t n_bytes = model.engine->kv.page_bytes * model.base->n_pages;
        uint8_t *was = malloc(n_bytes);

        assert_non_null(was);
        for (size_t p = 0; p < model.base->n_pages; p++)
            memcpy(was + p * model.engine->kv.page_bytes, model.base->blocks[p], model.engine->kv.page_bytes);
        sequence_rewind(sequence, to[i / 2]);
        tree_case_fill(&tree, &random, i % 2 ? TREE_TWO_WAYS : TREE_ORDERED, ROWS_MAX);
        tree_case_choose(&tree, ROWS_MAX - 1);
        tree_case_check_alone(&tree, sequence, plain, "in shared pages");
        for (size_t p = 0; p < model.base->n_pages; p++)
            assert_memory_equal(was + p * model.engine->kv.page_bytes, model.base->blocks[p],
                                model.engine->kv.page_bytes);
        free(was);
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

/* --- the head ----------------------------------------------------------------------------------------------------- */

static BackendOps counting_ops;
static const BackendOps *real_ops;
static const BackendLinear *head;
static size_t n_head_calls, most_head_rows;

static int count_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                        size_t rows, const LinearOutput *out, ErrText *err) {
    if (linears[0] == head) {
        n_head_calls++;
        most_head_rows = MAX(rows, most_head_rows);
    }
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

/* As many rows read the head's weights together as there is memory for. */
static void test_tree_step_head(void **state) {
    static const struct {
        size_t n, room_rows, n_calls, most; /* rows of the tree; rows that there is memory for */
    } cases[] = { { 1, 0, 1, 1 },    { 9, 0, 9, 1 },    { 9, 16, 1, 9 },   { 16, 16, 1, 16 },
                  { 17, 16, 2, 16 }, { 64, 16, 4, 16 }, { 64, 64, 1, 64 }, { 33, 48, 1, 33 } };
    uint64_t random = 12;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        TreeModel model;
        TreeCase tree;
        Sequence *sequence, *plain;

        tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
        tree_case_init(&tree, model.engine);
        sequence = tree_model_fork(&model, 10);
        plain = tree_model_fork(&model, 10);
        tree_case_fill(&tree, &random, TREE_RANDOM, cases[i].n);
        tree_case_decode(&tree, plain);
        real_ops = model.engine->backend->ops;
        counting_ops = *real_ops;
        counting_ops.linear = count_linear;
        model.engine->backend->ops = &counting_ops;
        head = weights_head(model.engine->weights);
        n_head_calls = most_head_rows = 0;
        model.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] =
            model.accounts.used_bytes[ACCOUNT_ACTIVATIONS] +
            (cases[i].room_rows * engine_info(model.engine)->n_vocab * sizeof(float) + 4095) / 4096 * 4096;
        {
            EngineSpan span = tree_case_span(&tree, sequence);

            assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        }
        tree_case_compare(&tree, "head");
        assert_int_equal(n_head_calls, cases[i].n_calls);
        assert_int_equal(most_head_rows, cases[i].most);
        model.engine->backend->ops = real_ops;
        sequence_free(sequence);
        sequence_free(plain);
        tree_case_deinit(&tree);
        tree_model_deinit(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_tree_step_bits),         WITH_FOLDER(test_tree_step_reference),
        WITH_FOLDER(test_tree_step_without_take), WITH_FOLDER(test_tree_step_refuses),
        WITH_FOLDER(test_tree_step_memory),       WITH_FOLDER(test_tree_step_arriving),
        WITH_FOLDER(test_tree_step_shared_pages), WITH_FOLDER(test_tree_step_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
