// SPDX-License-Identifier: Apache-2.0
/* Tests of quantization recipes: the meaning of their names, and refused contradictions. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "quant/format/recipe.h"

static void test_recipe_names(void **state) {
    QuantRecipe recipe, untouched;

    assert_int_equal(quant_recipe_named(&recipe, NULL), 0);
    assert_string_equal(recipe.name, "int8");
    assert_true(recipe.bits == 8 && recipe.embedding_bits == 8 && recipe.rotate && recipe.search_scales &&
                !recipe.smooth && !recipe.compensate && !recipe.descend &&
                recipe.allocation == QUANT_ALLOCATION_UNIFORM && !recipe.budget_bytes);
    assert_false(quant_recipe_needs_calibration(&recipe));

    assert_int_equal(quant_recipe_named(&recipe, "edgeflow"), 0);
    assert_true(recipe.bits == 5 && recipe.embedding_bits == 8 && !recipe.rotate && !recipe.search_scales &&
                recipe.smooth && !recipe.compensate && !recipe.descend && recipe.allocation == QUANT_ALLOCATION_TENSOR);
    assert_true(quant_recipe_needs_calibration(&recipe));

    assert_int_equal(quant_recipe_named(&recipe, "compensated"), 0);
    assert_true(recipe.bits == 5 && recipe.embedding_bits == 8 && recipe.rotate && recipe.search_scales &&
                !recipe.smooth && recipe.compensate && recipe.descend && !recipe.correct_gain &&
                recipe.allocation == QUANT_ALLOCATION_MODEL);
    assert_true(quant_recipe_needs_calibration(&recipe));
    quant_recipe_set_bits(&recipe, 5);
    assert_false(quant_recipe_corrects_gain(&recipe));
    quant_recipe_fill_budget(&recipe);
    assert_true(quant_recipe_corrects_gain(&recipe) && recipe.bits == 8);
    quant_recipe_set_bits(&recipe, 4.9);
    recipe.compensate = false;
    assert_true(quant_recipe_corrects_gain(&recipe));
    recipe.descend = false;
    assert_false(quant_recipe_corrects_gain(&recipe));

    assert_int_equal(quant_recipe_named(&recipe, "compact"), 0);
    assert_true(recipe.bits == 6 && !recipe.correct_gain);
    assert_int_equal(quant_recipe_named(&untouched, "compensated"), 0);
    quant_recipe_set_bits(&untouched, 6);
    untouched.name = recipe.name;
    assert_memory_equal(&recipe, &untouched, sizeof(recipe)); /* the name stands for these bits alone */
    quant_recipe_set_bits(&recipe, 4.5);
    assert_true(quant_recipe_corrects_gain(&recipe));

    untouched = recipe;
    assert_int_equal(quant_recipe_named(&recipe, "int4"), -ENOENT);
    assert_int_equal(quant_recipe_named(&recipe, ""), -ENOENT);
    assert_memory_equal(&recipe, &untouched, sizeof(recipe));
}

