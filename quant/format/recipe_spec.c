// SPDX-License-Identifier: Apache-2.0
#include "quant/format/recipe_spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/decimal.h"

static const struct {
    const char *name;
    size_t offset; /* of a bool in QuantRecipe */
} steps[] = {
    { "rotation", offsetof(QuantRecipe, rotate) },
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

/* A recipe while its spec is read. */
typedef struct Reader {
    const char *text;
    QuantRecipe recipe;
    const char *percent; /* the last named setting of static activations; NULL: none */
} Reader;

static int read_setting(Reader *reader, char *word, ErrText *err) {
    QuantRecipe *recipe = &reader->recipe;
    char *value = strchr(word, '=');
    uint64_t number = 0;

    *value++ = 0;
    for (size_t i = 0; i < ARRAY_LEN(percents); i++)
        if (!strcmp(word, percents[i].name)) {
            reader->percent = percents[i].name;
            if (decimal_parse(value, percent_of(recipe, i)))
                return 0;
            return err_set(err, -EINVAL, "'%.100s': %s is a number of percent, not '%.32s'", reader->text, word, value);
        }
    if (!strcmp(word, "allocation")) {
        if (!quant_allocation_named(&recipe->allocation, value))
            return 0;
        return err_set(err, -EINVAL, "'%.100s': allocation is uniform, tensor or model, not '%.32s'", reader->text,
                       value);
    }
    if (!strcmp(word, "grid")) {
        if (!grid_named(&recipe->grid, value))
            return 0;
        return err_set(err, -EINVAL, "'%.100s': grid is uniform or normal, not '%.32s'", reader->text, value);
    }
    if (strcmp(word, "embedding-bits") && strcmp(word, "budget-bytes"))
        return err_set(
            err, -EINVAL,
            "'%.100s': '%.32s=' is not known: allocation=, grid=, embedding-bits=, budget-bytes=, hot-channels=, "
            "prune-outliers= are",
            reader->text, word);
    if (*word == 'e') {
        if (!decimal_parse_u64(value, &number) || number < GRID_BITS_MIN || number > GRID_BITS_MAX)
            return err_set(err, -EINVAL, "'%.100s': %s is a whole number from %d to %d, not '%.32s'", reader->text,
                           word, GRID_BITS_MIN, GRID_BITS_MAX, value);
        recipe->embedding_bits = (uint32_t)number;
        return 0;
    }
    if (!decimal_parse_u64(value, &recipe->budget_bytes))
        return err_set(err, -EINVAL, "'%.100s': %s is a whole number, not '%.32s'", reader->text, word, value);
    return 0;
}

static int read_switch(Reader *reader, char *word, ErrText *err) {
    if (strchr(word, '='))
        return read_setting(reader, word + (*word == '+'), err);
    for (size_t i = 0; (*word == '+' || *word == '-') && i < ARRAY_LEN(steps); i++)
        if (!strcmp(word + 1, steps[i].name)) {
            *recipe_step(&reader->recipe, i) = *word == '+';
            return 0;
        }
    return err_set(
        err, -EINVAL,
        "'%.100s': '%.32s' is not known: + or - rotation, scale-search, smoothing, compensation, descent, "
        "gain-correction or static-activations, or allocation=, grid=, embedding-bits=, budget-bytes=, hot-channels=, "
        "prune-outliers=",
        reader->text, word);
}

/* switches: "SWITCH[:SWITCH...]"; NULL: none. */
static int read_switches(Reader *reader, const char *switches, ErrText *err) {
    char copy[RECIPE_SPEC_MAX], *rest = switches ? copy : NULL;
    int r = 0;

    if (switches)
        snprintf(copy, sizeof(copy), "%s", switches);
    while (!r && rest)
        r = read_switch(reader, strsep(&rest, ":"), err);
    return r;
}

/* Reads name and bits. *switchesp: the rest of the spec; NULL: nothing. */
static int read_front(Reader *reader, const RecipeSpec *spec, bool *has_bitsp, const char **switchesp, ErrText *err) {
    char copy[RECIPE_SPEC_MAX], *rest = copy, *word;
    double bits = 0;

    snprintf(copy, sizeof(copy), "%s", reader->text);
    word = strsep(&rest, ":");
    if (quant_recipe_named(&reader->recipe, word))
        return err_set(err, -EINVAL,
                       "'%.100s': no recipe is called '%.32s': one of int8, edgeflow, compensated, compact",
                       reader->text, word);
    if (spec->profile && quant_recipe_set_profile(&reader->recipe, spec->profile))
        return err_set(err, -EINVAL, "profile '%.32s': one of native, mobile", spec->profile);
    *has_bitsp = rest && *rest >= '0' && *rest <= '9';
    if (*has_bitsp && spec->bits)
        return err_set(err, -EINVAL, "'%.100s' says how many bits, which are given beside it too: leave one out",
                       reader->text);
    if (*has_bitsp) {
        word = strsep(&rest, ":");
        if (!decimal_parse(word, &bits))
            return err_set(err, -EINVAL, "'%.100s': '%.32s' is not a number of bits", reader->text, word);
    } else if (spec->bits) {
        bits = *spec->bits;
        *has_bitsp = true;
    }
    if (*has_bitsp)
        quant_recipe_set_bits(&reader->recipe, bits);
    *switchesp = rest ? reader->text + (rest - copy) : NULL;
    return 0;
}

/* Applies a budget without bits first, and then the switches, so that a switch can override it. */
static int read_rest(Reader *reader, const RecipeSpec *spec, bool has_bits, const char *switches, ErrText *err) {
    Reader first = *reader;
    int r = read_switches(&first, switches, err);

    if (r)
        return r;
    if (first.recipe.budget_bytes && spec->budget_bytes)
        return err_set(err, -EINVAL, "'%.100s' has a budget of bytes, which is given beside it too: leave one out",
                       reader->text);
    if (!has_bits && (first.recipe.budget_bytes || spec->budget_bytes))
        quant_recipe_fill_budget(&reader->recipe);
    r = read_switches(reader, switches, err);
    if (spec->budget_bytes)
        reader->recipe.budget_bytes = spec->budget_bytes;
    if (!r && reader->percent && !reader->recipe.static_activations)
        return err_set(err, -EINVAL, "'%.100s': %s: only static activations have outliers: add +static-activations",
                       reader->text, reader->percent);
    return r;
}

/**
 * recipe_spec_take() - read NAME[:BITS][:SWITCH...] and the options beside it
 * @spec: NAME is a recipe's; BITS an average width; a SWITCH is +STEP, -STEP or KEY=VALUE (+KEY=VALUE is the same)
 *
 * A budget of bytes without bits gives as many bits as fit. Return: 0 or -EINVAL; @recipe is set only if 0 is returned.
 */
int recipe_spec_take(QuantRecipe *recipe, const RecipeSpec *spec, ErrText *err) {
    Reader reader = { .text = spec->text };
    const char *switches = NULL;
    bool has_bits = false;
    int r;

    if (!reader.text) {
        (void)quant_recipe_named(&reader.recipe, NULL);
        reader.text = reader.recipe.name;
    }
    if (strlen(reader.text) >= RECIPE_SPEC_MAX)
        return err_set(err, -EINVAL, "'%.100s...': a recipe has at most %d characters", reader.text,
                       RECIPE_SPEC_MAX - 1);
    r = read_front(&reader, spec, &has_bits, &switches, err);
    if (!r)
        r = read_rest(&reader, spec, has_bits, switches, err);
    if (r)
        return r;
    r = quant_recipe_check(&reader.recipe, err);
    if (r) {
        if (spec->text)
            err_prefix(err, "'%.100s'", spec->text);
        return r;
    }
    *recipe = reader.recipe;
    return 0;
}

int recipe_spec_parse(QuantRecipe *recipe, const char *text, ErrText *err) {
    return recipe_spec_take(recipe, &(RecipeSpec){ .text = text }, err);
}

void recipe_spec_format(char text[RECIPE_SPEC_MAX], const QuantRecipe *recipe) {
    QuantRecipe usual, own = *recipe;
    int n;

    if (quant_recipe_named(&usual, recipe->name))
        (void)quant_recipe_named(&usual, NULL);
    quant_recipe_set_bits(&usual, recipe->bits);
    if (!quant_recipe_needs_moments(&own)) /* gain correction would have no effect */
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
