// SPDX-License-Identifier: Apache-2.0
/* Trees that several passes compute before a row is kept. Every row has the logits of plain decoding of the way to it,
 * to the byte, whatever the passes are and whoever shares them. The kept way leaves the sequence as plain decoding
 * does. On small models, with every instruction set of the machine. */
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
#include "engine/kv/sequence_state.h"
#include "engine/step/step_parts.h"
#include "test/unit/fixtures/fork.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/tree_model.h"

enum {
    ROWS_MAX = ENGINE_TREE_ROWS_MAX,
    SEQUENCES = 8,
};

/* Positions around the borders of tiles, blocks and pages. */
static const size_t befores[] = { 0, 1, 15, 16, 31, 33, 62, 63, 64, 65, 127, 129, 255, 256, 257 };

static const _Atomic bool wanted = true;
static const EngineYield at_once = { .wanted = &wanted };

/* --- alone -------------------------------------------------------------------------------------------------------- */

/* Trees of all shapes at every `each`th position: in passes of random rows, then a pass for each depth; every third
 * tree leaves nothing behind. A position's trees share one sequence, so that slots have stale keys and values. */
static void check_model(TreeModel *model, const char *what, size_t each, uint64_t *random) {
    TreeCase tree;

    tree_case_init(&tree, model->engine);
    for (size_t b = test_random(random) % each; b < ARRAY_LEN(befores); b += each) {
        Sequence *sequence = tree_model_fork(model, befores[b]), *plain = tree_model_fork(model, befores[b]);

        for (size_t i = 0; i < 2 * _TREE_SHAPE_N; i++) {
            const TreeShape shape = (TreeShape)(i / 2);
            char which[200];

            tree_case_fill(&tree, random, shape,
                           shape == TREE_TWO_WAYS ? ROWS_MAX : 2 + test_random(random) % (ROWS_MAX - 1));
            if (shape == TREE_TWO_WAYS) /* the deepest tree, through a page and into the next */
                tree_case_choose(&tree, ROWS_MAX - 1);
            if (i % 2)
                tree_case_sort(&tree);
            if (i % 3 == 2)
                tree.n_path = 0;
            snprintf(which, sizeof(which), "%s, %zu positions before, shape %d, %s", what, befores[b], (int)shape,
                     i % 2 ? "by depth" : "at random");
            tree_case_decode(&tree, plain);
            tree_case_run_passes(&tree, sequence, random, 1 + test_random(random) % ROWS_MAX, i % 2);
            tree_case_compare(&tree, which);
            tree_case_go_on(&tree, sequence, plain, 7, TREE_MODEL_BEHIND);
        }
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
}

static void test_open_tree_bits(void **state) {
    static const struct {
        const char *arch;
        double bits;
        bool static_activations;
    } models[] = { { "llama", 8, false }, { "gemma3", 8, false }, { "qwen2", 4.5, true } };
    uint64_t random = 20261125;

    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        const char *package = tree_model_package(*state, models[i].arch, models[i].bits, models[i].static_activations);

        for (int isa = ISA_SCALAR; isa < _ISA_N; isa++)
            for (unsigned int threads = 1; threads <= 2 && patience_takes_isa((Isa)isa); threads++) {
                TreeModel model;
                char what[100];

                snprintf(what, sizeof(what), "%s, %s, %u threads", models[i].arch, isa_name((Isa)isa), threads);
                tree_model_init(&model, package, ENGINE_DEVICE_CPU, (Isa)isa, threads);
                check_model(&model, what, 4, &random);
                tree_model_deinit(&model);
            }
    }
}

static void test_open_tree_reference(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 20261126;

    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        const ModelMaker maker = tree_model_maker(archs[i]);
        TreeModel model;

        import_fixture_source(*state, &maker);
        tree_model_init(&model, ((ImportFixture *)*state)->source, ENGINE_DEVICE_REFERENCE, ISA_BEST, 2);
        check_model(&model, archs[i], patience_is_short() ? 6 : 2, &random);
        tree_model_deinit(&model);
    }
}

/* --- in company --------------------------------------------------------------------------------------------------- */

typedef struct Company {
    TreeModel model;
    Sequence *sequences[SEQUENCES], *plain[SEQUENCES];
    TreeCase trees[SEQUENCES];
    _Atomic bool cancelled[SEQUENCES];
    EngineSpan spans[SEQUENCES + 1];
    size_t of_span[SEQUENCES + 1];
} Company;

