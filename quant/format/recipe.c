// SPDX-License-Identifier: Apache-2.0
#include "quant/format/recipe.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"

/* Recipes with compensation correct the gain of widths below this. */
#define GAIN_BITS 5

/* The first recipe is the default. */
static const QuantRecipe recipes[] = {
    /* Rounds to nearest without a calibration text. After rotation the channels of a tensor are so similar that
     * Algorithm 1 at a whole width would change next to nothing: every channel gets the same width. */
    {
        .name = "int8",
        .bits = 8,
        .embedding_bits = 8,
        .rotate = true,
        .search_scales = true,
        .allocation = QUANT_ALLOCATION_UNIFORM,
    },
    /* EdgeFlow 4.1 alone: uniform quantization with the scale of the largest weight, Algorithm 1 in every tensor,
     * smoothing. The default of 5 bits is the paper's. */
    {
        .name = "edgeflow",
        .bits = 5,
        .embedding_bits = 8,
        .smooth = true,
        .allocation = QUANT_ALLOCATION_TENSOR,
    },
    /* Rotation, levels for rotated weights, OPTQ, coordinate descent, one budget for the whole model; gain correction
     * at few bits. */
    {
        .name = "compensated",
        .bits = 5,
        .embedding_bits = 8,
        .rotate = true,
        .grid = GRID_NORMAL,
        .search_scales = true,
        .compensate = true,
        .descend = true,
        .allocation = QUANT_ALLOCATION_MODEL,
    },
    /* Recipe `compensated` at the fewest whole bits that keep as many of smollm2-135m's most probable tokens as 8 bits,
     * rounded, do (docs/lab/recipes-divergence.md). */
    {
        .name = "compact",
        .bits = 6,
        .embedding_bits = 8,
        .rotate = true,
        .grid = GRID_NORMAL,
        .search_scales = true,
        .compensate = true,
        .descend = true,
        .allocation = QUANT_ALLOCATION_MODEL,
    },
};

static const char *const allocations[] = {
    [QUANT_ALLOCATION_UNIFORM] = "uniform",
    [QUANT_ALLOCATION_TENSOR] = "tensor",
    [QUANT_ALLOCATION_MODEL] = "model",
};

int quant_recipe_named(QuantRecipe *recipe, const char *name) {
    if (!name)
        name = recipes[0].name;
    for (size_t i = 0; i < ARRAY_LEN(recipes); i++)
        if (!strcmp(recipes[i].name, name)) {
            *recipe = recipes[i];
            recipe->hot_percent = QUANT_HOT_PERCENT;
            recipe->prune_percent = QUANT_PRUNE_PERCENT;
            return 0;
        }
    return -ENOENT;
}

int quant_recipe_set_profile(QuantRecipe *recipe, const char *name) {
    bool is_mobile = !strcmp(name, "mobile");

    if (!is_mobile && strcmp(name, "native"))
        return -ENOENT;
    recipe->static_activations = is_mobile;
    recipe->hot_percent = QUANT_HOT_PERCENT;
    recipe->prune_percent = QUANT_PRUNE_PERCENT;
    return 0;
}

static bool is_whole(double bits) {
    return bits == floor(bits);
}

/**
 * quant_recipe_set_bits() - choose the average width
 * @bits: any number; quant_recipe_check() checks it
 *
 * A user who only asks for 4.5 bits wants some channels at 4 and some at 5. At 5 bits outputs lose less than 0.1 % of
 * their size, which does not show in answers: gain correction is for fewer bits. An allocation or a step by name is
 * set afterwards.
 */
void quant_recipe_set_bits(QuantRecipe *recipe, double bits) {
    recipe->bits = bits;
    if (recipe->allocation == QUANT_ALLOCATION_UNIFORM && !is_whole(bits))
        recipe->allocation = QUANT_ALLOCATION_TENSOR;
    recipe->correct_gain = recipe->compensate && bits < GAIN_BITS;
}

/* Starts from 8 bits, whatever the recipe has without a budget, and lowers them in fractions: whole bits would leave
 * up to a tenth of the bytes unused. */
void quant_recipe_fill_budget(QuantRecipe *recipe) {
    recipe->bits = GRID_BITS_MAX;
    recipe->correct_gain = recipe->compensate; /* the budget may leave few bits */
    if (recipe->allocation == QUANT_ALLOCATION_UNIFORM)
        recipe->allocation = QUANT_ALLOCATION_TENSOR;
}

/**
 * quant_recipe_check() - check ranges, and switches that contradict each other
 * @err: names the value and the remedy; may be NULL
 *
 * Rotation and smoothing solve the same problem, and each spoils the other: smoothing is chosen for the channels of
 * the input, which rotation mixes.
 *
 * Return: 0 or -EINVAL.
 */
int quant_recipe_check(const QuantRecipe *recipe, ErrText *err) {
    const char *name = recipe->name ? recipe->name : "?";

    if (!(recipe->bits >= GRID_BITS_MIN && recipe->bits <= GRID_BITS_MAX))
        return err_set(err, -EINVAL, "recipe %s: %g bits a weight: give an average from %d to %d", name, recipe->bits,
                       GRID_BITS_MIN, GRID_BITS_MAX);
    if (recipe->embedding_bits < GRID_BITS_MIN || recipe->embedding_bits > GRID_BITS_MAX)
        return err_set(err, -EINVAL, "recipe %s: embeddings of %u bits: give a whole number from %d to %d", name,
                       recipe->embedding_bits, GRID_BITS_MIN, GRID_BITS_MAX);
    if ((unsigned int)recipe->allocation >= ARRAY_LEN(allocations))
        return err_set(err, -EINVAL, "recipe %s: allocation %d is not known: take uniform, tensor or model", name,
                       (int)recipe->allocation);
    if (recipe->allocation == QUANT_ALLOCATION_UNIFORM && !is_whole(recipe->bits))
        return err_set(err, -EINVAL,
                       "recipe %s: %g bits in every channel alike: give a whole number of bits, or the allocation "
                       "tensor or model, which mix widths",
                       name, recipe->bits);
    if ((unsigned int)recipe->grid >= _GRID_N)
        return err_set(err, -EINVAL, "recipe %s: grid %d is not known: take uniform or normal", name,
                       (int)recipe->grid);
    if (!(recipe->hot_percent >= 0 && recipe->hot_percent <= 100))
        return err_set(err, -EINVAL, "recipe %s: %g %% hot channels: give 0 to 100", name, recipe->hot_percent);
    if (!(recipe->prune_percent >= 0 && recipe->prune_percent <= 100))
        return err_set(err, -EINVAL, "recipe %s: %g %% of the operators pruned: give 0 to 100", name,
                       recipe->prune_percent);
    if (recipe->smooth && recipe->rotate)
        return err_set(err, -EINVAL,
                       "recipe %s: smoothing works on the channels of an input, which rotation mixes: switch off "
                       "one of them",
                       name);
    return 0;
}

const char *quant_allocation_name(QuantAllocation allocation) {
    return (unsigned int)allocation < ARRAY_LEN(allocations) ? allocations[allocation] : "?";
}

int quant_allocation_named(QuantAllocation *allocationp, const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(allocations); i++)
        if (!strcmp(allocations[i], name)) {
            *allocationp = (QuantAllocation)i;
            return 0;
        }
    return -ENOENT;
}
