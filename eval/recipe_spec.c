// SPDX-License-Identifier: Apache-2.0
#include "eval/recipe_spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/decimal.h"

/* Names as in the options of `coordgenctl model import`: --no-rotation is -rotation here. */
static const struct {
    const char *name;
    size_t offset; /* of a bool in QuantRecipe */
} steps[] = {
    { "rotation", offsetof(QuantRecipe, rotate) },
    { "wide-rotation", offsetof(QuantRecipe, rotate_wide) },
    { "scale-search", offsetof(QuantRecipe, search_scales) },
    { "smoothing", offsetof(QuantRecipe, smooth) },
    { "compensation", offsetof(QuantRecipe, compensate) },
    { "descent", offsetof(QuantRecipe, descend) },
    { "gain-correction", offsetof(QuantRecipe, correct_gain) },
    { "static-activations", offsetof(QuantRecipe, static_activations) },
};

static const struct {
    const char *name;
    size_t offset; /* of a double in QuantRecipe */
} percents[] = {
    { "hot-channels", offsetof(QuantRecipe, hot_percent) },
    { "prune-outliers", offsetof(QuantRecipe, prune_percent) },
};

static double *percent_of(QuantRecipe *recipe, size_t percent) {
    return (double *)(void *)((char *)recipe + percents[percent].offset);
}

static bool *recipe_step(QuantRecipe *recipe, size_t step) {
    return (bool *)((char *)recipe + steps[step].offset);
}

static int parse_setting(QuantRecipe *recipe, char *word, const char *spec, ErrText *err) {
    char *value = strchr(word, '=');
    uint64_t number = 0;

    *value++ = 0;
    for (size_t i = 0; i < ARRAY_LEN(percents); i++)
        if (!strcmp(word, percents[i].name)) {
            if (decimal_parse(value, percent_of(recipe, i)))
                return 0;
            return err_set(err, -EINVAL, "'%.100s': %s is a number of percent, not '%.32s'", spec, word, value);
        }
    if (!strcmp(word, "allocation")) {
        if (!quant_allocation_named(&recipe->allocation, value))
            return 0;
        return err_set(err, -EINVAL, "'%.100s': allocation is uniform, tensor or model, not '%.32s'", spec, value);
    }
    if (!strcmp(word, "grid")) {
        if (!grid_named(&recipe->grid, value))
            return 0;
        return err_set(err, -EINVAL, "'%.100s': grid is uniform or normal, not '%.32s'", spec, value);
    }
    if (strcmp(word, "embedding-bits") && strcmp(word, "budget-bytes"))
        return err_set(
            err, -EINVAL,
            "'%.100s': '%.32s=' is not known: allocation=, grid=, embedding-bits=, budget-bytes=, hot-channels=, "
            "prune-outliers= are",
            spec, word);
    if (!decimal_parse_u64(value, &number) || (*word == 'e' && number > 8))
        return err_set(err, -EINVAL, "'%.100s': %s is a whole number, not '%.32s'", spec, word, value);
    if (*word == 'e')
        recipe->embedding_bits = (uint32_t)number;
    else
        recipe->budget_bytes = number;
    return 0;
}

static int parse_word(QuantRecipe *recipe, char *word, const char *spec, ErrText *err) {
    if (strchr(word, '='))
        return parse_setting(recipe, word + (*word == '+'), spec, err);
    for (size_t i = 0; (*word == '+' || *word == '-') && i < ARRAY_LEN(steps); i++)
        if (!strcmp(word + 1, steps[i].name)) {
            *recipe_step(recipe, i) = *word == '+';
            return 0;
        }
    return err_set(
        err, -EINVAL,
        "'%.100s': '%.32s' is not known: + or - rotation, wide-rotation, scale-search, smoothing, compensation, descent, "
        "gain-correction or static-activations, or allocation=, grid=, embedding-bits=, budget-bytes=, hot-channels=, "
        "prune-outliers=",
        spec, word);
}

/**
 * recipe_spec_parse() - NAME[:BITS][:SWITCH...]
 * @spec: NAME is a recipe's; BITS an average width; a SWITCH is +STEP, -STEP or KEY=VALUE (+KEY=VALUE is the same)
 *
 * Return: 0, -EINVAL or -ENOMEM; @recipe is set only when 0 is returned.
 */
int recipe_spec_parse(QuantRecipe *recipe, const char *spec, ErrText *err) {
    _cleanup_(freep) char *copy = strdup(spec);
    char *rest = copy, *word;
    QuantRecipe made;
    double bits;
    int r;

    if (!copy)
        return err_set(err, -ENOMEM, "out of memory");
    if (strlen(spec) >= RECIPE_SPEC_MAX)
        return err_set(err, -EINVAL, "'%.100s...': a recipe has at most %d characters", spec, RECIPE_SPEC_MAX - 1);
    word = strsep(&rest, ":");
    if (quant_recipe_named(&made, word))
        return err_set(err, -EINVAL, "'%.100s': no recipe is called '%.32s': int8, edgeflow and compensated are known",
                       spec, word);
    if (rest && *rest >= '0' && *rest <= '9') {
        word = strsep(&rest, ":");
        if (!decimal_parse(word, &bits))
            return err_set(err, -EINVAL, "'%.100s': '%.32s' is not a number of bits", spec, word);
        quant_recipe_set_bits(&made, bits);
    }
    while (rest) {
        r = parse_word(&made, strsep(&rest, ":"), spec, err);
        if (r)
            return r;
    }
    r = quant_recipe_check(&made, err);
    if (r) {
        err_prefix(err, "'%.100s'", spec);
        return r;
    }
    *recipe = made;
    return 0;
}

void recipe_spec_format(char text[RECIPE_SPEC_MAX], const QuantRecipe *recipe) {
    QuantRecipe usual, own = *recipe;
    int n;

    if (quant_recipe_named(&usual, recipe->name))
        (void)quant_recipe_named(&usual, NULL);
    quant_recipe_set_bits(&usual, recipe->bits);
    if (!own.rotate) /* it has nothing to say */
        own.rotate_wide = usual.rotate_wide;
    if (!quant_recipe_needs_moments(&own)) /* nor has this */
        own.correct_gain = usual.correct_gain;
    n = snprintf(text, RECIPE_SPEC_MAX, "%s:%g", recipe->name, recipe->bits);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (*recipe_step(&own, i) != *recipe_step(&usual, i))
            n += snprintf(text + n, RECIPE_SPEC_MAX - (size_t)n, ":%c%s", *recipe_step(&own, i) ? '+' : '-',
                          steps[i].name);
    if (own.allocation != usual.allocation)
        n += snprintf(text + n, RECIPE_SPEC_MAX - (size_t)n, ":allocation=%s", quant_allocation_name(own.allocation));
    if (own.grid != usual.grid)
        n += snprintf(text + n, RECIPE_SPEC_MAX - (size_t)n, ":grid=%s", grid_name(own.grid));
    if (own.embedding_bits != usual.embedding_bits)
        n += snprintf(text + n, RECIPE_SPEC_MAX - (size_t)n, ":embedding-bits=%" PRIu32, own.embedding_bits);
    for (size_t i = 0; own.static_activations && i < ARRAY_LEN(percents); i++)
        if (*percent_of(&own, i) != *percent_of(&usual, i))
            n += snprintf(text + n, RECIPE_SPEC_MAX - (size_t)n, ":%s=%g", percents[i].name, *percent_of(&own, i));
    if (own.budget_bytes)
        snprintf(text + n, RECIPE_SPEC_MAX - (size_t)n, ":budget-bytes=%" PRIu64, own.budget_bytes);
}