static void company_init(Company *company, const char *package, unsigned int threads) {
    tree_model_init(&company->model, package, ENGINE_DEVICE_CPU, ISA_BEST, threads);
    for (size_t i = 0; i < SEQUENCES; i++) {
        const size_t before = befores[(i * 7 + 5) % ARRAY_LEN(befores)];

        company->sequences[i] = tree_model_fork(&company->model, before);
        company->plain[i] = tree_model_fork(&company->model, before);
        company->cancelled[i] = false;
        sequence_set_cancel(company->sequences[i], &company->cancelled[i]);
        tree_case_init(&company->trees[i], company->model.engine);
    }
}

static void company_deinit(Company *company) {
    for (size_t i = 0; i < SEQUENCES; i++) {
        sequence_free(company->sequences[i]);
        sequence_free(company->plain[i]);
        tree_case_deinit(&company->trees[i]);
    }
    tree_model_deinit(&company->model);
}

static void company_fill(Company *company, uint64_t *random) {
    for (size_t i = 0; i < SEQUENCES; i++) {
        tree_case_fill(&company->trees[i], random, (TreeShape)(i % _TREE_SHAPE_N), 1 + test_random(random) % ROWS_MAX);
        tree_case_decode(&company->trees[i], company->plain[i]);
        company->trees[i].n_taken = 0;
    }
}

/* Collects spans of incomplete trees, some of them at random. Return: how many. */
static size_t company_passes(Company *company, uint64_t *random, size_t room) {
    size_t n = 0;

    for (size_t i = 0; i < SEQUENCES; i++) {
        TreeCase *tree = &company->trees[i];
        size_t rows = tree->n - tree->n_taken;

        if (!rows || !(test_random(random) % 4))
            continue;
        rows = 1 + test_random(random) % rows;
        rows = MIN(rows, room / SEQUENCES);
        company->of_span[n] = i;
        company->spans[n++] = tree_case_pass(tree, company->sequences[i], rows);
    }
    return n;
}

static bool company_is_whole(const Company *company) {
    for (size_t i = 0; i < SEQUENCES; i++)
        if (company->trees[i].n_taken < company->trees[i].n)
            return false;
    return true;
}

static void company_close(Company *company, const char *what) {
    for (size_t i = 0; i < SEQUENCES; i++) {
        TreeCase *tree = &company->trees[i];

        assert_int_equal(sequence_close_tree(company->sequences[i], tree->path, tree->n_path), 0);
        tree_case_compare(tree, what);
        tree_case_go_on(tree, company->sequences[i], company->plain[i], 9, TREE_MODEL_BEHIND);
    }
}

/* Passes of several trees, some of them each time, beside a prompt whose rows go through the layers in groups. */
static void test_open_tree_together(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    static uint32_t prompt[TREE_MODEL_CHUNK];
    uint64_t random = 5;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (unsigned int threads = 1; threads <= 2; threads++) {
            static Company company;
            Sequence *reads;

            company_init(&company, tree_model_package(*state, archs[a], 8, false), threads);
            assert_int_equal(sequence_new(&reads, company.model.engine, TREE_MODEL_CAPACITY, NULL), 0);
            for (size_t round = 0; round < 3; round++) {
                company_fill(&company, &random);
                while (!company_is_whole(&company)) {
                    const size_t n = company_passes(&company, &random, TREE_MODEL_CHUNK / 2);
                    size_t room = TREE_MODEL_CHUNK;

                    for (size_t i = 0; i < n; i++)
                        room -= company.spans[i].n;
                    company.spans[n] = (EngineSpan){ .sequence = reads, .tokens = prompt, .n = room };
                    sequence_rewind(reads, 0);
                    assert_int_equal(
                        engine_forward_spans(company.model.engine, company.spans, n + (round ? 1 : 0), NULL),
                        n || round ? 0 : -EINVAL);
                }
                company_close(&company, archs[a]);
            }
            sequence_free(reads);
            company_deinit(&company);
        }
}

