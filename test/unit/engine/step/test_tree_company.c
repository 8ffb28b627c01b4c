// SPDX-License-Identifier: Apache-2.0
/* Token trees that share steps with other trees and with prompts, in groups of rows. Steps make way before every
 * operator, some are cancelled, and rows are dropped from a layer on. All rows get the bytes of plain decoding. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/tree_model.h"

enum {
    ROWS_MAX = ENGINE_TREE_ROWS_MAX,
};

/* Positions of the trees: around the borders of blocks and pages. */
static const size_t befores[] = { 0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257 };

enum {
    TREES_MAX = 16,
};

static const _Atomic bool wanted = true;
static const EngineYield at_once = { .wanted = &wanted };

typedef struct Company {
    TreeModel model;
    size_t n;
    Sequence *sequences[TREES_MAX], *plain[TREES_MAX];
    TreeCase trees[TREES_MAX];
    EngineSpan spans[TREES_MAX + 1];
    _Atomic bool cancelled[TREES_MAX];
} Company;

static void company_init(Company *company, const char *package, Isa isa, unsigned int threads, size_t n) {
    tree_model_init(&company->model, package, ENGINE_DEVICE_CPU, isa, threads);
    company->n = n;
    for (size_t i = 0; i < n; i++) {
        const size_t before = befores[(i * 7 + 5) % ARRAY_LEN(befores)];

        company->sequences[i] = tree_model_fork(&company->model, before);
        company->plain[i] = tree_model_fork(&company->model, before);
        company->cancelled[i] = false;
        sequence_set_cancel(company->sequences[i], &company->cancelled[i]);
        tree_case_init(&company->trees[i], company->model.engine);
    }
}

static void company_deinit(Company *company) {
    for (size_t i = 0; i < company->n; i++) {
        sequence_free(company->sequences[i]);
        sequence_free(company->plain[i]);
        tree_case_deinit(&company->trees[i]);
    }
    tree_model_deinit(&company->model);
}

/* Makes a tree for each sequence, of at most `rows` rows together. */
static void company_fill(Company *company, uint64_t *random, size_t rows) {
    for (size_t i = 0; i < company->n; i++) {
        const size_t most = MIN(rows / company->n, ROWS_MAX);

        tree_case_fill(&company->trees[i], random, (TreeShape)(i % _TREE_SHAPE_N), 1 + test_random(random) % most);
        tree_case_decode(&company->trees[i], company->plain[i]);
    }
}

static void company_spans(Company *company) {
    for (size_t i = 0; i < company->n; i++)
        company->spans[i] = tree_case_span(&company->trees[i], company->sequences[i]);
}

static void company_check(const Company *company, size_t i, const char *what) {
    tree_case_compare(&company->trees[i], what);
    tree_case_go_on(&company->trees[i], company->sequences[i], company->plain[i], 9, TREE_MODEL_BEHIND);
}

/* Notes whether rows went through the layers in groups, and checks that no group begins or ends within a tree. */
static bool check_groups(const Trace *trace, const Batch *batch) {
    bool is_grouped = false;

    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        for (size_t s = 0; event->layer >= 0 && s < batch->n_sequences; s++) {
            const BatchRange rows = batch->sequences[s].rows;

            if (batch->sequences[s].side && event->row > rows.first && event->row < rows.first + rows.n)
                fail_msg("a group begins with row %u, in the tree of rows %zu to %zu", event->row, rows.first,
                         rows.first + rows.n - 1);
        }
        is_grouped = is_grouped || event->row;
    }
    return is_grouped;
}

/* Sixteen trees in one step, and trees beside a prompt, whose rows go through the layers in groups on two threads; all
 * of it twice with the same sequences. */
