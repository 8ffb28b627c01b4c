// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "quant/format/recipe_spec.h"

static QuantRecipe parse(const char *spec) {
    QuantRecipe recipe;
    ErrText err = { 0 };

    if (recipe_spec_parse(&recipe, spec, &err))
        fail_msg("%s", err.text);
    return recipe;
}

static void test_recipe_spec_parse(void **state) {
    QuantRecipe named, recipe = parse("compensated");

    assert_int_equal(quant_recipe_named(&named, "compensated"), 0);
    assert_memory_equal(&recipe, &named, sizeof(recipe));

    recipe = parse("compensated:4:-rotation:-compensation:-descent:-scale-search:+allocation=tensor:embedding-bits=6");
    assert_true(recipe.bits == 4);
    assert_false(recipe.rotate || recipe.compensate || recipe.descend || recipe.search_scales || recipe.smooth);
    assert_int_equal(recipe.allocation, QUANT_ALLOCATION_TENSOR);
    assert_int_equal(recipe.embedding_bits, 6);

    recipe = parse("compensated:4:-gain-correction");
    assert_true(!recipe.correct_gain && recipe.compensate && recipe.descend);

    recipe = parse("edgeflow:4.25:-smoothing:+rotation:budget-bytes=123456789012");
    assert_true(recipe.bits == 4.25);
    assert_true(recipe.rotate && !recipe.smooth);
    assert_true(recipe.budget_bytes == 123456789012u);

    recipe = parse("int8:8:+static-activations:hot-channels=1.5:+prune-outliers=100");
    assert_true(recipe.static_activations && recipe.hot_percent == 1.5 && recipe.prune_percent == 100);
    recipe = parse("int8:8:+static-activations");
    assert_true(recipe.hot_percent == QUANT_HOT_PERCENT && recipe.prune_percent == QUANT_PRUNE_PERCENT);

    /* Fractional widths turn a uniform allocation into one by tensor; a named allocation is kept. */
    assert_int_equal(parse("int8:6").allocation, QUANT_ALLOCATION_UNIFORM);
    assert_int_equal(parse("int8:4.5").allocation, QUANT_ALLOCATION_TENSOR);
    assert_int_equal(parse("int8:6:allocation=tensor").allocation, QUANT_ALLOCATION_TENSOR);
}

static void test_recipe_spec_refuses(void **state) {
    static const struct {
        const char *spec, *expected;
    } rows[] = {
        { "", "no recipe is called ''" },
        { "int7:4", "no recipe is called 'int7'" },
        { "int8:4x", "'4x' is not a number of bits" },
        { "int8:0x4", "'0x4' is not a number of bits" },
        { "int8:nan", "'nan' is not known" },
        { "int8:-4", "'-4' is not known" },
        { "int8:9", "9 bits a weight" },
        { "int8:0.5", "0.5 bits a weight" },
        { "int8:4:rotation", "'rotation' is not known" },
        { "int8:4:+wide-rotation", "'+wide-rotation' is not known" },
        { "int8:4:-rotations", "'-rotations' is not known" },
        { "int8:4:", "'' is not known" },
        { "int8:4:allocation=all", "not 'all'" },
        { "int8:4:grid=gaussian", "grid is uniform or normal, not 'gaussian'" },
        { "int8:4.5:allocation=uniform", "4.5 bits in every channel alike" },
        { "int8:4:colour=red", "'colour=' is not known" },
        { "int8:4:=", "'=' is not known" },
        { "int8:4:embedding-bits=", "embedding-bits is a whole number" },
        { "int8:4:embedding-bits=4294967300", "embedding-bits is a whole number" },
        { "int8:4:embedding-bits=0", "embedding-bits is a whole number from 1 to 8, not '0'" },
        { "int8:4:budget-bytes=-1", "budget-bytes is a whole number" },
        { "edgeflow:4:+rotation", "smoothing" },
        { "int8:8:+static-activations:hot-channels=", "hot-channels is a number of percent" },
        { "int8:8:+static-activations:hot-channels=3x", "hot-channels is a number of percent" },
        { "int8:8:+static-activations:hot-channels=0x3", "hot-channels is a number of percent" },
        { "int8:8:+static-activations:prune-outliers=-1", "-1 % of the operators pruned" },
        { "int8:8:+static-activations:prune-outliers=101", "101 % of the operators pruned" },
        { "int8:hot-channels=4", "hot-channels: only static activations have outliers: add +static-activations" },
        { "int8:+static-activations:prune-outliers=4:-static-activations", "prune-outliers: only static activations" },
    };
    char spec[2 * RECIPE_SPEC_MAX];
    QuantRecipe recipe = { .bits = 77 };
    ErrText err = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(recipe_spec_parse(&recipe, rows[i].spec, &err), -EINVAL);
        if (!strstr(err.text, rows[i].expected))
            fail_msg("'%s' is not in: %s", rows[i].expected, err.text);
        assert_true(recipe.bits == 77);
    }
    memset(spec, ':', sizeof(spec));
    memcpy(spec, "int8", 4);
    spec[sizeof(spec) - 1] = 0;
    assert_int_equal(recipe_spec_parse(&recipe, spec, &err), -EINVAL);
}