/* At every border between operators all of another step runs; some steps are cancelled on the way, and repeated. */
static void test_open_tree_makes_way(void **state) {
    static const char *const archs[] = { "llama", "gemma3" };
    uint64_t random = 6;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (unsigned int threads = 1; threads <= 2; threads++) {
            static Company company;
            TreeCase other;
            Sequence *sequence, *plain;
            size_t n_cancelled = 0, n_others = 0;

            company_init(&company, tree_model_package(*state, archs[a], 8, false), threads);
            tree_case_init(&other, company.model.engine);
            sequence = tree_model_fork(&company.model, 63);
            plain = tree_model_fork(&company.model, 63);
            company_fill(&company, &random);
            tree_case_fill(&other, &random, TREE_RANDOM, ROWS_MAX);
            tree_case_decode(&other, plain);
            other.n_taken = 0;
            while (!company_is_whole(&company)) {
                const size_t n = company_passes(&company, &random, TREE_MODEL_CHUNK);
                const size_t doomed = n ? test_random(&random) % n : 0, at = test_random(&random) % 12;
                const bool is_doomed = n && test_random(&random) % 2;
                size_t n_borders = 0, rows[SEQUENCES];
                EngineStep *step;
                int r;

                if (!n)
                    continue;
                for (size_t i = 0; i < n; i++)
                    rows[i] = company.trees[company.of_span[i]].n_before;
                assert_int_equal(engine_step_begin(&step, company.model.engine, company.spans, n, NULL), 0);
                while ((r = engine_step_run(step, &at_once, NULL)) == ENGINE_E_YIELDED) {
                    EngineSpan span = tree_case_pass(&other, sequence, 1 + test_random(&random) % 5);

                    if (other.n_taken + span.n <= other.n) {
                        assert_int_equal(engine_forward_spans(company.model.engine, &span, 1, NULL), 0);
                        n_others++;
                    }
                    if (is_doomed && n_borders++ == at)
                        company.cancelled[company.of_span[doomed]] = true;
                }
                assert_int_equal(r, n == 1 && is_doomed ? ENGINE_E_CANCELLED : 0);
                for (size_t i = 0; i < n; i++) {
                    const bool is_gone = is_doomed && i == doomed;

                    assert_int_equal(company.spans[i].is_cancelled, is_gone);
                    assert_int_equal(company.spans[i].sequence->tree.n, rows[i] + (is_gone ? 0 : company.spans[i].n));
                    if (!is_gone)
                        continue;
                    company.trees[company.of_span[i]].n_taken = rows[i];
                    company.cancelled[company.of_span[i]] = false;
                    n_cancelled++;
                }
            }
            assert_true(n_cancelled && n_others);
            company_close(&company, "made way");
            while (other.n_taken < other.n) {
                EngineSpan span = tree_case_pass(&other, sequence, 1);

                assert_int_equal(engine_forward_spans(company.model.engine, &span, 1, NULL), 0);
            }
            assert_int_equal(sequence_close_tree(sequence, other.path, other.n_path), 0);
            tree_case_compare(&other, "for whom others made way");
            tree_case_go_on(&other, sequence, plain, 9, TREE_MODEL_BEHIND);
            sequence_free(sequence);
            sequence_free(plain);
            tree_case_deinit(&other);
            company_deinit(&company);
        }
}

/* A step that is dropped leaves the tree as it was; in a step beside it, rows of another tree are dropped between
 * layers. */
static void test_open_tree_dropped_and_beside_fewer_rows(void **state) {
    static const uint16_t kept[] = { 0, 1 };
    uint64_t random = 8;
    static Company company;
    TreeCase *tree = &company.trees[1];
    EngineStep *step;

    company_init(&company, tree_model_package(*state, "llama", 8, false), 2);
    for (size_t round = 0; round < (patience_is_short() ? 7 : 20); round++) {
        company_fill(&company, &random);
        tree_case_fill(&company.trees[0], &random, TREE_LONG, 20);
        company.trees[0].parents[1] = 0;
        tree_case_fill(tree, &random, TREE_RANDOM, 40);
        tree_case_decode(tree, company.plain[1]);
        tree->n_taken = 0;
        while (tree->n_taken < tree->n) {
            const size_t n_before = tree->n_taken;

            company.spans[1] = tree_case_pass(tree, company.sequences[1], 5);
            assert_int_equal(engine_step_begin(&step, company.model.engine, &company.spans[1], 1, NULL), 0);
            for (size_t i = 0; i < 1 + n_before % 7; i++)
                assert_int_equal(engine_step_run(step, &at_once, NULL), ENGINE_E_YIELDED);
            assert_null(engine_step_drop(step));
            assert_int_equal(company.sequences[1]->tree.n, n_before);
            company.spans[0] = (EngineSpan){ .sequence = company.sequences[0],
                                             .tokens = company.trees[0].tokens,
                                             .parents = company.trees[0].parents,
                                             .n = company.trees[0].n };
            assert_int_equal(engine_step_begin(&step, company.model.engine, company.spans, 2, NULL), 0);
            assert_int_equal(engine_step_layers(step, 1, NULL, NULL), 0);
            assert_int_equal(engine_step_keep(step, 1, kept, 2), -EINVAL);
            assert_int_equal(engine_step_keep(step, 0, kept, 2), 0);
            assert_int_equal(engine_step_run(step, NULL, NULL), 0);
            sequence_rewind(company.sequences[0], sequence_n_tokens(company.plain[0]));
        }
        assert_int_equal(sequence_close_tree(company.sequences[1], tree->path, tree->n_path), 0);
        tree_case_compare(tree, "beside fewer rows");
        tree_case_go_on(tree, company.sequences[1], company.plain[1], 9, TREE_MODEL_BEHIND);
    }
    company_deinit(&company);
}

