// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/tree_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/fork.h"
#include "test/unit/loaded_engine.h"

void tree_model_init(TreeModel *model, const char *path, EngineDevice device, Isa isa, unsigned int threads) {
    ErrText err = { "" };

    account_table_init(&model->accounts);
    assert_int_equal(worker_pool_new(&model->pool, threads), 0);
    if (engine_new(&model->engine,
                   &(EngineOptions){ .path = path,
                                     .device = device,
                                     .isa = isa,
                                     .chunk_tokens = TREE_MODEL_CHUNK,
                                     .preemption = true,
                                     .group_rows = 64,
                                     .pool = model->pool,
                                     .accounts = &model->accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&model->base, model->engine, TREE_MODEL_CAPACITY, &err), 0);
    tree_case_append(model->engine, model->base, 1, TREE_MODEL_BASE);
}

void tree_model_deinit(TreeModel *model) {
    sequence_free(model->base);
    engine_free(model->engine);
    worker_pool_free(model->pool);
    loaded_accounts_are_empty(&model->accounts);
}

ModelMaker tree_model_maker(const char *arch) {
    static const ModelMakerKey caps[] = { { "attn_logit_softcapping", GGUF_F32, 2, NULL },
                                          { "final_logit_softcapping", GGUF_F32, 1, NULL } };
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = arch;
    if (!strcmp(arch, "gemma2")) {
        maker.keys = caps;
        maker.n_keys = ARRAY_LEN(caps);
    }
    maker.window = strcmp(arch, "gemma3") && strcmp(arch, "gemma2") ? 0 : TREE_MODEL_WINDOW;
    return maker;
}

const char *tree_model_package(ImportFixture *fixture, const char *arch, double bits, bool static_activations) {
    const ModelMaker maker = tree_model_maker(arch);

    return import_fixture_package(fixture, &maker, bits, static_activations);
}

Sequence *tree_model_fork(TreeModel *model, size_t n_tokens) {
    Sequence *sequence;

    assert_int_equal(fork_sequence(&sequence, model->base, n_tokens, TREE_MODEL_CAPACITY, NULL), 0);
    return sequence;
}

void tree_case_check_alone(TreeCase *tree, Sequence *sequence, Sequence *plain, const char *what) {
    EngineSpan span = tree_case_span(tree, sequence);

    tree_case_decode(tree, plain);
    assert_int_equal(engine_forward_spans(tree->engine, &span, 1, NULL), 0);
    assert_int_equal(tree->n_taken, tree->n);
    tree_case_compare(tree, what);
    tree_case_go_on(tree, sequence, plain, 7, TREE_MODEL_BEHIND);
}