static void test_recipe_defaults_hold(void **state) {
    static const char *const names[] = { "int8", "edgeflow", "compensated", "compact" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (double bits = 1; bits <= 8; bits += 0.25) {
            QuantRecipe recipe;
            ErrText err = { 0 };

            assert_int_equal(quant_recipe_named(&recipe, names[i]), 0);
            assert_int_equal(quant_recipe_check(&recipe, &err), 0);
            quant_recipe_set_bits(&recipe, bits);
            assert_int_equal(quant_recipe_check(&recipe, &err), 0);
            assert_true(recipe.bits == bits);
            assert_string_equal(err.text, "");
        }
}

static void test_recipe_set_bits(void **state) {
    QuantRecipe recipe;

    assert_int_equal(quant_recipe_named(&recipe, "int8"), 0);
    quant_recipe_set_bits(&recipe, 4);
    assert_int_equal(recipe.allocation, QUANT_ALLOCATION_UNIFORM);
    quant_recipe_set_bits(&recipe, 4.5);
    assert_int_equal(recipe.allocation, QUANT_ALLOCATION_TENSOR);
    assert_int_equal(quant_recipe_named(&recipe, "compensated"), 0);
    quant_recipe_set_bits(&recipe, 4.5);
    assert_int_equal(recipe.allocation, QUANT_ALLOCATION_MODEL);
}

static void assert_refused(const QuantRecipe *recipe, const char *what, const char *remedy) {
    ErrText err = { 0 };

    assert_int_equal(quant_recipe_check(recipe, &err), -EINVAL);
    assert_int_equal(quant_recipe_check(recipe, NULL), -EINVAL);
    assert_non_null(strstr(err.text, recipe->name));
    assert_non_null(strstr(err.text, what));
    assert_non_null(strstr(err.text, remedy));
}

static void test_recipe_profiles(void **state) {
    QuantRecipe recipe, before;

    assert_int_equal(quant_recipe_named(&recipe, NULL), 0);
    before = recipe;
    assert_false(quant_recipe_needs_calibration(&recipe));
    assert_int_equal(quant_recipe_set_profile(&recipe, "mobil"), -ENOENT);
    assert_memory_equal(&recipe, &before, sizeof(recipe));
    assert_int_equal(quant_recipe_set_profile(&recipe, "mobile"), 0);
    assert_true(recipe.static_activations && quant_recipe_needs_calibration(&recipe));
    recipe.hot_percent = 100.5;
    assert_int_equal(quant_recipe_check(&recipe, NULL), -EINVAL);
    recipe.hot_percent = NAN;
    assert_int_equal(quant_recipe_check(&recipe, NULL), -EINVAL);
    recipe.hot_percent = 0;
    assert_int_equal(quant_recipe_check(&recipe, NULL), 0);
    assert_int_equal(quant_recipe_set_profile(&recipe, "native"), 0);
    assert_memory_equal(&recipe, &before, sizeof(recipe));
}

static void test_recipe_contradictions(void **state) {
    static const double bad_bits[] = { 0, 0.999, 8.001, -5, NAN, INFINITY, -INFINITY };
    QuantRecipe good, recipe;

    assert_int_equal(quant_recipe_named(&good, "int8"), 0);
    for (size_t i = 0; i < 7; i++) {
        recipe = good;
        recipe.bits = bad_bits[i];
        assert_refused(&recipe, "bits a weight", "from 1 to 8");
    }
    recipe = good;
    recipe.embedding_bits = 0;
    assert_refused(&recipe, "embeddings of 0 bits", "from 1 to 8");
    recipe.embedding_bits = 9;
    assert_refused(&recipe, "embeddings of 9 bits", "from 1 to 8");
    recipe = good;
    recipe.allocation = (QuantAllocation)3;
    assert_refused(&recipe, "allocation 3", "uniform, tensor or model");
    recipe = good;
    recipe.bits = 4.5;
    assert_refused(&recipe, "4.5 bits in every channel", "tensor or model");
    recipe = good;
    recipe.smooth = true;
    assert_refused(&recipe, "rotation mixes", "switch off one");
    recipe.rotate = false;
    assert_int_equal(quant_recipe_check(&recipe, NULL), 0);
}

static void test_allocation_names(void **state) {
    static const char *const names[] = { "uniform", "tensor", "model" };
    QuantAllocation allocation;

    for (int i = 0; i < 3; i++) {
        assert_string_equal(quant_allocation_name((QuantAllocation)i), names[i]);
        assert_int_equal(quant_allocation_named(&allocation, names[i]), 0);
        assert_int_equal(allocation, i);
    }
    assert_int_equal(quant_allocation_named(&allocation, "channel"), -ENOENT);
    assert_int_equal(allocation, QUANT_ALLOCATION_MODEL);
    assert_string_equal(quant_allocation_name((QuantAllocation)9), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipe_names),    cmocka_unit_test(test_recipe_defaults_hold),
        cmocka_unit_test(test_recipe_set_bits), cmocka_unit_test(test_recipe_contradictions),
        cmocka_unit_test(test_recipe_profiles), cmocka_unit_test(test_allocation_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