/* --- what may be asked -------------------------------------------------------------------------------------------- */

static int grow(Sequence *sequence, const int16_t *parents, size_t n) {
    static const uint32_t tokens[ROWS_MAX + 1];
    EngineSpan span = { .sequence = sequence, .tokens = tokens, .parents = parents, .n = n, .grows_tree = true };

    return engine_forward_spans(sequence->engine, &span, 1, NULL);
}

static void test_open_tree_refuses(void **state) {
    static const int16_t root[] = { -1 }, bad_root[] = { 0 }, two[] = { 0, 1 }, forward[] = { 0, 4 }, later[] = { 3 },
                         none[] = { -1 }, star[ROWS_MAX] = { 0 }, three[] = { 2 };
    static const uint16_t way[] = { 0, 1, 2 }, no_root[] = { 1, 2 }, gap[] = { 0, 2 }, past[] = { 0, 1, 2, 3 };
    static const uint32_t token = 1;
    TreeModel model;
    Sequence *sequence;
    EngineSpan chain = { .tokens = &token, .n = 1, .grows_tree = true };

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 1);
    assert_int_equal(fork_sequence(&sequence, model.base, 100, 103, NULL), 0);
    chain.sequence = sequence;
    assert_int_equal(engine_forward_spans(model.engine, &chain, 1, NULL), -EINVAL); /* without parents */
    assert_int_equal(sequence_close_tree(sequence, NULL, 0), 0);
    assert_int_equal(sequence_close_tree(sequence, way, 1), -EINVAL);
    assert_int_equal(grow(sequence, bad_root, 1), -EINVAL);
    assert_int_equal(grow(sequence, root, 1), 0);
    assert_int_equal(grow(sequence, none, 1), -EINVAL);
    assert_int_equal(grow(sequence, forward, 2), -EINVAL);
    assert_int_equal(grow(sequence, later, 1), -EINVAL);
    assert_int_equal(engine_forward(model.engine, sequence, &token, 1, 0, NULL, NULL), -EINVAL);
    assert_int_equal(grow(sequence, two, 2), 0);
    assert_int_equal(sequence->tree.n, 3);
    assert_int_equal(sequence_n_tokens(sequence), 100);
    assert_int_equal(grow(sequence, three, 1), ENGINE_E_CONTEXT);
    assert_int_equal(grow(sequence, star, ROWS_MAX - 2), -EINVAL);
    assert_int_equal(grow(sequence, star, ROWS_MAX - 3), 0);
    assert_int_equal(sequence->tree.n, ROWS_MAX);
    assert_int_equal(grow(sequence, star, 1), -EINVAL);
    assert_int_equal(sequence_close_tree(sequence, no_root, 2), -EINVAL);
    assert_int_equal(sequence_close_tree(sequence, gap, 2), -EINVAL);
    assert_int_equal(sequence_close_tree(sequence, past, 4), -EINVAL);
    assert_int_equal(sequence_close_tree(sequence, (const uint16_t[]){ ROWS_MAX }, 1), -EINVAL);
    assert_int_equal(sequence->tree.n, ROWS_MAX);
    assert_int_equal(sequence_close_tree(sequence, way, 3), 0);
    assert_int_equal(sequence_n_tokens(sequence), 103);
    assert_int_equal(grow(sequence, root, 1), ENGINE_E_CONTEXT);
    sequence_free(sequence);
    tree_model_deinit(&model);
}

