// SPDX-License-Identifier: Apache-2.0
/* Tests that calibration attends as the engine does with the package that comes of it: keys are divided by the same
 * powers of two, which depend on the package's very integers. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/core/engine_state.h"
#include "engine/engine.h"
#include "importer/calibration_text.h"
#include "importer/methods/calibrated.h"
#include "test/unit/importer/import_fixture.h"

enum {
    BALANCE_WIDTH = 32 /* 2 KV heads of 16 */
};

static float walk_balances[3][BALANCE_WIDTH]; /* of the layers */

/* Replaces quantize(): keeps the balance that the layer's rows were attended with. */
static int quantize_and_keep_balance(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    const Calibrated *calibrated = state;
    int r = import_method_calibrated.quantize(state, model, layer, err);

    if (!r && layer->layer >= 0)
        memcpy(walk_balances[layer->layer], calibrated->balance.balances + (size_t)layer->layer * BALANCE_WIDTH,
               sizeof(walk_balances[0]));
    return r;
}

static void raise_keys(float *values, size_t n, size_t k) {
    for (size_t i = 0; i < n; i += 5)
        values[i] *= (float)(8 << i % 4);
}

/* Returns how many channels the engine that loads the package does not leave as they are. */
static size_t expect_loaded_balances(const char *path) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _cleanup_(engine_freep) Engine *engine = NULL;
    AccountTable accounts;
    size_t n_other = 0;
    ErrText err;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    if (engine_new(
            &engine,
            &(EngineOptions){ .path = path, .load.device = ENGINE_DEVICE_CPU, .pool = pool, .accounts = &accounts },
            &err))
        fail_msg("%s", err.text);
    for (uint32_t layer = 0; layer < ARRAY_LEN(walk_balances); layer++) {
        const float *loaded = weights_layer(engine->weights, layer)->balance;

        for (size_t i = 0; i < BALANCE_WIDTH; i++) {
            assert_true(walk_balances[layer][i] == (loaded ? loaded[i] : 1));
            n_other += walk_balances[layer][i] != 1;
        }
    }
    return n_other;
}

typedef struct BalanceCase {
    const char *arch, *raised, *recipe; /* raised: vectors with heavy channels, or NULL */
    double bits;
    bool is_static;
} BalanceCase;

static void make(ImportFixture *fixture, const BalanceCase *case_, const ImportMethod *method) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    QuantRecipe *recipe = &fixture->options.recipe;
    size_t len_bytes;
    char name[300];

    maker.arch = case_->arch;
    maker.n_layers = ARRAY_LEN(walk_balances);
    maker.n_vocab = 300;
    maker.has_optional = case_->raised;
    import_fixture_source(fixture, &maker);
    for (uint32_t layer = 0; case_->raised && layer < maker.n_layers; layer++) {
        snprintf(name, sizeof(name), "blk.%u.%s", layer, case_->raised);
        import_fixture_change(fixture, name, raise_keys);
    }
    test_write_file(fixture->folder, "text.txt", calibration_text(&len_bytes), 2500);
    snprintf(name, sizeof(name), "%s/text.txt", fixture->folder);
    fixture->options.calibration_path = name;
    assert_int_equal(quant_recipe_named(recipe, case_->recipe), 0);
    quant_recipe_set_bits(recipe, case_->bits);
    recipe->static_activations = case_->is_static;
    recipe->hot_percent = recipe->prune_percent = 20;
    fixture->options.method = method;
    import_fixture_import_at(fixture, ISA_BEST);
}

static void test_calibrated_balance_is_the_package_s(void **state) {
    static const BalanceCase cases[] = {
        { "qwen2", "attn_k.bias", "compensated", 4, false },
        { "qwen2", "attn_k.bias", "edgeflow", 5, false },
        { "qwen2", "attn_k.bias", "int8", 8, true },
        { "gemma3", "attn_k_norm.weight", "compensated", 4.5, false },
        { "llama", NULL, "compensated", 4, false },
    };
    ImportMethod method = import_method_calibrated;
    ImportFixture *fixture = *state;

    method.quantize = quantize_and_keep_balance;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        make(fixture, &cases[i], &method);
        assert_true((expect_loaded_balances(fixture->out) > 0) == (cases[i].raised != NULL));
        assert_int_equal(remove(fixture->out), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_calibrated_balance_is_the_package_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