static void test_tree_company_together(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 5;
    size_t n_grouped = 0;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (unsigned int threads = 1; threads <= 2; threads++)
            for (size_t n = 1; n <= TREES_MAX; n += 5) {
                static Company company;
                uint32_t prompt[TREE_MODEL_CHUNK];
                Sequence *reads;
                Trace *trace;

                company_init(&company, tree_model_package(*state, archs[a], 8, false), ISA_BEST, threads, n);
                for (size_t round = 0; round < 4; round++) {
                    const size_t n_prompt = round % 2 ? 30 + 20 * round : 0;
                    size_t rows = 0;

                    company_fill(&company, &random, TREE_MODEL_CHUNK - n_prompt);
                    company_spans(&company);
                    assert_int_equal(sequence_new(&reads, company.model.engine, TREE_MODEL_CAPACITY, NULL), 0);
                    for (size_t i = 0; i < n; i++)
                        rows += company.trees[i].n;
                    for (size_t i = 0; i < TREE_MODEL_CHUNK - rows; i++)
                        prompt[i] = tree_case_token(company.model.engine, 1, i);
                    company.spans[n] =
                        (EngineSpan){ .sequence = reads, .tokens = prompt, .n = TREE_MODEL_CHUNK - rows };
                    if (round == 3) /* the prompt first */
                        for (size_t i = n; i; i--) {
                            const EngineSpan span = company.spans[i];

                            company.spans[i] = company.spans[i - 1];
                            company.spans[i - 1] = span;
                        }
                    assert_int_equal(trace_new(&trace, 10000), 0);
                    engine_set_trace(company.model.engine, trace);
                    assert_int_equal(engine_forward_spans(company.model.engine, company.spans,
                                                          n + (n_prompt && rows < TREE_MODEL_CHUNK ? 1 : 0), NULL),
                                     0);
                    engine_set_trace(company.model.engine, NULL);
                    n_grouped += check_groups(trace, &company.model.engine->steps->step[0].batch);
                    trace_free(trace);
                    for (size_t i = 0; i < n; i++)
                        company_check(&company, i, archs[a]);
                    sequence_free(reads);
                }
                company_deinit(&company);
            }
    assert_true(n_grouped > 5);
}