/* A tree's memory is reserved by the first pass; closing the tree needs none. */
static void test_open_tree_memory(void **state) {
    uint64_t random = 4;
    TreeModel model;
    TreeCase tree;
    Sequence *sequence, *plain;
    EngineSpan span;

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    sequence = tree_model_fork(&model, 70);
    plain = tree_model_fork(&model, 70);
    tree_case_fill(&tree, &random, TREE_RANDOM, 30);
    tree.n_taken = 0;
    tree_case_decode(&tree, plain);
    model.accounts.limit_bytes[ACCOUNT_KV] = model.accounts.used_bytes[ACCOUNT_KV];
    span = tree_case_pass(&tree, sequence, 1);
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), ENGINE_E_MEMORY);
    assert_int_equal(sequence->tree.n, 0);
    model.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
    model.accounts.limit_bytes[ACCOUNT_KV] = model.accounts.used_bytes[ACCOUNT_KV];
    while (tree.n_taken < tree.n) {
        span = tree_case_pass(&tree, sequence, 1);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
    }
    assert_int_equal(sequence_close_tree(sequence, tree.path, tree.n_path), 0);
    tree_case_compare(&tree, "where memory is short");
    tree_case_go_on(&tree, sequence, plain, 7, TREE_MODEL_BEHIND);
    sequence_free(sequence);
    sequence_free(plain);
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

/* Positions that others read do not change, neither while a tree is open nor when its way becomes positions in pages
 * that were shared. */
