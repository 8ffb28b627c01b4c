// SPDX-License-Identifier: Apache-2.0
/* Token trees in steps: whatever their shape, where they stand, who shares the step and where it stops, every row has
 * the logits of plain decoding of the way to it, to the byte, and the path that is kept leaves a sequence as plain
 * decoding does. On small models, with every instruction set of the machine. */
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

#include "engine/engine_private.h"
#include "test/unit/import_fixture.h"
#include "test/unit/loaded_engine.h"
#include "test/unit/tree_case.h"

enum {
    CHUNK = 128,
    CAPACITY = 400,
    BASE = 258,
    WINDOW = 40, /* of gemma3: trees reach past it */
    BEHIND = 3,  /* tokens that are decoded behind a tree */
    ROWS_MAX = ENGINE_TREE_ROWS_MAX,
};

/* Around the borders of tiles, blocks and pages. */
static const size_t befores[] = { 0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257 };

typedef struct Model {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Sequence *base; /* BASE positions of text 1 */
} Model;

static void model_init(Model *model, const char *path, EngineDevice device, Isa isa, unsigned int threads) {
    ErrText err = { "" };

    account_table_init(&model->accounts);
    assert_int_equal(worker_pool_new(&model->pool, threads), 0);
    if (engine_new(&model->engine,
                   &(EngineOptions){ .path = path,
                                     .device = device,
                                     .isa = isa,
                                     .chunk_tokens = CHUNK,
                                     .preemption = true,
                                     .group_rows = 64,
                                     .pool = model->pool,
                                     .accounts = &model->accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&model->base, model->engine, CAPACITY, &err), 0);
    tree_case_append(model->engine, model->base, 1, BASE);
}

static void model_deinit(Model *model) {
    sequence_free(model->base);
    engine_free(model->engine);
    worker_pool_free(model->pool);
    loaded_accounts_are_empty(&model->accounts);
}

static ModelMaker maker_of(const char *arch) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = arch;
    maker.window = strcmp(arch, "gemma3") ? 0 : WINDOW;
    return maker;
}

static const char *make_package(ImportFixture *fixture, const char *arch, double bits, bool static_activations) {
    const ModelMaker maker = maker_of(arch);

    return import_fixture_package(fixture, &maker, bits, static_activations);
}

static Sequence *fork_at(Model *model, size_t n_tokens) {
    Sequence *sequence;

    assert_int_equal(sequence_fork(&sequence, model->base, n_tokens, CAPACITY, NULL), 0);
    return sequence;
}

/* A tree alone in its step, and what is decoded behind it. */
static void check_alone(TreeCase *tree, Sequence *sequence, Sequence *plain, const char *what) {
    EngineSpan span = tree_case_span(tree, sequence);

    tree_case_decode(tree, plain);
    assert_int_equal(engine_forward_spans(tree->engine, &span, 1, NULL), 0);
    assert_int_equal(tree->n_taken, tree->n);
    tree_case_compare(tree, what);
    tree_case_go_on(tree, sequence, plain, 7, BEHIND);
}

/* Trees of all shapes and sizes at every `each`th position, with one sequence for all trees of a position. */
static void check_model(Model *model, const char *what, size_t each, uint64_t *random) {
    TreeCase tree;

    tree_case_init(&tree, model->engine);
    for (size_t b = test_random(random) % each; b < ARRAY_LEN(befores); b += each) {
        Sequence *sequence = fork_at(model, befores[b]), *plain = fork_at(model, befores[b]);

        for (TreeShape shape = 0; shape < _TREE_SHAPE_N; shape++) {
            char which[200];

            tree_case_fill(&tree, random, shape,
                           shape == TREE_TWO_WAYS ? ROWS_MAX : 2 + test_random(random) % (ROWS_MAX - 1));
            if (shape == TREE_TWO_WAYS) /* as deep as it gets, through a page and into the next */
                tree_case_choose(&tree, ROWS_MAX - 1);
            snprintf(which, sizeof(which), "%s, %zu positions before, shape %d", what, befores[b], (int)shape);
            check_alone(&tree, sequence, plain, which);
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
    } models[] = { { "llama", 8, false }, { "gemma3", 8, false }, { "qwen2", 4.5, false }, { "llama", 8, true } };
    uint64_t random = 20261125;

    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        const char *package = make_package(*state, models[i].arch, models[i].bits, models[i].static_activations);
        Model model;

        for (int isa = ISA_SCALAR; isa < _ISA_N; isa++)
            for (unsigned int threads = 1; threads <= 2 && isa_present((Isa)isa); threads++) {
                char what[100];

                snprintf(what, sizeof(what), "%s, %s, %u threads", models[i].arch, isa_name((Isa)isa), threads);
                model_init(&model, package, ENGINE_DEVICE_CPU, (Isa)isa, threads);
                check_model(&model, what, 3, &random);
                model_deinit(&model);
            }
        model_init(&model, package, ENGINE_DEVICE_CPU, ISA_BEST, 2);
        check_model(&model, models[i].arch, 1, &random);
        model_deinit(&model);
    }
}