static QuantRecipe take(RecipeSpec spec) {
    QuantRecipe recipe;
    ErrText err = { 0 };

    if (recipe_spec_take(&recipe, &spec, &err))
        fail_msg("%s", err.text);
    return recipe;
}

/* Options beside the spec act as if in front of its switches, so that the spec's switches prevail. */
static void test_recipe_spec_take(void **state) {
    const double four = 4, half = 4.5, nine = 9;
    QuantRecipe named, recipe = take((RecipeSpec){ 0 });
    ErrText err = { 0 };

    assert_int_equal(quant_recipe_named(&named, NULL), 0);
    assert_memory_equal(&recipe, &named, sizeof(recipe));
    recipe = take((RecipeSpec){ .text = "compensated", .bits = &four });
    named = parse("compensated:4");
    assert_true(recipe.correct_gain);
    assert_memory_equal(&recipe, &named, sizeof(recipe));
    recipe = take((RecipeSpec){ .text = "compensated:-gain-correction", .bits = &four });
    assert_true(!recipe.correct_gain && recipe.bits == 4);
    assert_int_equal(take((RecipeSpec){ .bits = &half }).allocation, QUANT_ALLOCATION_TENSOR);
    assert_int_equal(take((RecipeSpec){ .text = "int8:allocation=model", .bits = &half }).allocation,
                     QUANT_ALLOCATION_MODEL);

    recipe = take((RecipeSpec){ .text = "int8:hot-channels=1", .profile = "mobile" });
    assert_true(recipe.static_activations && recipe.hot_percent == 1);
    assert_false(take((RecipeSpec){ .text = "int8:-static-activations", .profile = "mobile" }).static_activations);

    assert_int_equal(recipe_spec_take(&recipe, &(RecipeSpec){ .text = "int8:4", .bits = &four }, &err), -EINVAL);
    assert_non_null(strstr(err.text, "'int8:4' says how many bits, which are given beside it too: leave one out"));
    assert_int_equal(recipe_spec_take(&recipe, &(RecipeSpec){ .text = "int8:budget-bytes=5", .budget_bytes = 5 }, &err),
                     -EINVAL);
    assert_non_null(strstr(err.text, "has a budget of bytes, which is given beside it too: leave one out"));
    assert_int_equal(recipe_spec_take(&recipe, &(RecipeSpec){ .profile = "phone" }, &err), -EINVAL);
    assert_string_equal(err.text, "profile 'phone': one of native, mobile");
    assert_int_equal(recipe_spec_take(&recipe, &(RecipeSpec){ .bits = &nine }, &err), -EINVAL);
    assert_string_equal(err.text, "recipe int8: 9 bits a weight: give an average from 1 to 8");
}

/* Without bits, as many as fit, wherever the budget stands; a switch prevails over that. */
static void test_recipe_spec_budget(void **state) {
    QuantRecipe recipe = parse("compensated:budget-bytes=900");

    assert_true(recipe.bits == 8 && recipe.budget_bytes == 900 && recipe.correct_gain);
    recipe = parse("compensated:-gain-correction:budget-bytes=900");
    assert_true(recipe.bits == 8 && !recipe.correct_gain);
    recipe = take((RecipeSpec){ .text = "int8", .budget_bytes = 900 });
    assert_true(recipe.bits == 8 && recipe.budget_bytes == 900 && recipe.allocation == QUANT_ALLOCATION_TENSOR);
    assert_int_equal(parse("int8:allocation=uniform:budget-bytes=900").allocation, QUANT_ALLOCATION_UNIFORM);
    recipe = parse("compensated:4:budget-bytes=900");
    assert_true(recipe.bits == 4 && recipe.budget_bytes == 900);
    recipe = parse("compensated:budget-bytes=0");
    assert_true(recipe.bits == 5 && !recipe.budget_bytes);
}