static void test_open_tree_shared_pages(void **state) {
    static const size_t to[] = { 0, 1, 62, 63, 64, 100, 127, 128, 200 };
    uint64_t random = 10;
    TreeModel model;
    TreeCase tree;

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    for (size_t i = 0; i < 2 * ARRAY_LEN(to); i++) {
        Sequence *sequence = tree_model_fork(&model, TREE_MODEL_BASE), *plain = tree_model_fork(&model, to[i / 2]);
        const size_t page_bytes = model.engine->kv.page_bytes;
        uint8_t *was = malloc(page_bytes * model.base->n_pages);

        assert_non_null(was);
        for (size_t p = 0; p < model.base->n_pages; p++)
            memcpy(was + p * page_bytes, model.base->blocks[p], page_bytes);
        sequence_rewind(sequence, to[i / 2]);
        tree_case_fill(&tree, &random, i % 2 ? TREE_TWO_WAYS : TREE_ORDERED, ROWS_MAX);
        tree_case_choose(&tree, ROWS_MAX - 1);
        tree_case_decode(&tree, plain);
        tree_case_run_passes(&tree, sequence, &random, 20, false);
        tree_case_compare(&tree, "in shared pages");
        tree_case_go_on(&tree, sequence, plain, 7, TREE_MODEL_BEHIND);
        for (size_t p = 0; p < model.base->n_pages; p++)
            assert_memory_equal(was + p * page_bytes, model.base->blocks[p], page_bytes);
        free(was);
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

/* While a tree is open the sequence may be forked from before the tree, rewound, or freed. Each timeline goes on as
 * plain decoding does. */
static void test_open_tree_fork_and_rewind(void **state) {
    uint64_t random = 11;
    TreeModel model;
    TreeCase tree;

    tree_model_init(&model, tree_model_package(*state, "gemma3", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    for (size_t b = 0; b < ARRAY_LEN(befores); b++) {
        Sequence *sequence = tree_model_fork(&model, befores[b]), *plain = tree_model_fork(&model, befores[b]), *fork;
        EngineSpan span;

        tree_case_fill(&tree, &random, TREE_ORDERED, 30);
        tree_case_decode(&tree, plain);
        tree.n_taken = 0;
        span = tree_case_pass(&tree, sequence, 12);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        assert_int_equal(fork_sequence(&fork, sequence, befores[b], TREE_MODEL_CAPACITY, NULL), 0);
        assert_int_equal(fork->tree.n, 0);
        { /* the fork has another tree, and keeps none of it */
            TreeCase same = tree;

            tree_case_run_passes(&same, fork, &random, 9, false);
            tree_case_go_on(&same, fork, plain, 7, TREE_MODEL_BEHIND);
        }
        tree.n_taken = 12;
        span = tree_case_pass(&tree, sequence, 18);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        assert_int_equal(sequence_close_tree(sequence, tree.path, tree.n_path), 0);
        tree_case_compare(&tree, "beside a fork");
        tree_case_go_on(&tree, sequence, plain, 7, TREE_MODEL_BEHIND);
        for (size_t back = 0; back <= befores[b] && back < 70; back += 23) { /* with a tree of which no row is kept */
            Sequence *before = tree_model_fork(&model, befores[b] - back);

            tree.n_taken = 0;
            span = tree_case_pass(&tree, sequence, 12);
            assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
            sequence_rewind(sequence, befores[b] - back);
            assert_int_equal(sequence->tree.n, 0);
            tree.n_path = 0;
            tree_case_go_on(&tree, sequence, before, 5, TREE_MODEL_BEHIND);
            sequence_free(before);
            tree_case_append(model.engine, sequence, 1, befores[b]);
        }
        tree.n_taken = 0;
        span = tree_case_pass(&tree, sequence, 12);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        sequence_free(sequence); /* with an open tree */
        sequence_free(fork);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    tree_model_deinit(&model);
}

/* A sequence is kept for later prompts while a tree is open: if it grows, whole pages are kept and the tree stays open;
 * otherwise all is kept and the tree ends. */
static void test_open_tree_kept(void **state) {
    static uint32_t text[TREE_MODEL_BASE];
    uint64_t random = 12;
    TreeModel model;
    TreeCase tree;
    PrefixCache *cache;

    tree_model_init(&model, tree_model_package(*state, "llama", 8, false), ENGINE_DEVICE_CPU, ISA_BEST, 2);
    tree_case_init(&tree, model.engine);
    assert_int_equal(prefix_cache_new(&cache, UINT64_MAX), 0);
    model.engine->kv.prefix_cache = cache;
    for (size_t i = 0; i < TREE_MODEL_BASE; i++)
        text[i] = tree_case_token(model.engine, 1, i);
    for (size_t b = 0; b < ARRAY_LEN(befores); b++) {
        Sequence *sequence, *plain = tree_model_fork(&model, befores[b]), *later, *same;
        PrefixOutcome outcome;
        EngineSpan span;

        assert_int_equal(sequence_new(&sequence, model.engine, TREE_MODEL_CAPACITY, NULL), 0);
        tree_case_append(model.engine, sequence, 1, befores[b]);
        tree_case_fill(&tree, &random, TREE_RANDOM, 30);
        tree_case_decode(&tree, plain);
        tree.n_taken = 0;
        span = tree_case_pass(&tree, sequence, 12);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        sequence_keep(sequence, text, 1 + b, true, NULL);
        span = tree_case_pass(&tree, sequence, 18);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        assert_int_equal(sequence_close_tree(sequence, tree.path, tree.n_path), 0);
        tree_case_compare(&tree, "kept");
        tree_case_go_on(&tree, sequence, plain, 7, TREE_MODEL_BEHIND);
        tree.n_taken = 0;
        span = tree_case_pass(&tree, sequence, 12);
        assert_int_equal(engine_forward_spans(model.engine, &span, 1, NULL), 0);
        sequence_keep(sequence, text, 1 + b, false, NULL);
        assert_int_equal(sequence->tree.n, 0);
        sequence_free(sequence);
        assert_int_equal(sequence_new_for(&later, model.engine, text, TREE_MODEL_BASE, 1 + b, false,
                                          TREE_MODEL_CAPACITY, &outcome, NULL),
                         0);
        assert_int_equal(sequence_n_tokens(later),
                         befores[b] % 64 < PREFIX_TOKENS_MIN ? befores[b] / 64 * 64 : befores[b]);
        same = tree_model_fork(&model, sequence_n_tokens(later));
        tree.n_path = 0;
        tree_case_go_on(&tree, later, same, 5, TREE_MODEL_BEHIND);
        sequence_free(later);
        sequence_free(same);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    sequence_free(model.base);
    model.base = NULL;
    model.engine = engine_free(model.engine);
    prefix_cache_free(cache);
    tree_model_deinit(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_open_tree_bits),
        WITH_FOLDER(test_open_tree_reference),
        WITH_FOLDER(test_open_tree_together),
        WITH_FOLDER(test_open_tree_makes_way),
        WITH_FOLDER(test_open_tree_dropped_and_beside_fewer_rows),
        WITH_FOLDER(test_open_tree_refuses),
        WITH_FOLDER(test_open_tree_memory),
        WITH_FOLDER(test_open_tree_shared_pages),
        WITH_FOLDER(test_open_tree_fork_and_rewind),
        WITH_FOLDER(test_open_tree_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
