// SPDX-License-Identifier: Apache-2.0
/* Token trees on real models, in one step and in several passes: every row has the logits of plain decoding, and the
 * kept path leaves the same bytes. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "importer/importer.h"
#include "test/unit/engine/draft/tree_case.h"
#include "test/unit/fixtures/fork.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/text/tokenizer/tokenizer_golden.h"

enum {
    CHUNK = 128,
    CAPACITY = 700,
    BEHIND = 2,
};

/* Positions before the trees: around blocks of the cache, and past the window of gemma3's local layers (512). */
static const struct {
    size_t before, rows;
    TreeShape shape;
} cases[] = {
    { 1, 17, TREE_RANDOM },    { 31, 64, TREE_ORDERED },   { 63, 9, TREE_STAR },
    { 64, 33, TREE_LONG },     { 250, 32, TREE_RANDOM },   { 255, 2, TREE_CHAIN },
    { 256, 40, TREE_ORDERED }, { 500, 48, TREE_TWO_WAYS }, { 516, 20, TREE_ORDERED },
};

/* Finds the package of a fetched model. Return: NULL, with a message, if another model than the default is not
 * there. */
static const char *package_of(const char *name) {
    static ImportReport report;
    ImportOptions options = import_options_default();
    char path[1024];
    ErrText err = { 0 };

    golden_model_path(name, path, sizeof(path));
    if (access(path, R_OK)) {
        print_message("%s is absent (%s): tools/fetch-model %s\n", name, path, name);
        return NULL;
    }
    if (import_run(path, NULL, &options, &report, &err))
        fail_msg("%s", err.text);
    return report.path;
}

/* Runs every `each`th case, on a sequence that has the positions of the longest. */
static void check_cases(Engine *engine, const char *what, size_t from, size_t each, uint64_t *random) {
    Sequence *base;
    TreeCase tree;

    assert_int_equal(sequence_new(&base, engine, CAPACITY, NULL), 0);
    tree_case_append(engine, base, 1, cases[ARRAY_LEN(cases) - 1].before);
    tree_case_init(&tree, engine);
    for (size_t i = from; i < ARRAY_LEN(cases); i += each) {
        Sequence *sequence, *plain;
        EngineSpan span;
        char which[200];

        snprintf(which, sizeof(which), "%s, case %zu", what, i);
        assert_int_equal(fork_sequence(&sequence, base, cases[i].before, CAPACITY, NULL), 0);
        assert_int_equal(fork_sequence(&plain, base, cases[i].before, CAPACITY, NULL), 0);
        tree_case_fill(&tree, random, cases[i].shape, cases[i].rows);
        tree_case_decode(&tree, plain);
        span = tree_case_span(&tree, sequence);
        assert_int_equal(engine_forward_spans(engine, &span, 1, NULL), 0);
        tree_case_compare(&tree, which);
        tree_case_go_on(&tree, sequence, plain, 5, BEHIND);
        tree_case_run_passes(&tree, sequence, random, ENGINE_TREE_ROWS_MAX, i % 2);
        tree_case_compare(&tree, which);
        tree_case_go_on(&tree, sequence, plain, 5, BEHIND);
        sequence_free(sequence);
        sequence_free(plain);
    }
    tree_case_deinit(&tree);
    sequence_free(base);
}

static void check_engine(const char *name, const char *package, Isa isa, unsigned int threads, size_t from,
                         size_t each) {
    uint64_t random = 20261125 + threads;
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    char what[100];
    ErrText err = { 0 };

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, threads), 0);
    if (engine_new(&engine,
                   &(EngineOptions){ .path = package,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.isa = isa,
                                     .load.chunk_tokens = CHUNK,
                                     .pool = pool,
                                     .accounts = &accounts },
                   &err))
        fail_msg("%s", err.text);
    snprintf(what, sizeof(what), "%s, %s, %u threads", name, isa_name(isa), threads);
    check_cases(engine, what, from, each, &random);
    engine_free(engine);
    worker_pool_free(pool);
    loaded_accounts_are_empty(&accounts);
}

/* Trees with the best kernels; some with the others if there is time. */
static void check_model(const char *name, bool all_isas) {
    const char *package = package_of(name);

    if (!package)
        skip();
    check_engine(name, package, ISA_BEST, 2, 0, all_isas ? 1 : 2);
    check_engine(name, package, ISA_BEST, 1, 3, 4);
    for (int isa = ISA_SCALAR + 1; all_isas && patience_is_long() && isa < _ISA_N;
         isa++) /* scalar would take minutes */
        if (isa_present((Isa)isa))
            check_engine(name, package, (Isa)isa, 1 + (unsigned int)isa % 2, 2 + (size_t)isa % 2, 5);
}

static void test_tree_models_default(void **state) {
    check_model(GOLDEN_DEFAULT_MODEL, true);
}

/* test_tree_step has windows of small models; this one takes 20 s. */
static void test_tree_models_window(void **state) {
    if (!patience_is_long())
        skip();
    check_model("gemma3-270m", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_models_default),
        cmocka_unit_test(test_tree_models_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