static void test_tree_step_reference(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 20261126;

    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        const ModelMaker maker = maker_of(archs[i]);
        Model model;

        import_fixture_source(*state, &maker);
        model_init(&model, ((ImportFixture *)*state)->source, ENGINE_DEVICE_REFERENCE, ISA_BEST, 2);
        check_model(&model, archs[i], 1, &random);
        model_deinit(&model);
    }
}

/* Without take() the logits of the last rows are left in the span, and the leading chain is what stays. */
static void test_tree_step_without_take(void **state) {
    uint64_t random = 3;
    Model model;
    TreeCase tree;

    model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    for (TreeShape shape = 0; shape < _TREE_SHAPE_N; shape++) {
        Sequence *sequence = fork_at(&model, 61), *plain = fork_at(&model, 61);
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
                             .n_logit_rows = n_logits,
                             .logits = tree.logits };
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        assert_int_equal(span.n_kept, n_leading);
        assert_memory_equal(tree.logits, tree.plain + (tree.n - n_logits) * n_vocab,
                            n_logits * n_vocab * sizeof(float));
        tree_case_go_on(&tree, sequence, plain, 7, BEHIND);
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    model_deinit(&model);
}

static void test_tree_step_refuses(void **state) {
    static const int16_t bad[][4] = { { 0, 0, 0, 0 },  { -1, 1, 0, 0 }, { -1, -1, 0, 0 },
                                      { -1, 0, 3, 0 }, { -1, 0, 0, 4 }, { -2, 0, 0, 0 } };
    static const uint32_t tokens[ROWS_MAX + 1];
    static int16_t parents[ROWS_MAX + 1];
    Model model;
    Sequence *sequence;
    EngineSpan span = { .tokens = tokens };

    model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
    assert_int_equal(sequence_fork(&sequence, model.base, 100, 103, NULL), 0);
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
    span.n = ROWS_MAX; /* a star: wider than what the sequence has room for */
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
    model_deinit(&model);
}

/* A tree needs memory beside the sequence's pages; a chain does not. */
static void test_tree_step_memory(void **state) {
    uint64_t random = 4;
    Model model;
    TreeCase tree;
    Sequence *sequence, *plain;
    EngineSpan span;
    ErrText err = { "" };

    model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    sequence = fork_at(&model, 70);
    plain = fork_at(&model, 70);
    model.accounts.limit_bytes[ACCOUNT_KV] = model.accounts.used_bytes[ACCOUNT_KV];
    tree_case_fill(&tree, &random, TREE_RANDOM, 30);
    span = tree_case_span(&tree, sequence);
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, &err), ENGINE_E_MEMORY);
    assert_non_null(strstr(err.text, "no memory for the KV cache"));
    assert_int_equal(sequence_n_tokens(sequence), 70);
    tree_case_fill(&tree, &random, TREE_CHAIN, 30);
    check_alone(&tree, sequence, plain, "a chain, where memory is short");
    model.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    tree_case_fill(&tree, &random, TREE_RANDOM, 30);
    check_alone(&tree, sequence, plain, "with memory again");
    sequence_free(sequence);
    sequence_free(plain);
    tree_case_deinit(&tree);
    model_deinit(&model);
}

/* --- company ------------------------------------------------------------------------------------------------------ */

enum {
    TREES_MAX = 16,
};

static const _Atomic bool wanted = true;
static const EngineYield at_once = { .wanted = &wanted };

typedef struct Company {
    Model model;
    size_t n;
    Sequence *sequences[TREES_MAX], *plain[TREES_MAX];
    TreeCase trees[TREES_MAX];
    EngineSpan spans[TREES_MAX + 1];
    _Atomic bool cancelled[TREES_MAX];
} Company;