/* Formatting gives what was read, in one normal form. */
static void test_recipe_spec_format(void **state) {
    static const struct {
        const char *spec, *expected;
    } rows[] = {
        { "int8", "int8:8" },
        { "int8:8:+rotation:allocation=uniform:embedding-bits=8:budget-bytes=0", "int8:8" },
        { "int8:4.5", "int8:4.5" },
        { "int8:+static-activations:prune-outliers=85:hot-channels=4", "int8:8:+static-activations:hot-channels=4" },
        { "int8:-rotation:+static-activations:prune-outliers=0",
          "int8:8:-rotation:+static-activations:prune-outliers=0" },
        { "compensated:4:grid=uniform", "compensated:4:grid=uniform" },
        { "compensated:4:grid=normal", "compensated:4" },
        { "int8:3:grid=normal", "int8:3:grid=normal" },
        { "compact", "compact:6" },
        { "compact:5.5:grid=uniform", "compact:5.5:grid=uniform" },
        { "int8:6:allocation=tensor:-rotation", "int8:6:-rotation:allocation=tensor" },
        { "compensated:4:embedding-bits=6:-descent:-compensation:-scale-search",
          "compensated:4:-scale-search:-compensation:-descent:embedding-bits=6" },
        { "edgeflow:5:-smoothing:+rotation:+scale-search:+compensation:allocation=model:embedding-bits=4:"
          "budget-bytes=18446744073709551615",
          "edgeflow:5:+rotation:+scale-search:-smoothing:+compensation:allocation=model:embedding-bits=4:"
          "budget-bytes=18446744073709551615" },
    };
    char text[RECIPE_SPEC_MAX], again[RECIPE_SPEC_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        QuantRecipe recipe = parse(rows[i].spec);

        recipe_spec_format(text, &recipe);
        assert_string_equal(text, rows[i].expected);
        recipe = parse(text);
        recipe_spec_format(again, &recipe);
        assert_string_equal(again, text);
    }
}

/* Every switch differs from its default, with the longest numbers. */
static void test_recipe_spec_longest(void **state) {
    static const char *const names[] = { "int8", "edgeflow", "compensated", "compact" };
    char text[RECIPE_SPEC_MAX], again[RECIPE_SPEC_MAX];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        QuantRecipe recipe;

        assert_int_equal(quant_recipe_named(&recipe, names[i]), 0);
        recipe.bits = 4.12345;
        recipe.embedding_bits = 4;
        recipe.budget_bytes = UINT64_MAX;
        recipe.smooth = !recipe.smooth;
        recipe.rotate = !recipe.smooth; /* one of them */
        recipe.grid = recipe.grid == GRID_UNIFORM ? GRID_NORMAL : GRID_UNIFORM;
        recipe.search_scales = !recipe.search_scales;
        recipe.compensate = !recipe.compensate;
        recipe.descend = !recipe.descend;
        recipe.correct_gain = !recipe.correct_gain;
        recipe.allocation = i >= 2 ? QUANT_ALLOCATION_TENSOR : QUANT_ALLOCATION_MODEL;
        recipe.static_activations = true;
        recipe.hot_percent = recipe.prune_percent = 1.23457e-300;
        memset(text, 'x', sizeof(text));
        recipe_spec_format(text, &recipe);
        assert_non_null(memchr(text, 0, sizeof(text)));
        assert_non_null(strstr(text, ":budget-bytes=18446744073709551615"));
        recipe = parse(text);
        recipe_spec_format(again, &recipe);
        assert_string_equal(again, text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipe_spec_parse),   cmocka_unit_test(test_recipe_spec_longest),
        cmocka_unit_test(test_recipe_spec_refuses), cmocka_unit_test(test_recipe_spec_take),
        cmocka_unit_test(test_recipe_spec_budget),  cmocka_unit_test(test_recipe_spec_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