/* A tree whose first rows would still fit into a group, up to a border of the cache's blocks. */
static void test_tree_company_in_one_group(void **state) {
    static uint32_t prompt[TREE_MODEL_CHUNK];
    uint64_t random = 15;
    TreeModel model;
    TreeCase tree;
    Sequence *reads[2], *sequence, *plain;
    Trace *trace;

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    assert_int_equal(trace_new(&trace, 10000), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sequence_new(&reads[i], model.engine, TREE_MODEL_CAPACITY, NULL), 0);
    sequence = tree_model_fork(&model, 50);
    plain = tree_model_fork(&model, 50);
    for (TreeShape shape = 0; shape < TREE_CHAIN; shape++) {
        EngineSpan spans[] = { { .sequence = reads[0], .tokens = prompt, .n = 40 },
                               { .sequence = NULL },
                               { .sequence = reads[1], .tokens = prompt, .n = TREE_MODEL_CHUNK - 40 - ROWS_MAX } };

        tree_case_fill(&tree, &random, shape, ROWS_MAX);
        tree_case_decode(&tree, plain);
        spans[1] = tree_case_span(&tree, sequence);
        engine_set_trace(model.engine, trace);
        assert_int_equal(engine_forward_spans(model.engine, spans, 3, NULL), 0);
        engine_set_trace(model.engine, NULL);
        assert_true(check_groups(trace, &model.engine->steps->step[0].batch));
        tree_case_compare(&tree, "in one group");
        tree_case_go_on(&tree, sequence, plain, 9, TREE_MODEL_BEHIND);
        for (size_t i = 0; i < 2; i++)
            sequence_rewind(reads[i], 0);
    }
    for (size_t i = 0; i < 2; i++)
        sequence_free(reads[i]);
    sequence_free(sequence);
    sequence_free(plain);
    trace_free(trace);
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

/* The steps stop at every border between operators, and all of another step runs there; some are cancelled on the
 * way. */
static void test_tree_company_makes_way(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 6;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (unsigned int threads = 1; threads <= 2; threads++) {
            static Company company;
            size_t n_borders = 0;
            EngineStep *step;
            int r;

            company_init(&company, tree_model_package(*state, archs[a], 8, false), ISA_BEST, threads, 4);
            company_fill(&company, &random, TREE_MODEL_CHUNK);
            company_spans(&company);
            /* sequences 0 to 2 make way for 3 */
            assert_int_equal(engine_step_begin(&step, company.model.engine, company.spans, 3, NULL), 0);
            while ((r = engine_step_run(step, &at_once, NULL)) == ENGINE_E_YIELDED) {
                assert_int_equal(engine_forward_spans(company.model.engine, &company.spans[3], 1, NULL), 0);
                company_check(&company, 3, "the other");
                company.spans[3] = tree_case_span(&company.trees[3], company.sequences[3]);
                n_borders++;
                if (n_borders == 12)
                    company.cancelled[1] = true;
            }
            assert_int_equal(r, 0);
            assert_true(n_borders > 12);
            assert_true(company.spans[1].is_cancelled);
            assert_int_equal(sequence_n_tokens(company.sequences[1]), sequence_n_tokens(company.plain[1]));
            company.cancelled[1] = false;
            company_check(&company, 0, "made way");
            company_check(&company, 2, "made way");
            tree_case_check_alone(&company.trees[1], company.sequences[1], company.plain[1], "was cancelled");
            /* The sequence is alone in its step, which is dropped. */
            company_spans(&company);
            assert_int_equal(engine_step_begin(&step, company.model.engine, company.spans, 1, NULL), 0);
            for (size_t i = 0; i < 8; i++)
                assert_int_equal(engine_step_run(step, &at_once, NULL), ENGINE_E_YIELDED);
            company.cancelled[0] = true;
            assert_int_equal(engine_step_run(step, &at_once, NULL), ENGINE_E_CANCELLED);
            company.cancelled[0] = false;
            assert_int_equal(engine_step_begin(&step, company.model.engine, company.spans, 2, NULL), 0);
            assert_int_equal(engine_step_run(step, &at_once, NULL), ENGINE_E_YIELDED);
            assert_null(engine_step_drop(step));
            for (size_t i = 0; i < 2; i++)
                tree_case_check_alone(&company.trees[i], company.sequences[i], company.plain[i], "was dropped");
            company_deinit(&company);
        }
}

/* --- parts of a step ---------------------------------------------------------------------------------------------- */

/* Chooses rows of a tree at random, each with those on its way. */
static size_t choose_rows(const TreeCase *tree, uint64_t *random, uint16_t rows[ROWS_MAX]) {
    bool is_kept[ROWS_MAX] = { true };
    size_t n = 0;

    for (size_t row = 0; row < tree->n; row++) {
        is_kept[row] = !row || (is_kept[tree->parents[row]] && test_random(random) % 4);
        if (is_kept[row])
            rows[n++] = (uint16_t)row;
    }
    return n;
}

typedef struct Kept {
    TreeCase *tree;
    bool is_taken[ROWS_MAX];
} Kept;

static void take_kept(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    Kept *kept = span->head.arg;
    const size_t n_vocab = engine_info(kept->tree->engine)->n_vocab;

    assert_memory_equal(logits, kept->tree->plain + row * n_vocab, n_vocab * sizeof(*logits));
    assert_false(kept->is_taken[row]);
    kept->is_taken[row] = true;
    span->kept = kept->tree->path;
    span->n_kept = kept->tree->n_path;
}

/* Runs layers up to `end`, at once or making way before every operator. */
static void run_layers(EngineStep *step, uint32_t end, bool makes_way) {
    size_t n_borders = 0;
    int r;

    while ((r = engine_step_layers(step, end, makes_way ? &at_once : NULL, NULL)) == ENGINE_E_YIELDED)
        n_borders++;
    assert_int_equal(r, 0);
    assert_int_equal(n_borders > 3, makes_way);
}

/* Rows of some trees are dropped between layers: the others have the same logits, and the kept way is the same. A
 * prompt runs beside, so that there are groups before, and after if no row is dropped. */
static void test_tree_company_keep(void **state) {
    enum {
        N = 3
    };
    static uint32_t prompt[TREE_MODEL_CHUNK];
    uint64_t random = 11;

    for (unsigned int threads = 1; threads <= 2; threads++) {
        static Company company;
        Sequence *reads;

        company_init(&company, tree_model_package(*state, "gemma3", 8, false), ISA_BEST, threads, N);
        assert_int_equal(sequence_new(&reads, company.model.engine, TREE_MODEL_CAPACITY, NULL), 0);
        for (size_t round = 0; round < 60; round++) {
            Kept kept[N] = { 0 };
            uint16_t rows[N][ROWS_MAX];
            size_t n_rows[N], room = TREE_MODEL_CHUNK;
            EngineStep *step;

            company_fill(&company, &random, TREE_MODEL_CHUNK);
            for (size_t i = 0; i < N; i++) {
                kept[i].tree = &company.trees[i];
                company.spans[i] = tree_case_span(&company.trees[i], company.sequences[i]);
                company.spans[i].head.take = take_kept;
                company.spans[i].head.arg = &kept[i];
                n_rows[i] = choose_rows(&company.trees[i], &random, rows[i]);
                tree_case_choose(&company.trees[i], rows[i][test_random(&random) % n_rows[i]]);
                room -= company.trees[i].n;
            }
            company.spans[N] = (EngineSpan){ .sequence = reads, .tokens = prompt, .n = room };
            assert_int_equal(
                engine_step_begin(&step, company.model.engine, company.spans, N + (round % 4 && room ? 1 : 0), NULL),
                0);
            run_layers(step, 1, round % 2);
            for (size_t i = 0; i < N; i++)
                if (i != round % N && round % 5)
                    assert_int_equal(engine_step_keep(step, i, rows[i], n_rows[i]), 0);
            run_layers(step, 2, round % 2);
            assert_int_equal(engine_step_heads(step, NULL), 0);
            engine_step_commit(step);
            engine_step_drop(step);
            for (size_t i = 0; i < N; i++) {
                for (size_t row = 0, at = 0; row < company.trees[i].n; row++) {
                    const bool is_left = at < n_rows[i] && rows[i][at] == row;

                    assert_int_equal(kept[i].is_taken[row], is_left || i == round % N || !(round % 5));
                    at += is_left;
                }
                tree_case_go_on(&company.trees[i], company.sequences[i], company.plain[i], 9, TREE_MODEL_BEHIND);
            }
            sequence_rewind(reads, 0);
        }
        sequence_free(reads);
        company_deinit(&company);
    }
}

static void test_tree_company_keep_refuses(void **state) {
    static const uint16_t lost_parent[] = { 0, 2 }, no_root[] = { 1 }, falling[] = { 0, 2, 1 }, twice[] = { 0, 1, 1 },
                          none[] = { 0, 7 }, good[] = { 0, 1, 3 }, gone[] = { 0, 4 }, less[] = { 0, 1 };
    static const int16_t parents[] = { -1, 0, 1, 1, 0, 4 };
    static const uint32_t tokens[] = { 1, 2, 3, 4, 5, 6 };
    TreeModel model;
    EngineStep *step;
    EngineSpan span = { .tokens = tokens, .parents = parents, .n = ARRAY_LEN(parents) };

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
    span.sequence = tree_model_fork(&model, 20);
    assert_int_equal(engine_step_begin(&step, model.engine, &span, 1, NULL), 0);
    assert_int_equal(span.n_kept, 3);
    assert_int_equal(engine_step_layers(step, 1, NULL, NULL), 0);
    assert_int_equal(engine_step_keep(step, 0, lost_parent, 2), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, no_root, 1), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, falling, 3), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, twice, 3), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, none, 2), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, good, 0), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, good, 3), 0);
    assert_int_equal(step->batch.n_rows, 3);
    assert_int_equal(span.n_kept, 2); /* rows of the leading chain */
    assert_int_equal(engine_step_keep(step, 0, gone, 2), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, less, 2), 0);
    assert_int_equal(engine_step_run(step, NULL, NULL), 0);
    assert_int_equal(sequence_n_tokens(span.sequence), 22);
    sequence_free(span.sequence);
    tree_model_deinit(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_tree_company_together),     WITH_FOLDER(test_tree_company_in_one_group),
        WITH_FOLDER(test_tree_company_makes_way),    WITH_FOLDER(test_tree_company_keep),
        WITH_FOLDER(test_tree_company_keep_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