static void company_init(Company *company, const char *package, Isa isa, unsigned int threads, size_t n) {
    model_init(&company->model, package, ENGINE_DEVICE_CPU, isa, threads);
    company->n = n;
    for (size_t i = 0; i < n; i++) {
        const size_t before = befores[(i * 7 + 5) % ARRAY_LEN(befores)];

        company->sequences[i] = fork_at(&company->model, before);
        company->plain[i] = fork_at(&company->model, before);
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
    model_deinit(&company->model);
}

/* A tree for each, of `rows` rows in all at most. */
static void company_fill(Company *company, uint64_t *random, size_t rows) {
    for (size_t i = 0; i < company->n; i++) {
        const size_t most = rows / company->n < ROWS_MAX ? rows / company->n : ROWS_MAX;

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
    tree_case_go_on(&company->trees[i], company->sequences[i], company->plain[i], 9, BEHIND);
}

/* Of the operators on the step's rows: whether rows went through the layers in groups, none of which begins or ends
 * within a tree. */
static bool check_groups(const Trace *trace, const Batch *batch) {
    bool is_grouped = false;

    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        for (size_t s = 0; event->layer >= 0 && s < batch->n_sequences; s++) {
            const BatchSequence *sequence = &batch->sequences[s];

            if (sequence->side && event->row > sequence->first && event->row < sequence->first + sequence->n_rows)
                fail_msg("a group begins with row %u, in the tree of rows %zu to %zu", event->row, sequence->first,
                         sequence->first + sequence->n_rows - 1);
        }
        is_grouped = is_grouped || event->row;
    }
    return is_grouped;
}

/* Sixteen trees in one step, and trees beside a prompt, whose rows go through the layers in groups where there are two
 * threads; all of it again with the same sequences. */
static void test_tree_step_together(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 5;
    size_t n_grouped = 0;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (unsigned int threads = 1; threads <= 2; threads++)
            for (size_t n = 1; n <= TREES_MAX; n += 5) {
                static Company company;
                uint32_t prompt[CHUNK];
                Sequence *reads;
                Trace *trace;

                company_init(&company, make_package(*state, archs[a], 8, false), ISA_BEST, threads, n);
                for (size_t round = 0; round < 4; round++) {
                    const size_t n_prompt = round % 2 ? 30 + 20 * round : 0;
                    size_t rows = 0;

                    company_fill(&company, &random, CHUNK - n_prompt);
                    company_spans(&company);
                    assert_int_equal(sequence_new(&reads, company.model.engine, CAPACITY, NULL), 0);
                    for (size_t i = 0; i < n; i++)
                        rows += company.trees[i].n;
                    for (size_t i = 0; i < CHUNK - rows; i++)
                        prompt[i] = tree_case_token(company.model.engine, 1, i);
                    company.spans[n] = (EngineSpan){ .sequence = reads, .tokens = prompt, .n = CHUNK - rows };
                    if (round == 3) /* the prompt first */
                        for (size_t i = n; i; i--) {
                            const EngineSpan span = company.spans[i];

                            company.spans[i] = company.spans[i - 1];
                            company.spans[i - 1] = span;
                        }
                    assert_int_equal(trace_new(&trace, 10000), 0);
                    engine_set_trace(company.model.engine, trace);
                    assert_int_equal(engine_forward_spans(company.model.engine, company.spans,
                                                          n + (n_prompt && rows < CHUNK ? 1 : 0), NULL),
                                     0);
                    engine_set_trace(company.model.engine, NULL);
                    n_grouped += check_groups(trace, &company.model.engine->steps[0].batch);
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
static void test_tree_step_in_one_group(void **state) {
    static uint32_t prompt[CHUNK];
    uint64_t random = 15;
    Model model;
    TreeCase tree;
    Sequence *reads[2], *sequence, *plain;
    Trace *trace;

    model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    assert_int_equal(trace_new(&trace, 10000), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sequence_new(&reads[i], model.engine, CAPACITY, NULL), 0);
    sequence = fork_at(&model, 50);
    plain = fork_at(&model, 50);
    for (TreeShape shape = 0; shape < TREE_CHAIN; shape++) {
        EngineSpan spans[] = { { .sequence = reads[0], .tokens = prompt, .n = 40 },
                               { .sequence = NULL },
                               { .sequence = reads[1], .tokens = prompt, .n = CHUNK - 40 - ROWS_MAX } };

        tree_case_fill(&tree, &random, shape, ROWS_MAX);
        tree_case_decode(&tree, plain);
        spans[1] = tree_case_span(&tree, sequence);
        engine_set_trace(model.engine, trace);
        assert_int_equal(engine_forward_spans(model.engine, spans, 3, NULL), 0);
        engine_set_trace(model.engine, NULL);
        assert_true(check_groups(trace, &model.engine->steps[0].batch));
        tree_case_compare(&tree, "in one group");
        tree_case_go_on(&tree, sequence, plain, 9, BEHIND);
        for (size_t i = 0; i < 2; i++)
            sequence_rewind(reads[i], 0);
    }
    for (size_t i = 0; i < 2; i++)
        sequence_free(reads[i]);
    sequence_free(sequence);
    sequence_free(plain);
    trace_free(trace);
    tree_case_deinit(&tree);
    model_deinit(&model);
}

/* At every border between operators, and all of another step runs at each; some are cancelled on the way. */
static void test_tree_step_makes_way(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 6;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (unsigned int threads = 1; threads <= 2; threads++) {
            static Company company;
            size_t n_borders = 0;
            EngineStep *step;
            int r;

            company_init(&company, make_package(*state, archs[a], 8, false), ISA_BEST, threads, 4);
            company_fill(&company, &random, CHUNK);
            company_spans(&company);
            /* 0 to 2 make way for 3 */
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
            check_alone(&company.trees[1], company.sequences[1], company.plain[1], "was cancelled");
            /* Alone in its step, and dropped. */
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
                check_alone(&company.trees[i], company.sequences[i], company.plain[i], "was dropped");
            company_deinit(&company);
        }
}

/* While its weights are on their way. */
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

/* --- kept pages --------------------------------------------------------------------------------------------------- */

/* What others read stays what it is: a sequence goes back into pages that it shares, and keeps a path there. */
static void test_tree_step_shared_pages(void **state) {
    static const size_t to[] = { 0, 1, 62, 63, 64, 65, 100, 127, 128, 200 };
    uint64_t random = 10;
    Model model;
    TreeCase tree;

    model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    for (size_t i = 0; i < 2 * ARRAY_LEN(to); i++) {
        Sequence *sequence = fork_at(&model, BASE), *plain = fork_at(&model, to[i / 2]);
        const size_t n_bytes = model.engine->kv_page_bytes * model.base->n_pages;
        uint8_t *was = malloc(n_bytes);

        assert_non_null(was);
        for (size_t p = 0; p < model.base->n_pages; p++)
            memcpy(was + p * model.engine->kv_page_bytes, model.base->blocks[p], model.engine->kv_page_bytes);
        sequence_rewind(sequence, to[i / 2]);
        tree_case_fill(&tree, &random, i % 2 ? TREE_TWO_WAYS : TREE_ORDERED, ROWS_MAX);
        tree_case_choose(&tree, ROWS_MAX - 1);
        check_alone(&tree, sequence, plain, "in shared pages");
        for (size_t p = 0; p < model.base->n_pages; p++)
            assert_memory_equal(was + p * model.engine->kv_page_bytes, model.base->blocks[p],
                                model.engine->kv_page_bytes);
        free(was);
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    model_deinit(&model);
}

/* --- parts of a step ---------------------------------------------------------------------------------------------- */

/* Rows of a tree at random, each with those on its way. */
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
    Kept *kept = span->arg;
    const size_t n_vocab = engine_info(kept->tree->engine)->n_vocab;

    assert_memory_equal(logits, kept->tree->plain + row * n_vocab, n_vocab * sizeof(*logits));
    assert_false(kept->is_taken[row]);
    kept->is_taken[row] = true;
    span->kept = kept->tree->path;
    span->n_kept = kept->tree->n_path;
}

/* Through layers up to `end`, at once or making way before every operator. */
static void run_layers(EngineStep *step, uint32_t end, bool makes_way) {
    size_t n_borders = 0;
    int r;

    while ((r = engine_step_layers(step, end, makes_way ? &at_once : NULL, NULL)) == ENGINE_E_YIELDED)
        n_borders++;
    assert_int_equal(r, 0);
    assert_int_equal(n_borders > 3, makes_way);
}

/* Of some trees rows go between layers: what is left has the same logits, and what is kept of it is the same. Beside a
 * prompt, so that there are groups before, and behind where no row goes. */
static void test_tree_step_keep(void **state) {
    enum {
        N = 3
    };
    static uint32_t prompt[CHUNK];
    uint64_t random = 11;

    for (unsigned int threads = 1; threads <= 2; threads++) {
        static Company company;
        Sequence *reads;

        company_init(&company, make_package(*state, "gemma3", 8, false), ISA_BEST, threads, N);
        assert_int_equal(sequence_new(&reads, company.model.engine, CAPACITY, NULL), 0);
        for (size_t round = 0; round < 60; round++) {
            Kept kept[N] = { 0 };
            uint16_t rows[N][ROWS_MAX];
            size_t n_rows[N], room = CHUNK;
            EngineStep *step;

            company_fill(&company, &random, CHUNK);
            for (size_t i = 0; i < N; i++) {
                kept[i].tree = &company.trees[i];
                company.spans[i] = tree_case_span(&company.trees[i], company.sequences[i]);
                company.spans[i].take = take_kept;
                company.spans[i].arg = &kept[i];
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
                tree_case_go_on(&company.trees[i], company.sequences[i], company.plain[i], 9, BEHIND);
            }
            sequence_rewind(reads, 0);
        }
        sequence_free(reads);
        company_deinit(&company);
    }
}

static void test_tree_step_keep_refuses(void **state) {
    static const uint16_t lost_parent[] = { 0, 2 }, no_root[] = { 1 }, falling[] = { 0, 2, 1 }, twice[] = { 0, 1, 1 },
                          none[] = { 0, 7 }, good[] = { 0, 1, 3 }, gone[] = { 0, 4 }, less[] = { 0, 1 };
    static const int16_t parents[] = { -1, 0, 1, 1, 0, 4 };
    static const uint32_t tokens[] = { 1, 2, 3, 4, 5, 6 };
    Model model;
    EngineStep *step;
    EngineSpan span = { .tokens = tokens, .parents = parents, .n = ARRAY_LEN(parents) };

    model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
    span.sequence = fork_at(&model, 20);
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
    assert_int_equal(span.n_kept, 2); /* of the leading chain */
    assert_int_equal(engine_step_keep(step, 0, gone, 2), -EINVAL);
    assert_int_equal(engine_step_keep(step, 0, less, 2), 0);
    assert_int_equal(engine_step_run(step, NULL, NULL), 0);
    assert_int_equal(sequence_n_tokens(span.sequence), 22);
    sequence_free(span.sequence);
    model_deinit(&model);
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
        most_head_rows = rows > most_head_rows ? rows : most_head_rows;
    }
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

/* As many rows read the head's weights together as there is memory for. */
static void test_tree_step_head(void **state) {
    static const struct {
        size_t n, room_rows, n_calls, most; /* tree; rows that there is memory for */
    } cases[] = { { 1, 0, 1, 1 },    { 9, 0, 9, 1 },    { 9, 16, 1, 9 },   { 16, 16, 1, 16 },
                  { 17, 16, 2, 16 }, { 64, 16, 4, 16 }, { 64, 64, 1, 64 }, { 33, 48, 1, 33 } };
    uint64_t random = 12;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Model model;
        TreeCase tree;
        Sequence *sequence, *plain;

        model_init(&model, make_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
        tree_case_init(&tree, model.engine);
        sequence = fork_at(&model, 10);
        plain = fork_at(&model, 10);
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
        model_deinit(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_tree_step_bits),         WITH_FOLDER(test_tree_step_reference),
        WITH_FOLDER(test_tree_step_without_take), WITH_FOLDER(test_tree_step_refuses),
        WITH_FOLDER(test_tree_step_memory),       WITH_FOLDER(test_tree_step_together),
        WITH_FOLDER(test_tree_step_in_one_group), WITH_FOLDER(test_tree_step_makes_way),
        WITH_FOLDER(test_tree_step_arriving),     WITH_FOLDER(test_tree_step_shared_pages),
        WITH_FOLDER(test_tree_step_keep),         WITH_FOLDER(test_tree_step_keep_refuses),
        WITH_FOLDER(test_tree_step_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
